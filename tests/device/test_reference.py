"""The reference device runs a prepared model's programs, in every slot it has."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import numpy as np
import pytest

from helios.device.api import Geometry, Resources
from helios.device.reference import ReferenceDevice
from helios.execute.executor import Executor
from helios.rounds import FromPage, FromSnapshot, Publication, Restore
from helios.values import PageId, SnapshotRow
from ignition.plan.model import PlannedModel
from ignition.plan.reference import plan_reference, reference_extents
from ignition.preparation.contract import cache_of, graph_of, states_of, vocabularies_of
from ignition.preparation.programs import Recipe, variants_of
from ignition.preparation.rotary import turns_of
from ignition.preparation.storage import text_storage
from ignition.recipes.llama import llama
from ignition.record.reference import perform_launch
from ignition.weights.checkpoint import open_checkpoint
from prepared.contract import ModelContract, Operation
from tests.execute.by_hand import ADMITTED, Hand, work
from tests.recording.test_llama import ROTARY, TOKENS, save_tiny
from tests.treaty.frontends import text_frontend

LANES, PAGES, ROWS = 2, 24, 2
PROMPT = tuple(TOKENS[:21])


def load_weights(recipe: Recipe, planned: PlannedModel, _name: str, to: memoryview) -> None:
    """Float weights where the plan has put them."""
    weights = recipe.weights
    arrays = {
        name: source.floats(weights.rotary)
        for group in (weights.matrices, weights.vectors)
        for name, source in group.items()
    }
    arrays["turns"] = turns_of(weights.rotary, positions=planned.extents.context_tokens)
    for name, offset in planned.weights.offsets.items():
        data = np.ascontiguousarray(arrays[name], np.float32).tobytes()
        to[offset : offset + len(data)] = data


@pytest.fixture
def hand(tmp_path: Path) -> Hand:
    save_tiny(tmp_path, rope_parameters=ROTARY["plain"])
    recipe = llama(open_checkpoint(tmp_path), context_tokens=None)
    extents = reference_extents(recipe, lanes=LANES, prefill_tokens=32)
    planned = plan_reference(recipe, extents)
    vocabulary, input_vocabulary = vocabularies_of(extents.vocabulary)
    model = ModelContract(
        version=3,
        vocabulary=vocabulary,
        input_vocabulary=input_vocabulary,
        vision=None,
        cache=cache_of(text_storage(extents)),
        states=states_of(),
        graphs=tuple(graph_of(variant) for variant in variants_of(extents)),
        frontend=text_frontend(),
        engram_tables=(),
    )
    device = ReferenceDevice(
        planned.manifest,
        Geometry(slots=LANES, pages=PAGES, snapshots=ROWS),
        Resources(executable=lambda _name: b"", weights=partial(load_weights, recipe, planned)),
        perform=perform_launch,
    )
    return Hand(Executor(model, device))


def answer(hand: Hand, slot: int, at: int) -> list[int]:
    """Four more tokens of a slot."""
    return [
        hand.round(Operation.DECODE, work(slot, start=at + index, rows=1)).lanes[0].tokens[0]
        for index in range(4)
    ]


@pytest.mark.clause("AH-16")
@pytest.mark.parametrize(
    "source", [FromSnapshot(row=SnapshotRow(ROWS - 1)), FromPage(page=PageId(1))]
)
def test_the_last_slot_takes_up_what_the_first_has_fed(hand: Hand, source: Restore) -> None:
    hand.admit(0)
    fed = work(0, tokens=PROMPT, pages={0: 0, 1: 1, 2: 2})
    first = hand.round(Operation.PREFILL, fed).lanes[0].tokens
    kept = Publication(row=SnapshotRow(ROWS - 1), tokens=len(PROMPT) - 1)
    hand.round(Operation.PUBLISH_SNAPSHOT, work(0, start=len(PROMPT), samples=False, snapshot=kept))
    expected = [*first, *answer(hand, 0, len(PROMPT))]
    taken = work(
        LANES - 1,
        start=kept.tokens,
        samples=False,
        pages={0: 0, 1: PAGES - 1, 2: PAGES - 2},
        admission=ADMITTED,
        restore=source,
    )
    assert hand.round(Operation.RESTORE, taken).lanes[0].consumed == kept.tokens
    resumed = work(LANES - 1, start=kept.tokens, samples=False, pending=PROMPT[-1])
    hand.round(Operation.RESUME, resumed)
    found = hand.round(Operation.DECODE, work(LANES - 1, start=kept.tokens, rows=1)).lanes[0].tokens
    assert [*found, *answer(hand, LANES - 1, len(PROMPT))] == expected
