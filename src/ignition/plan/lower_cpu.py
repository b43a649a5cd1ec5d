"""Recordings to CPU launches: fused where neighbours allow it, packed where weights are.

What becomes of the steps:

    rms_norm, linear...   one norm that quantises, then products that read 8-bit activations
    linear, add           a product that accumulates into the residual
    linear x 2, silu_gate a gated product over interleaved blocks, quantising its result
    rotate x 2, store     one kernel over the joint query, key and value columns
    attend                quantises its result when a packed product reads it

Linear steps that read the same rows write one joint matrix, side by side, and tensors of the
same layout among them become one packed matrix.  A recording that fits none of this is
refused, with the step named.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Final

from ignition.ops.attend import ATTEND, MOST_QUERIES
from ignition.ops.commit import COMMIT
from ignition.ops.embed import EMBED
from ignition.ops.history import ROTATE_AND_STORE
from ignition.ops.initialize import ADMITTED, INITIALIZE
from ignition.ops.kernel import COARSE, Kernel
from ignition.ops.lay_rows import LAY_ROWS
from ignition.ops.linear import GATED_LINEAR, LINEAR, NUMBER_LINEAR, PACKED, SILU_GATE
from ignition.ops.sample import SAMPLE
from ignition.ops.score import SCORE
from ignition.plan.launches import Argument, At, LoweringError, weight
from ignition.plan.lower_pages_cpu import lower_publish, lower_restore, lower_resume
from ignition.plan.lowering_cpu import (
    COUNTS_NBYTES,
    ROW_PADDING,
    SHARES,
    Columns,
    CpuLowering,
    columns_of,
    extent_of,
)
from ignition.plan.matrices import block_nbytes
from ignition.preparation.storage import SLOT_NBYTES, histogram_width
from ignition.record.tape import Extent, Operand, Step

PREFILL_TILE: Final = 4


def lower(lowering: CpuLowering) -> None:
    """Lower every step in order."""
    for step in lowering.recording.steps:
        if any(operand.name in lowering.done for operand in step.writes.values()):
            continue
        try:
            lower_step = LOWERED[step.operation]
        except KeyError:
            raise LoweringError(
                f"step {step.operation}: the CPU target has no kernel for it"
            ) from None
        lower_step(lowering, step)


# ------------------------------------------------------------------- rows


def lower_rows(lowering: CpuLowering, step: Step) -> None:
    """Prompt rows, pending rows or both: one kernel, told apart by null addresses."""
    prompt, mixed = "prompt_tokens" in step.reads, "mixed_row" in step.reads
    launches = lowering.launches
    outs: dict[str, Argument] = {"every_row": None}
    for name, operand in step.writes.items():
        outs[name] = launches.reserve(operand.name, 4 * lowering.capacities[extent_of(operand)])
    launches.launch(
        LAY_ROWS,
        1,
        live_rows=At("live_rows"),
        slots=At("slots"),
        query_lengths=At("query_lengths") if prompt else None,
        sampling=At("sampling") if prompt else None,
        prompt_tokens=At("prompt_tokens") if prompt else None,
        prompt_positions=At("prompt_positions") if prompt else None,
        prefill_row=At("mixed_row") if mixed else None,
        pending=At("pending"),
        consumed=At("consumed"),
        counts=launches.reserve("counts", COUNTS_NBYTES),
        slot_stride=SLOT_NBYTES,
        **outs,
    )


def lower_embed(lowering: CpuLowering, step: Step) -> None:
    """Rows of the packed table."""
    matrix = lowering.matrix([step.reads["table"]])
    out = step.writes["out"]
    rows = lowering.reserve_floats(out.name, extent_of(out), matrix.columns)
    lowering.launches.launch(
        EMBED[matrix.layout],
        SHARES,
        weights=weight(matrix.name),
        tokens=At(step.reads["tokens"].name),
        rows=lowering.rows(extent_of(out)),
        out=rows.at,
        columns=matrix.columns,
        stride=rows.stride,
        block_nbytes=block_nbytes(matrix.layout, matrix.columns),
    )


def keep_pick(lowering: CpuLowering, step: Step) -> None:
    """Picked rows are read through their indices by the norm that follows."""
    lowering.picks[step.writes["out"].name] = step


def keep_norm(lowering: CpuLowering, step: Step) -> None:
    """A norm runs when its first reader says in which form it wants the rows."""
    lowering.norms[step.writes["out"].name] = step


def keep_rotation(lowering: CpuLowering, step: Step) -> None:
    """Rotations run with the store that follows."""
    lowering.rotations[step.writes["out"].name] = step


# --------------------------------------------------------------- products


def lower_linear(lowering: CpuLowering, step: Step) -> None:
    """All products of the same rows, together with what follows them."""
    x = step.reads["x"]
    steps = [reader for reader in lowering.readers[x.name] if reader.operation == "linear"]
    lowering.done.update(member.writes["out"].name for member in steps)
    if gate := gated_reader(lowering, steps):
        lower_gated(lowering, steps, gate)
        return
    readers = lowering.readers.get(step.writes["out"].name, [])
    if len(steps) == 1 and len(readers) == 1 and readers[0].operation == "add":
        lower_residual(lowering, step, readers[0])
        return
    total = sum(columns_of(member.writes["out"]) for member in steps)
    extent = extent_of(x)
    joint = lowering.reserve_floats(f"{steps[0].writes['out'].name}.joint", extent, total)
    column = 0
    for member in steps:
        out = member.writes["out"]
        lowering.floats[out.name] = Columns(joint.column(column), joint.stride, extent)
        column += columns_of(out)
    product(lowering, steps, joint, accumulate=False)


def product(
    lowering: CpuLowering, steps: Sequence[Step], out: Columns, *, accumulate: bool
) -> None:
    """Launch the products of `steps`, side by side from the first column of `out`."""
    x = steps[0].reads["x"]
    column = 0
    for layout, members in groupby(
        steps, key=lambda step: lowering.layouts[step.reads["weight"].name]
    ):
        matrix = lowering.matrix([step.reads["weight"] for step in members])
        arguments: dict[str, Argument]
        kernel: Kernel
        if layout in PACKED:
            kernel = LINEAR[layout]
            activations = lowering.as_quantised(x)
            arguments = {"groups": matrix.columns // 32, **activations.arguments()}
        else:
            kernel = NUMBER_LINEAR[layout]
            rows = lowering.as_floats(x)
            arguments = {"columns": matrix.columns, "x": rows.at, "x_stride": rows.stride}
        lowering.launches.launch(
            kernel,
            matrix.blocks,
            weights=weight(matrix.name),
            rows=lowering.rows(out.extent),
            out=out.column(column),
            stride=out.stride,
            accumulate=int(accumulate),
            **arguments,
        )
        column += matrix.rows


def lower_residual(lowering: CpuLowering, step: Step, add: Step) -> None:
    """A product that is added to rows nobody reads afterwards: accumulate in place."""
    residual = next(
        operand for operand in add.reads.values() if operand.name != step.writes["out"].name
    )
    rows = lowering.as_floats(residual)
    for norm in lowering.readers[residual.name]:
        out = norm.writes["out"].name
        if norm.operation == "rms_norm" and out not in lowering.quantised | lowering.floats:
            raise LoweringError(f"{out}: reads {residual.name} after a sum has replaced it")
    product(lowering, [step], rows, accumulate=True)
    lowering.floats[add.writes["out"].name] = rows
    lowering.done.add(add.writes["out"].name)


def gated_reader(lowering: CpuLowering, steps: Sequence[Step]) -> Step | None:
    """The silu_gate that joins exactly these two products, if there is one."""
    if len(steps) != 2:
        return None
    readers = lowering.readers.get(steps[0].writes["out"].name, [])
    if len(readers) != 1 or readers[0].operation != "silu_gate":
        return None
    names = {operand.name for operand in readers[0].reads.values()}
    return readers[0] if names == {step.writes["out"].name for step in steps} else None


def lower_gated(lowering: CpuLowering, steps: Sequence[Step], gate: Step) -> None:
    """Gate and up: one pass over interleaved blocks when both are packed alike."""
    by_output = {step.writes["out"].name: step for step in steps}
    ordered = [by_output[gate.reads[name].name] for name in ("gate", "up")]
    weights = [step.reads["weight"] for step in ordered]
    out = gate.writes["out"]
    extent, columns = extent_of(out), columns_of(out)
    lowering.done.add(out.name)
    alike = len({lowering.layouts[operand.name] for operand in weights}) == 1
    fits = columns % 32 == 0 and all(
        reader.operation == "linear" and lowering.is_packed(reader.reads["weight"])
        for reader in lowering.readers[out.name]
    )
    if alike and fits and lowering.is_packed(weights[0]):
        matrix = lowering.matrix(weights, gated=True)
        activations = lowering.as_quantised(steps[0].reads["x"])
        result = lowering.reserve_quantised(
            out.name, extent, columns, fine=lowering.wants_fine(out)
        )
        lowering.launches.launch(
            GATED_LINEAR[matrix.layout],
            columns // 32,
            weights=weight(matrix.name),
            rows=lowering.rows(extent),
            groups=matrix.columns // 32,
            out_groups=columns // 32,
            **activations.arguments(),
            **result.arguments("out_"),
        )
        return
    joint = lowering.reserve_floats(f"{out.name}.joint", extent, 2 * columns)
    product(lowering, ordered, joint, accumulate=False)
    rows = lowering.reserve_floats(out.name, extent, columns)
    lowering.launches.launch(
        SILU_GATE,
        SHARES,
        x=joint.at,
        rows=lowering.rows(extent),
        out=rows.at,
        columns=columns,
        stride=joint.stride,
        out_stride=rows.stride,
    )


# -------------------------------------------------------------- attention


def history_arguments(
    lowering: CpuLowering, rows: Mapping[str, Operand], *, layer: int, heads: int
) -> dict[str, Argument]:
    """What both history kernels take."""
    extents = lowering.extents
    return {
        "slots": At("slots"),
        "lanes": At(rows["lanes"].name),
        "positions": At(rows["positions"].name),
        "rows": lowering.rows(Extent.TOKENS),
        "pages": At("page_table"),
        "keys": At("keys"),
        "values": At("values"),
        "page_stride": extents.page_nbytes,
        "layer_offset": layer * extents.page_nbytes // extents.layers,
        "row_pages": extents.row_pages,
        "page_tokens": extents.page_tokens,
        "query_heads": heads,
        "key_heads": extents.key_heads,
        "width": extents.width,
    }


def lower_store(lowering: CpuLowering, step: Step) -> None:
    """Rotate queries and keys of a layer, keep keys and values."""
    layer = int(step.attributes["layer"])
    attend = next(
        reader
        for reader in lowering.readers["keys"]
        if reader.operation == "attend" and reader.attributes["layer"] == layer
    )
    query = lowering.rotations[attend.reads["query"].name]
    key = lowering.rotations[step.reads["key"].name]
    joint = lowering.as_floats(query.reads["x"])
    width, query_columns = lowering.extents.width, columns_of(query.reads["x"])
    beside = [
        (lowering.as_floats(key.reads["x"]).at, joint.column(query_columns)),
        (
            lowering.as_floats(step.reads["value"]).at,
            joint.column(query_columns + columns_of(key.reads["x"])),
        ),
    ]
    if any(found != expected for found, expected in beside):
        raise LoweringError(
            f"layer {layer}: query, key and value must be products of the same rows, in this order"
        )
    heads = query_columns // width
    out = lowering.launches.reserve(
        attend.reads["query"].name, 4 * lowering.capacities[Extent.TOKENS] * query_columns
    )
    lowering.launches.launch(
        ROTATE_AND_STORE,
        SHARES,
        x=joint.at,
        turns=lowering.vector(query.reads["turns"]),
        queries=out,
        stride=joint.stride,
        **history_arguments(lowering, step.reads, layer=layer, heads=heads),
    )


def score_stride(context_tokens: int) -> int:
    """Floats between one query's scores and the next one's."""
    return -(-context_tokens // 16) * 16 + ROW_PADDING


def lower_attend(lowering: CpuLowering, step: Step) -> None:
    """Attention over the pages, in the form its reader wants."""
    query, out = step.reads["query"], step.writes["out"]
    extents = lowering.extents
    heads = columns_of(query) // extents.width
    group = heads // extents.key_heads
    if group > MOST_QUERIES or heads % extents.key_heads or extents.width % 32:
        raise LoweringError(
            f"attend: {heads} query heads over {extents.key_heads} key heads of width "
            f"{extents.width}; the CPU target takes groups of at most {MOST_QUERIES} and widths "
            "that are multiples of 32"
        )
    wants_packed = all(
        reader.operation == "linear" and lowering.is_packed(reader.reads["weight"])
        for reader in lowering.readers[out.name]
    )
    forms: dict[str, Argument] = {"out": None, "out_stride": 0}
    parts: dict[str, Argument] = dict.fromkeys(COARSE, None)
    if wants_packed:
        parts = lowering.reserve_quantised(out.name, Extent.TOKENS, columns_of(out)).coarse()
    else:
        rows = lowering.reserve_floats(out.name, Extent.TOKENS, columns_of(out))
        forms = {"out": rows.at, "out_stride": rows.stride}
    history = history_arguments(
        lowering, step.reads, layer=int(step.attributes["layer"]), heads=heads
    )
    one_a_lane = lowering.recording.steps[0].operation == "lay_pending_rows"
    lowering.launches.launch(
        ATTEND,
        SHARES,
        queries=At(query.name),
        q=parts["q"],
        activation_scale=parts["scale"],
        sum=parts["sum"],
        bias=parts["bias"],
        score_stride=score_stride(extents.context_tokens),
        tile=1 if one_a_lane else max(1, min(PREFILL_TILE, MOST_QUERIES // group)),
        scale=step.attributes["scale"],
        **forms,
        **history,
    )


# ------------------------------------------------------------------ slots


def lower_sample(lowering: CpuLowering, step: Step) -> None:
    """Draw from the logits."""
    logits = lowering.as_floats(step.reads["logits"])
    sampled = step.writes["sampled"]
    vocabulary = lowering.extents.vocabulary
    lowering.launches.launch(
        SAMPLE,
        SHARES,
        logits=logits.at,
        samples=lowering.rows(Extent.SAMPLES),
        sample_rows=At(step.reads["sample_rows"].name),
        sample_lanes=At(step.reads["sample_lanes"].name),
        positions=At(step.reads["positions"].name),
        slots=At("slots"),
        states=At("slot_rows"),
        histograms=At("histograms"),
        bias_ids=At("bias_ids"),
        bias_values=At("bias_values"),
        masks=At("masks"),
        logprobs=At("logprob"),
        top_ids=At("top_ids"),
        top_logprobs=At("top_logprobs"),
        sampled=lowering.launches.reserve(sampled.name, 4 * lowering.capacities[Extent.LANES]),
        tokens=vocabulary,
        stride=logits.stride,
        slot_stride=SLOT_NBYTES,
        histogram_width=histogram_width(vocabulary),
        mask_words=lowering.extents.mask_words,
        by_row=int(logits.extent is Extent.TOKENS),
    )


def lower_score(lowering: CpuLowering, step: Step) -> None:
    """Log-probabilities of targets."""
    logits = lowering.as_floats(step.reads["logits"])
    lowering.launches.launch(
        SCORE,
        SHARES,
        logits=logits.at,
        rows=lowering.rows(Extent.TOKENS),
        targets=At("scored_targets"),
        lanes=At(step.reads["lanes"].name),
        slots=At("slots"),
        states=At("slot_rows"),
        logprobs=At("token_logprob"),
        top_ids=At("token_top_ids"),
        top_logprobs=At("token_top_logprobs"),
        tokens=lowering.extents.vocabulary,
        stride=logits.stride,
        slot_stride=SLOT_NBYTES,
    )


def lower_commit(lowering: CpuLowering, step: Step) -> None:
    """Endpoints, pending tokens and the record."""
    sampled = step.reads.get("sampled")
    prompt = "query_lengths" in step.reads
    rows = lowering.recording.steps[0].writes
    records: dict[str, Argument] = {
        name: At(name) for name in step.writes if name.startswith(("record_", "lane_"))
    }
    lowering.launches.launch(
        COMMIT,
        1,
        live_rows=At("live_rows"),
        slots=At("slots"),
        query_lengths=At("query_lengths") if prompt else None,
        counts=At("counts") if sampled else None,
        sample_lanes=At(rows["sample_lanes"].name) if sampled else None,
        sampled=At(sampled.name) if sampled else None,
        states=At("slot_rows"),
        histograms=At("histograms"),
        sequence=At("sequence"),
        frame=At("frame"),
        program=At("program"),
        slot_stride=SLOT_NBYTES,
        histogram_width=histogram_width(lowering.extents.vocabulary),
        moves=1 if sampled and not prompt else 0,
        **records,
    )


ADMITTED_AS: Final[Mapping[str, str]] = {
    name: "consumed_endpoints" if name == "consumed" else name for name in ADMITTED
}
"""Kernel field -> staged value."""


def lower_initialize(lowering: CpuLowering, _step: Step) -> None:
    """Slots take over staged values."""
    admitted: dict[str, Argument] = {name: At(value) for name, value in ADMITTED_AS.items()}
    lowering.launches.launch(
        INITIALIZE,
        1,
        live_rows=At("live_rows"),
        slots=At("slots"),
        states=At("slot_rows"),
        slot_stride=SLOT_NBYTES,
        **admitted,
    )


LOWERED: Final = {
    "lay_pending_rows": lower_rows,
    "lay_prompt_rows": lower_rows,
    "lay_mixed_rows": lower_rows,
    "embed": lower_embed,
    "pick": keep_pick,
    "rms_norm": keep_norm,
    "rotate": keep_rotation,
    "linear": lower_linear,
    "store": lower_store,
    "attend": lower_attend,
    "sample": lower_sample,
    "score": lower_score,
    "commit": lower_commit,
    "initialize": lower_initialize,
    "restore": lower_restore,
    "publish": lower_publish,
    "resume": lower_resume,
}
"""What each recorded operation becomes; `add` and `silu_gate` only ever as part of a product."""
