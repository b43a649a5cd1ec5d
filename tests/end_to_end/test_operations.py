"""Restored histories, host-fed tokens and mixed rounds change no logit, to the bit."""

from __future__ import annotations

import numpy as np
import pytest

from helios.rounds import FromPage, FromSnapshot, LaneWork, Publication, Restore
from helios.values import PageId, SnapshotRow
from prepared.contract import Operation
from tests.end_to_end.model import Floats, Model
from tests.execute.by_hand import ADMITTED, Hand, work

AWAY = 8
"""Pages of other slots begin here; the donor's come before."""

DIRTY = 0xFF
"""What others left in a page: not a number, so that touching it shows."""


def leading_pages(model: Model, plane: str, pages: int = 32) -> memoryview:
    """The pages that these tests use."""
    memory = model.device.resident(plane)
    return memory[: pages * (len(memory) // model.pages)]


@pytest.fixture
def hand(model: Model) -> Hand:
    for plane in ("keys", "values"):
        memory = leading_pages(model, plane)
        memory[:] = bytes([DIRTY]) * len(memory)
    return Hand(model.executor)


@pytest.fixture(scope="module")
def tokens(model: Model, passages: str) -> tuple[int, ...]:
    return tuple(model.frontend.tokenizer.encode(passages)[:400])


@pytest.fixture(scope="module")
def straight(model: Model, tokens: tuple[int, ...]) -> Floats:
    """The logits after each of the first two pages' tokens, from a prompt fed a token at a time."""
    hand, found = Hand(model.executor), []
    hand.admit(0)
    for place in range(2 * model.page_tokens):
        pages = {0: 0, 1: 1} if place == 0 else {}
        hand.round(
            Operation.PREFILL, work(0, tokens=tokens[place : place + 1], start=place, pages=pages)
        )
        found.append(model.logits(Operation.PREFILL, 1)[0])
    return np.stack(found)


def restored_logits(
    model: Model, hand: Hand, tokens: tuple[int, ...], sources: dict[int, Restore]
) -> Floats:
    """The logits after each of these endpoints' next token, all restored in one round."""
    lanes, size = [], model.page_tokens
    for lane, (endpoint, source) in enumerate(sources.items()):
        shared = {index: index for index in range(endpoint // size)}
        private = {endpoint // size: AWAY + lane}
        lanes.append(
            work(
                lane + 1,
                start=endpoint,
                pages={**shared, **private},
                admission=ADMITTED,
                restore=source,
            )
        )
    done = hand.round(Operation.RESTORE, *lanes)
    assert [record.consumed for record in done.lanes] == list(sources)
    assert [record.emitted for record in done.lanes] == [0] * len(sources)
    hand.round(
        Operation.PREFILL,
        *(
            work(lane + 1, tokens=tokens[endpoint : endpoint + 1], start=endpoint)
            for lane, endpoint in enumerate(sources)
        ),
    )
    return model.logits(Operation.PREFILL, len(sources))


def feed_donor(model: Model, hand: Hand, tokens: tuple[int, ...]) -> int:
    """Slot 0 takes two pages of tokens; returns how many."""
    fed = 2 * model.page_tokens
    hand.admit(0)
    lane = work(0, tokens=tokens[:fed], samples=False, pages={0: 0, 1: 1})
    hand.round(Operation.PREFILL, lane)
    return fed


def batches(model: Model) -> list[range]:
    """Every offset of the second page, as many at once as there are other slots."""
    size, most = model.page_tokens, model.slots - 1
    return [range(start, min(start + most, 2 * size)) for start in range(size, 2 * size, most)]


@pytest.mark.clause("AH-14", "AH-15", "AH-16")
def test_a_snapshot_taken_up_at_any_offset_of_a_page_goes_on_as_if_it_were_the_prompt(
    model: Model, hand: Hand, tokens: tuple[int, ...], straight: Floats
) -> None:
    fed = feed_donor(model, hand, tokens)
    rows = range(model.geometry.snapshots)
    for batch in batches(model):
        sources: dict[int, Restore] = {}
        for row, endpoint in zip(rows, batch, strict=False):
            kept = Publication(row=SnapshotRow(row), tokens=endpoint)
            done = hand.round(
                Operation.PUBLISH_SNAPSHOT, work(0, start=fed, samples=False, snapshot=kept)
            )
            assert (done.lanes[0].consumed, done.lanes[0].emitted) == (fed, 0)
            sources[endpoint] = FromSnapshot(row=SnapshotRow(row))
        assert list(sources) == list(batch)
        found = restored_logits(model, hand, tokens, sources)
        assert np.array_equal(found, straight[list(batch)]), batch


@pytest.mark.clause("AH-16")
def test_a_page_of_another_taken_up_at_any_offset_goes_on_as_if_it_were_the_prompt(
    model: Model, hand: Hand, tokens: tuple[int, ...], straight: Floats
) -> None:
    feed_donor(model, hand, tokens)
    for batch in batches(model):
        source = FromPage(page=PageId(1))
        found = restored_logits(model, hand, tokens, dict.fromkeys(batch, source))
        assert np.array_equal(found, straight[list(batch)]), batch


@pytest.mark.clause("AH-16")
def test_what_is_restored_is_a_copy(model: Model, hand: Hand, tokens: tuple[int, ...]) -> None:
    feed_donor(model, hand, tokens)
    size = model.page_tokens
    before = {plane: bytes(leading_pages(model, plane, 2)) for plane in ("keys", "values")}
    restored_logits(model, hand, tokens, {size + 5: FromPage(page=PageId(1))})
    for plane, held in before.items():
        assert bytes(leading_pages(model, plane, 2)) == held


@pytest.mark.clause("HV-32")
def test_a_pending_token_from_the_host_is_as_one_from_the_prompt(
    model: Model, hand: Hand, tokens: tuple[int, ...], straight: Floats
) -> None:
    hand.admit(1)
    lane = work(1, tokens=tokens[:70], samples=False, pages={0: AWAY, 1: AWAY + 1})
    hand.round(Operation.PREFILL, lane)
    resumed = hand.round(Operation.RESUME, work(1, start=70, samples=False, pending=tokens[70]))
    assert (resumed.lanes[0].consumed, resumed.lanes[0].emitted) == (70, 0)
    decoded = hand.round(Operation.DECODE, work(1, start=70, rows=1)).lanes[0]
    assert np.array_equal(model.logits(Operation.DECODE, 1)[0], straight[70])
    assert (decoded.consumed, decoded.tokens) == (71, (int(straight[70].argmax()),))


PROMPTS = {0: (0, 70), 1: (100, 33), 3: (150, 5)}
CHUNKS = (40, 33, 1)
PREFILLS = 2


def begin(hand: Hand, tokens: tuple[int, ...]) -> dict[int, int]:
    """Three requests past their prompts and one that has fed nothing; consumed by slot."""
    hand.admit(*range(4))
    for slot, (start, length) in PROMPTS.items():
        prompt, first = tokens[start : start + length], 4 * slot
        hand.round(
            Operation.PREFILL,
            work(slot, tokens=prompt, pages={index: first + index for index in range(4)}),
        )
    return {slot: length for slot, (_, length) in PROMPTS.items()}


def chunk_of(tokens: tuple[int, ...], index: int) -> LaneWork:
    """One chunk of the fourth request's prompt; the last one samples."""
    start = sum(CHUNKS[:index])
    return work(
        PREFILLS,
        tokens=tokens[200 + start : 200 + start + CHUNKS[index]],
        start=start,
        samples=index == len(CHUNKS) - 1,
        pages={place: 4 * PREFILLS + place for place in range(4)},
    )


@pytest.mark.clause("HV-14", "HV-30")
def test_a_mixed_round_is_a_prefill_and_a_decode(
    model: Model, hand: Hand, tokens: tuple[int, ...]
) -> None:
    consumed, apart, together = begin(hand, tokens), list[Floats](), list[Floats]()
    said = []
    for index in range(len(CHUNKS)):
        decodes = [work(slot, start=at + index, rows=1) for slot, at in consumed.items()]
        first = hand.round(Operation.DECODE, *decodes)
        apart.append(model.logits(Operation.DECODE, len(decodes)))
        second = hand.round(Operation.PREFILL, chunk_of(tokens, index))
        said.append({lane.slot: lane for lane in (*first.lanes, *second.lanes)})
    apart.append(model.logits(Operation.PREFILL, 1))
    begin(hand, tokens)
    for index in range(len(CHUNKS)):
        lanes = [work(slot, start=at + index, rows=1) for slot, at in consumed.items()]
        lanes.insert(index, chunk_of(tokens, index))
        mixed = hand.round(Operation.MIXED, *lanes, mixed_row=index)
        assert {lane.slot: lane for lane in mixed.lanes} == said[index]
        samples = index == len(CHUNKS) - 1
        found = model.logits(Operation.MIXED, 3 + samples)
        together.append(np.delete(found, index, 0) if samples else found)
        last = found[index]
    for alone, mixed_rows in zip(apart, [*together, last[None]], strict=True):
        assert np.array_equal(alone, mixed_rows)
    assert [lane.emitted for lane in said[-1].values()] == [1, 1, 1, 1]
