"""The table of speeds, through HTTP, beside every peer that is installed: `bench/table`.

Servers are started afresh and asked in turn (A B C A B C ...), between two looks at the machine's
placement.  Writes JSON and a page to bench/results after every turn, and prints the table.
docs/benchmarks.md says how to get each peer.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

from gguf import GGUFReader
from msgspec.structs import replace

from bench import machine, served
from bench.page import page
from bench.quality import Quality
from bench.record import OURS, Record, write
from bench.served import Server
from bench.text import text_of
from bench.turns import turn_of
from bench.workloads import QUICK, Sizes

ROOT = Path(__file__).parents[1]
CORE = ROOT / "build" / "smollm2-135m.core"
GGUF = ROOT / "build" / "weights" / "SmolLM2-135M-Instruct.Q4_1.gguf"
TEXT = ROOT / "tests" / "end_to_end" / "passages.txt"
RESULTS = Path(__file__).parent / "results"
EMBEDDING, HEAD = "token_embd.weight", "output.weight"


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
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument(
        "--quick", action="store_true", help="one short round of every row: does it all run?"
    )
    parser.add_argument("--no-quality", action="store_true", help="leave perplexity out")
    parser.add_argument("--name", default=time.strftime("%Y-%m-%d"), help="of the result files")
    parser.add_argument("--results", type=Path, default=RESULTS, help="the folder of results")
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


def facts_of(core: Path, gguf: Path) -> dict[str, float]:
    """What limits are made of: bytes and operations of a token, and the core's size.

    A token reads every tensor once (a head of its own instead of the embedding); a prompt's tokens
    multiply every matrix but the head's.
    """
    tensors = GGUFReader(gguf).tensors
    head = {EMBEDDING} if any(tensor.name == HEAD for tensor in tensors) else set()
    matrices = [t for t in tensors if len(t.shape) == 2 and t.name not in (EMBEDDING, HEAD)]
    return {
        "core_nbytes": core.stat().st_size,
        "token_nbytes": sum(int(t.n_bytes) for t in tensors if t.name not in head),
        "token_operations": 2 * sum(int(t.n_elements) for t in matrices),
    }


def keep(record: Record, said: argparse.Namespace) -> None:
    """Write what is known so far."""
    write(record, said.results / f"{said.name}-table.json")
    (said.results / f"{said.name}-table.html").write_text(page(record))


def measured(record: Record, servers: list[Server], said: argparse.Namespace) -> Record:
    """All rounds."""
    rounds, sizes = (1, QUICK) if said.quick else (said.rounds, Sizes())
    for number in range(rounds):
        for server in servers:
            core = said.core if server.name == OURS else None
            turn = turn_of(server, number, sizes, core=core)
            record = replace(record, turns=[*record.turns, turn])
            keep(record, said)
            log(
                f"round {number + 1} of {rounds}: {server.name}, {turn.seconds:.0f} s, {turn.state}"
            )
            for name, reason in turn.failed.items():
                log(f"  {name}: {reason}")
    return record


def judged(record: Record, said: argparse.Namespace) -> Record:
    """Perplexity and divergence of the core and of what the peers make of the same weights."""
    quality = Quality(core=said.core, gguf=said.gguf, text=TEXT)
    parts = {OURS: quality.of_core}
    if said.llama and said.llama_reference:
        for gguf in said.llama_gguf or [said.gguf]:
            name = served.llama(said.llama / "llama-server", gguf).name
            parts[name] = quality.of_llama(said.llama, said.llama_reference, gguf)
    if said.openvino:
        parts["openvino"] = quality.of_openvino(said.openvino)
    for name, part in parts.items():
        try:
            record = replace(record, quality={**record.quality, name: part()})
        except Exception as error:  # noqa: BLE001 - whatever failed, the speeds are worth keeping
            record = replace(record, failed={**record.failed, f"quality, {name}": repr(error)})
            log(f"quality, {name}: {error!r}")
        keep(record, said)
    return record


def log(text: str) -> None:
    """How far it is."""
    print(text, file=sys.stderr, flush=True)


def main() -> int:
    """Measure, write, print; 1 when anything failed."""
    said = options().parse_args()
    servers = servers_of(said)
    record = Record(
        machine=machine.described(),
        quick=said.quick,
        versions={server.name: server.version for server in servers},
        facts=facts_of(said.core, said.gguf),
    )
    record = measured(record, servers, said)
    if not said.no_quality:
        record = judged(record, said)
    print(text_of(record))
    return int(bool(record.failed) or any(turn.failed for turn in record.turns))


if __name__ == "__main__":
    sys.exit(main())
