"""Chat in the terminal: the same front and worker in one process, without HTTP.

Ctrl-C stops the answer that is being written; at the prompt it ends the conversation, as the
end of the input does.
"""

from __future__ import annotations

import asyncio
import signal
import socket
import sys
import threading
from dataclasses import replace
from itertools import chain

import uvloop

from helios.artifact.core_file import open_core
from helios.bootstrap.front import load_frontend
from helios.bootstrap.worker import run as run_worker
from helios.frontend.prepare import Asked, Frontend
from helios.frontend.prompt import Conversation as Messages
from helios.frontend.syntax.events import Content
from helios.mailbox import FrontMailbox, Shutdown, WorkerMailbox
from helios.options import resolve
from helios.processes import Start
from helios.serve.answers import Answers
from helios.serve.front import Front
from helios.serve.gate import Gate
from helios.serve.metrics import Metrics
from helios.values import HeliosError, MonotonicClock
from prepared.fields import ContractError
from prepared.trust import read_trust

PROMPT = "\u203a "


class Lines:
    """Lines of the input, read by a thread that nobody waits for at the end."""

    def __init__(self) -> None:
        self._lines: asyncio.Queue[str | None] = asyncio.Queue()
        self._loop = asyncio.get_running_loop()
        self._wanted = threading.Semaphore(0)
        threading.Thread(target=self._read, name="input", daemon=True).start()

    def _read(self) -> None:
        while self._wanted.acquire():
            try:
                line: str | None = input(PROMPT if sys.stdin.isatty() else "")
            except EOFError:
                line = None
            self._loop.call_soon_threadsafe(self._lines.put_nowait, line)

    async def next(self) -> str | None:
        """The next line; None at the end of the input."""
        self._wanted.release()
        return await self._lines.get()

    def end(self) -> None:
        """Whoever waits for a line gets the end instead."""
        self._lines.put_nowait(None)


class Conversation:
    """Messages so far, and the answer being written."""

    def __init__(self, front: Front, frontend: Frontend) -> None:
        self._front, self._frontend = front, frontend
        self._messages: list[dict[str, str]] = []
        self.answering: asyncio.Task[None] | None = None

    async def say(self, text: str) -> None:
        """Put a message, and write the answer as it comes."""
        self._messages.append({"role": "user", "content": text})
        self.answering = asyncio.create_task(self._answer())
        await asyncio.wait({self.answering})
        if not self.answering.cancelled() and (error := self.answering.exception()):
            self._messages.pop()
            print(f"helios: {error}", file=sys.stderr, flush=True)
        self.answering = None

    async def _answer(self) -> None:
        asked = Asked(conversation=Messages(messages=self._messages))
        prepared = self._frontend.prepare(self._front.next_id, asked)
        answers = Answers(self._front, self._frontend, prepared)
        pieces: list[str] = []
        try:
            async for turns in answers.turns():
                for event in chain.from_iterable(turn.events for turn in turns):
                    if isinstance(event, Content):
                        self._write(pieces, event.text)
        finally:
            print(flush=True)
            self._messages.append({"role": "assistant", "content": "".join(pieces)})

    def _write(self, pieces: list[str], text: str) -> None:
        pieces.append(text)
        print(text, end="", flush=True)


async def chat(start: Start) -> int:
    """Load, talk, shut down."""
    options = start.options
    ours, theirs = socket.socketpair()
    worker = threading.Thread(target=run_worker, args=(WorkerMailbox(theirs), start), name="worker")
    core = open_core(
        options.core, read_trust(options.home / "trust.json"), acceptance=options.accept
    )
    limits = resolve(core.deployment.contract, options)
    gate = Gate(limits.permits)
    front = Front(gate, Metrics(gate), MonotonicClock(start.began))
    mailbox = await FrontMailbox.connect(ours, front.receive, front.worker_lost)
    front.attach(mailbox)
    worker.start()
    frontend = load_frontend(core, limits)
    ready = await front.ready
    frontend = replace(frontend, cache_tokens=ready.pages * ready.page_tokens)
    if sys.stdin.isatty():
        print(f"{core.deployment.contract.model_id}: Ctrl-C stops an answer, Ctrl-D ends")
    lines, talk = Lines(), Conversation(front, frontend)

    def interrupt() -> None:
        if talk.answering is None:
            lines.end()
        else:
            talk.answering.cancel()

    asyncio.get_running_loop().add_signal_handler(signal.SIGINT, interrupt)
    while (line := await lines.next()) is not None:
        if line.strip():
            await talk.say(line)
    mailbox.send(Shutdown())
    await front.lost.wait()
    worker.join()
    return 0


def main() -> int:
    """Entry: the start record in the arguments."""
    start = Start.of(sys.argv[1])
    try:
        return uvloop.run(chat(start))
    except ContractError as error:
        print(f"helios: {start.options.core}: {error}", file=sys.stderr, flush=True)
    except (HeliosError, OSError) as error:
        print(f"helios: {error}", file=sys.stderr, flush=True)
    return 1


if __name__ == "__main__":
    sys.exit(main())
