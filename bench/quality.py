"""Perplexity and divergence beside speed: faster by being worse does not count.

Ours: every position of the text is sampled from, so every distribution can be read; the oracle is
transformers' own model over the dequantised weights in float32.  llama.cpp: its own perplexity
tool, against the distributions of its unquantised file.  Both read the same text in pieces.
"""

from __future__ import annotations

import re
import subprocess
import tempfile
from pathlib import Path

import numpy as np
import torch
from transformers import AutoModelForCausalLM

from helios.schedule.lanes import Share
from prepared.contract import Operation
from tests.end_to_end.model import Floats, Model, open_model

PIECE_TOKENS = 256
LANES = 8


def log_probabilities(logits: Floats) -> np.ndarray:
    """Natural logarithms of the distributions of rows of logits."""
    wide = logits.astype(np.float64)
    wide -= wide.max(-1, keepdims=True)
    found: np.ndarray = wide - np.log(np.exp(wide).sum(-1, keepdims=True))
    return found


def pieces_of(model: Model, text: str) -> list[list[int]]:
    """The text in pieces of equal length."""
    tokens = model.frontend.tokenizer.encode(text)
    starts = range(0, len(tokens) - PIECE_TOKENS + 1, PIECE_TOKENS)
    return [tokens[start : start + PIECE_TOKENS] for start in starts][:LANES]


def of_core(core: Path, gguf: Path, text: str) -> dict[str, float]:
    """Perplexity of the core and of its oracle, and the divergence between them."""
    model = open_model(core)
    oracle = AutoModelForCausalLM.from_pretrained(
        str(gguf.parent), gguf_file=gguf.name, dtype=torch.float32
    )
    oracle.train(mode=False)
    pieces = pieces_of(model, text)
    with torch.no_grad():
        expected = [
            log_probabilities(oracle(torch.tensor([piece])).logits[0].numpy()) for piece in pieces
        ]
    roster = model.roster()
    slots = model.admit(roster, pieces)
    lost, oracle_lost, divergences = [], [], []
    for place in range(PIECE_TOKENS):
        shares = [Share(slot=slot, tokens=1, samples=True) for slot in slots]
        model.round(roster, Operation.PREFILL, shares)
        found = log_probabilities(model.logits(Operation.PREFILL, len(pieces)))
        for row, wanted, piece in zip(found, expected, pieces, strict=True):
            divergences.append((np.exp(wanted[place]) * (wanted[place] - row)).sum())
            if place + 1 < PIECE_TOKENS:
                lost.append(-row[piece[place + 1]])
                oracle_lost.append(-wanted[place][piece[place + 1]])
    model.device.close()
    return {
        "perplexity": float(np.exp(np.mean(lost))),
        "oracle perplexity": float(np.exp(np.mean(oracle_lost))),
        "divergence, nats": float(np.mean(divergences)),
    }


def of_llama(perplexity: Path, reference: Path, gguf: Path, text: Path) -> dict[str, float]:
    """Perplexity of a file under llama.cpp, and its divergence from an unquantised one."""
    with tempfile.TemporaryDirectory() as folder:
        kept = str(Path(folder, "logits"))
        common = ["-f", str(text), "-c", str(PIECE_TOKENS), "--kl-divergence-base", kept]
        subprocess.run(
            [str(perplexity), "-m", str(reference), *common], capture_output=True, check=True
        )
        done = subprocess.run(
            [str(perplexity), "-m", str(gguf), *common, "--kl-divergence"],
            capture_output=True,
            text=True,
            check=True,
        )
    said = done.stdout + done.stderr
    found = {}
    for name, pattern in (
        ("perplexity", r"Mean PPL\(Q\)\s*:\s*([\d.]+)"),
        ("divergence, nats", r"Mean\s+KLD:\s*([-\d.]+)"),
    ):
        if (match := re.search(pattern, said)) is None:
            raise RuntimeError(f"{perplexity}: no {name} in what it printed")
        found[name] = float(match[1])
    return found
