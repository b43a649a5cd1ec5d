"""The core's distributions and answers against an independent float32 oracle."""

from __future__ import annotations

import numpy as np
import torch

from helios.frontend.prompt import Conversation
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


PROMPTS = [
    "What is the capital of France?",
    "Write a short poem about the sea.",
    "Explain why the sky is blue to a child.",
    "Give me three tips for learning to cook.",
    "def fibonacci(n):",
    "Translate to Spanish: The cat sleeps on the chair.",
    "What is 17 plus 25?",
    "Name five animals that live in the forest.",
]
ANSWER_TOKENS = 40


def test_greedy_answers_are_the_oracles_unless_it_hesitates(
    model: Model, oracle: torch.nn.Module
) -> None:
    compared = 0
    for prompt in PROMPTS:
        assert model.frontend.prompts is not None
        asked = Conversation(messages=[{"role": "user", "content": prompt}])
        tokens = list(model.frontend.prompts.prompt(asked).tokens)
        answer = model.greedy(tokens, most=ANSWER_TOKENS, eos=model.frontend.eos_ids)
        logits = of_oracle(oracle, tokens + answer)[len(tokens) - 1 : -1]
        for row, token in zip(logits, answer, strict=True):
            if row.argmax() != token:
                assert row.max() - row[token] < NEAR
            compared += 1
    assert compared > len(PROMPTS) * 5
