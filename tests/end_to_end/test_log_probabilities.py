"""Log-probabilities of the real core: the oracle's, and the same in any company."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pytest
import torch

from helios.rounds import LaneRecord, Sampling, Score
from helios.schedule.lanes import Share
from prepared.contract import Operation
from prepared.manifest import FinishBits
from tests.end_to_end.model import GREEDY, Model
from tests.end_to_end.test_right_answer import log_probabilities, of_oracle

MOST_ERROR = 0.35  # nats, of 95 in a hundred: 8-bit activations
MOST_MEAN_ERROR = 0.06
STEPS = 12
CHUNK = 48


@dataclass
class Scored:
    """What was said of one request."""

    prompt: list[Score | None] = field(default_factory=list)
    output: list[LaneRecord] = field(default_factory=list)


@pytest.fixture(scope="module")
def prompts(model: Model, passages: str) -> list[list[int]]:
    tokens = model.frontend.tokenizer.encode(passages)
    return [tokens[start : start + n] for start, n in ((0, 40), (300, 7), (700, 23))]


def score(
    model: Model,
    prompts: list[list[int]],
    *,
    chunk: int = CHUNK,
    sampling: Sampling = GREEDY,
    scored: bool = True,
) -> list[Scored]:
    """Prompts scored in chunks, a lane after another, then decoded together."""
    roster = model.roster()
    slots = model.admit(roster, prompts, sampling=sampling, logprobs=5)
    found = [Scored() for _ in prompts]
    operation = Operation.SCORED_PREFILL if scored else Operation.PREFILL
    for slot, prompt, told in zip(slots, prompts, found, strict=True):
        for start in range(0, len(prompt), chunk):
            rows = min(chunk, len(prompt) - start)
            last = start + rows == len(prompt)
            share = Share(slot=slot, tokens=rows, samples=last)
            (lane,) = model.round(roster, operation, [share]).lanes
            told.prompt += lane.scores
        told.output.append(lane)
    for _ in range(STEPS - 1):
        shares = [Share(slot=slot, tokens=1, samples=True) for slot in slots]
        for told, lane in zip(
            found, model.round(roster, Operation.DECODE, shares).lanes, strict=True
        ):
            told.output.append(lane)
    return found


def test_log_probabilities_are_those_of_the_oracle(
    model: Model, oracle: torch.nn.Module, prompts: list[list[int]]
) -> None:
    errors = []
    for prompt, told in zip(prompts, score(model, prompts), strict=True):
        output = [lane.tokens[0] for lane in told.output]
        wanted = log_probabilities(of_oracle(oracle, prompt + output))
        assert told.prompt[-1] is None
        for place, given in enumerate(told.prompt[:-1]):
            assert given is not None
            errors.append(given.logprob - wanted[place, prompt[place + 1]])
            errors += [value - wanted[place, token] for token, value in given.top]
        for place, lane in enumerate(told.output, start=len(prompt) - 1):
            assert lane.logprob is not None
            # Greedy: the token is the first of its own alternatives.
            assert lane.top[0] == (lane.tokens[0], lane.logprob)
            assert [v for _, v in lane.top] == sorted((v for _, v in lane.top), reverse=True)
            errors += [value - wanted[place, token] for token, value in lane.top]
    sizes = np.abs(errors)
    print(f"{len(sizes)} log-probabilities: mean error {sizes.mean():.4f}, most {sizes.max():.4f}")
    assert sizes.mean() <= MOST_MEAN_ERROR
    assert np.quantile(sizes, 0.95) <= MOST_ERROR


@pytest.mark.parametrize("temperature", [0.0, 0.8])
def test_log_probabilities_do_not_depend_on_neighbours_or_chunks(
    model: Model, prompts: list[list[int]], temperature: float
) -> None:
    sampling = Sampling(
        seed=99,
        temperature=temperature,
        top_p=0.95,
        top_k=0,
        min_p=0.0,
        repetition_penalty=1.1,
        presence_penalty=0.0,
        frequency_penalty=0.0,
    )
    together = score(model, prompts, sampling=sampling)
    for prompt, told in zip(prompts, together, strict=True):
        for chunk in (CHUNK, 11):
            (alone,) = score(model, [prompt], chunk=chunk, sampling=sampling)
            assert alone.prompt == told.prompt
            assert said(alone) == said(told)
    plain = score(model, prompts, sampling=sampling, scored=False)
    assert [said(told) for told in plain] == [said(told) for told in together]


def said(told: Scored) -> list[tuple[object, ...]]:
    """Tokens and log-probabilities of an output."""
    return [(lane.tokens, lane.logprob, lane.top) for lane in told.output]


def test_bias_and_mask_hold_on_the_real_core(model: Model, prompts: list[list[int]]) -> None:
    roster = model.roster()
    (slot,) = model.admit(roster, [prompts[1]], logit_bias=((77, 100.0),), logprobs=0)
    share = Share(slot=slot, tokens=len(prompts[1]), samples=True)
    (lane,) = model.round(roster, Operation.PREFILL, [share]).lanes
    assert lane.tokens == (77,)
    assert lane.logprob == pytest.approx(0.0, abs=1e-3)
    words = np.zeros(-(-model.vocabulary // 32), np.uint32)
    words[1234 // 32] = 1 << (1234 % 32)
    step = Share(slot=slot, tokens=1, samples=True)
    (lane,) = model.round(roster, Operation.DECODE, [step], mask=words.tobytes()).lanes
    assert (lane.tokens, lane.logprob) == ((1234,), 0.0)
    (lane,) = model.round(roster, Operation.DECODE, [step], mask=bytes(words.nbytes)).lanes
    assert (lane.tokens, lane.finish) == ((), FinishBits.NOTHING_ALLOWED)
