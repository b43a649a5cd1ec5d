"""What the next round does, from views alone.

Short work first: admissions, resumptions and publications take microseconds, let a prompt begin
or a slot go.  When prompts and decoding both wait, one program serves both if the core has one,
with no more of the prompt than the token gap allows; else they take turns.  A lane that needs a
page when there is none makes the youngest give way; the oldest never does, so it always finishes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from operator import attrgetter
from typing import Final

from helios.cache.pages import pages_for
from helios.rounds import ProgramView
from helios.schedule.caps import Budget, prefill_tokens
from helios.schedule.gates import CacheView
from helios.schedule.lanes import LaneView, Phase, Plan, Preempt, RosterView, Share
from prepared.contract import Operation

FRAMES: Final = 2

ARRIVAL: Final = attrgetter("arrival")
BARRIER: Final = attrgetter("barrier")

PROMPTS: Final = frozenset({Operation.PREFILL, Operation.SCORED_PREFILL, Operation.MIXED})
"""Operations that feed prompts."""

Programs = Mapping[Operation, Sequence[ProgramView]]
"""Selected programs by operation, smallest first."""


def by_operation(programs: Iterable[ProgramView]) -> Programs:
    """Programs as planning looks for them."""
    found: dict[Operation, list[ProgramView]] = {}
    for program in sorted(programs, key=lambda program: (program.packed_tokens, program.rows)):
        found.setdefault(program.operation, []).append(program)
    return found


def plan_round(
    roster: RosterView,
    cache: CacheView,
    programs: Programs,
    *,
    last: Operation | None,
    gap_tokens: int,
) -> Plan | Preempt | None:
    """The next submission, a lane that must give way, or nothing to do now."""
    lanes = roster.lanes
    if any(map(BARRIER, lanes)) and any(lane.in_flight for lane in lanes):
        return None  # the host has yet to see a token that decides what may follow
    if short := short_round(lanes, cache, programs):
        return short
    decode = decode_round(lanes, cache, programs)
    prompts = [lane for lane in by_age(lanes, Phase.PREFILL) if not lane.scores]
    scored = [lane for lane in by_age(lanes, Phase.PREFILL) if lane.scores]
    gap = gap_tokens if decode else None
    if decode and decode.program.operation is Operation.DECODE and Operation.MIXED in programs:
        mixed = mixed_round(
            decode, prompts, cache, programs[Operation.MIXED], gap_tokens=gap_tokens
        )
        if mixed:
            return mixed
    prefill = prefill_round(prompts, cache, programs[Operation.PREFILL], gap_tokens=gap)
    if prefill is None and scored:
        scoring = programs[Operation.SCORED_PREFILL]
        prefill = prefill_round(scored, cache, scoring, gap_tokens=gap)
    if decode and (prefill is None or last in (Operation.PREFILL, Operation.SCORED_PREFILL)):
        return decode
    return prefill or decode or make_room(lanes)


def smallest(programs: Sequence[ProgramView], shares: Sequence[Share]) -> ProgramView:
    """The smallest program that holds a round."""
    tokens = [share.tokens for share in shares]
    longest, total = max(tokens), sum(tokens)
    return next(
        program
        for program in programs
        if program.rows >= len(shares)
        and program.row_tokens >= longest
        and program.packed_tokens >= total
    )


def by_age(lanes: Iterable[LaneView], phase: Phase) -> list[LaneView]:
    """Lanes of a phase, oldest first."""
    return sorted((lane for lane in lanes if lane.phase is phase), key=ARRIVAL)


# -------------------------------------------------------------- short work


def short_round(lanes: Sequence[LaneView], cache: CacheView, programs: Programs) -> Plan | None:
    """Lanes that await one step of their slot, as many as one program holds."""
    idle = [lane for lane in lanes if not lane.in_flight]
    admitted = by_age(idle, Phase.ADMITTED)
    steps = (
        (Operation.PUBLISH_SNAPSHOT, by_age(idle, Phase.PUBLISHING)),
        (Operation.RESUME, by_age(idle, Phase.RESUMING)),
        (Operation.RESTORE, with_room([lane for lane in admitted if lane.restores], cache)),
        (Operation.INITIALIZE, [lane for lane in admitted if not lane.restores]),
    )
    for operation, ready in steps:
        if ready:
            fitting = programs[operation]
            shares = tuple(
                Share(slot=lane.slot, tokens=0, samples=False) for lane in ready[: fitting[-1].rows]
            )
            return Plan(program=smallest(fitting, shares), shares=shares)
    return None


def with_room(lanes: Sequence[LaneView], cache: CacheView) -> Sequence[LaneView]:
    """Of lanes that each need a private page, those for which there is one."""
    return lanes[: cache.free_pages]


# ------------------------------------------------------------------ tokens


def decode_round(lanes: Iterable[LaneView], cache: CacheView, programs: Programs) -> Plan | None:
    """A token, or with proposals several, for every lane that may have one and gets pages.

    No mask meets a learned draft: with a lane under a grammar, every lane gets one token.
    """
    waiting = by_age(lanes, Phase.DECODE)
    several = programs.get(Operation.SPECULATIVE)
    if several and any(lane.masked for lane in waiting):
        several = None
    fitting = several or programs[Operation.DECODE]
    largest, free, shares = fitting[-1], cache.free_pages, list[Share]()
    width, size = largest.row_tokens, cache.page_tokens
    frames = 1 if width > 1 else FRAMES  # where a lane ends is known afterwards
    for lane in waiting:
        if len(shares) == largest.rows:
            break
        if lane.in_flight >= frames:
            continue
        tokens, room = lane.output_left, lane.held_pages * size - lane.submitted
        if tokens > width:
            tokens = width
        if tokens > room:
            tokens = min(tokens, room + free * size)
            free -= pages_for(tokens - room, page_tokens=size)
        if tokens < 1:
            continue
        shares.append(Share(slot=lane.slot, tokens=tokens, samples=True))
    if not shares:
        return None
    return Plan(program=smallest(fitting, shares), shares=tuple(shares))


def prompt_share(
    lane: LaneView,
    cache: CacheView,
    program: ProgramView,
    *,
    rows: int,
    free_pages: int,
    gap_tokens: int | None,
) -> Share | None:
    """As much of a lane's prompt as fits."""
    budget = Budget(
        round_tokens=rows,
        program_row_tokens=program.row_tokens,
        page_tokens=cache.page_tokens,
        free_pages=free_pages,
        held_pages=lane.held_pages,
        gap_tokens=gap_tokens,
    )
    tokens = prefill_tokens(lane, budget)
    if not tokens:
        return None
    return Share(slot=lane.slot, tokens=tokens, samples=lane.submitted + tokens == lane.known)


