"""A worker that cannot start says why, even when nobody is left to hear it."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
import pytest

from helios.bootstrap.worker import run
from helios.mailbox import FrameBuffer, Refusal, ToFront, WorkerMailbox
from helios.options import Options
from helios.processes import Start


@contextmanager
def mailbox() -> Iterator[tuple[WorkerMailbox, socket.socket]]:
    """A worker's end, and the socket at the front's."""
    ours, theirs = socket.socketpair()
    worker = WorkerMailbox(theirs)
    try:
        yield worker, ours
    finally:
        worker.close()
        ours.close()


def start_with(folder: Path, core: str) -> Start:
    """What a worker is told."""
    return Start(Options(core=folder / core, home=folder), time.monotonic_ns())


@pytest.mark.parametrize(
    ("core", "sentence"),
    [
        ("none.core", "No such file or directory"),
        ("short.core", "header: found 5 bytes, expected 48 bytes"),
    ],
)
def test_the_front_is_told_why_and_of_which_core(tmp_path: Path, core: str, sentence: str) -> None:
    (tmp_path / "short.core").write_bytes(b"short")
    with mailbox() as (worker, front):
        front.sendall(b"\0\0\0\0"[:1])  # so that the worker need not wait for a reader
        assert run(worker, start_with(tmp_path, core)) == 1
        (data,) = FrameBuffer().feed(front.recv(1 << 16))
    message = msgspec.msgpack.decode(data, type=ToFront)
    assert isinstance(message, Refusal)
    assert message.why.startswith(f"{tmp_path / core}: ")
    assert sentence in message.why


def test_a_front_that_gave_up_first_does_not_trouble_the_worker(tmp_path: Path) -> None:
    with mailbox() as (worker, front):
        front.close()
        assert run(worker, start_with(tmp_path, "none.core")) == 1
