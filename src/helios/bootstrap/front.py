"""The front's process: load the frontend while the worker loads, then listen until told to stop.

Signals: the first SIGINT or SIGTERM stops accepting and lets open responses finish for a
while; then the worker is told to shut down, and its exit is waited for.
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import uvicorn
import uvloop
from jinja2 import TemplateError

from helios.artifact.core_file import OpenCore, open_core
from helios.bootstrap.stages import Stages, described
from helios.frontend.prepare import Frontend
from helios.frontend.template import ChatTemplate
from helios.frontend.text import Tokenizer
from helios.mailbox import FrontMailbox, MailboxClosed, Ready, Shutdown
from helios.options import Limits, resolve
from helios.processes import Start
from helios.serve.app import build_app
from helios.serve.chat import Chat
from helios.serve.front import Front
from helios.serve.gate import Gate
from helios.serve.metrics import Metrics
from helios.values import HeliosError, StartRefused
from prepared.fields import ContractError
from prepared.trust import read_trust

DRAIN_SECONDS = 5
"""How long open responses may go on after a signal (TO-36)."""


@contextmanager
def unusable(asset: str) -> Iterator[None]:
    """An asset that its library cannot read is refused by name, whatever the library says."""
    try:
        yield
    except (ValueError, TemplateError) as error:
        raise StartRefused(f"assets.{asset}: {error}") from None


def load_frontend(core: OpenCore, limits: Limits) -> Frontend:
    """Tokenizer, template and defaults of a core (OB-07)."""
    frontend = core.deployment.contract.model.frontend
    template = None
    if frontend.template_asset is not None:
        source = core.asset(frontend.template_asset)
        tokens = {token.name: token.text for token in frontend.template_tokens}
        with unusable(frontend.template_asset):
            template = ChatTemplate(source.decode(), tokens)
    data = core.asset(frontend.tokenizer_asset)
    with unusable(frontend.tokenizer_asset):
        tokenizer = Tokenizer(data)
    return Frontend(
        tokenizer=tokenizer,
        template=template,
        defaults=frontend.sampling,
        eos_ids=frontend.eos_token_ids,
        context_tokens=limits.context_tokens,
        output_tokens=limits.output_tokens,
    )


class Listener(uvicorn.Server):
    """A uvicorn server whose signals are ours."""

    def install_signal_handlers(self) -> None:
        """The front installs its own."""

    def capture_signals(self):  # type: ignore[no-untyped-def]  # noqa: ANN201
        """The front captures them."""
        from contextlib import nullcontext  # noqa: PLC0415

        return nullcontext()


def listen(start: Start) -> socket.socket:
    """The listening socket, or a refusal that names the address."""
    options = start.options
    family = socket.AF_INET6 if ":" in options.host else socket.AF_INET
    listener = socket.socket(family)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((options.host, options.port))
    except OSError as error:
        raise StartRefused(
            f"--host {options.host} --port {options.port}: {error.strerror}; expected a free "
            "address of this machine"
        ) from None
    listener.listen(2048)
    return listener


async def serve(connection: socket.socket, start: Start) -> int:
    """Load, listen, drain; returns the exit status."""
    stages = Stages(start.began)
    stages.end("interpreter and imports")
    options = start.options
    core = open_core(
        options.core, read_trust(options.home / "trust.json"), acceptance=options.accept
    )
    contract = core.deployment.contract
    limits = resolve(contract, options)
    stages.end("open and verify core")
    gate = Gate(limits.permits)
    front = Front(gate, Metrics(gate))
    mailbox = await FrontMailbox.connect(connection, front.receive, front.worker_lost)
    front.attach(mailbox)
    frontend = load_frontend(core, limits)
    stages.end("tokenizer and template")
    listener = listen(start)
    ready = await front.ready
    stages.end("worker")
    preparers = ThreadPoolExecutor(limits.frontend_workers, thread_name_prefix="prepare")
    chat = Chat(
        front=front,
        frontend=frontend,
        preparers=preparers,
        model=contract.model_id,
        names=frozenset((contract.model_id, *contract.aliases)),
    )
    app = build_app(front, chat, context_tokens=limits.context_tokens)
    server = Listener(
        uvicorn.Config(
            app,
            log_level="warning",
            access_log=False,
            lifespan="off",
            timeout_graceful_shutdown=DRAIN_SECONDS,
            h11_max_incomplete_event_size=64 << 10,
        )
    )
    stop_on_signals(server, front)
    running = asyncio.create_task(server.serve(sockets=[listener]))
    while not server.started and not running.done():
        await asyncio.sleep(0.001)
    stages.end("listen")
    announce(start, ready, stages)
    await running
    preparers.shutdown(wait=False, cancel_futures=True)
    return await stop_worker(mailbox, front, start.worker)


def stop_on_signals(server: uvicorn.Server, front: Front) -> None:
    """A signal, or the worker's end, stops the server; a second signal does not wait."""
    loop = asyncio.get_running_loop()

    def stop() -> None:
        server.force_exit = server.should_exit
        server.should_exit = True

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop)

    async def watch_worker() -> None:
        await front.lost.wait()
        stop()

    front.watch = asyncio.create_task(watch_worker())


def announce(start: Start, ready: Ready, stages: Stages) -> None:
    """Say that the server is ready, and where the time and the memory went."""
    options = start.options
    host = f"[{options.host}]" if ":" in options.host else options.host
    memory = sum(ready.memory.values())
    print(
        f"ready in {stages.seconds:.3f} s at http://{host}:{options.port}  "
        f"({ready.slots} slots, {ready.pages} pages of {ready.page_tokens} tokens, "
        f"{memory / 2**20:.0f} MiB, {ready.image})\n"
        f"  front: {described(stages.done)}\n"
        f"  worker: {described(ready.stages)}",
        flush=True,
    )


async def stop_worker(mailbox: FrontMailbox, front: Front, pid: int) -> int:
    """Tell the worker to end, and wait until it has; its own death is a failure."""
    if front.lost.is_set():
        print("the model's worker ended; the server stops", file=sys.stderr, flush=True)
        return 1
    front.watch.cancel()
    try:
        mailbox.send(Shutdown())
    except MailboxClosed:
        return 1
    await front.lost.wait()
    os.waitpid(pid, 0)
    return 0


def main() -> int:
    """Entry of the process: descriptor and start record in the arguments."""
    connection = socket.socket(fileno=int(sys.argv[1]))
    start = Start.of(sys.argv[2])
    try:
        return uvloop.run(serve(connection, start))
    except ContractError as error:
        print(f"helios: {start.options.core}: {error}", file=sys.stderr, flush=True)
    except (HeliosError, OSError) as error:
        print(f"helios: {error}", file=sys.stderr, flush=True)
    return 1


if __name__ == "__main__":
    sys.exit(main())