def prefill_round(
    prompts: Sequence[LaneView],
    cache: CacheView,
    programs: Sequence[ProgramView],
    *,
    gap_tokens: int | None,
) -> Plan | None:
    """Prompt chunks of the oldest lanes, as many as the largest program holds."""
    largest, free, shares = programs[-1], cache.free_pages, list[Share]()
    left = largest.packed_tokens if gap_tokens is None else min(gap_tokens, largest.packed_tokens)
    for lane in prompts:
        if len(shares) == largest.rows or not left:
            break
        share = prompt_share(
            lane, cache, largest, rows=left, free_pages=free, gap_tokens=gap_tokens
        )
        if share is None:
            continue
        end = lane.submitted + share.tokens
        free -= max(0, pages_for(end, page_tokens=cache.page_tokens) - lane.held_pages)
        left -= share.tokens
        shares.append(share)
    if not shares:
        return None
    return Plan(program=smallest(programs, shares), shares=tuple(shares))


def mixed_round(
    decode: Plan,
    prompts: Sequence[LaneView],
    cache: CacheView,
    programs: Sequence[ProgramView],
    *,
    gap_tokens: int,
) -> Plan | None:
    """Decoding lanes and a chunk of the oldest prompt, in one program (HV-06)."""
    largest = programs[-1]
    shares = decode.shares[: largest.rows - 1]
    free = cache.free_pages - len(shares)  # each may take a page
    rows = largest.packed_tokens - len(shares)
    for lane in prompts:
        share = prompt_share(
            lane, cache, largest, rows=rows, free_pages=max(0, free), gap_tokens=gap_tokens
        )
        if share is not None:
            mixed = (*shares, share)
            return Plan(program=smallest(programs, mixed), shares=mixed, mixed_row=len(shares))
    return None


def make_room(lanes: Sequence[LaneView]) -> Preempt | None:
    """The youngest lane gives way when nobody can go on and nothing is in flight."""
    if any(lane.in_flight for lane in lanes):
        return None
    stuck = [
        lane
        for lane in lanes
        if lane.phase in (Phase.ADMITTED, Phase.RESUMING, Phase.PREFILL, Phase.DECODE)
    ]
    if len(stuck) < 2:  # noqa: PLR2004 - the oldest stays, so two are needed
        return None
    return Preempt(slot=max(stuck, key=lambda lane: lane.arrival).slot)
