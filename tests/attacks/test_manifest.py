"""Manifests with an index, a name or an extent out of bounds.

The specimen's buffers begin with 0 weights, 1 scratch, 2 per_thread, 3 staging,
4 resident, 5 records; launch 0 fills, launch 1 fences; transports are sorted by name.
"""

from __future__ import annotations

import pytest

from prepared.agreement import check_manifest
from prepared.contract import Operation
from prepared.manifest import BufferRole, CompletionField, Target
from tests.treaty.carriers import MANIFESTS, STAGING_NBYTES
from tests.treaty.paths import put
from tests.treaty.refusals import attack, refused

PLAIN = MANIFESTS["plain"]
TABLE = next(i for i, item in enumerate(PLAIN.transports) if item.name == "page_table")
STAGED = next(i for i, item in enumerate(PLAIN.transports) if item.name == "samples")
TOKENS = next(
    i for i, slot in enumerate(PLAIN.completion.slots) if slot.field is CompletionField.LANE_TOKENS
)
WITHOUT_TOKENS = tuple(
    slot for slot in PLAIN.completion.slots if slot.field is not CompletionField.LANE_TOKENS
)

NAMES = [
    attack("a rank beyond the group", {"rank": 2}, "m.rank: found 2, expected below 2"),
    attack(
        "two buffers have one name",
        {"buffers[1].name": "weights"},
        "m.buffers: found 'weights', expected each name once",
    ),
    attack(
        "two kernels have one symbol",
        {"kernels[1].symbol": "fill"},
        "m.kernels: found 'fill', expected each name once",
    ),
    attack(
        "a tuning program has a serving program's name",
        {"tuning[0].name": "decode"},
        "m.programs: found 'decode', expected each name once",
        clauses=("HV-20",),
    ),
    attack(
        "two transports have one name",
        {"transports[0].name": "slot"},
        "m.transports: found 'slot', expected each name once",
    ),
    attack(
        "weights come from nowhere",
        {"buffers[0].resource": None},
        "m.buffers[0].resource: found None, expected a resource exactly with WEIGHT",
    ),
    attack(
        "scratch comes from a resource",
        {"buffers[1].resource": "weights.0"},
        "m.buffers[1].resource: found weights.0, expected a resource exactly with WEIGHT",
    ),
    *(
        attack(
            f"nothing is compiled for {target.name}",
            {"target": target, "images": ()},
            "m.images: found none, expected compiled kernels",
        )
        for target in (Target.CPU, Target.CUDA)
    ),
]

LAUNCHES = [
    attack(
        "a parameter leaves the parameters",
        {"kernels[0].parameters[1].offset": 9},
        "m.kernels[0].parameters[1].offset: found 9, expected a place within 16 bytes",
    ),
    attack(
        "a launch of a kernel that is not there",
        {"launches[1].kernel": 2},
        "m.launches[1].kernel: found 2, expected an index below 2",
    ),
    attack(
        "a launch with too few parameters",
        {"launches[0].parameters": bytes(15)},
        "m.launches[0].parameters: found 15 bytes, expected 16 bytes",
    ),
    attack(
        "an address over the end of the parameters",
        {"launches[0].relocations[0].offset": 9},
        "m.launches[0].relocations[0].offset: found 9, expected a place within 16 bytes",
    ),
    attack(
        "an address of a buffer that is not there",
        {"launches[0].relocations[0].buffer": len(PLAIN.buffers)},
        f"m.launches[0].relocations[0].buffer: found {len(PLAIN.buffers)}, "
        f"expected an index below {len(PLAIN.buffers)}",
    ),
    attack(
        "an address behind its buffer",
        {"launches[0].relocations[0].addend": 1024},
        "m.launches[0].relocations[0].addend: found 1024, expected a place within 1024 bytes",
    ),
    attack(
        "a program launches what is not there",
        {"programs[4].launches": (0, 2)},
        "m.programs[4].launches[1]: found 2, expected an index below 2",
    ),
    attack(
        "a tuning program launches what is not there",
        {"tuning[0].launches": (2,)},
        "m.tuning[0].launches[0]: found 2, expected an index below 2",
    ),
    *(
        attack(
            f"tuning fills {name}",
            {"tuning[0].tuned_buffers": (name,)},
            f"m.tuning[0].tuned_buffers[0]: found {name!r}, expected a TUNED buffer",
            clauses=("HV-21",),
        )
        for name in ("staging", "tokens", "keys", "resident", "nothing")
    ),
    attack(
        "a program reads a tuned buffer that is not there",
        {"programs[1].tuned_buffers": ("tiles", "shapes")},
        "m.programs[1].tuned_buffers[1]: found 'shapes', expected a TUNED buffer",
        clauses=("HV-19",),
    ),
]

