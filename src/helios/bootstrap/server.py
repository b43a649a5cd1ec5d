"""A server's start: one process opens the core, parts in two, and each half loads what it needs.

What both halves need is loaded, checked and kept in memory once.  Always: the core is opened
before the halves part, and neither has a thread by then.
"""

from __future__ import annotations

import ctypes
import gc
import os
import signal
import socket
from importlib import import_module
from pathlib import Path

from helios.bootstrap.opening import REFUSALS, Opened, open_for, refuse
from helios.bootstrap.stages import Stages
from helios.options import KEY_VARIABLES, Options
from helios.processes import FRONT, WORKER


def main(options: Options, *, began: int) -> int:
    """Be a server; returns the exit status, of the front and of the worker."""
    stages = Stages(began)
    stages.end("interpreter and imports")
    try:
        opened = open_for(options, began=began)
    except REFUSALS as error:
        return refuse(error, options)
    stages.end("open and verify core")
    ours, theirs = socket.socketpair()
    gc.freeze()  # a look for garbage would write to pages that the halves share
    worker = os.fork()
    if worker == 0:
        ours.close()
        return be_worker(theirs, opened, stages)
    theirs.close()
    status: int = import_module(FRONT).run(ours, opened, stages, worker=worker)
    return status


def be_worker(connection: socket.socket, opened: Opened, stages: Stages) -> int:
    """The worker's half: it has no terminal and no keys, and the front decides when to stop."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    with open(os.devnull, "rb") as nothing:
        os.dup2(nothing.fileno(), 0)
    Path("/proc/self/comm").write_text("helios-worker")
    forget_keys()
    status: int = import_module(WORKER).run_process(connection, opened, stages)
    return status


def forget_keys() -> None:
    """Overwrite API keys in this process's environment, which the system shows to its user."""
    find = ctypes.CDLL(None).getenv
    find.restype, find.argtypes = ctypes.c_void_p, (ctypes.c_char_p,)
    for name in KEY_VARIABLES:
        if (text := os.environb.get(name.encode())) is not None:
            ctypes.memset(find(name.encode()), 0, len(text))
            del os.environ[name]
