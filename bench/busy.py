#!/usr/bin/env python3
"""Decode beside something else: turns with the last core free and busy, one thread and all of them.

    python -m bench.busy [CORE ...] [--lanes 1] [--turns 12]

The load is one loop, pinned to the last core; it is stopped for free turns and goes on for busy
ones, in turn (A B A B).  Every turn decodes the same tokens behind the same prompt, so that turns
differ by the load alone.  The reference is one thread while the loop is stopped.  Several cores
are taken in turn, so that two executors can be compared.
"""

from __future__ import annotations

import argparse
import os
import signal
import statistics
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from subprocess import Popen

from helios.schedule.lanes import Share
from prepared.contract import Operation
from tests.end_to_end.model import CORE, Model, open_model

PROMPT_TOKENS = 32
TURN_TOKENS = 96
LOOP = "import os, sys\nos.sched_setaffinity(0, {int(sys.argv[1])})\nwhile True: pass"


@dataclass
class Runner:
    """A loaded core whose lanes decode."""

    name: str
    model: Model
    lanes: int
    free: list[float] = field(default_factory=list)
    busy: list[float] = field(default_factory=list)

    def speed(self) -> float:
        """Tokens a second of one turn, from the end of the prompt on."""
        model, roster = self.model, self.model.roster()
        prompt = [(i * 97) % 40000 + 100 for i in range(PROMPT_TOKENS)]
        slots = model.admit(roster, [prompt] * self.lanes)
        for slot in slots:
            share = Share(slot=slot, tokens=PROMPT_TOKENS, samples=True)
            model.round(roster, Operation.PREFILL, [share])
        rounds = max(8, TURN_TOKENS // self.lanes)
        shares = [Share(slot=slot, tokens=1, samples=True) for slot in slots]
        began = time.perf_counter()
        for _ in range(rounds):
            model.round(roster, Operation.DECODE, shares)
        return rounds * self.lanes / (time.perf_counter() - began)


@contextmanager
def load() -> Iterator[Popen[bytes]]:
    """A loop on the last core, stopped."""
    last = str(max(os.sched_getaffinity(0)))
    with Popen([sys.executable, "-c", LOOP, last]) as loop:
        time.sleep(0.2)
        loop.send_signal(signal.SIGSTOP)
        try:
            yield loop
        finally:
            loop.kill()


def measure(runners: list[Runner], turns: int) -> None:
    """Every runner with the loop stopped and going, in turn."""
    with load() as loop:
        for _ in range(turns):
            for one in runners:
                one.free.append(one.speed())
                loop.send_signal(signal.SIGCONT)
                one.busy.append(one.speed())
                loop.send_signal(signal.SIGSTOP)


def spread(values: list[float], digits: int = 1) -> str:
    """Median, and least to most."""
    low, middle, high = min(values), statistics.median(values), max(values)
    return f"{middle:.{digits}f} ({low:.{digits}f} to {high:.{digits}f})"


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("cores", type=Path, nargs="*", default=[CORE])
    parser.add_argument("--lanes", type=int, default=1)
    parser.add_argument("--turns", type=int, default=12)
    said = parser.parse_args()
    every = len(os.sched_getaffinity(0))
    runners = [
        Runner(f"{core.stem}, {threads} threads", open_model(core, threads=threads), said.lanes)
        for core in said.cores
        for threads in (1, every)
    ]
    measure(runners, said.turns)
    print(f"tokens/s of {said.lanes} lanes; load {os.getloadavg()[0]:.1f}")
    for alone, all_of in zip(runners[::2], runners[1::2], strict=True):
        for one in (alone, all_of):
            print(f"  {one.name:<28} free {spread(one.free)}   busy {spread(one.busy)}")
        ratios = [b / f for b, f in zip(all_of.busy, alone.free, strict=True)]
        print(f"  all threads, busy / one thread, free: {spread(ratios, 2)}")
    for one in runners:
        one.model.device.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
