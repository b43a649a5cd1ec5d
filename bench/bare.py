"""The bare loop: a core's decode program, submitted again and again, with nothing around it.

No schedule, no packing, no HTTP: what is left is what the device can do, and a served stream
beside it shows what the host costs.  `python -m bench.bare CORE` prints tokens a second.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from pathlib import Path

from helios.schedule.lanes import Share
from helios.values import ProgramId
from prepared.contract import Operation
from tests.end_to_end.model import Model, open_model

CONTEXT_TOKENS = 104  # the middle of an answer of 128 tokens to a prompt of 40
WARM_ROUNDS = 16
ROUNDS = 128
PARTS = 4


def prepared_decode(model: Model) -> ProgramId:
    """One lane with its context; frame 0 then holds a decode round.  Returns its program."""
    roster = model.roster()
    (slot,) = model.admit(roster, [[(i * 97) % 40000 + 100 for i in range(CONTEXT_TOKENS)]])
    share = Share(slot=slot, tokens=CONTEXT_TOKENS, samples=True)
    model.round(roster, Operation.PREFILL, [share])
    model.round(roster, Operation.DECODE, [Share(slot=slot, tokens=1, samples=True)])
    decoding = [p for p in model.executor.programs if p.operation is Operation.DECODE]
    return min(decoding, key=lambda program: program.packed_tokens).id


def speed(model: Model, program: ProgramId, rounds: int) -> float:
    """Rounds a second, the next one queued while one runs, as the worker does."""
    device = model.device
    seen = device.finished()
    last = seen + rounds
    began = time.perf_counter()
    device.submit(program, 0)
    for submitted in range(1, rounds + 1):
        if submitted < rounds:
            device.submit(program, 0)
        while seen < last - rounds + submitted:
            seen = device.wait(seen, nanoseconds=10**9)
    return rounds / (time.perf_counter() - began)


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="bench.bare", description=__doc__.partition("\n")[0])
    parser.add_argument("core", type=Path)
    model = open_model(parser.parse_args().core)
    program = prepared_decode(model)
    speed(model, program, WARM_ROUNDS)
    print(statistics.median(speed(model, program, ROUNDS // PARTS) for _ in range(PARTS)))
    model.device.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
