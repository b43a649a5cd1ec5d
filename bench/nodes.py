#!/usr/bin/env python3
"""Where a round's time goes: every launch of a program on its own, on one thread.

    python -m bench.nodes CORE [CORE ...] [--decode 1 8 16] [--prefill 512] [--context 64]

Several cores are taken in turn (A B A B ...), so that they can be compared while the machine is
shared.  Of all repetitions the 20th percentile counts, without what an empty call costs.
"""

from __future__ import annotations

import argparse
import ctypes
import struct
import sys
import time
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path

from helios.schedule.lanes import Share
from prepared.contract import Operation
from prepared.manifest import BufferRole
from tests.end_to_end.model import Model, open_model
from tests.ops.kernels import CALL

ROOT = Path(__file__).parents[1]
LEFT_OUT = frozenset({"commit", "initialize"})  # they would move the lanes on


@dataclass
class Node:
    """One launch, ready to be called."""

    symbol: str
    call: Callable[..., None]
    block: ctypes.Array[ctypes.c_char]
    units: int


@dataclass
class Bench:
    """A core whose programs are replayed launch by launch."""

    name: str
    model: Model
    times: dict[str, dict[str, list[float]]] = field(default_factory=dict)

    def address(self, buffer: int) -> int:
        """Where a buffer begins in frame 0."""
        memory = self.model.device.resident(self.model.device.manifest.buffers[buffer].name)
        return ctypes.addressof(ctypes.c_char.from_buffer(memory))

    def nodes(self, operation: Operation) -> list[Node]:
        """The launches of an operation."""
        device = self.model.device
        manifest = device.manifest
        program = next(p for p in manifest.programs if p.operation is operation)
        found = []
        for index in program.launches:
            launch = manifest.launches[index]
            symbol = manifest.kernels[launch.kernel].symbol
            if symbol in LEFT_OUT:
                continue
            block = bytearray(launch.parameters)
            for relocation in launch.relocations:
                struct.pack_into(
                    "<Q",
                    block,
                    relocation.offset,
                    self.address(relocation.buffer) + relocation.addend,
                )
            found.append(
                Node(
                    symbol,
                    CALL(device.library.kernel(symbol)),
                    ctypes.create_string_buffer(bytes(block), len(block)),
                    launch.grid.x,
                )
            )
        return found

    def thread(self) -> ctypes.Array[ctypes.c_char]:
        """What a kernel is told of its thread."""
        scratch = next(
            index
            for index, buffer in enumerate(self.model.device.manifest.buffers)
            if buffer.role is BufferRole.THREAD_SCRATCH
        )
        return ctypes.create_string_buffer(struct.pack("<IxxxxQ", 0, self.address(scratch)), 16)

    def fill(self, lanes: int, context: int, *, chunk: int) -> None:
        """Lanes with a context, and one real round of what is replayed next."""
        model = self.model
        roster = model.roster()
        tokens = [(i * 97) % 40000 + 100 for i in range(context)]
        slots = model.admit(roster, [tokens] * lanes)
        for slot in slots:
            for begin in range(0, context, chunk):
                size = min(chunk, context - begin)
                share = Share(slot=slot, tokens=size, samples=begin + size == context)
                model.round(roster, Operation.PREFILL, [share])
        self._slots, self._roster = slots, roster

    def decode_once(self) -> None:
        """A real decode round."""
        shares = [Share(slot=slot, tokens=1, samples=True) for slot in self._slots]
        self.model.round(self._roster, Operation.DECODE, shares)

    def measure(self, what: str, operation: Operation, repeats: int) -> None:
        """Replay the launches and keep the CPU time of each kernel, summed over a round."""
        nodes, thread = self.nodes(operation), self.thread()
        kept = self.times.setdefault(what, {})
        clock = time.perf_counter_ns
        for _ in range(repeats):
            spent: dict[str, int] = defaultdict(int)
            for node in nodes:
                began = clock()
                node.call(node.block, 0, 0, thread)
                empty = clock()
                node.call(node.block, 0, node.units, thread)
                spent[node.symbol] += clock() - empty - (empty - began)
            for symbol, nanoseconds in spent.items():
                kept.setdefault(symbol, []).append(nanoseconds / 1e3)
            kept.setdefault("all", []).append(sum(spent.values()) / 1e3)


def quiet(values: list[float]) -> float:
    """The 20th percentile: what it takes when little else runs."""
    return sorted(values)[len(values) // 5]


def print_table(benches: list[Bench]) -> None:
    """Times by kernel, the cores side by side."""
    for what in benches[0].times:
        print(f"\n{what} (us, one thread)")
        symbols = dict.fromkeys(s for bench in benches for s in bench.times[what])
        for symbol in symbols:
            cells = []
            for bench in benches:
                values = bench.times[what].get(symbol)
                cells.append(f"{quiet(values):10.0f}" if values else f"{'-':>10}")
            print(f"  {symbol:<26}" + "".join(cells))


def measure_all(benches: list[Bench], said: argparse.Namespace) -> None:
    """Every workload, the cores in turn."""
    for context, lanes in product(said.context, said.decode):
        for bench in benches:
            bench.fill(lanes, context, chunk=512)
            bench.decode_once()
        for _, bench in product(range(said.rounds), benches):
            bench.measure(f"decode {lanes}, context {context}", Operation.DECODE, said.repeats)
    for tokens in said.prefill:
        for bench in benches:
            bench.fill(1, tokens, chunk=512)
        for _, bench in product(range(said.rounds), benches):
            bench.measure(f"prefill {tokens}", Operation.PREFILL, max(1, said.repeats // 5))


def main() -> int:
    """Measure and report."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("cores", nargs="+", type=Path)
    parser.add_argument("--decode", nargs="*", type=int, default=[1, 4, 8, 16])
    parser.add_argument("--prefill", nargs="*", type=int, default=[512])
    parser.add_argument("--context", nargs="*", type=int, default=[64])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--repeats", type=int, default=10)
    said = parser.parse_args()
    benches = [Bench(path.name, open_model(path, threads=1)) for path in said.cores]
    for bench in benches:
        print(bench.name, bench.model.device.describe())
    measure_all(benches, said)
    print_table(benches)
    for bench in benches:
        bench.model.device.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
