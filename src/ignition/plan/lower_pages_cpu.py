"""Partial pages and host-fed pending tokens as CPU launches."""

from __future__ import annotations

from ignition.ops.resume import RESUME
from ignition.ops.snapshot import PUBLISH, RESTORE
from ignition.plan.launches import Argument, At
from ignition.plan.lowering_cpu import SHARES, CpuLowering
from ignition.preparation.storage import SLOT_NBYTES
from ignition.record.tape import Step


def strip_arguments(lowering: CpuLowering) -> dict[str, Argument]:
    """What both kernels over partial pages take."""
    extents = lowering.extents
    strips = extents.layers * extents.key_heads
    return {
        "live_rows": At("live_rows"),
        "slots": At("slots"),
        "endpoints": At("consumed_endpoints"),
        "tables": At("page_table"),
        "keys": At("keys"),
        "values": At("values"),
        "continuations": At("saved_keys"),
        "page_stride": extents.page_nbytes,
        "strip_nbytes": extents.page_nbytes // strips,
        "strips": strips,
        "row_pages": extents.row_pages,
        "page_tokens": extents.page_tokens,
    }


def lower_restore(lowering: CpuLowering, _step: Step) -> None:
    """Partial pages to the slots' own pages."""
    lowering.launches.launch(
        RESTORE,
        SHARES,
        rows=At("restore_rows"),
        pages=At("restore_pages"),
        **strip_arguments(lowering),
    )


def lower_publish(lowering: CpuLowering, _step: Step) -> None:
    """Partial pages to continuation rows."""
    lowering.launches.launch(PUBLISH, SHARES, rows=At("snapshot_rows"), **strip_arguments(lowering))


def lower_resume(lowering: CpuLowering, _step: Step) -> None:
    """Pending tokens from the host."""
    lowering.launches.launch(
        RESUME,
        1,
        live_rows=At("live_rows"),
        slots=At("slots"),
        pending_tokens=At("pending_tokens"),
        pending=At("pending"),
        slot_stride=SLOT_NBYTES,
    )
