"""Grammars are compiled once before they are accepted, in a process that may be killed.

A compiler of grammars cannot be interrupted, and a hostile schema can keep one busy for hours.
So a child process compiles first, under limits of the operating system on its time and memory;
what does not pass is the client's to change (400), and nobody else waits for it.  A preparation
thread uses one child at a time; children are kept for the next.
"""

from __future__ import annotations

import struct
import subprocess
import sys
from collections import deque
from typing import Final

from helios.values import RequestInvalid

LENGTH: Final = struct.Struct("<I")
COMPILER: Final = "helios.frontend.grammar.compiler"


class Checker:
    """Children that compile grammars to see whether they can be."""

    def __init__(self) -> None:
        self._idle: deque[subprocess.Popen[bytes]] = deque()

    def check(self, grammar: str, field: str) -> None:
        """Refuse a grammar that does not compile, or not within bounds."""
        child = self._take()
        problem = ask(child, grammar)
        if problem is None:
            end(child)
            raise RequestInvalid(
                field, "what takes too long to compile", expected="something simpler"
            )
        self._idle.append(child)
        if problem:
            raise RequestInvalid(
                field, f"what cannot be compiled ({problem})", expected="a grammar that can be"
            )

    def close(self) -> None:
        """End the children."""
        while self._idle:
            end(self._idle.pop())

    def _take(self) -> subprocess.Popen[bytes]:
        while True:
            try:
                child = self._idle.popleft()
            except IndexError:
                return started()
            if child.poll() is None:
                return child
            end(child)


def started() -> subprocess.Popen[bytes]:
    """A new child; it ends when its input does."""
    return subprocess.Popen(  # noqa: S603 - our own module, in our own interpreter
        [sys.executable, "-m", COMPILER], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )


def ask(child: subprocess.Popen[bytes], grammar: str) -> str | None:
    """What is wrong with a grammar, nothing if it is right, None if the child did not survive."""
    assert child.stdin is not None
    assert child.stdout is not None
    data = grammar.encode()
    try:
        child.stdin.write(LENGTH.pack(len(data)) + data)
        child.stdin.flush()
    except BrokenPipeError:
        return None
    head = child.stdout.read(LENGTH.size)
    if len(head) < LENGTH.size:
        return None
    (nbytes,) = LENGTH.unpack(head)
    return child.stdout.read(nbytes).decode()


def end(child: subprocess.Popen[bytes]) -> None:
    """Leave nothing of a child."""
    child.kill()
    child.wait()
    for stream in (child.stdin, child.stdout):
        if stream is not None:
            try:
                stream.close()
            except BrokenPipeError:
                continue
