"""The access log: a JSON line a request on standard error, never with contents.

A thread writes the lines, so that a terminal or a pipe that does not take them stops nobody;
what it cannot keep up with is dropped and counted.
"""

from __future__ import annotations

import io
import threading
from contextvars import ContextVar
from queue import SimpleQueue
from typing import Final, Protocol

import msgspec

from helios.respond.pipeline import Usage

STANDARD_ERROR: Final = 2
MOST_WAITING: Final = 4096  # entries
CLOSE_SECONDS: Final = 1.0


class Entry(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One request; counts only where tokens were asked for, no status where nobody read it."""

    time: float  # when it came, seconds since 1970
    method: str
    path: str  # without the query
    status: int | None
    milliseconds: float
    request_id: str
    prompt_tokens: int | None = None
    completion_tokens: int | None = None


class Counted(Protocol):
    """Something that knows how many tokens a request had."""

    def usage(self) -> Usage:
        """Tokens so far."""


ANSWERING: Final[ContextVar[list[Counted] | None]] = ContextVar("ANSWERING", default=None)
"""What answers the current request; whoever logs it has put a list."""


def note_answers(answers: Counted) -> None:
    """These answer the current request."""
    if (noted := ANSWERING.get()) is not None:
        noted.append(answers)


def counts_of(answers: list[Counted]) -> tuple[int | None, int | None]:
    """Prompt and completion tokens of a request; nothing for one that asked for none."""
    usages = [each.usage() for each in answers]
    if not usages:
        return None, None
    return (
        sum(usage.prompt_tokens for usage in usages),
        sum(usage.completion_tokens for usage in usages),
    )


class Journal:
    """Writes entries in their order."""

    def __init__(self, descriptor: int = STANDARD_ERROR) -> None:
        # Raw: a blocked thread that holds a buffered stream's lock breaks the interpreter's end.
        self._out = io.FileIO(descriptor, "w", closefd=False)
        self._entries: SimpleQueue[Entry | None] = SimpleQueue()
        self.dropped = 0
        self._thread = threading.Thread(target=self._write, name="journal", daemon=True)
        self._thread.start()

    def add(self, entry: Entry) -> None:
        """Write it soon; never waits."""
        if self._entries.qsize() < MOST_WAITING:
            self._entries.put(entry)
        else:
            self.dropped += 1

    def close(self) -> None:
        """Write what is left, if it can be written soon."""
        self._entries.put(None)
        self._thread.join(CLOSE_SECONDS)

    def _write(self) -> None:
        encode = msgspec.json.Encoder().encode
        told = 0
        while (entry := self._entries.get()) is not None:
            line = encode(entry) + b"\n"
            if self.dropped > told:
                line += encode({"dropped": self.dropped - told}) + b"\n"
                told = self.dropped
            try:
                while line:
                    line = line[self._out.write(line) or 0 :]
            except OSError:  # nobody reads any more
                return
