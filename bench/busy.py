#!/usr/bin/env python3
"""Decode beside something else: rounds with the last core busy, one thread and all in turn.

    .venv/bin/python bench/busy.py [CORE ...] [--lanes 1] [--rounds 12]

A loop is pinned to the last core meanwhile; every turn is paired with one without the loop.
Several cores are taken in turn, so that two executors can be compared.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from helios.schedule.lanes import Share
from helios.schedule.roster import Roster
from helios.values import Slot
from prepared.contract import Operation
from tests.end_to_end.model import CORE, Model, open_model

PROMPT_TOKENS = 32
TURN_TOKENS = 96
LOOP = "import os, sys\nos.sched_setaffinity(0, {int(sys.argv[1])})\nwhile True: pass"


@dataclass
class Runner:
    """A loaded core with lanes that decode."""

    name: str
    model: Model
    roster: Roster
    slots: list[Slot]
    quiet: list[float] = field(default_factory=list)
    busy: list[float] = field(default_factory=list)

    def speed(self) -> float:
        """Tokens a second of one turn."""
        lanes = len(self.slots)
        rounds = max(4, TURN_TOKENS // lanes)
        began = time.perf_counter()
        for _ in range(rounds):
            shares = [Share(slot=slot, tokens=1, samples=True) for slot in self.slots]
            self.model.round(self.roster, Operation.DECODE, shares)
        return rounds * lanes / (time.perf_counter() - began)


def runner(core: Path, lanes: int, threads: int) -> Runner:
    """Lanes with a short prompt behind them."""
    model = open_model(core, threads=threads)
    roster = model.roster()
    prompt = [(i * 97) % 40000 + 100 for i in range(PROMPT_TOKENS)]
    slots = model.admit(roster, [prompt] * lanes)
    for slot in slots:
        share = Share(slot=slot, tokens=PROMPT_TOKENS, samples=True)
        model.round(roster, Operation.PREFILL, [share])
    return Runner(f"{core.stem}, {threads} threads", model, roster, slots)


@contextmanager
def busy_core() -> Iterator[None]:
    """A loop on the last core."""
    last = str(max(os.sched_getaffinity(0)))
    with subprocess.Popen([sys.executable, "-c", LOOP, last]) as loop:
        time.sleep(0.2)
        try:
            yield
        finally:
            loop.kill()


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("cores", type=Path, nargs="*", default=[CORE])
    parser.add_argument("--lanes", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=12)
    said = parser.parse_args()
    every = len(os.sched_getaffinity(0))
    runners = [runner(core, said.lanes, n) for core in said.cores for n in (1, every)]
    for _ in range(said.rounds):
        for one in runners:
            one.quiet.append(one.speed())
        with busy_core():
            for one in runners:
                one.busy.append(one.speed())
    print(f"tokens/s of {said.lanes} lanes; load {os.getloadavg()[0]:.1f}")
    for alone, all_of in zip(runners[::2], runners[1::2], strict=True):
        for one in (alone, all_of):
            print(
                f"  {one.name:<32} quiet {statistics.median(one.quiet):7.1f}"
                f"   busy {statistics.median(one.busy):7.1f}"
            )
        ratios = [b / q for b, q in zip(all_of.busy, alone.quiet, strict=True)]
        print(f"  busy, all threads / quiet, one thread: {statistics.median(ratios):.2f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
