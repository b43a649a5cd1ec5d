"""Programs are selected by name, and cache memory becomes pages and continuation rows."""

from __future__ import annotations

from dataclasses import replace as wide

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from helios.bootstrap.model import choose_geometry, select_programs
from helios.options import Limits
from helios.values import StartRefused
from prepared.contract import Operation
from prepared.manifest import BufferRole, ExecutionManifest
from tests.treaty.specimens import plain
from tests.worker.world import scripted_model, text_extents

MODEL, MANIFEST = scripted_model(text_extents(lanes=8))
CONTRACT = replace(plain(), model=MODEL, context_tokens=64)
PAGE, ROW = (
    sum(buffer.nbytes for buffer in MANIFEST.buffers if buffer.role is role)
    for role in (BufferRole.CACHE_PLANE, BufferRole.SNAPSHOT)
)


def without(*operations: Operation) -> ExecutionManifest:
    """A core that lacks these operations."""
    kept = (program for program in MANIFEST.programs if program.operation not in operations)
    return replace(MANIFEST, programs=tuple(kept))


def limits(cache_memory: int) -> Limits:
    """Eight lanes and so much memory for the cache."""
    return Limits(
        max_active=8,
        queue_capacity=1,
        frontend_workers=1,
        context_tokens=64,
        output_tokens=64,
        threads=1,
        processors=(0,),
        huge_pages=False,
        cache_memory=cache_memory,
        host_cache_memory=0,
        token_gap_ns=100_000_000,
    )


@pytest.mark.clause("SM-02")
@pytest.mark.parametrize(
    ("lacking", "named"),
    [
        (Operation.INITIALIZE, "INITIALIZE"),
        (Operation.PREFILL, "PREFILL"),
        (Operation.DECODE, "DECODE"),
        (Operation.RESTORE, "RESTORE"),
        (Operation.PUBLISH_SNAPSHOT, "PUBLISH_SNAPSHOT"),
    ],
)
def test_a_missing_program_fails_the_start_by_name(lacking: Operation, named: str) -> None:
    with pytest.raises(StartRefused, match=f"the core has no {named} program"):
        select_programs(without(lacking), max_active=8)


@pytest.mark.parametrize(
    "lacking",
    [(Operation.RESUME,), (Operation.MIXED,), (Operation.RESTORE, Operation.PUBLISH_SNAPSHOT)],
)
def test_what_a_core_may_lack_is_not_missed(lacking: tuple[Operation, ...]) -> None:
    selected = select_programs(without(*lacking), max_active=8).programs
    assert {program.operation for program in selected} == {
        program.operation for program in without(*lacking).programs
    }


def test_fewer_lanes_need_fewer_programs() -> None:
    selected = select_programs(MANIFEST, max_active=3).programs
    decode = [program for program in selected if program.operation is Operation.DECODE]
    assert [program.batch_capacity for program in decode] == [1, 2, 4]


@pytest.mark.clause("SM-03")
@given(st.integers(min_value=PAGE + ROW, max_value=300 * PAGE))
def test_pages_and_continuation_rows_fit_the_cache_s_memory(memory: int) -> None:
    geometry = choose_geometry(CONTRACT, MANIFEST, limits(memory))
    assert geometry.pages * PAGE + geometry.snapshots * ROW <= memory
    assert geometry.snapshots == max(1, geometry.pages // 8)
    most = 8 * 64 // MODEL.cache.page_tokens
    assert geometry.pages == most or (geometry.pages + 2) * (PAGE + ROW / 8) + ROW > memory


@pytest.mark.clause("SM-03")
def test_memory_for_less_than_a_page_and_its_row_is_refused() -> None:
    with pytest.raises(StartRefused) as refusal:
        choose_geometry(CONTRACT, MANIFEST, limits(PAGE + ROW - 1))
    assert str(refusal.value) == (
        f"--cache-memory: found {PAGE + ROW - 1} bytes, expected at least {PAGE + ROW}, "
        "one page and its continuation row"
    )


@pytest.mark.clause("SM-02")
def test_programs_that_propose_more_than_the_width_are_left_out() -> None:
    _, manifest = scripted_model(wide(text_extents(lanes=8), speculative_tokens=4))

    def proposes(**widths: int) -> bool:
        kept = select_programs(manifest, max_active=8, **widths).programs
        return Operation.SPECULATIVE in {program.operation for program in kept}

    assert proposes(width=4, widest=4)
    assert not proposes(width=4, widest=3)
    assert not proposes(width=4, widest=1)
    assert not proposes(width=1, widest=4)
