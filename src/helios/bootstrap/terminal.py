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
from itertools import chain

import uvloop
from msgspec.structs import replace

from helios.bootstrap.front import load_frontend
from helios.bootstrap.opening import REFUSALS, Opened, open_for, refuse
from helios.bootstrap.stages import Stages
from helios.bootstrap.worker import run as run_worker
from helios.frontend.prepare import Asked, Frontend
from helios.frontend.prompt import Conversation as Messages
from helios.frontend.syntax.events import Content
from helios.mailbox import FrontMailbox, Shutdown, WorkerMailbox
from helios.options import Options
from helios.serve.answers import Answers
from helios.serve.front import Front
from helios.serve.gate import Gate
from helios.serve.metrics import Metrics
from helios.values import MonotonicClock

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


async def chat(opened: Opened) -> int:
    """Load, talk, shut down."""
    ours, theirs = socket.socketpair()
    worker = threading.Thread(
        target=run_worker,
        args=(WorkerMailbox(theirs), opened, Stages(opened.began)),
        name="worker",
    )
    gate = Gate(opened.limits.permits)
    front = Front(gate, Metrics(gate), MonotonicClock(opened.began))
    mailbox = await FrontMailbox.connect(ours, front.receive, front.worker_lost)
    front.attach(mailbox)
    worker.start()
    frontend = load_frontend(opened.core, opened.limits)
    ready = await front.ready
    frontend = replace(frontend, cache_tokens=ready.pages * ready.page_tokens)
    if sys.stdin.isatty():
        print(f"{opened.core.deployment.contract.model_id}: Ctrl-C stops an answer, Ctrl-D ends")
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


def main(options: Options, *, began: int) -> int:
    """Chat until the end of the input; returns the exit status."""
    try:
        return uvloop.run(chat(open_for(options, began=began)))
    except REFUSALS as error:
        return refuse(error, options)
