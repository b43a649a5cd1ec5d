"""What each operation asks of a lane: its part of a submission."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from msgspec.structs import replace

from helios.rounds import NO_TARGET, LaneWork
from helios.schedule.lane import Lane
from helios.schedule.lanes import Phase, Share
from helios.values import PageId
from prepared.contract import Operation

Work = Callable[[Lane, Share, Sequence[PageId]], LaneWork]


def initialize(lane: Lane, _share: Share, fresh: Sequence[PageId]) -> LaneWork:
    """A slot changes hands; full pages of its history may be there already."""
    return replace(lane.work(0, fresh, pages=False), admission=lane.admission())


def restore(lane: Lane, _share: Share, fresh: Sequence[PageId]) -> LaneWork:
    """A slot changes hands, and its partial page is copied into a private one (AH-16)."""
    return replace(lane.work(0, fresh), admission=lane.admission(), restore=lane.restore())


def resume(lane: Lane, _share: Share, fresh: Sequence[PageId]) -> LaneWork:
    """Its last token becomes pending again (HV-32)."""
    return replace(lane.work(0, fresh, pages=False), pending=lane.tokens[-1])


def prefill(lane: Lane, share: Share, fresh: Sequence[PageId]) -> LaneWork:
    """A chunk of a prompt."""
    first = lane.submitted
    fed = tuple(lane.tokens[first : first + share.tokens])
    return lane.work(share.tokens, fresh, tokens=fed, emits=int(share.samples))


def scored_prefill(lane: Lane, share: Share, fresh: Sequence[PageId]) -> LaneWork:
    """A chunk whose rows score the tokens that follow; the prompt's last row has none."""
    first = lane.submitted + 1
    prompt = lane.request.prompt
    targets = prompt[first : first + share.tokens]
    unscored = (NO_TARGET,) * (share.tokens - len(targets))
    return replace(prefill(lane, share, fresh), targets=(*targets, *unscored))


def decode(lane: Lane, share: Share, fresh: Sequence[PageId]) -> LaneWork:
    """A pending token that the device holds, and rows for proposals."""
    return lane.work(share.tokens, fresh, emits=share.tokens)


def mixed(lane: Lane, share: Share, fresh: Sequence[PageId]) -> LaneWork:
    """A pending token, or the chunk of the one prompt."""
    decodes = lane.phase is Phase.DECODE
    return decode(lane, share, fresh) if decodes else prefill(lane, share, fresh)


def publish(lane: Lane, _share: Share, fresh: Sequence[PageId]) -> LaneWork:
    """A partial page goes to continuation storage (AH-05)."""
    return replace(lane.work(0, fresh), snapshot=lane.snapshot())


WORK: Final[Mapping[Operation, Work]] = {
    Operation.INITIALIZE: initialize,
    Operation.RESTORE: restore,
    Operation.RESUME: resume,
    Operation.PREFILL: prefill,
    Operation.SCORED_PREFILL: scored_prefill,
    Operation.DECODE: decode,
    Operation.SPECULATIVE: decode,
    Operation.MIXED: mixed,
    Operation.PUBLISH_SNAPSHOT: publish,
}
"""Every operation that text serving submits."""

WITHOUT_PAGES: Final = frozenset({Operation.INITIALIZE, Operation.RESUME})
"""They bind no page table: pages are for the submission that first reads one."""
