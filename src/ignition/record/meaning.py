"""What each recorded step means, in numpy, over whole arrays cut to what is live.

The interpreter and the reference device both run this; kernels are judged against the same
functions in `ops`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from ignition.ops.attend import attend
from ignition.ops.embed import embed
from ignition.ops.history import rotate, store
from ignition.ops.lay_rows import lay_mixed_rows, lay_pending_rows, lay_prompt_rows
from ignition.ops.linear import linear, silu_gate
from ignition.ops.rms_norm import rms_norm
from ignition.ops.sample import NOTHING_ALLOWED, UNDEFINED, Sampling, adjusted, sample
from ignition.ops.score import log_probabilities, top_row
from ignition.ops.snapshot import publish, restore
from ignition.preparation.storage import ADMITTED_FIELDS, SLOT_FIELDS, SLOT_NBYTES
from ignition.record.tape import Extent
from prepared.contract import ElementType
from prepared.manifest import FinishBits

Array = npt.NDArray[Any]

DTYPES: Final[Mapping[ElementType, npt.DTypeLike]] = {
    ElementType.UINT8: np.uint8,
    ElementType.UINT16: np.uint16,
    ElementType.INT32: np.int32,
    ElementType.UINT32: np.uint32,
    ElementType.INT64: np.int64,
    ElementType.UINT64: np.uint64,
    ElementType.FLOAT16: np.float16,
    ElementType.FLOAT32: np.float32,
}
"""Element types that numpy has; bfloat16 is not one of them."""

NO_TOKEN: Final = -1

CHOSEN_AT_LOAD: Final = frozenset({Extent.SLOTS, Extent.PAGES, Extent.SNAPSHOTS})
"""Counts that no submission changes: operands over them are never cut."""


@dataclass(frozen=True, slots=True)
class Whole:
    """An array at its full capacity, and what counts its rows."""

    array: Array
    rows: Extent | None


@dataclass(slots=True)
class Performance:
    """One step being performed: its operands, its attributes, and the live counts so far."""

    reads: Mapping[str, Whole]
    writes: Mapping[str, Whole]
    attributes: Mapping[str, float]
    live: dict[Extent, int] = field(default_factory=dict)

    def read(self, name: str) -> Array:
        """The live rows of an operand that is read."""
        return self.cut(self.reads[name])

    def write(self, name: str, value: Array) -> None:
        """Set the live rows of an operand that is written."""
        self.cut(self.writes[name])[...] = value

    def cut(self, whole: Whole) -> Array:
        """The live rows of an array."""
        if whole.rows is None or whole.rows in CHOSEN_AT_LOAD:
            return whole.array
        return whole.array[: self.live[whole.rows]]


SLOT_DTYPE: Final = np.dtype(
    {
        "names": list(SLOT_FIELDS),
        "formats": [
            (DTYPES[element], (count,)) if count > 1 else DTYPES[element]
            for _, element, count in SLOT_FIELDS.values()
        ],
        "offsets": [offset for offset, _, _ in SLOT_FIELDS.values()],
        "itemsize": SLOT_NBYTES,
    }
)


def slots_in(rows: Array) -> Array:
    """Slot rows [slots, bytes] as records."""
    return rows.view(SLOT_DTYPE).reshape(-1)


def lay(step: Performance, laid: Mapping[str, Array]) -> None:
    """Write row tables and learn the counts."""
    step.live[Extent.TOKENS] = len(laid["tokens"])
    step.live[Extent.SAMPLES] = len(laid["sample_rows"])
    for name, value in laid.items():
        step.write(name, value)


def perform_pending_rows(step: Performance) -> None:
    """Operation lay_pending_rows."""
    laid = lay_pending_rows(step.read("slots"), step.read("pending"), step.read("consumed"))
    lay(step, laid)


def perform_prompt_rows(step: Performance) -> None:
    """Operation lay_prompt_rows."""
    laid = prompt_rows(step)
    lay(step, laid)
    if "every_row" in step.writes:
        step.write("every_row", np.arange(len(laid["tokens"]), dtype=np.uint32))


def prompt_rows(step: Performance) -> dict[str, Array]:
    """Row tables of packed prompts."""
    return lay_prompt_rows(
        step.read("query_lengths"),
        step.read("sampling"),
        step.reads["prompt_tokens"].array,
        step.reads["prompt_positions"].array,
    )


def perform_mixed_rows(step: Performance) -> None:
    """Operation lay_mixed_rows."""
    laid = lay_mixed_rows(
        prompt_rows(step),
        prefill_row=int(step.reads["mixed_row"].array[0]),
        slots=step.read("slots"),
        pending=step.read("pending"),
        consumed=step.read("consumed"),
    )
    lay(step, laid)


def pages_of(step: Performance) -> Array:
    """The page table of each token row."""
    return step.read("page_table")[step.read("slots")[step.read("lanes")]]


def perform_store(step: Performance) -> None:
    """Operation store."""
    layer = int(step.attributes["layer"])
    for plane, name in (("keys", "key"), ("values", "value")):
        array = step.writes[plane].array
        x = step.read(name).reshape(-1, array.shape[2], array.shape[4])
        store(array[:, layer], x, pages=pages_of(step), positions=step.read("positions"))


def perform_attend(step: Performance) -> None:
    """Operation attend."""
    layer = int(step.attributes["layer"])
    keys, values = step.reads["keys"].array, step.reads["values"].array
    query = step.read("query")
    out = attend(
        query.reshape(len(query), -1, keys.shape[4]),
        keys[:, layer],
        values[:, layer],
        pages=pages_of(step),
        positions=step.read("positions"),
        scale=step.attributes["scale"],
    )
    step.write("out", out.reshape(query.shape))


def perform_rotate(step: Performance) -> None:
    """Operation rotate."""
    x = step.read("x")
    heads = x.reshape(len(x), -1, int(step.attributes["width"]))
    step.write("out", rotate(heads, step.read("positions"), step.read("turns")).reshape(x.shape))


def sampling_of(step: Performance, number: int) -> Sampling:
    """A slot's sampling parameters."""
    slot = slots_in(step.read("slot_rows"))[number]
    early = slot["emitted"] < slot["minimum_output"]
    ids, values = step.read("bias_ids")[number], step.read("bias_values")[number]
    biased = int(np.argmax(ids < 0)) if (ids < 0).any() else len(ids)
    return Sampling(
        seed=int(slot["seed"]),
        temperature=float(slot["temperature"]),
        top_p=float(slot["top_p"]),
        min_p=float(slot["min_p"]),
        top_k=int(slot["top_k"]),
        repetition=float(slot["repetition"]),
        presence=float(slot["presence"]),
        frequency=float(slot["frequency"]),
        forbidden=tuple(int(token) for token in slot["eos"] if token >= 0) if early else (),
        bias=tuple(zip(ids[:biased].tolist(), values[:biased].tolist(), strict=True)),
        mask=step.read("masks")[number],
    )


