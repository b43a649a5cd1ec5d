"""Rotation, pages and attention: against their meanings, and alone against together."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pytest

from ignition.ops.attend import ATTEND, MOST_QUERIES, TOLERANCE, attend
from ignition.ops.history import ROTATE_AND_STORE, rotate, store
from ignition.preparation.rotary import Rotary, Unscaled, turns_of
from tests.ops.kernels import SHARES, Activations, Array, Kernels, aligned, count

PAGE_TOKENS = 64
LAYERS = 2


@dataclass
class World:
    """Requests with pages of their own, their histories in kernel form and in numpy form."""

    kernels: Kernels
    heads: int
    key_heads: int
    width: int
    requests: int = 3
    row_pages: int = 4
    seed: int = 1
    keys: Array = field(init=False)
    values: Array = field(init=False)

    def __post_init__(self) -> None:
        self.rng = np.random.default_rng(self.seed)
        pages = self.requests * self.row_pages
        self.page_nbytes = LAYERS * self.key_heads * PAGE_TOKENS * self.width * 2
        # Whatever other requests left behind: not a number, so that touching it shows.
        self.keys, self.values = (aligned(pages * self.page_nbytes) for _ in range(2))
        self.keys[:] = self.values[:] = 0xFF
        shape = (pages, self.key_heads, PAGE_TOKENS, self.width)
        self.plain = {name: np.zeros(shape, np.float32) for name in ("keys", "values")}
        table = self.rng.permutation(pages).astype(np.uint32)
        self.table = np.ascontiguousarray(table.reshape(self.requests, self.row_pages))
        self.turns = turns_of(
            Rotary(width=self.width, turned=self.width, theta=1e4, scaling=Unscaled()),
            positions=self.row_pages * PAGE_TOKENS,
        )

    @property
    def columns(self) -> int:
        return (self.heads + 2 * self.key_heads) * self.width

    def history(self, slots: Array, lanes: Array, positions: Array) -> dict[str, Array | int]:
        return {
            "slots": slots,
            "lanes": lanes,
            "positions": positions,
            "rows": count(len(lanes)),
            "pages": self.table,
            "keys": self.keys,
            "values": self.values,
            "page_stride": self.page_nbytes,
            "layer_offset": self.page_nbytes // LAYERS,
            "row_pages": self.row_pages,
            "page_tokens": PAGE_TOKENS,
            "query_heads": self.heads,
            "key_heads": self.key_heads,
            "width": self.width,
        }

    def feed(self, slots: Array, lanes: Array, positions: Array, x: Array) -> Array:
        """Rotate and store rows, in both forms; returns the rotated queries."""
        rows = len(lanes)
        queries = np.zeros((rows, self.heads, self.width), np.float32)
        self.kernels.run(
            ROTATE_AND_STORE,
            SHARES,
            x=x,
            turns=self.turns,
            queries=queries,
            stride=self.columns,
            **self.history(slots, lanes, positions),
        )
        heads = x.reshape(rows, -1, self.width)
        pages = self.table[slots[lanes]]
        key = rotate(heads[:, self.heads : -self.key_heads], positions, self.turns)
        store(self.plain["keys"], bfloat(key), pages=pages, positions=positions)
        store(
            self.plain["values"],
            bfloat(heads[:, -self.key_heads :]),
            pages=pages,
            positions=positions,
        )
        expected = rotate(heads[:, : self.heads], positions, self.turns)
        assert np.allclose(queries, expected, atol=1e-6)
        return queries

    def attend(
        self, slots: Array, lanes: Array, positions: Array, queries: Array, *, tile: int = 1
    ) -> Array:
        """Attention by the kernel."""
        out = np.zeros((len(lanes), self.heads * self.width), np.float32)
        self.kernels.run(
            ATTEND,
            SHARES,
            queries=queries,
            out=out,
            q=None,
            activation_scale=None,
            sum=None,
            bias=None,
            out_stride=self.heads * self.width,
            score_stride=self.row_pages * PAGE_TOKENS + 16,
            tile=tile,
            scale=self.width**-0.5,
            **self.history(slots, lanes, positions),
        )
        return out

    def rows(self, number: int) -> Array:
        """Rows of queries, keys and values."""
        return self.rng.normal(0, 1, (number, self.columns)).astype(np.float32)


def bfloat(x: Array) -> Array:
    """Rounded to bfloat16, to nearest, ties to even."""
    bits = x.astype(np.float32).view(np.uint32)
    rounded = (bits + 0x7FFF + ((bits >> 16) & 1)) & 0xFFFF0000
    return rounded.astype(np.uint32).view(np.float32)


SHAPES = [(9, 3, 64), (4, 4, 32), (8, 1, 64), (4, 2, 128), (16, 1, 96)]


def one_request(length: int) -> tuple[Array, Array, Array]:
    """Slots, lanes and positions of one request's rows in slot 1."""
    return (
        np.array([1], np.uint32),
        np.zeros(length, np.uint32),
        np.arange(length, dtype=np.int32),
    )


