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
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext

import uvicorn
import uvloop
from jinja2 import TemplateError
from msgspec.structs import replace
from starlette.types import ASGIApp

from helios.artifact.core_file import OpenCore
from helios.bootstrap.opening import REFUSALS, Opened, refuse, settle_memory
from helios.bootstrap.stages import Stages, described
from helios.frontend.grammar.envelope import Envelope
from helios.frontend.grammar.front import Grammars
from helios.frontend.grammar.lark import Spelling
from helios.frontend.images.front import load_images
from helios.frontend.prepare import Frontend
from helios.frontend.prompt import PromptPath
from helios.frontend.syntax.resolve import resolve_syntax
from helios.frontend.template import ChatTemplate
from helios.frontend.text import Tokenizer
from helios.keys import read_keys
from helios.mailbox import FrontMailbox, MailboxClosed, Ready, Shutdown
from helios.options import Limits, Options
from helios.serve.app import build_app, paths_without_key
from helios.serve.connections import Connection, allow_connections
from helios.serve.front import Front
from helios.serve.gate import Gate
from helios.serve.guard import Door, Guard, read_origins
from helios.serve.journal import Journal
from helios.serve.metrics import Metrics
from helios.serve.route import Service
from helios.values import MonotonicClock, StartRefused
from prepared.manifest import Target

DRAIN_SECONDS = 5
"""How long open responses may go on after a signal (TO-36)."""

UVICORN_LEVELS = {"error": "error", "warning": "warning", "info": "warning", "debug": "debug"}
"""What uvicorn tells at our levels; at `info` it would tell what `announce` does."""

FLUSH_SECONDS = 1
"""How long readers then have to take the error that ends theirs."""


@contextmanager
def unusable(asset: str) -> Iterator[None]:
    """An asset that its library cannot read is refused by name, whatever the library says."""
    try:
        yield
    except (ValueError, TemplateError) as error:
        raise StartRefused(f"assets.{asset}: {error}") from None


def load_frontend(core: OpenCore, limits: Limits) -> Frontend:
    """Tokenizer, template, syntax and defaults of a core (OB-07)."""
    model = core.deployment.contract.model
    frontend = model.frontend
    data = core.asset(frontend.tokenizer_asset)
    with unusable(frontend.tokenizer_asset):
        tokenizer = Tokenizer(data)
    syntax = resolve_syntax(frontend, tokenizer.library)
    spelling = Spelling(
        syntax.added_ids, tokens=model.vocabulary.tokens, eos_ids=frontend.eos_token_ids
    )
    template = load_template(core)
    return Frontend(
        tokenizer=tokenizer,
        prompts=load_prompts(core, template, tokenizer),
        images=load_images(model, template, tokenizer),
        syntax=syntax,
        grammars=Grammars(Envelope(frontend.tools, frontend.reasoning, spelling)),
        defaults=frontend.sampling,
        eos_ids=frontend.eos_token_ids,
        vocabulary=model.vocabulary.tokens,
        context_tokens=limits.context_tokens,
        output_tokens=limits.output_tokens,
        cache_tokens=limits.context_tokens,
        scores=core.deployment.manifests[0].target is not Target.SCRIPTED,
    )


def load_template(core: OpenCore) -> ChatTemplate | None:
    """The chat template; None without one."""
    frontend = core.deployment.contract.model.frontend
    if frontend.template_asset is None:
        return None
    source = core.asset(frontend.template_asset)
    tokens = {token.name: token.text for token in frontend.template_tokens}
    with unusable(frontend.template_asset):
        return ChatTemplate(source.decode(), tokens)


def load_prompts(
    core: OpenCore, template: ChatTemplate | None, tokenizer: Tokenizer
) -> PromptPath | None:
    """The chat template with what the contract declares about prompts; None without one."""
    if template is None:
        return None
    frontend = core.deployment.contract.model.frontend
    return PromptPath(
        template,
        tokenizer,
        efforts=frontend.efforts,
        boundaries=frontend.prefix_boundaries,
    )


class Listener(uvicorn.Server):
    """A uvicorn server whose signals are ours."""

    def install_signal_handlers(self) -> None:
        """The front installs its own."""

    def capture_signals(self):  # type: ignore[no-untyped-def]  # noqa: ANN201
        """The front captures them."""
        return nullcontext()


def listen(options: Options) -> socket.socket:
    """The listening socket, or a refusal that names the address."""
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
    allow_connections()
    return listener


def door_of(options: Options) -> Door:
    """Who may use the server."""
    return Door(
        keys=read_keys(options.api_key_file, os.environ),
        open_paths=paths_without_key(),
        origins=read_origins(options.cors_origins),
    )


