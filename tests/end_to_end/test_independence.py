"""A request's tokens and logits are the same alone, in a batch, and in any chunking, to the bit."""

from __future__ import annotations

import numpy as np
import pytest

from helios.rounds import Sampling
from helios.schedule.lanes import Share
from prepared.contract import Operation
from tests.end_to_end.model import Floats, Model

TOKENS = 24


@pytest.fixture(scope="module")
def prompts(model: Model, passages: str) -> list[list[int]]:
    tokens = model.frontend.tokenizer.encode(passages)
    starts, lengths = range(0, 1600, 200), (7, 64, 65, 1, 33, 130, 16, 90)
    return [tokens[start : start + n] for start, n in zip(starts, lengths, strict=True)]


def logits_of(model: Model, prompt: list[int], chunks: list[int]) -> Floats:
    """The logits after a prompt that was fed in these chunks."""
    roster = model.roster()
    (slot,) = model.admit(roster, [prompt])
    fed = 0
    for chunk in chunks:
        fed += chunk
        share = Share(slot=slot, tokens=chunk, samples=fed == len(prompt))
        model.round(roster, Operation.PREFILL, [share])
    assert fed == len(prompt)
    return model.logits(Operation.PREFILL, 1)[0]


def test_logits_do_not_depend_on_how_the_prompt_was_cut(
    model: Model, prompts: list[list[int]]
) -> None:
    prompt = prompts[5]
    whole = logits_of(model, prompt, [len(prompt)])
    rng = np.random.default_rng(1)
    for size in (1, 3, 16, 17, 64):
        chunks = [size] * (len(prompt) // size)
        if len(prompt) % size:
            chunks.append(len(prompt) % size)
        assert np.array_equal(logits_of(model, prompt, chunks), whole), f"chunks of {size}"
    for _ in range(3):
        cuts = np.sort(rng.choice(np.arange(1, len(prompt)), 5, replace=False))
        chunks = np.diff([0, *cuts, len(prompt)]).tolist()
        assert np.array_equal(logits_of(model, prompt, chunks), whole), f"chunks {chunks}"


@pytest.mark.parametrize("temperature", [0.0, 0.9])
def test_tokens_do_not_depend_on_neighbours(
    model: Model, prompts: list[list[int]], temperature: float
) -> None:
    sampling = Sampling(
        seed=1234,
        temperature=temperature,
        top_p=0.95,
        top_k=0,
        min_p=0.0,
        repetition_penalty=1.1,
        presence_penalty=0.0,
        frequency_penalty=0.1,
    )
    alone = [model.generate([p], TOKENS, sampling=sampling)[0] for p in prompts]
    together = model.generate(prompts, TOKENS, sampling=sampling)
    assert together == alone
    assert model.generate(prompts[::-1], TOKENS, sampling=sampling) == alone[::-1]


def test_tokens_do_not_depend_on_threads(model: Model, prompts: list[list[int]]) -> None:
    from tests.end_to_end.model import CORE, open_model

    single = open_model(CORE, threads=1)
    try:
        assert single.generate(prompts[:3], TOKENS) == model.generate(prompts[:3], TOKENS)
    finally:
        single.device.close()
