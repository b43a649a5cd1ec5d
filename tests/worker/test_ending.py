"""However a worker ends, its front learns of it."""

from __future__ import annotations

import socket
from pathlib import Path

import msgspec

from helios.bootstrap.worker import run
from helios.mailbox import FrameBuffer, Refusal, WorkerMailbox
from helios.options import Options
from helios.processes import Start


def test_a_worker_that_cannot_start_says_why_and_hangs_up(tmp_path: Path) -> None:
    ours, theirs = socket.socketpair()
    ours.settimeout(5)
    start = Start(Options(core=tmp_path / "no.core", home=tmp_path), began=0)
    assert run(WorkerMailbox(theirs), start) == 1
    received = b""
    with ours:
        while data := ours.recv(1 << 16):
            received += data
    (message,) = FrameBuffer().feed(received)
    assert "no.core" in msgspec.msgpack.decode(message, type=Refusal).why