def perform_sample(step: Performance) -> None:
    """Operation sample."""
    sampled = step.cut(step.writes["sampled"])
    sampled[...] = NO_TOKEN
    rows, lanes = step.read("sample_rows"), step.read("sample_lanes")
    # A scored prefill has logits of every row, and only some sample.
    by_row = step.reads["logits"].rows is Extent.TOKENS
    picked = step.read("logits")[rows] if by_row else step.read("logits")
    for logits, row, lane in zip(picked, rows, lanes, strict=True):
        slot = int(step.read("slots")[lane])
        sampling = sampling_of(step, slot)
        histogram = step.read("histograms")[slot][: len(logits)]
        position = int(step.read("positions")[row]) + 1
        token = sample(logits, histogram, position=position, sampling=sampling)
        sampled[lane] = token
        count = int(slots_in(step.read("slot_rows"))[slot]["logprobs"])
        if token >= 0 and count >= 0:
            left = adjusted(logits, histogram, sampling)
            step.writes["logprob"].array[lane] = log_probabilities(left)[token]
            ids, values = top_row(left, count)
            step.writes["top_ids"].array[lane], step.writes["top_logprobs"].array[lane] = (
                ids,
                values,
            )


def perform_score(step: Performance) -> None:
    """Operation score."""
    records = slots_in(step.read("slot_rows"))
    lanes, targets = step.read("lanes"), step.read("scored_targets")
    for row, (logits, target) in enumerate(zip(step.read("logits"), targets, strict=True)):
        if not 0 <= target < len(logits):
            continue
        slot = records[step.read("slots")[lanes[row]]]
        step.writes["token_logprob"].array[row] = log_probabilities(logits)[target]
        ids, values = top_row(logits, int(slot["logprobs"]))
        step.writes["token_top_ids"].array[row] = ids
        step.writes["token_top_logprobs"].array[row] = values