CATALOGS = [
    attack(
        "a serving program tunes",
        {"programs[4].operation": Operation.TUNE},
        "m.programs[4].operation: found TUNE, expected TUNE exactly in the tuning catalog (HV-20)",
        clauses=("HV-20",),
    ),
    attack(
        "a tuning program serves",
        {"tuning[0].operation": Operation.DECODE},
        "m.tuning[0].operation: found DECODE, expected TUNE exactly in the tuning catalog (HV-20)",
        clauses=("HV-20",),
    ),
]

TRANSPORT = [
    attack(
        "a staged value goes to a buffer that is not there",
        {f"transports[{STAGED}].buffer": "nothing"},
        f"m.transports[{STAGED}].buffer: found 'nothing', expected a STAGING buffer",
    ),
    attack(
        "a staged value goes to a state",
        {f"transports[{STAGED}].buffer": "resident"},
        f"m.transports[{STAGED}].buffer: found 'resident', expected a STAGING buffer",
    ),
    attack(
        "a resident value goes to staging",
        {f"transports[{TABLE}].buffer": "staging"},
        f"m.transports[{TABLE}].buffer: found 'staging', expected a STATE buffer",
    ),
    attack(
        "rows of a destination overlap",
        {f"transports[{TABLE}].row_stride": 255},
        f"m.transports[{TABLE}].row_stride: found 255, expected at least 256",
    ),
    attack(
        "the last staged row leaves staging",
        {f"transports[{STAGED}].offset": STAGING_NBYTES - 36 * 4 + 1},
        f"m.transports[{STAGED}].offset: found {STAGING_NBYTES - 36 * 4 + 1}, "
        f"expected an extent within {STAGING_NBYTES} bytes",
    ),
    attack(
        "a slot's row leaves its state",
        {f"transports[{TABLE}].offset": STAGING_NBYTES - 255},
        f"m.transports[{TABLE}].offset: found {STAGING_NBYTES - 255}, "
        f"expected an extent within {STAGING_NBYTES} bytes",
    ),
    attack(
        "records go to a buffer that is not there",
        {"completion.buffer": "nothing"},
        "m.completion.buffer: found 'nothing', expected a COMPLETION buffer",
    ),
    attack(
        "records go to staging",
        {"completion.buffer": "staging"},
        "m.completion.buffer: found 'staging', expected a COMPLETION buffer",
    ),
    attack(
        "a field is recorded twice",
        {"completion.slots": (*PLAIN.completion.slots, PLAIN.completion.slots[0])},
        "m.completion.slots: found 'RECORD_SEQUENCE', expected each name once",
    ),
    attack(
        "no tokens are recorded",
        {"completion.slots": WITHOUT_TOKENS},
        "m.completion.slots: found too few, expected also LANE_TOKENS",
    ),
    attack(
        "lanes of a record overlap",
        {f"completion.slots[{TOKENS}].row_stride": 31},
        f"m.completion.slots[{TOKENS}].row_stride: found 31, expected at least 32",
    ),
    attack(
        "a lane leaves the record",
        {f"completion.slots[{TOKENS}].offset": (1 << 14) - 3 * 64 - 31},
        f"m.completion.slots[{TOKENS}].offset: found {(1 << 14) - 3 * 64 - 31}, "
        "expected an extent within 16384 bytes",
    ),
    attack(
        "the header is not staged",
        {"header.buffer": "resident"},
        "m.header.buffer: found 'resident', expected a STAGING buffer",
        clauses=("HV-17",),
    ),
    attack(
        "the header is in a buffer that is not there",
        {"header.buffer": "nothing"},
        "m.header.buffer: found 'nothing', expected a STAGING buffer",
        clauses=("HV-17",),
    ),
    *(
        attack(
            f"the {name} is at {offset}",
            {f"header.{name}": offset},
            f"m.header.{name}: found {offset}, "
            f"expected an aligned place within {STAGING_NBYTES} bytes",
            clauses=("HV-17",),
        )
        for name, offset in (
            ("sequence_offset", 4),
            ("sequence_offset", STAGING_NBYTES),
            ("frame_offset", 2),
            ("program_offset", STAGING_NBYTES),
        )
    ),
]


