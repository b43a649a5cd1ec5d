"""A worker that cannot start says why and hangs up, even when nobody is left to hear it."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
import pytest

from helios.artifact.core_file import OpenCore, open_core
from helios.bootstrap.opening import Opened
from helios.bootstrap.stages import Stages
from helios.bootstrap.worker import run
from helios.mailbox import FrameBuffer, Refusal, ToFront, WorkerMailbox
from helios.options import Options, resolve
from tests.artifact.cores import TRUST, make_core


@contextmanager
def mailbox() -> Iterator[tuple[WorkerMailbox, socket.socket]]:
    """A worker's end, and the socket at the front's."""
    ours, theirs = socket.socketpair()
    ours.settimeout(5)
    worker = WorkerMailbox(theirs)
    try:
        yield worker, ours
    finally:
        worker.close()
        ours.close()


def refused(folder: Path, mailbox: WorkerMailbox, **said: object) -> OpenCore:
    """Run a worker that was asked for what its core has not; returns the core."""
    core = open_core(make_core(folder / "small.core"), TRUST, acceptance=None)
    options = Options(core=core.path, home=folder, **said)  # type: ignore[arg-type]
    limits = resolve(core.deployment.contract, options)
    began = time.monotonic_ns()
    opened = Opened(options=options, core=core, limits=limits, began=began)
    assert run(mailbox, opened, Stages(began)) == 1
    return core


@pytest.mark.parametrize(
    ("said", "sentence"),
    [
        ({"device": "scripted"}, "--device: found scripted, expected "),
        ({"script": Path("lines.jsonl")}, "--script: found lines.jsonl, expected none"),
    ],
)
def test_the_front_is_told_why_and_of_which_core_and_then_the_worker_hangs_up(
    tmp_path: Path, said: dict[str, object], sentence: str
) -> None:
    with mailbox() as (worker, front):
        front.shutdown(socket.SHUT_WR)  # so that the worker need not wait for a reader
        core = refused(tmp_path, worker, **said)
        received = b""
        while data := front.recv(1 << 16):
            received += data
    (message,) = FrameBuffer().feed(received)
    told = msgspec.msgpack.decode(message, type=ToFront)
    assert isinstance(told, Refusal)
    assert told.why.startswith(f"{core.path}: {sentence}")


def test_a_front_that_gave_up_first_does_not_trouble_the_worker(tmp_path: Path) -> None:
    with mailbox() as (worker, front):
        front.close()
        refused(tmp_path, worker, device="scripted")
