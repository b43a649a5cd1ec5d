"""Any submissions, one after another, of every program: what is staged is what was submitted."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from helios.device.api import Geometry
from helios.device.scripted import ScriptedDevice
from helios.execute.pack import resolve_packing
from helios.rounds import (
    Admission,
    FromPage,
    FromSnapshot,
    LaneWork,
    NewPage,
    Publication,
    Submission,
)
from helios.values import Generation, MonotonicClock, PageId, ProgramId, Slot, SnapshotRow
from helios.values import Sequence as Number
from prepared.contract import GraphContract, Operation, ValueSource
from tests.schedule.made import PLAIN
from tests.worker.world import scripted_model, text_extents

SLOTS, PAGES, FRAMES = 4, 16, 2
MODEL, MANIFEST = scripted_model(text_extents(lanes=SLOTS, prefill_tokens=8))
ENTERS = (Operation.INITIALIZE, Operation.RESTORE)
FEEDS = (Operation.PREFILL, Operation.MIXED)
WITH_PAGES = frozenset(
    graph.name
    for graph in MODEL.graphs
    if any(binding.source is ValueSource.PAGE_TABLE for binding in graph.values)
)


@st.composite
def lanes(draw: st.DrawFn, graph: GraphContract, slot: int, *, feeds: bool) -> LaneWork:
    """Any part of a submission that the program could have."""
    operation, start = graph.operation, draw(st.integers(0, 40))
    fed = draw(st.lists(st.integers(0, 99), min_size=1, max_size=4)) if feeds else []
    rows = len(fed) or int(operation in (Operation.DECODE, Operation.MIXED))
    entries = draw(st.dictionaries(st.integers(0, 15), st.integers(0, PAGES - 1), max_size=4))
    restore = st.one_of(
        st.integers(0, 3).map(lambda row: FromSnapshot(row=SnapshotRow(row))),
        st.integers(0, PAGES - 1).map(lambda page: FromPage(page=PageId(page))),
    )
    admitted = Admission(
        sampling=replace(PLAIN, seed=draw(st.integers(0, (1 << 64) - 1)), repetition_penalty=1.5),
        output_limit=draw(st.integers(1, 1000)),
        minimum_output=draw(st.integers(0, 9)),
        eos_ids=tuple(draw(st.lists(st.integers(0, 99), max_size=3))),
        seen=tuple(draw(st.lists(st.integers(0, 99), max_size=6))),
    )
    publishes = operation is Operation.PUBLISH_SNAPSHOT
    return LaneWork(
        slot=Slot(slot),
        generation=Generation(draw(st.integers(1, 1 << 31))),
        tokens=tuple(fed),
        start=start,
        endpoint=start + rows,
        samples=draw(st.booleans()),
        new_pages=tuple(
            NewPage(index=index, page=PageId(page))
            for index, page in entries.items()
            if graph.name in WITH_PAGES
        ),
        admission=admitted if operation in ENTERS else None,
        restore=draw(restore) if operation is Operation.RESTORE else None,
        snapshot=Publication(row=SnapshotRow(slot), tokens=start) if publishes else None,
        pending=draw(st.integers(0, 99)) if operation is Operation.RESUME else None,
    )


@st.composite
def submissions(draw: st.DrawFn) -> tuple[GraphContract, Submission]:
    """Any submission of any program, in any frame."""
    number = draw(st.integers(0, len(MODEL.graphs) - 1))
    graph = MODEL.graphs[number]
    most = min(graph.batch_capacity, 2 if graph.operation is Operation.PREFILL else SLOTS)
    slots = draw(st.permutations(range(SLOTS)))[: draw(st.integers(1, most))]
    mixed = len(slots) - 1 if graph.operation is Operation.MIXED else None
    works = tuple(
        draw(lanes(graph, slot, feeds=graph.operation is Operation.PREFILL or place == mixed))
        for place, slot in enumerate(slots)
    )
    return graph, Submission(
        sequence=Number(1),
        frame=draw(st.integers(0, FRAMES - 1)),
        program=ProgramId(number),
        lanes=works,
        mixed_row=mixed,
    )


def expected(submission: Submission) -> dict[ValueSource, list[int]]:
    """What each source's leading values are."""
    works = submission.lanes
    found: dict[ValueSource, list[int]] = {
        ValueSource.LIVE_ROWS: [len(works)],
        ValueSource.SLOT: [work.slot for work in works],
        ValueSource.GENERATION: [work.generation for work in works],
        ValueSource.QUERY_LENGTH: [work.endpoint - work.start for work in works],
        ValueSource.SAMPLING_DECISION: [int(work.samples) for work in works],
        ValueSource.CONSUMED_ENDPOINT: [work.start for work in works],
        ValueSource.PROMPT_POSITIONS: [p for w in works for p in range(w.start, w.endpoint)],
        ValueSource.PROMPT_TOKENS: [
            token for w in works for token in w.tokens or [-1] * (w.endpoint - w.start)
        ],
    }
    if submission.mixed_row is not None:
        found[ValueSource.MIXED_PREFILL_ROW] = [submission.mixed_row]
    if works[0].admission is not None:
        admitted = [work.admission for work in works if work.admission is not None]
        found[ValueSource.OUTPUT_LIMIT] = [one.output_limit for one in admitted]
        found[ValueSource.MINIMUM_OUTPUT] = [one.minimum_output for one in admitted]
        found[ValueSource.SEED_BITS] = [one.sampling.seed for one in admitted]
        found[ValueSource.EOS_IDS] = [
            token for one in admitted for token in [*one.eos_ids, *[-1] * 16][:16]
        ]
    if works[0].restore is not None:
        sources = [work.restore for work in works]
        found[ValueSource.RESTORE_SOURCE] = [
            one.row if isinstance(one, FromSnapshot) else -1 for one in sources
        ]
        found[ValueSource.RESTORE_PAGE] = [
            one.page if isinstance(one, FromPage) else -1 for one in sources
        ]
    if works[0].snapshot is not None:
        found[ValueSource.SNAPSHOT_DESTINATION] = [w.snapshot.row for w in works if w.snapshot]
    if works[0].pending is not None:
        found[ValueSource.COMPLETED_PENDING_TOKEN] = [
            work.pending for work in works if work.pending is not None
        ]
    return found