def perform_commit(step: Performance) -> None:
    """Operation commit."""
    records = slots_in(step.cut(step.writes["slot_rows"]))
    slots = step.read("slots")
    sampled = step.read("sampled") if "sampled" in step.reads else None
    wanted = set(step.read("sample_lanes").tolist()) if sampled is not None else set()
    status = 0
    for lane, number in enumerate(slots):
        slot = records[number]
        moved = 0 if sampled is None else 1
        if "query_lengths" in step.reads:
            moved = int(step.read("query_lengths")[lane])
        slot["consumed"] += moved
        token = NO_TOKEN if sampled is None else int(sampled[lane])
        status |= lane in wanted and token == UNDEFINED
        emits = token >= 0 and not slot["finished"]
        if token == NOTHING_ALLOWED and not slot["finished"]:
            slot["finished"] = FinishBits.NOTHING_ALLOWED
        if emits:
            emit(slot, step.writes["histograms"].array[number], token)
        lanes = {
            "slot": number,
            "generation": slot["generation"],
            "consumed": slot["consumed"],
            "emitted": int(emits),
            "tokens": token if emits else NO_TOKEN,
            "offered": 0,
            "accepted": 0,
            "cursor": -1,
            "reserved": -1,
            "finish": slot["finished"],
        }
        for name, value in lanes.items():
            step.writes[f"lane_{name}"].array[lane] = value
    for name in ("sequence", "frame", "program"):
        step.writes[f"record_{name}"].array[0] = step.reads[name].array[0]
    step.writes["record_status"].array[0] = status
    step.writes["record_rows"].array[0] = len(slots)


def emit(slot: Array, histogram: Array, token: int) -> None:
    """A slot takes its next token."""
    slot["pending"] = token
    slot["emitted"] += 1
    histogram[token] = min(int(histogram[token]) + 1, 0xFFFF)
    if token in slot["eos"]:
        slot["finished"] |= FinishBits.END_OF_SEQUENCE
    if slot["emitted"] >= slot["output_limit"]:
        slot["finished"] |= FinishBits.OUTPUT_LIMIT


def perform_initialize(step: Performance) -> None:
    """Operation initialize."""
    records = slots_in(step.cut(step.writes["slot_rows"]))
    for lane, number in enumerate(step.read("slots")):
        slot = records[number]
        for name, slot_field in ADMITTED_FIELDS.items():
            slot[slot_field] = step.read(name)[lane]
        slot["pending"], slot["emitted"], slot["finished"] = NO_TOKEN, 0, 0


def perform_restore(step: Performance) -> None:
    """Operation restore."""
    for name in ("keys", "values"):
        restore(
            step.writes[name].array,
            step.reads[f"saved_{name}"].array,
            tables=step.read("page_table")[step.read("slots")],
            endpoints=step.read("consumed_endpoints"),
            rows=step.read("restore_rows"),
            pages=step.read("restore_pages"),
        )


def perform_publish(step: Performance) -> None:
    """Operation publish."""
    for name in ("keys", "values"):
        publish(
            step.reads[name].array,
            step.writes[f"saved_{name}"].array,
            tables=step.read("page_table")[step.read("slots")],
            endpoints=step.read("consumed_endpoints"),
            rows=step.read("snapshot_rows"),
        )


def perform_resume(step: Performance) -> None:
    """Operation resume."""
    step.writes["pending"].array[step.read("slots")] = step.read("pending_tokens")


def simple(function: Callable[..., Array], *names: str) -> Callable[[Performance], None]:
    """A step that is one function of the named operands and the attributes."""

    def perform_simple(step: Performance) -> None:
        step.write("out", function(*(step.read(name) for name in names), **step.attributes))

    return perform_simple


def pick(x: Array, rows: Array) -> Array:
    """The named rows."""
    return x[rows]


PERFORM: Final[Mapping[str, Callable[[Performance], None]]] = {
    "lay_pending_rows": perform_pending_rows,
    "lay_prompt_rows": perform_prompt_rows,
    "lay_mixed_rows": perform_mixed_rows,
    "embed": simple(embed, "tokens", "table"),
    "pick": simple(pick, "x", "rows"),
    "rms_norm": simple(rms_norm, "x", "weight"),
    "linear": simple(linear, "x", "weight"),
    "add": simple(np.add, "x", "y"),
    "silu_gate": simple(silu_gate, "gate", "up"),
    "rotate": perform_rotate,
    "store": perform_store,
    "attend": perform_attend,
    "sample": perform_sample,
    "score": perform_score,
    "commit": perform_commit,
    "initialize": perform_initialize,
    "restore": perform_restore,
    "publish": perform_publish,
    "resume": perform_resume,
}
"""Every operation that a tape can record."""
