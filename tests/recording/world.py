"""A recorded model in numpy: memory for its persistent operands, and rounds over it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from ignition.plan.reference import reference_extents
from ignition.preparation.programs import Recipe, record_programs
from ignition.preparation.rotary import turns_of
from ignition.preparation.storage import SLOT_FIELDS, SLOT_NBYTES, Storage, text_storage
from ignition.record.interpret import interpret
from ignition.record.meaning import DTYPES, SLOT_DTYPE
from ignition.record.tape import Extent
from prepared.contract import Operation

Array = npt.NDArray[Any]


@dataclass
class World:
    """One recipe, interpreted."""

    recipe: Recipe
    slots: int = 4
    prefill_tokens: int = 64
    storage: Storage = field(init=False)
    memory: dict[str, Array] = field(init=False)

    def __post_init__(self) -> None:
        extents = reference_extents(
            self.recipe, lanes=self.slots, prefill_tokens=self.prefill_tokens
        )
        self.storage = text_storage(extents)
        self.recordings = record_programs(self.recipe, self.storage)
        pages = self.slots * extents.row_pages
        rows = {
            Extent.LANES: self.slots,
            Extent.TOKENS: extents.packed_tokens,
            Extent.SLOTS: self.slots,
            Extent.PAGES: pages,
            Extent.SNAPSHOTS: self.slots,
        }
        self.memory = {
            name: np.zeros(
                [rows[size] if isinstance(size, Extent) else size for size in operand.shape],
                DTYPES[operand.element],
            )
            for name, operand in self.storage.operands.items()
        }
        slot_rows = np.zeros((self.slots, SLOT_NBYTES), np.uint8)
        records = slot_rows.view(SLOT_DTYPE).reshape(-1)
        self.memory["slot_rows"] = slot_rows
        self.memory |= {name: records[name] for name in SLOT_FIELDS}
        self.memory["masks"][:] = 0xFFFFFFFF
        self.memory["bias_ids"][:] = -1
        self.memory["page_table"][:] = np.arange(pages).reshape(self.slots, -1)
        weights = self.recipe.weights
        for group in (weights.matrices, weights.vectors):
            for name, source in group.items():
                self.memory[name] = source.floats(weights.rotary)
        self.memory["turns"] = turns_of(weights.rotary, positions=extents.context_tokens)

    def admit(self, *slots: int, limit: int = 1000, logprobs: int = -1) -> None:
        """Start requests in these slots, greedy."""
        lanes = len(slots)
        self.stage(
            slots,
            output_limits=[limit] * lanes,
            top_ps=[1.0] * lanes,
            repetitions=[1.0] * lanes,
            consumed_endpoints=[0] * lanes,
        )
        self.memory["eos_ids"][:] = -1
        self.memory["logprob_counts"][:lanes] = logprobs
        interpret(self.recordings[Operation.INITIALIZE], self.memory, lanes=lanes, rows=lanes)

    def stage(self, slots: tuple[int, ...], **values: list[float]) -> None:
        """Host values of a round."""
        self.memory["live_rows"][0] = len(slots)
        self.memory["slots"][: len(slots)] = slots
        for name, rows in values.items():
            self.memory[name][: len(rows)] = rows

    def prefill(
        self,
        chunks: dict[int, list[int]],
        *,
        sample: bool = True,
        targets: dict[int, list[int]] | None = None,
    ) -> Array:
        """Feed tokens to slots; returns the logits of the lanes that sample.

        With targets every row is scored, and the logits are those of every row.
        """
        slots = tuple(chunks)
        starts = {slot: int(self.memory["consumed"][slot]) for slot in slots}
        self.stage(
            slots,
            query_lengths=[len(chunk) for chunk in chunks.values()],
            sampling=[int(sample)] * len(slots),
            prompt_tokens=[token for chunk in chunks.values() for token in chunk],
            prompt_positions=[
                starts[slot] + place for slot in slots for place in range(len(chunks[slot]))
            ],
        )
        rows = sum(map(len, chunks.values()))
        if targets is None:
            return self.logits(Operation.PREFILL, lanes=len(slots), rows=rows)
        self.memory["scored_targets"][:rows] = [token for slot in slots for token in targets[slot]]
        return self.logits(Operation.SCORED_PREFILL, lanes=len(slots), rows=rows)

    def decode(self, *slots: int) -> Array:
        """One token of each slot; returns their logits."""
        self.stage(slots)
        return self.logits(Operation.DECODE, lanes=len(slots), rows=len(slots))

    def logits(self, operation: Operation, *, lanes: int, rows: int) -> Array:
        """Run a program and look at what it sampled from."""
        recording = self.recordings[operation]
        scratch = interpret(recording, self.memory, lanes=lanes, rows=rows)
        sampling = next(step for step in recording.steps if step.operation == "sample")
        live = rows if operation is Operation.SCORED_PREFILL else lanes
        return scratch[sampling.reads["logits"].name][:live].copy()
