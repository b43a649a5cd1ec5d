"""Rows, partial pages and pending tokens: kernels against their meanings."""

from __future__ import annotations

import numpy as np
import pytest

from ignition.ops.lay_rows import LAY_ROWS, lay_mixed_rows, lay_prompt_rows
from ignition.ops.resume import RESUME
from ignition.ops.snapshot import PUBLISH, RESTORE, publish, restore
from ignition.preparation.storage import SLOT_NBYTES
from ignition.record.meaning import SLOT_DTYPE
from tests.ops.kernels import SHARES, Array, Kernels, aligned, count

PAGES, ROWS, LAYERS, HEADS, PAGE_TOKENS, WIDTH, ROW_PAGES = 7, 3, 2, 3, 64, 32, 2
SHAPE = (LAYERS, HEADS, PAGE_TOKENS, WIDTH)
PAGE_NBYTES = 2 * LAYERS * HEADS * PAGE_TOKENS * WIDTH
TILE = 16


class Partial:
    """Pages and continuation rows full of chance, in kernel form."""

    def __init__(self) -> None:
        rng = np.random.default_rng(7)
        self.keys, self.values = (aligned(PAGES * PAGE_NBYTES) for _ in range(2))
        self.rows = aligned(ROWS * 2 * PAGE_NBYTES)
        for memory in (self.keys, self.values, self.rows):
            memory[:] = rng.integers(0, 256, len(memory), np.uint8)
        self.tables = rng.permutation(PAGES)[: 3 * ROW_PAGES].astype(np.uint32)
        self.tables = np.ascontiguousarray(self.tables.reshape(3, ROW_PAGES))

    def strips(self, slots: Array, endpoints: Array, rows: Array) -> dict[str, Array | int]:
        """What both kernels take."""
        return {
            "live_rows": count(len(slots)),
            "slots": slots,
            "endpoints": endpoints,
            "rows": rows,
            "tables": self.tables,
            "keys": self.keys,
            "values": self.values,
            "continuations": self.rows,
            "page_stride": PAGE_NBYTES,
            "strip_nbytes": PAGE_NBYTES // (LAYERS * HEADS),
            "strips": LAYERS * HEADS,
            "row_pages": ROW_PAGES,
            "page_tokens": PAGE_TOKENS,
        }

    def plain(self) -> dict[str, Array]:
        """Keys and values, and what is saved of them, by position: [..., page_tokens, width]."""
        saved = self.rows.reshape(ROWS, 2, PAGE_NBYTES)
        return {
            "keys": keys_of(self.keys),
            "values": values_of(self.values),
            "saved_keys": keys_of(np.ascontiguousarray(saved[:, 0])),
            "saved_values": values_of(np.ascontiguousarray(saved[:, 1])),
        }


def keys_of(memory: Array) -> Array:
    """Keys by position, from tiles of pairs of columns (ops/history/cpu.c)."""
    tiles = memory.view(np.uint16).reshape(
        -1, LAYERS, HEADS, PAGE_TOKENS // TILE, WIDTH // 2, TILE, 2
    )
    return tiles.transpose(0, 1, 2, 3, 5, 4, 6).reshape(-1, *SHAPE).copy()