def listener_of(app: ASGIApp, *, level: str) -> Listener:
    """The server of an application."""
    return Listener(
        uvicorn.Config(
            app,
            http=Connection,
            ws="none",
            log_level=level,
            access_log=False,
            lifespan="off",
            timeout_graceful_shutdown=DRAIN_SECONDS + FLUSH_SECONDS,
        )
    )


def journal_of(options: Options) -> Journal | None:
    """The access log, where it is wanted."""
    wanted = options.access_log == "on" and options.log_level in ("info", "debug")
    return Journal() if wanted else None


async def serve(connection: socket.socket, opened: Opened, stages: Stages, *, worker: int) -> int:
    """Load, listen, drain; returns the exit status."""
    options, limits = opened.options, opened.limits
    door = door_of(options)
    contract = opened.core.deployment.contract
    gate = Gate(limits.permits)
    front = Front(gate, Metrics(gate), MonotonicClock(opened.began))
    mailbox = await FrontMailbox.connect(connection, front.receive, front.worker_lost)
    front.attach(mailbox)
    frontend = load_frontend(opened.core, limits)
    stages.end("tokenizer and template")
    listener = listen(options)
    ready = await front.ready
    frontend = replace(frontend, cache_tokens=ready.pages * ready.page_tokens)
    stages.end("worker")
    preparers = ThreadPoolExecutor(limits.frontend_workers, thread_name_prefix="prepare")
    service = Service(
        front=front,
        frontend=frontend,
        preparers=preparers,
        model=contract.model_id,
        names=frozenset((contract.model_id, *contract.aliases)),
    )
    journal = journal_of(options)
    server = listener_of(
        Guard(build_app(service), door, journal=journal, refused=front.metrics.refuse),
        level=UVICORN_LEVELS[options.log_level],
    )
    stop_on_signals(server, front)
    running = asyncio.create_task(server.serve(sockets=[listener]))
    while not server.started and not running.done():
        await asyncio.sleep(0.001)
    stages.end("listen")
    announce(options, ready, stages)
    settle_memory()
    await running
    if journal is not None:
        journal.close()
    preparers.shutdown(wait=False, cancel_futures=True)
    frontend.grammars.close()
    return await stop_worker(mailbox, front, worker)


def stop_on_signals(server: uvicorn.Server, front: Front) -> None:
    """A signal, or the worker's end, stops the server; a second signal does not wait."""
    loop = asyncio.get_running_loop()

    def stop() -> None:
        server.force_exit = server.should_exit
        server.should_exit = front.draining = True
        loop.call_later(DRAIN_SECONDS, front.end_all, "the server is shutting down")

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop)

    async def watch_worker() -> None:
        await front.lost.wait()
        stop()

    front.watches = (asyncio.create_task(watch_worker()), asyncio.create_task(front.beat()))


def announce(options: Options, ready: Ready, stages: Stages) -> None:
    """Say that the server is ready, and where the time and the memory went."""
    host = f"[{options.host}]" if ":" in options.host else options.host
    memory = sum(ready.memory.values())
    print(
        f"ready in {stages.seconds:.3f} s at http://{host}:{options.port}  "
        f"({ready.slots} slots, {ready.pages} pages of {ready.page_tokens} tokens, "
        f"{ready.snapshots} continuation rows, "
        f"{memory / 2**20:.0f} MiB, {ready.image})\n"
        f"  front: {described(stages.done)}\n"
        f"  worker: {described(ready.stages)}\n"
        f"  memory: {memory_plan(ready.memory)}",
        flush=True,
    )


def memory_plan(memory: Mapping[str, int]) -> str:
    """What each buffer takes, the largest first, in MiB; together they are all that is used."""
    ordered = sorted(memory.items(), key=lambda item: -item[1])
    return ", ".join(f"{name} {nbytes / 2**20:.1f}" for name, nbytes in ordered)


async def stop_worker(mailbox: FrontMailbox, front: Front, pid: int) -> int:
    """Tell the worker to end, and wait until it has; its own death is a failure."""
    if front.lost.is_set():
        print("the model's worker ended; the server stops", file=sys.stderr, flush=True)
        return 1
    for watch in front.watches:
        watch.cancel()
    try:
        mailbox.send(Shutdown())
    except MailboxClosed:
        return 1
    await front.lost.wait()
    os.waitpid(pid, 0)
    return 0


def run(connection: socket.socket, opened: Opened, stages: Stages, *, worker: int) -> int:
    """Be the front's process; returns the exit status."""
    stages.end("its own imports")
    try:
        return uvloop.run(serve(connection, opened, stages, worker=worker))
    except REFUSALS as error:
        return refuse(error, opened.options)
