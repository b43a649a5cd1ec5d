"""The core's distributions and answers against an independent float32 oracle."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from helios.schedule.lanes import Share
from prepared.contract import Operation
from tests.end_to_end.model import Floats, Model

LANES = 16
LEAST_TOKENS = 2000
MOST_DIVERGENCE = 0.005  # nats, mean over positions
LEAST_AGREEMENT = 0.97
NEAR = 0.25  # logits: a gap that 8-bit activations may close


def log_probabilities(logits: Floats) -> np.ndarray:
    wide = logits.astype(np.float64)
    wide -= wide.max(-1, keepdims=True)
    found: np.ndarray = wide - np.log(np.exp(wide).sum(-1, keepdims=True))
    return found


def of_oracle(oracle: torch.nn.Module, tokens: list[int]) -> Floats:
    with torch.no_grad():
        found: Floats = oracle(torch.tensor([tokens])).logits[0].numpy()
    return found


def test_log_probabilities_are_the_oracles(
    model: Model, oracle: torch.nn.Module, passages: str
) -> None:
    tokens = model.frontend.tokenizer.encode(passages)
    assert len(tokens) >= LEAST_TOKENS
    pieces = [list(piece) for piece in np.array_split(tokens, LANES)]
    expected = [log_probabilities(of_oracle(oracle, piece)) for piece in pieces]
    roster = model.roster()
    slots = model.admit(roster, pieces)
    divergences, agreed = [], 0
    for place in range(max(map(len, pieces))):
        lanes = [lane for lane in range(LANES) if place < len(pieces[lane])]
        model.round(
            roster,
            Operation.PREFILL,
            [
                # Sampling at every token lets us look at every distribution.
                Share(slot=slots[lane], tokens=1, samples=True)
                for lane in lanes
            ],
        )
        found = log_probabilities(model.logits(Operation.PREFILL, len(lanes)))
        for row, lane in zip(found, lanes, strict=True):
            wanted = expected[lane][place]
            divergences.append(float((np.exp(wanted) * (wanted - row)).sum()))
            agreed += int(wanted.argmax() == row.argmax())
    mean, share = float(np.mean(divergences)), agreed / len(divergences)
    print(f"KL {mean:.5f} nats, top token {share:.4f}, over {len(divergences)} positions")
    assert mean <= MOST_DIVERGENCE
    assert share >= LEAST_AGREEMENT
