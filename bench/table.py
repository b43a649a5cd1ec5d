"""The table of speeds, through HTTP, beside every peer that is installed: `bench/table`.

Servers are started afresh and asked in turn (A B C A B C ...), between two looks at the machine's
placement.  Prints medians with their spread, and writes JSON and a page to bench/results.
docs/benchmarks.md says how to get each peer.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import sys
import time
from pathlib import Path
from typing import Any

from bench import machine, served
from bench.page import page
from bench.quality import of_core, of_llama
from bench.served import Server
from bench.workloads import QUICK, Sizes, measure

ROOT = Path(__file__).parents[1]
CORE = ROOT / "build" / "smollm2-135m.core"
GGUF = ROOT / "build" / "weights" / "SmolLM2-135M-Instruct.Q4_1.gguf"
TEXT = ROOT / "tests" / "end_to_end" / "passages.txt"
RESULTS = Path(__file__).parent / "results"


def options() -> argparse.ArgumentParser:
    """The command line."""
    parser = argparse.ArgumentParser(prog="bench/table", description=__doc__.partition("\n")[0])
    parser.add_argument("--core", type=Path, default=CORE)
    parser.add_argument("--gguf", type=Path, default=GGUF, help="the file the core was made from")
    parser.add_argument("--llama", type=Path, metavar="FOLDER", help="where llama-server is")
    parser.add_argument(
        "--llama-gguf", type=Path, nargs="*", default=[], help="files for it: Q4_0, Q4_1, ..."
    )
    parser.add_argument("--llama-reference", type=Path, help="an unquantised file, for divergence")
    parser.add_argument("--openvino", type=Path, metavar="PYTHON", help="its environment's python")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument(
        "--quick", action="store_true", help="one short round of every row: does it all run?"
    )
    parser.add_argument("--no-quality", action="store_true", help="leave perplexity out")
    parser.add_argument("--name", default=time.strftime("%Y-%m-%d"), help="of the result files")
    return parser


def servers_of(said: argparse.Namespace) -> list[Server]:
    """Ours, and the peers that were named."""
    servers = [served.helios(said.core)]
    if said.llama:
        servers += [
            served.llama(said.llama / "llama-server", gguf)
            for gguf in said.llama_gguf or [said.gguf]
        ]
    if said.openvino:
        servers.append(served.openvino(said.openvino, said.gguf))
    return servers


def run(servers: list[Server], rounds: int, sizes: Sizes) -> list[dict[str, Any]]:
    """All rounds; returns what the placement was around each server's turn."""
    placements = []
    for number in range(rounds):
        for server in servers:
            began, before = time.monotonic(), machine.placement()
            server.start()
            try:
                asyncio.run(measure(server, number, sizes))
            finally:
                server.stop()
            placements.append(
                {
                    "round": number,
                    "server": server.name,
                    "before": before,
                    "after": machine.placement(),
                }
            )
            spent = time.monotonic() - began
            print(
                f"round {number + 1} of {rounds}: {server.name}, {spent:.0f} s",
                file=sys.stderr,
                flush=True,
            )
    return placements


def quality_of(said: argparse.Namespace) -> dict[str, dict[str, float]]:
    """Perplexity and divergence of the core, and of llama.cpp's files."""
    found = {"helios": of_core(said.core, said.gguf, TEXT.read_text())}
    if said.llama and said.llama_reference:
        for gguf in said.llama_gguf or [said.gguf]:
            name = served.llama(said.llama, gguf).name
            tool = said.llama / "llama-perplexity"
            found[name] = of_llama(tool, said.llama_reference, gguf, TEXT)
    return found


def print_table(servers: list[Server]) -> None:
    """Medians, with the least and the most, and ours against the best peer."""
    for name in servers[0].figures:
        print(name)
        middles = {s.name: statistics.median(s.figures[name]) for s in servers}
        for server in servers:
            values = server.figures[name]
            print(
                f"  {server.name:<22} {middles[server.name]:10.2f}"
                f"   ({min(values):.2f} to {max(values):.2f}, n={len(values)})"
            )
        peers = [value for server, value in middles.items() if server != "helios"]
        if peers:
            ours, best = middles["helios"], max(peers) if "tokens/s" in name else min(peers)
            times = ours / best if "tokens/s" in name else best / ours
            print(f"  against the best peer  {times:10.2f} times")


def main() -> int:
    """Measure, print, write."""
    said = options().parse_args()
    servers = servers_of(said)
    described = machine.described()
    rounds, sizes = (1, QUICK) if said.quick else (said.rounds, Sizes())
    placements = run(servers, rounds, sizes)
    quality = {} if said.no_quality else quality_of(said)
    print_table(servers)
    for name, facts in quality.items():
        print(
            f"quality, {name}: " + ", ".join(f"{key} {value:.5f}" for key, value in facts.items())
        )
    figures = {server.name: server.figures for server in servers}
    result = {
        "machine": described,
        "placements": placements,
        "figures": figures,
        "quality": quality,
    }
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / f"{said.name}.json").write_text(json.dumps(result, indent=1) + "\n")
    shown = {**described, **{f"quality, {name}": facts for name, facts in quality.items()}}
    (RESULTS / f"{said.name}.html").write_text(page(shown, figures))
    return 0


if __name__ == "__main__":
    sys.exit(main())
