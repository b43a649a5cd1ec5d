"""Which processes a command has, and how it becomes them.

A server is two: one opens the core, then parts into worker and front, so that both load at
once, what both need is loaded once, and signals reach the front directly.
"""

from __future__ import annotations

import gc
import os
import sys
from importlib import import_module
from typing import Final, NoReturn

from helios.options import Options

SERVER: Final = "helios.bootstrap.server"
WORKER: Final = "helios.bootstrap.worker"
FRONT: Final = "helios.bootstrap.front"
TERMINAL: Final = "helios.bootstrap.terminal"
DOCTOR: Final = "helios.doctor"
PUBLISHERS: Final = "helios.publishers"


def become_server(options: Options, *, began: int) -> NoReturn:
    """Turn this process into a server's front, beside its worker.

    Nothing that is loaded is given back, so nobody looks for garbage until both are ready.
    """
    gc.disable()
    sys.exit(import_module(SERVER).main(options, began=began))


def become_terminal(options: Options, *, began: int) -> NoReturn:
    """Turn this process into a chat in the terminal."""
    sys.exit(import_module(TERMINAL).main(options, began=began))


def become_module(module: str, *arguments: str) -> NoReturn:
    """Turn this process into one of our modules."""
    os.execv(sys.executable, [sys.executable, "-m", module, *arguments])  # noqa: S606 - our own