def values_of(memory: Array) -> Array:
    """Values by position, from pairs of positions."""
    pairs = memory.view(np.uint16).reshape(-1, LAYERS, HEADS, PAGE_TOKENS // 2, WIDTH, 2)
    return pairs.transpose(0, 1, 2, 3, 5, 4).reshape(-1, *SHAPE).copy()


def check_leading(found: Array, expected: Array, before: Array, written: dict[int, int]) -> None:
    """Pages hold what is expected before their endpoints; past those tiles nothing changed."""
    for page in range(len(found)):
        records = written.get(page, 0)
        past = -(-records // TILE) * TILE
        assert np.array_equal(found[page, :, :, :records], expected[page, :, :, :records])
        assert np.array_equal(found[page, :, :, past:], before[page, :, :, past:])


ENDPOINTS = [(5, 64 + 31, 64), (1, 64 + 16, 17), (63, 64 + 48, 0), (2, 64 + 1, 64 + 63)]
SLOTS = np.array([2, 0, 1], np.uint32)


@pytest.mark.clause("AH-16")
@pytest.mark.parametrize("endpoints", ENDPOINTS)
def test_a_partial_page_comes_back_to_a_private_page(
    kernels: Kernels, endpoints: tuple[int, ...]
) -> None:
    world, ends = Partial(), np.array(endpoints, np.uint32)
    (free,) = set(range(PAGES)) - set(world.tables.ravel().tolist())
    rows, pages = np.array([1, -1, -1], np.int32), np.array([-1, free, -1], np.int32)
    before, expected = world.plain(), world.plain()
    for name in ("keys", "values"):
        restore(
            expected[name],
            expected[f"saved_{name}"],
            tables=world.tables[SLOTS],
            endpoints=ends,
            rows=rows,
            pages=pages,
        )
    kernels.run(RESTORE, SHARES, pages=pages, **world.strips(SLOTS, ends, rows))
    written = {
        int(world.tables[SLOTS[lane], endpoints[lane] // PAGE_TOKENS]): endpoints[lane]
        % PAGE_TOKENS
        for lane in (0, 1)  # the third lane has no source
    }
    for name, found in world.plain().items():
        check_leading(found, expected[name], before[name], {} if "saved" in name else written)


@pytest.mark.clause("AH-15")
@pytest.mark.parametrize("endpoints", ENDPOINTS)
def test_a_partial_page_goes_to_its_continuation_row(
    kernels: Kernels, endpoints: tuple[int, ...]
) -> None:
    world, ends = Partial(), np.array(endpoints, np.uint32)
    rows = np.array([1, 2, 0], np.int32)
    before, expected = world.plain(), world.plain()
    for name in ("keys", "values"):
        publish(
            expected[name],
            expected[f"saved_{name}"],
            tables=world.tables[SLOTS],
            endpoints=ends,
            rows=rows,
        )
    kernels.run(PUBLISH, SHARES, **world.strips(SLOTS, ends, rows))
    written = {int(row): end % PAGE_TOKENS for row, end in zip(rows, endpoints, strict=True)}
    for name, found in world.plain().items():
        check_leading(found, expected[name], before[name], written if "saved" in name else {})


@pytest.mark.clause("HV-32")
def test_pending_tokens_come_from_the_host(kernels: Kernels) -> None:
    states = np.zeros((4, SLOT_NBYTES), np.uint8)
    pending = states.view(SLOT_DTYPE).reshape(-1)["pending"]
    before = states.copy()
    kernels.run(
        RESUME,
        1,
        live_rows=count(2),
        slots=np.array([3, 1], np.uint32),
        pending_tokens=np.array([70, 71], np.int32),
        pending=states[0, 4:],
        slot_stride=SLOT_NBYTES,
    )
    assert pending.tolist() == [0, 71, 0, 70]
    pending[:] = 0
    assert np.array_equal(states, before)


@pytest.mark.clause("HV-14")
@pytest.mark.parametrize("prefill_row", [0, 1, 3])
@pytest.mark.parametrize("samples", [0, 1])
def test_mixed_rows_are_their_meaning(kernels: Kernels, prefill_row: int, samples: int) -> None:
    lengths, sampling = np.ones((2, 4), np.uint32)
    lengths[prefill_row], sampling[prefill_row] = 5, samples
    slots = np.array([3, 0, 2, 1], np.uint32)
    states = np.zeros((4, SLOT_NBYTES), np.uint8)
    records = states.view(SLOT_DTYPE).reshape(-1)
    records["pending"], records["consumed"] = (90, 91, 92, 93), (10, 11, 12, 13)
    tokens = np.full(8, -1, np.int32)
    tokens[prefill_row : prefill_row + 5] = range(50, 55)
    positions = np.arange(20, 28, dtype=np.int32)
    expected = lay_mixed_rows(
        lay_prompt_rows(lengths, sampling, tokens, positions),
        prefill_row=prefill_row,
        slots=slots,
        pending=records["pending"],
        consumed=records["consumed"],
    )
    counts = np.zeros(16, np.uint32)
    found = {
        name: np.zeros(8, np.int32 if name in ("tokens", "positions") else np.uint32)
        for name in expected
    }
    kernels.run(
        LAY_ROWS,
        1,
        live_rows=count(4),
        slots=slots,
        query_lengths=lengths,
        sampling=sampling,
        prompt_tokens=tokens,
        prompt_positions=positions,
        prefill_row=count(prefill_row),
        every_row=None,
        pending=states[0, 4:],
        consumed=states[0, 8:],
        counts=counts,
        slot_stride=SLOT_NBYTES,
        **found,
    )
    assert counts[:3].tolist() == [8, 4, 3 + samples]
    for name, rows in expected.items():
        assert np.array_equal(found[name][: len(rows)], rows), name
    decoding = [row for row in range(8) if expected["lanes"][row] != prefill_row]
    assert {int(expected["tokens"][row]) for row in decoding} == {
        90 + int(slot) for lane, slot in enumerate(slots) if lane != prefill_row
    }
