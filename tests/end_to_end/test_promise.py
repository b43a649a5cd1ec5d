"""A request's tokens and log-probabilities are the same to the bit, whatever happens around it.

The whole worker over the real core and the real device: alone, in a full batch, with its prompt cut
by others' rounds, after a prefix hit at every offset of a page, and after preemption.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import pytest

from helios.bootstrap.model import build_worker
from helios.device.api import Geometry
from helios.frontend.request import PreparedRequest
from helios.mailbox import News, Requests, Round
from helios.rounds import Sampling, Score
from helios.values import MonotonicClock, RequestId
from tests.end_to_end.model import Model
from tests.worker.world import NO_TOOLS, MemoryMailbox

SAMPLED: Final = Sampling(
    seed=41,
    temperature=0.9,
    top_p=0.95,
    top_k=50,
    min_p=0.02,
    repetition_penalty=1.1,
    presence_penalty=0.0,
    frequency_penalty=0.0,
)
Answer = tuple[tuple[int, ...], tuple[Score, ...]]


class Bench:
    """A worker with a cache of its own, over the loaded device."""

    def __init__(self, model: Model, *, pages: int | None = None, gap_ms: int = 100) -> None:
        geometry = Geometry(
            slots=model.slots, pages=pages or model.pages, snapshots=model.geometry.snapshots
        )
        self.mailbox = MemoryMailbox()
        self.worker = build_worker(
            model.core.deployment.contract.model,
            model.device,
            geometry,
            self.mailbox,
            NO_TOOLS,
            identity=b"bench",
            gap_ns=gap_ms * 1_000_000,
            clock=MonotonicClock(0),
        )
        self._number = 0

    def request(self, prompt: Sequence[int], *, limit: int = 4) -> PreparedRequest:
        """A sampled request with log-probabilities."""
        self._number += 1
        return PreparedRequest(
            id=RequestId(self._number),
            prompt=tuple(prompt),
            sampling=SAMPLED,
            output_limit=limit,
            minimum_output=0,
            eos_ids=(),
            logprobs=3,
        )

    def answers(self, *requests: PreparedRequest) -> list[Answer]:
        """Everything that these requests, together, are told."""
        self.mailbox.outbox.clear()
        self.ask(*requests)
        while not self.mailbox.idle:
            self.turn()
        return [self.answer(request) for request in requests]

    def ask(self, *requests: PreparedRequest) -> None:
        """Requests come."""
        self.mailbox.inbox.append(Requests(submit=requests))
        self.mailbox.idle = False

    def turn(self) -> None:
        """One turn of the loop, and the wait after it."""
        self.worker.turn()
        self.worker.roster.audit()
        self.worker.rest()

    def answer(self, request: PreparedRequest) -> Answer:
        """A request's tokens and scores."""
        news = [told for told in self.news() if told.request == request.id]
        return (
            tuple(token for told in news for token in told.tokens),
            tuple(score for told in news for score in told.scores),
        )

    def news(self) -> list[News]:
        """What was told since the last requests came."""
        return [news for told in self.rounds() for news in told.by_request()]

    def rounds(self) -> list[Round]:
        """Rounds since the last requests came."""
        return [message for message in self.mailbox.outbox if isinstance(message, Round)]

    def reused(self, request: PreparedRequest) -> int:
        """Prompt tokens that a request did not compute."""
        (begun,) = (b for told in self.rounds() for b in told.begun if b.request == request.id)
        return begun.reused

    def operations(self) -> set[str]:
        """What ran."""
        return {step.operation for told in self.rounds() for step in told.steps}


@pytest.fixture(scope="module")
def tokens(model: Model, passages: str) -> tuple[int, ...]:
    return tuple(model.frontend.tokenizer.encode(passages))


@pytest.fixture(scope="module")
def prompt(tokens: tuple[int, ...]) -> tuple[int, ...]:
    return tokens[:150]


@pytest.fixture(scope="module")
def alone(model: Model, prompt: tuple[int, ...]) -> Answer:
    bench = Bench(model)
    (answer,) = bench.answers(bench.request(prompt))
    assert len(answer[0]) == len(answer[1]) == 4
    return answer


def test_in_a_full_batch(
    model: Model, prompt: tuple[int, ...], alone: Answer, tokens: tuple[int, ...]
) -> None:
    bench = Bench(model)
    others = [
        bench.request(tokens[200 + 37 * n : 230 + 50 * n], limit=5 + n)
        for n in range(model.slots - 1)
    ]
    target = bench.request(prompt)
    bench.answers(*others[:7], target, *others[7:])
    assert bench.answer(target) == alone


def test_with_its_prompt_cut_by_others_rounds(
    model: Model, prompt: tuple[int, ...], alone: Answer, tokens: tuple[int, ...]
) -> None:
    bench = Bench(model, gap_ms=1)  # sixteen tokens of a prompt a round
    others = [bench.request(tokens[300 : 310 + n], limit=40) for n in range(3)]
    bench.ask(*others)
    while "decode" not in bench.operations():
        bench.turn()
    target = bench.request(prompt)
    bench.answers(target)
    assert "mixed" in bench.operations()
    assert bench.answer(target) == alone


@pytest.mark.clause("AH-08", "AH-14", "AH-16")
def test_after_a_prefix_hit_at_every_offset_of_a_page(
    model: Model, prompt: tuple[int, ...], alone: Answer, tokens: tuple[int, ...]
) -> None:
    bench = Bench(model)
    other = tokens[1000:1100]
    for offset in range(model.page_tokens):
        shared = model.page_tokens + offset
        bench.worker.roster.cache.forget_all()
        # Sometimes what is shared ends in a page that goes on, sometimes in a row.
        rest = other if offset % 2 else other[:1]
        bench.answers(bench.request((*prompt[:shared], *rest), limit=1))
        target = bench.request(prompt)
        bench.answers(target)
        assert bench.reused(target) == shared
        assert bench.answer(target) == alone


@pytest.mark.clause("AH-08", "TO-39")
def test_after_preemption(model: Model, prompt: tuple[int, ...], tokens: tuple[int, ...]) -> None:
    limit = 120
    alone = Bench(model)
    (expected,) = alone.answers(alone.request(prompt, limit=limit))
    older = Bench(model, pages=8)
    first = older.request(tokens[400:580], limit=limit)
    target = older.request(prompt, limit=limit)
    older.answers(first, target)
    assert older.rounds()[-1].totals.preempted > 0
    assert older.answer(target) == expected