@pytest.mark.clause("OB-12")
@pytest.mark.parametrize(("changes", "sentence"), [*NAMES, *LAUNCHES, *CATALOGS, *TRANSPORT])
def test_a_broken_manifest_is_refused(changes: dict[str, object], sentence: str) -> None:
    with refused(sentence):
        check_manifest(put(PLAIN, changes), at="m")


EDGES = [
    attack("the last staged row", {f"transports[{STAGED}].offset": STAGING_NBYTES - 36 * 4}),
    attack("the last resident row", {f"transports[{TABLE}].offset": STAGING_NBYTES - 256}),
    attack("the last lane", {f"completion.slots[{TOKENS}].offset": (1 << 14) - 3 * 64 - 32}),
    attack("lanes that touch", {f"completion.slots[{TOKENS}].row_stride": 32}),
    attack("the last address", {"launches[0].relocations[0].addend": 1023}),
    attack("a header at the start", {"header.sequence_offset": 8, "header.frame_offset": 4}),
    attack("a header at the end", {"header.sequence_offset": STAGING_NBYTES - 8}),
]


@pytest.mark.parametrize("changes", EDGES)
def test_the_edge_itself_is_accepted(changes: dict[str, object]) -> None:
    check_manifest(put(PLAIN, changes), at="m")


@pytest.mark.parametrize(("rows", "is_apart"), [(2, False), (1, True)])
def test_only_more_than_one_lane_can_overlap(rows: int, *, is_apart: bool) -> None:
    changes = {"completion.rows": rows, f"completion.slots[{TOKENS}].row_stride": 0}
    if is_apart:
        check_manifest(put(PLAIN, changes), at="m")
        return
    with refused(f"m.completion.slots[{TOKENS}].row_stride: found 0, expected at least 32"):
        check_manifest(put(PLAIN, changes), at="m")


@pytest.mark.parametrize("target", [Target.REFERENCE, Target.SCRIPTED])
def test_what_is_not_compiled_needs_no_images(target: Target) -> None:
    check_manifest(put(PLAIN, {"target": target, "images": ()}), at="m")


def test_a_value_a_record_needs_no_stride() -> None:
    single = next(slot for slot in PLAIN.completion.slots if slot.field < CompletionField.LANE_SLOT)
    assert single.row_stride == 0
    check_manifest(PLAIN, at="m")


@pytest.mark.parametrize(
    "field",
    [
        CompletionField.LANE_LOGPROB,
        CompletionField.LANE_TOP_IDS,
        CompletionField.LANE_TOP_LOGPROBS,
        CompletionField.TOKEN_LOGPROB,
        CompletionField.TOKEN_TOP_IDS,
        CompletionField.TOKEN_TOP_LOGPROBS,
    ],
)
def test_log_probabilities_may_go_unrecorded(field: CompletionField) -> None:
    slots = tuple(slot for slot in PLAIN.completion.slots if slot.field is not field)
    check_manifest(put(PLAIN, {"completion.slots": slots}), at="m")


def test_every_role_of_a_buffer_stands_in_a_specimen() -> None:
    roles = {item.role for manifest in MANIFESTS.values() for item in manifest.buffers}
    assert roles == set(BufferRole)