def words(device: ScriptedDevice, buffer: str, code: str) -> list[int]:
    """A resident buffer's numbers."""
    return list(device.resident(buffer).cast("B").cast(code))  # type: ignore[call-overload]


def look(device: ScriptedDevice, graph: GraphContract, submission: Submission) -> None:
    """Every value that the program reads is staged, in its frame."""
    staged, wanted = device.values(graph, submission.frame), expected(submission)
    for binding in graph.values:
        if binding.source in wanted:
            values = wanted[binding.source]
            assert list(staged[binding.source][: len(values)]) == values, binding.source.name


@given(rounds=st.lists(submissions(), min_size=1, max_size=6))
@settings(max_examples=60, deadline=None)
def test_what_is_staged_is_what_was_submitted(
    rounds: Sequence[tuple[GraphContract, Submission]],
) -> None:
    device = ScriptedDevice(
        execution=replace(MANIFEST, frames=FRAMES),
        model=MODEL,
        geometry=Geometry(slots=SLOTS, pages=PAGES, snapshots=4),
        script=(),
        clock=MonotonicClock(0),
        sleep=lambda _seconds: None,
        request_in=lambda slot: slot,
    )
    packings = {
        graph.name: resolve_packing(graph, MODEL, device, at=graph.name) for graph in MODEL.graphs
    }
    table = [[0] * 16 for _ in range(SLOTS)]
    counts = [[0] * 128 for _ in range(SLOTS)]
    for graph, submission in rounds:
        other = bytes(device.staging("staging", 1 - submission.frame))
        packings[graph.name].pack(submission)
        look(device, graph, submission)
        assert bytes(device.staging("staging", 1 - submission.frame)) == other, "another's frame"
        for work in submission.lanes:
            for entry in work.new_pages:
                table[work.slot][entry.index] = entry.page
            if work.admission is not None:
                seen = work.admission.seen
                counts[work.slot] = [seen.count(token) for token in range(128)]
        assert words(device, "page_table", "I") == sum(table, []), "an entry that nobody sent"
        assert words(device, "histograms", "H") == sum(counts, [])
