"""What the next round does, from views alone.

Admissions first: they take microseconds and let a prompt begin.  Then prompts and decoding
take turns when both wait.  A lane that needs a page when there is none makes the youngest
lane give way; the oldest lane never does, so it always finishes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from helios.cache.pages import pages_for
from helios.rounds import ProgramView
from helios.schedule.caps import Budget, prefill_tokens
from helios.schedule.gates import CacheView
from helios.schedule.lanes import LaneView, Phase, Plan, Preempt, RosterView, Share
from prepared.contract import Operation

FRAMES = 2


def plan_round(
    roster: RosterView,
    cache: CacheView,
    programs: Sequence[ProgramView],
    *,
    last: Operation | None,
) -> Plan | Preempt | None:
    """The next submission, a lane that must give way, or nothing to do now."""
    idle = (lane for lane in roster.lanes if not lane.in_flight)
    if admitted := by_age(idle, Phase.ADMITTED):
        return initialize_round(admitted, of(programs, Operation.INITIALIZE))
    decode = decode_round(roster.lanes, cache, of(programs, Operation.DECODE))
    prefill = prefill_round(roster.lanes, cache, of(programs, Operation.PREFILL))
    if decode and (prefill is None or last is Operation.PREFILL):
        return decode
    return prefill or decode or make_room(roster.lanes)


def of(programs: Iterable[ProgramView], operation: Operation) -> list[ProgramView]:
    """Programs of an operation, smallest first."""
    found = [program for program in programs if program.operation is operation]
    return sorted(found, key=lambda program: (program.packed_tokens, program.rows))


def smallest(programs: Sequence[ProgramView], shares: Sequence[Share]) -> ProgramView:
    """The smallest program that holds a round."""
    longest = max(share.tokens for share in shares)
    total = sum(share.tokens for share in shares)
    return next(
        program
        for program in programs
        if program.rows >= len(shares)
        and program.row_tokens >= longest
        and program.packed_tokens >= total
    )


def initialize_round(lanes: Sequence[LaneView], programs: Sequence[ProgramView]) -> Plan:
    """Admit as many lanes as one program holds."""
    shares = tuple(
        Share(slot=lane.slot, tokens=0, samples=False) for lane in lanes[: programs[-1].rows]
    )
    return Plan(program=smallest(programs, shares), shares=shares)


def by_age(lanes: Iterable[LaneView], phase: Phase) -> list[LaneView]:
    """Lanes of a phase, oldest first."""
    return sorted((lane for lane in lanes if lane.phase is phase), key=lambda lane: lane.arrival)


def decode_round(
    lanes: Iterable[LaneView], cache: CacheView, programs: Sequence[ProgramView]
) -> Plan | None:
    """One token for every lane that may have one and has, or gets, a page for it."""
    free, shares = cache.free_pages, list[Share]()
    for lane in by_age(lanes, Phase.DECODE):
        if len(shares) == programs[-1].rows:
            break
        if lane.in_flight >= FRAMES or lane.output_left <= 0:
            continue
        wanted = pages_for(lane.submitted + 1, page_tokens=cache.page_tokens) - lane.pages
        if wanted > free:
            continue
        free -= max(0, wanted)
        shares.append(Share(slot=lane.slot, tokens=1, samples=True))
    if not shares:
        return None
    return Plan(program=smallest(programs, shares), shares=tuple(shares))


def prefill_round(
    lanes: Iterable[LaneView], cache: CacheView, programs: Sequence[ProgramView]
) -> Plan | None:
    """Prompt chunks of the oldest lanes, as many as the largest program holds."""
    largest = programs[-1]
    left, free, shares = largest.packed_tokens, cache.free_pages, list[Share]()
    for lane in by_age(lanes, Phase.PREFILL):
        if len(shares) == largest.rows or not left:
            break
        budget = Budget(
            round_tokens=left,
            program_row_tokens=largest.row_tokens,
            page_tokens=cache.page_tokens,
            free_pages=free,
            held_pages=lane.pages,
        )
        tokens = prefill_tokens(lane, budget)
        if not tokens:
            continue
        end = lane.submitted + tokens
        free -= max(0, pages_for(end, page_tokens=cache.page_tokens) - lane.pages)
        left -= tokens
        shares.append(Share(slot=lane.slot, tokens=tokens, samples=end == lane.tokens))
    if not shares:
        return None
    return Plan(program=smallest(programs, shares), shares=tuple(shares))


def make_room(lanes: Sequence[LaneView]) -> Preempt | None:
    """The youngest lane gives way when nobody can go on and nothing is in flight."""
    if any(lane.in_flight for lane in lanes):
        return None
    stuck = [lane for lane in lanes if lane.phase in (Phase.PREFILL, Phase.DECODE)]
    if len(stuck) < 2:  # noqa: PLR2004 - the oldest stays, so two are needed
        return None
    return Preempt(slot=max(stuck, key=lambda lane: lane.arrival).slot)
