"""Which processes a server has, and how they are started.

The launcher starts the worker, then becomes the front, so that both load at once and signals
reach the front directly.  They share one end each of a private socket pair.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Final, NoReturn

import msgspec

from helios.options import KEY_VARIABLES, Options

WORKER: Final = "helios.bootstrap.worker"
FRONT: Final = "helios.bootstrap.front"
TERMINAL: Final = "helios.bootstrap.terminal"
DOCTOR: Final = "helios.doctor"
PUBLISHERS: Final = "helios.publishers"


def write_path(value: object) -> str:
    """Paths travel as text."""
    if isinstance(value, Path):
        return str(value)
    raise NotImplementedError(f"no message holds {type(value)}")


def read_path(kind: type, value: object) -> object:
    """Text that stands for a path."""
    if kind is Path and isinstance(value, str):
        return Path(value)
    raise NotImplementedError(f"no message holds {kind}")


class Start(msgspec.Struct, frozen=True):
    """What a process is told."""

    options: Options
    began: int  # time.monotonic_ns() when the user's command started
    worker: int = 0  # the worker's process id, for the front

    def text(self) -> str:
        """As a process's argument."""
        return msgspec.json.encode(self, enc_hook=write_path).decode()

    @classmethod
    def of(cls, text: str) -> Start:
        """From a process's argument."""
        return msgspec.json.decode(text, type=cls, dec_hook=read_path)


def spawn_worker(options: Options, *, began: int) -> tuple[socket.socket, int]:
    """Start a worker; returns our end of its mailbox and its process id."""
    ours, theirs = socket.socketpair()
    start = Start(options, began).text()
    process = subprocess.Popen(  # noqa: S603 - our own interpreter and module
        [sys.executable, "-m", WORKER, str(theirs.fileno()), start],
        pass_fds=[theirs.fileno()],
        stdin=subprocess.DEVNULL,
        env={name: text for name, text in os.environ.items() if name not in KEY_VARIABLES},
    )
    theirs.close()
    return ours, process.pid


def become_terminal(options: Options, *, began: int) -> NoReturn:
    """Turn this process into a chat in the terminal."""
    become_module(TERMINAL, Start(options, began).text())


def become_module(module: str, *arguments: str) -> NoReturn:
    """Turn this process into one of our modules."""
    os.execv(sys.executable, [sys.executable, "-m", module, *arguments])  # noqa: S606 - our own


def become_server(options: Options, *, began: int) -> NoReturn:
    """Start the worker and turn this process into the front."""
    ours, pid = spawn_worker(options, began=began)
    ours.set_inheritable(True)
    become_module(FRONT, str(ours.fileno()), Start(options, began, pid).text())