@pytest.mark.parametrize(("heads", "key_heads", "width"), SHAPES)
@pytest.mark.parametrize("length", [1, 2, 15, 16, 17, 64, 65, 130])
def test_attention_is_its_meaning_at_every_length(
    kernels: Kernels, heads: int, key_heads: int, width: int, length: int
) -> None:
    world = World(kernels, heads, key_heads, width)
    slots, lanes, positions = one_request(length)
    queries = world.feed(slots, lanes, positions, world.rows(length))
    found = world.attend(slots, lanes, positions, queries)
    expected = attend(
        queries,
        world.plain["keys"],
        world.plain["values"],
        pages=world.table[slots[lanes]],
        positions=positions,
        scale=width**-0.5,
    )
    assert TOLERANCE.holds(found, expected.reshape(found.shape))


@pytest.mark.parametrize("tile", [1, 2, 3, 4, 5])
def test_tiles_change_nothing(kernels: Kernels, tile: int) -> None:
    world = World(kernels, 9, 3, 64)
    slots, lanes, positions = one_request(37)
    queries = world.feed(slots, lanes, positions, world.rows(37))
    alone = world.attend(slots, lanes, positions, queries, tile=1)
    assert tile * 3 <= MOST_QUERIES
    assert np.array_equal(world.attend(slots, lanes, positions, queries, tile=tile), alone)


def test_neighbours_and_chunks_change_nothing(kernels: Kernels) -> None:
    world = World(kernels, 9, 3, 64)
    lengths = (33, 7, 70)
    slots = np.array([2, 0, 1], np.uint32)
    lanes = np.repeat(np.arange(3, dtype=np.uint32), lengths)
    positions = np.concatenate([np.arange(n, dtype=np.int32) for n in lengths])
    x = world.rows(sum(lengths))
    queries = world.feed(slots, lanes, positions, x)
    together = world.attend(slots, lanes, positions, queries, tile=4)
    fresh = World(kernels, 9, 3, 64)
    for lane in range(3):
        rows = np.flatnonzero(lanes == lane)
        for chunk in np.split(rows, [5, 6, 20]):
            if not len(chunk):
                continue
            arguments = (slots[lane : lane + 1], np.zeros(len(chunk), np.uint32), positions[chunk])
            part = fresh.feed(*arguments, np.ascontiguousarray(x[chunk]))
            assert np.array_equal(fresh.attend(*arguments, part, tile=4), together[chunk])


def test_attention_for_packed_products_is_quantised(kernels: Kernels) -> None:
    world = World(kernels, 4, 2, 64)
    slots, lanes, positions = one_request(20)
    queries = world.feed(slots, lanes, positions, world.rows(20))
    plain = world.attend(slots, lanes, positions, queries)
    kept = Activations(20, 256)
    parts = kept.coarse()
    kernels.run(
        ATTEND,
        SHARES,
        queries=queries,
        out=None,
        q=parts["q"],
        activation_scale=parts["scale"],
        sum=parts["sum"],
        bias=parts["bias"],
        out_stride=0,
        score_stride=world.row_pages * 64 + 16,
        tile=1,
        scale=64**-0.5,
        **world.history(slots, lanes, positions),
    )
    step = np.abs(plain).reshape(20, -1, 32).max(-1, keepdims=True) / 254
    error = np.abs(kept.floats() - plain).reshape(20, -1, 32)
    assert (error <= step * 1.01).all()
