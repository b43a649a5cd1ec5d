"""The tape: a recipe calls operations on it, and it keeps them as steps.

Nothing is computed.  An operand is a name with an element type and a shape whose leading
extent may be a count that is known only when the program runs; where it lies in memory is
the planner's business.

Always: every scratch operand is written by exactly one step, before any step reads it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from enum import IntEnum
from typing import Final

from prepared.contract import ElementType, Operation


class Extent(IntEnum):
    """A count known when a program runs or when a core is loaded."""

    TOKENS = 1  # packed rows of a submission
    LANES = 2  # live requests of a submission
    SAMPLES = 3  # rows that sample
    SLOTS = 4  # request slots, chosen at load
    PAGES = 5  # cache pages, chosen at load
    SNAPSHOTS = 6  # continuation rows, chosen at load


class Home(IntEnum):
    """Who keeps an operand."""

    WEIGHT = 1
    SCRATCH = 2
    STAGED = 3  # host values of one submission
    STATE = 4  # one row a slot
    PLANE = 5  # one unit a page
    COMPLETION = 6
    SNAPSHOT = 7  # one unit a continuation row


@dataclass(frozen=True, slots=True)
class Operand:
    """A named array: element type and shape, outermost first."""

    name: str
    home: Home
    element: ElementType
    shape: tuple[int | Extent, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One operation over operands; what it means is `record.meaning`'s."""

    operation: str
    reads: Mapping[str, Operand]
    writes: Mapping[str, Operand]
    attributes: Mapping[str, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Recording:
    """A program as recorded, with the capacities it was recorded for."""

    operation: Operation
    steps: tuple[Step, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rows:
    """What a submission's rows are (operation `lay_rows`)."""

    tokens: Operand
    positions: Operand
    lanes: Operand
    sample_rows: Operand
    sample_lanes: Operand


@dataclass(frozen=True, slots=True, kw_only=True)
class Planes:
    """Keys and values of every layer, [pages, layers, heads, page_tokens, width]."""

    keys: Operand
    values: Operand


@dataclass(slots=True)
class Tape:
    """Steps as they are called; `persistent` names what outlives a program."""

    persistent: Mapping[str, Operand]
    steps: list[Step] = field(default_factory=list)
    _scopes: list[str] = field(default_factory=list)
    _names: dict[str, int] = field(default_factory=dict)

    @contextmanager
    def scope(self, name: str) -> Iterator[None]:
        """Names made inside begin with `name`."""
        self._scopes.append(name)
        try:
            yield
        finally:
            self._scopes.pop()

    def recording(self, operation: Operation) -> Recording:
        """What was recorded so far, as a program."""
        return Recording(operation=operation, steps=tuple(self.steps))

    def weight(self, name: str, *shape: int) -> Operand:
        """A float weight by its own name; outputs first."""
        return Operand(name, Home.WEIGHT, ElementType.FLOAT32, shape)

    def scratch(self, name: str, element: ElementType, *shape: int | Extent) -> Operand:
        """A fresh scratch operand."""
        path = ".".join([*self._scopes, name])
        count = self._names.get(path, 0)
        self._names[path] = count + 1
        return Operand(f"{path}.{count}" if count else path, Home.SCRATCH, element, shape)

    def floats(self, name: str, *shape: int | Extent) -> Operand:
        """A fresh scratch array of float32."""
        return self.scratch(name, ElementType.FLOAT32, *shape)

    def step(
        self,
        operation: str,
        reads: Mapping[str, Operand],
        writes: Mapping[str, Operand],
        **attributes: float,
    ) -> None:
        """Keep one step."""
        self.steps.append(
            Step(operation=operation, reads=reads, writes=writes, attributes=attributes)
        )

    # ------------------------------------------------------------- rows

    def rows(self) -> Rows:
        """Operands of a submission's rows, not yet written."""
        return Rows(
            tokens=self.scratch("tokens", ElementType.INT32, Extent.TOKENS),
            positions=self.scratch("positions", ElementType.INT32, Extent.TOKENS),
            lanes=self.scratch("lanes", ElementType.UINT32, Extent.TOKENS),
            sample_rows=self.scratch("sample_rows", ElementType.UINT32, Extent.SAMPLES),
            sample_lanes=self.scratch("sample_lanes", ElementType.UINT32, Extent.SAMPLES),
        )

    def lay_pending_rows(self) -> Rows:
        """One row a lane: its slot's pending token."""
        rows = self.rows()
        self.step("lay_pending_rows", self._held("slots", "pending", "consumed"), rows_of(rows))
        return rows

    def lay_prompt_rows(self) -> Rows:
        """Packed prompt rows of every lane."""
        rows = self.rows()
        self.step("lay_prompt_rows", self._prompts(), rows_of(rows))
        return rows

    def lay_mixed_rows(self) -> Rows:
        """Packed prompt rows of one lane, the pending token of every other."""
        rows = self.rows()
        reads = self._held("query_lengths", "sampling", "prompt_tokens", "prompt_positions")
        reads |= self._held("mixed_row", "slots", "pending", "consumed")
        self.step("lay_mixed_rows", reads, rows_of(rows))
        return rows

    def lay_scored_rows(self) -> tuple[Rows, Rows]:
        """Packed prompt rows; and the same for a recipe that is to give the logits of them all."""
        rows = self.rows()
        every = self.scratch("every_row", ElementType.UINT32, Extent.TOKENS)
        self.step("lay_prompt_rows", self._prompts(), {**rows_of(rows), "every_row": every})
        return rows, replace(rows, sample_rows=every)

    def _prompts(self) -> dict[str, Operand]:
        return self._held("query_lengths", "sampling", "prompt_tokens", "prompt_positions")

    def _held(self, *names: str) -> dict[str, Operand]:
        return {name: self.persistent[name] for name in names}

    # -------------------------------------------------------- the model

    def embed(self, tokens: Operand, table: Operand) -> Operand:
        """Rows of the table."""
        out = self.floats("embedding", tokens.shape[0], table.shape[1])
        self.step("embed", {"tokens": tokens, "table": table}, {"out": out})
        return out

    def pick(self, x: Operand, rows: Operand) -> Operand:
        """The named rows of `x`."""
        out = self.floats("picked", rows.shape[0], *x.shape[1:])
        self.step("pick", {"x": x, "rows": rows}, {"out": out})
        return out

    def rms_norm(self, x: Operand, weight: Operand, *, epsilon: float) -> Operand:
        """Normalised rows."""
        out = self.floats("norm", *x.shape)
        self.step("rms_norm", {"x": x, "weight": weight}, {"out": out}, epsilon=epsilon)
        return out

    def linear(self, x: Operand, weight: Operand) -> Operand:
        """`x` times the transposed weight."""
        out = self.floats("linear", x.shape[0], weight.shape[0])
        self.step("linear", {"x": x, "weight": weight}, {"out": out})
        return out

    def add(self, x: Operand, y: Operand) -> Operand:
        """The sum."""
        out = self.floats("sum", *x.shape)
        self.step("add", {"x": x, "y": y}, {"out": out})
        return out

    def silu_gate(self, gate: Operand, up: Operand) -> Operand:
        """SiLU of the gate times the other."""
        out = self.floats("gated", *gate.shape)
        self.step("silu_gate", {"gate": gate, "up": up}, {"out": out})
        return out

    def rotate(self, x: Operand, rows: Rows, turns: Operand, *, width: int) -> Operand:
        """Heads of `width` columns turned by each row's position."""
        out = self.floats("rotated", *x.shape)
        reads = {"x": x, "positions": rows.positions, "turns": turns}
        self.step("rotate", reads, {"out": out}, width=width)
        return out

    def store(
        self, planes: Planes, rows: Rows, key: Operand, value: Operand, *, layer: int
    ) -> None:
        """Keep keys and values of a layer in the rows' pages."""
        self.step(
            "store",
            {
                "key": key,
                "value": value,
                "positions": rows.positions,
                "lanes": rows.lanes,
                **self._held("slots", "page_table"),
            },
            {"keys": planes.keys, "values": planes.values},
            layer=layer,
        )

    def attend(
        self, planes: Planes, rows: Rows, query: Operand, *, layer: int, scale: float
    ) -> Operand:
        """Each row's attention over its request's history."""
        out = self.floats("attended", *query.shape)
        self.step(
            "attend",
            {
                "query": query,
                "keys": planes.keys,
                "values": planes.values,
                "positions": rows.positions,
                "lanes": rows.lanes,
                **self._held("slots", "page_table"),
            },
            {"out": out},
            layer=layer,
            scale=scale,
        )
        return out

    # -------------------------------------------------- slots and lanes

    def sample(self, logits: Operand, rows: Rows) -> Operand:
        """The next token of every sampling lane; others get -1."""
        sampled = self.scratch("sampled", ElementType.INT32, Extent.LANES)
        self.step(
            "sample",
            {
                "logits": logits,
                "sample_rows": rows.sample_rows,
                "sample_lanes": rows.sample_lanes,
                "positions": rows.positions,
                **self._held(
                    "slots", "histograms", "slot_rows", "bias_ids", "bias_values", "masks"
                ),
            },
            {"sampled": sampled, **self._held("logprob", "top_ids", "top_logprobs")},
        )
        return sampled

    def score(self, logits: Operand, rows: Rows) -> None:
        """Log-probabilities of every row's target, before anything changes the logits."""
        self.step(
            "score",
            {
                "logits": logits,
                "lanes": rows.lanes,
                **self._held("scored_targets", "slots", "slot_rows"),
            },
            self._held("token_logprob", "token_top_ids", "token_top_logprobs"),
        )

    def commit(self, sampled: Operand | None, rows: Rows | None) -> None:
        """Move endpoints, take sampled tokens, write the completion record.

        Without `sampled` no lane moves or emits (admission); with it lanes move by their query
        lengths when the program takes prompts, and by one otherwise.
        """
        reads = self._held("live_rows", "slots", "sequence", "frame", "program")
        if self.steps[0].operation in TAKES_PROMPTS:
            reads |= self._held("query_lengths")
        if sampled is not None and rows is not None:
            reads |= {"sampled": sampled, "sample_lanes": rows.sample_lanes}
        names = [name for name in self.persistent if name.startswith(("record_", "lane_"))]
        writes = self._held("slot_rows", "histograms", *names)
        self.step("commit", reads, writes)

    def initialize(self, admitted: tuple[str, ...]) -> None:
        """Slots take over the admitted values."""
        self.step(
            "initialize", self._held("live_rows", "slots", *admitted), self._held("slot_rows")
        )

    def restore(self, planes: Planes) -> None:
        """Partial pages are copied to the slots' own pages."""
        reads = self._held("slots", "consumed_endpoints", "restore_rows", "restore_pages")
        reads |= self._held("page_table", "saved_keys", "saved_values")
        self.step("restore", reads, {"keys": planes.keys, "values": planes.values})

    def publish(self, planes: Planes) -> None:
        """The slots' partial pages are kept in continuation rows."""
        reads = self._held("slots", "consumed_endpoints", "snapshot_rows", "page_table")
        reads |= {"keys": planes.keys, "values": planes.values}
        self.step("publish", reads, self._held("saved_keys", "saved_values"))

    def resume(self) -> None:
        """Slots take their pending tokens from the host."""
        self.step("resume", self._held("slots", "pending_tokens"), self._held("pending"))


TAKES_PROMPTS: Final = frozenset({"lay_prompt_rows", "lay_mixed_rows"})
"""Layouts in which a lane has as many rows as its query length."""


def rows_of(rows: Rows) -> dict[str, Operand]:
    """The operands of rows by name."""
    return {
        "tokens": rows.tokens,
        "positions": rows.positions,
        "lanes": rows.lanes,
        "sample_rows": rows.sample_rows,
        "sample_lanes": rows.sample_lanes,
    }
