"""Restored histories, host-fed tokens and mixed rounds, in the interpreter."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from ignition.recipes.llama import llama
from ignition.record.interpret import interpret
from ignition.weights.checkpoint import open_checkpoint
from prepared.contract import Operation
from tests.recording.test_llama import ROTARY, TOKENS, save_tiny
from tests.recording.world import Array, World

NEAR = {"rtol": 2e-4, "atol": 2e-5}
ROW = 2


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder: Path = tmp_path_factory.mktemp("tiny")
    save_tiny(folder, rope_parameters=ROTARY["plain"])
    return folder


@pytest.fixture
def world(recorded: Path) -> World:
    return World(llama(open_checkpoint(recorded), context_tokens=None))


def run(world: World, operation: Operation, slot: int, **values: list[float]) -> None:
    """A program over one slot."""
    world.stage((slot,), **values)
    interpret(world.recordings[operation], world.memory, lanes=1, rows=1)


@pytest.mark.clause("AH-15", "AH-16")
@pytest.mark.parametrize("source", ["row", "page"])
def test_a_restored_history_is_the_prompt_s_at_every_offset(world: World, source: str) -> None:
    world.admit(0)
    world.prefill({0: TOKENS[:33]})
    size = world.memory["keys"].shape[3]
    table = world.memory["page_table"]
    for endpoint in range(1, 2 * size + 1):
        world.admit(1)
        straight = world.prefill({1: TOKENS[: endpoint + 1]})[0]
        index = endpoint // size
        run(
            world,
            Operation.PUBLISH_SNAPSHOT,
            0,
            consumed_endpoints=[endpoint],
            snapshot_rows=[ROW],
        )
        table[3, :index] = table[0, :index]  # complete pages are shared, the next is private
        run(
            world,
            Operation.RESTORE,
            3,
            output_limits=[1000],
            top_ps=[1.0],
            repetitions=[1.0],
            consumed_endpoints=[endpoint],
            restore_rows=[ROW if source == "row" else -1],
            restore_pages=[-1 if source == "row" else int(table[0, index])],
        )
        assert world.memory["consumed"][3] == world.memory["lane_consumed"][0] == endpoint
        found = world.prefill({3: TOKENS[endpoint : endpoint + 1]})[0]
        np.testing.assert_allclose(found, straight, **NEAR)
        for name in ("keys", "values"):
            world.memory[name][table[3, index:]] = np.nan


@pytest.mark.clause("HV-32")
def test_a_pending_token_comes_from_the_host(world: World) -> None:
    world.admit(0, 1)
    straight = world.prefill({0: TOKENS[:9]})[0]
    world.prefill({1: TOKENS[:8]}, sample=False)
    run(world, Operation.RESUME, 1, pending_tokens=[TOKENS[8]])
    assert world.memory["lane_consumed"][0] == 8
    assert world.memory["lane_emitted"][0] == 0
    np.testing.assert_allclose(world.decode(1)[0], straight, **NEAR)


def mixed(world: World, chunk: list[int], slots: tuple[int, ...], row: int) -> Array:
    """A chunk for the slot of one row beside a token of every other slot; their logits."""
    lengths = [1] * len(slots)
    lengths[row] = len(chunk)
    tokens = [-1] * row + chunk + [-1] * (len(slots) - row - 1)
    start = int(world.memory["consumed"][slots[row]])
    positions = [0] * row + list(range(start, start + len(chunk))) + [0] * (len(slots) - row - 1)
    world.stage(
        slots,
        mixed_row=[row],
        query_lengths=lengths,
        sampling=[1] * len(slots),
        prompt_tokens=tokens,
        prompt_positions=positions,
    )
    return world.logits(Operation.MIXED, lanes=len(slots), rows=len(tokens))


@pytest.mark.clause("HV-14")
@pytest.mark.parametrize("row", [0, 1, 2])
def test_a_mixed_round_is_a_prefill_and_a_decode(world: World, row: int) -> None:
    world.admit(0, 1, 2, 3)
    world.prefill({1: TOKENS[:7], 3: TOKENS[5:20]})
    saved = {name: array.copy() for name, array in world.memory.items()}
    apart = np.concatenate([world.decode(1, 3), world.prefill({0: TOKENS[:11]})])
    for name, array in saved.items():
        world.memory[name][...] = array
    slots = [1, 3]
    slots.insert(row, 0)
    together = mixed(world, TOKENS[:11], tuple(slots), row)
    expected = np.insert(apart[:2], row, apart[2], axis=0)
    np.testing.assert_allclose(together, expected, **NEAR)
    assert [int(world.memory["consumed"][slot]) for slot in (0, 1, 3)] == [11, 8, 16]
