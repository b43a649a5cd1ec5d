"""One server's turn: started, asked every row, stopped.  What fails is noted, the rest goes on."""

from __future__ import annotations

import asyncio
import re
import subprocess
import sys
import time
from pathlib import Path

from bench.asking import Broken, ask
from bench.machine import placement
from bench.record import Turn
from bench.rows import BARE, BUSY, LOADED, READY, START
from bench.served import NotStarted, Server
from bench.workloads import ASKS, Ask, Sizes

ROW_SECONDS = 180  # a row that takes longer has failed
COMMAND_SECONDS = 180
BUSY_SAYS = re.compile(r"one thread[^:\n]*: ([\d.]+)")

LOST = (NotStarted, Broken, OSError, TimeoutError)

Figures = dict[str, list[float]]
Failed = dict[str, str]


def turn_of(server: Server, number: int, sizes: Sizes, *, core: Path | None = None) -> Turn:
    """A round of every row; with a core, between two looks at its bare loop, and its busy one."""
    began, before = time.monotonic(), placement()
    figures: Figures = {}
    failed: Failed = {}
    if core is not None:
        command_figure("bench.bare", core, BARE, figures, failed)
    try:
        start(server, figures)
        for index, asked in enumerate(ASKS):
            perform(server, asked, sizes, 100_000 * number + 10_000 * index, figures, failed)
        figures[LOADED] = [server.resident() / 1e6]
    except LOST as error:
        left = [name for row in ASKS for name in row.figures if name not in figures]
        failed = dict.fromkeys(left, str(error) or repr(error)) | failed
    finally:
        server.stop()
    if core is not None:
        command_figure("bench.bare", core, BARE, figures, failed)
    after = placement()
    if core is not None and number == 0:
        command_figure("bench.busy", core, BUSY, figures, failed)
    return Turn(
        round=number,
        server=server.name,
        seconds=time.monotonic() - began,
        before=before,
        after=after,
        figures=figures,
        failed=failed,
    )


def start(server: Server, figures: Figures) -> None:
    """Start it; the first request is not measured."""
    seconds = server.start()
    figures.setdefault(START, []).append(seconds)
    figures.setdefault(READY, []).append(server.resident() / 1e6)
    asyncio.run(asyncio.wait_for(ask(server.port, "Hello", 4), ROW_SECONDS))


def perform(
    server: Server, asked: Ask, sizes: Sizes, seed: int, figures: Figures, failed: Failed
) -> None:
    """Ask a row as often as it wants; a server that broke is started again."""
    try:
        for repeat in range(sizes.repeats if asked.brief else 1):
            row = asked.run(server.port, sizes, seed + 100 * repeat)
            values = asyncio.run(asyncio.wait_for(row, ROW_SECONDS))
            for name, value in zip(asked.figures, values, strict=True):
                figures.setdefault(name, []).append(value)
    except LOST as error:
        reason = str(error) or f"no answer in {ROW_SECONDS} s"
        failed |= dict.fromkeys(asked.figures, reason)
        server.stop()
        server.start()


def command_figure(module: str, core: Path, name: str, figures: Figures, failed: Failed) -> None:
    """The figure that a bench of its own prints last."""
    try:
        done = subprocess.run(
            [sys.executable, "-m", module, str(core)],
            capture_output=True,
            text=True,
            timeout=COMMAND_SECONDS,
            check=True,
        )
        said = BUSY_SAYS.search(done.stdout) if name == BUSY else None
        figures.setdefault(name, []).append(float(said[1] if said else done.stdout))
    except subprocess.CalledProcessError as error:
        failed[name] = f"{module} failed: {error.stderr.strip().splitlines()[-1]}"
    except (subprocess.TimeoutExpired, ValueError) as error:
        failed[name] = f"{module} failed: {error}"
