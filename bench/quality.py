"""Perplexity and divergence beside speed: faster by being worse does not count.

All read the same text in the same pieces, and the second half of each piece counts, as in
llama.cpp's own tool.  The oracle is transformers' model over the dequantised weights in float32;
llama.cpp's tool compares with an unquantised file instead, the same weights in float16.
"""

from __future__ import annotations

import json
import re
import subprocess
import tempfile
from collections.abc import Callable
from functools import cached_property
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
from transformers import AutoModelForCausalLM

from helios.schedule.lanes import Share
from prepared.contract import Operation
from tests.end_to_end.model import Model, open_model

PIECE_TOKENS = 256
FIRST = PIECE_TOKENS // 2
MOST_PIECES = 8
PERPLEXITY, DIVERGENCE, ORACLE = "perplexity", "divergence, nats", "oracle perplexity"
SECONDS = 300

Found = dict[str, float]
Logs = npt.NDArray[np.float64]


def log_probabilities(logits: npt.NDArray[np.floating]) -> Logs:
    """Natural logarithms of the distributions of rows of logits."""
    wide = logits.astype(np.float64)
    wide -= wide.max(-1, keepdims=True)
    found: Logs = wide - np.log(np.exp(wide).sum(-1, keepdims=True))
    return found


def perplexity(logs: Logs, tokens: npt.NDArray[np.int64]) -> float:
    """Of tokens under the distributions before them."""
    return float(np.exp(-np.take_along_axis(logs, tokens[..., None], axis=-1).mean()))


def divergence(expected: Logs, found: Logs) -> float:
    """Mean Kullback-Leibler divergence from what was expected."""
    return float((np.exp(expected) * (expected - found)).sum(-1).mean())


class Quality:
    """A text, and what the oracle makes of it."""

    def __init__(self, *, core: Path, gguf: Path, text: Path) -> None:
        self.core = core
        self.gguf = gguf
        self.text = text

    @cached_property
    def model(self) -> Model:
        """The core, loaded."""
        return open_model(self.core)

    @cached_property
    def pieces(self) -> npt.NDArray[np.int64]:
        """The text's tokens, a piece a row; what is left at the end is not read."""
        tokens = self.model.frontend.tokenizer.encode(self.text.read_text().removesuffix("\n"))
        count = min(MOST_PIECES, len(tokens) // PIECE_TOKENS)
        return np.array(tokens[: count * PIECE_TOKENS], np.int64).reshape(count, PIECE_TOKENS)

    @cached_property
    def oracle(self) -> Logs:
        """Distributions after every position that counts, by the dequantised weights."""
        model = AutoModelForCausalLM.from_pretrained(
            str(self.gguf.parent), gguf_file=self.gguf.name, dtype=torch.float32
        )
        model.train(mode=False)
        with torch.no_grad():
            rows = [model(torch.tensor(piece[None])).logits[0, FIRST:-1] for piece in self.pieces]
        return log_probabilities(torch.stack(rows).numpy())

    def judged(self, found: Logs) -> Found:
        """Distributions after every position that counts, beside the text and the oracle."""
        tokens = self.pieces[:, FIRST + 1 :]
        return {
            PERPLEXITY: perplexity(found, tokens),
            DIVERGENCE: divergence(self.oracle, found),
            ORACLE: perplexity(self.oracle, tokens),
        }

    def of_core(self) -> Found:
        """The core: every position that counts is sampled from, so that it can be read."""
        roster = self.model.roster()
        slots = self.model.admit(roster, self.pieces.tolist())
        for slot in slots:
            share = Share(slot=slot, tokens=FIRST, samples=False)
            self.model.round(roster, Operation.PREFILL, [share])
        found = []
        for _ in range(FIRST, PIECE_TOKENS - 1):
            shares = [Share(slot=slot, tokens=1, samples=True) for slot in slots]
            self.model.round(roster, Operation.PREFILL, shares)
            found.append(self.model.logits(Operation.PREFILL, len(slots)))
        return self.judged(log_probabilities(np.stack(found, axis=1)))

    def of_openvino(self, python: Path) -> Callable[[], Found]:
        """OpenVINO's conversion of the file that the core was made from."""

        def found() -> Found:
            with tempfile.TemporaryDirectory() as folder:
                pieces, out = Path(folder, "pieces.json"), Path(folder, "logits.npy")
                pieces.write_text(json.dumps(self.pieces.tolist()))
                script = Path(__file__).with_name("openvino_logits.py")
                command = [str(python), str(script), "--model", str(self.gguf)]
                run([*command, "--pieces", str(pieces), "--out", str(out)])
                return self.judged(log_probabilities(np.load(out)[:, :-1]))

        return found

    def of_llama(self, folder: Path, reference: Path, gguf: Path) -> Callable[[], Found]:
        """A file under llama.cpp, beside an unquantised one."""

        def found() -> Found:
            with tempfile.TemporaryDirectory() as kept:
                common = ["-f", str(self.text), "-c", str(PIECE_TOKENS)]
                common += ["--chunks", str(len(self.pieces))]
                common += ["--kl-divergence-base", str(Path(kept, "logits"))]
                tool = str(folder / "llama-perplexity")
                run([tool, "-m", str(reference), *common])
                said = run([tool, "-m", str(gguf), *common, "--kl-divergence"])
            return {name: number_in(said, pattern) for name, pattern in LLAMA_SAYS.items()}

        return found


LLAMA_SAYS = {
    PERPLEXITY: r"Mean PPL\(Q\)\s*:\s*([\d.]+)",
    DIVERGENCE: r"Mean\s+KLD:\s*([-\d.]+)",
    ORACLE: r"Mean PPL\(base\)\s*:\s*([\d.]+)",
}


def number_in(said: str, pattern: str) -> float:
    """A number in what a tool printed."""
    if (match := re.search(pattern, said)) is None:
        raise RuntimeError(f"no {pattern} in what llama-perplexity printed: {said[-300:]}")
    return float(match[1])


def run(command: list[str]) -> str:
    """What a command prints; its last words when it fails."""
    done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False)
    if done.returncode:
        raise RuntimeError(f"{command[0]} ended with {done.returncode}: {done.stderr[-300:]}")
    return done.stdout + done.stderr
