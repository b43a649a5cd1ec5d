"""Scratch memory: lifetimes to offsets, shared by everything that is not alive at once.

Always: two pieces of scratch that are alive at the same launch do not overlap (`audit`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ignition.plan.launches import ALIGNMENT, PlannedLaunch


@dataclass(frozen=True, slots=True)
class Life:
    """The first and the last launch that touch a piece of scratch."""

    first: int
    last: int

    def meets(self, other: Life) -> bool:
        """Whether both are alive at some launch."""
        return self.first <= other.last and other.first <= self.last


def lives_of(launches: Sequence[PlannedLaunch], scratch: Mapping[str, int]) -> dict[str, Life]:
    """When each piece of scratch is alive."""
    lives: dict[str, Life] = {}
    for index, launch in enumerate(launches):
        for place in launch.addresses.values():
            if place.name in scratch:
                first = lives[place.name].first if place.name in lives else index
                lives[place.name] = Life(first, index)
    return lives


def place_scratch(sizes: Mapping[str, int], lives: Mapping[str, Life]) -> dict[str, int]:
    """An offset for each piece: the largest first, each at the lowest place that is free."""
    offsets: dict[str, int] = {}
    for name in sorted(lives, key=lambda piece: (-sizes[piece], piece)):
        taken = sorted(
            (offsets[other], offsets[other] + sizes[other])
            for other in offsets
            if lives[other].meets(lives[name])
        )
        offset = 0
        for begin, end in taken:
            if offset + sizes[name] <= begin:
                break
            offset = max(offset, -(-end // ALIGNMENT) * ALIGNMENT)
        offsets[name] = offset
    audit(sizes, lives, offsets)
    return offsets


def audit(sizes: Mapping[str, int], lives: Mapping[str, Life], offsets: Mapping[str, int]) -> None:
    """Prove that nothing alive overlaps."""
    names = sorted(offsets)
    for index, name in enumerate(names):
        for other in names[index + 1 :]:
            apart = (
                offsets[name] + sizes[name] <= offsets[other]
                or offsets[other] + sizes[other] <= offsets[name]
            )
            assert apart or not lives[name].meets(lives[other]), f"{name} overlaps {other}"


def extent_of(sizes: Mapping[str, int], offsets: Mapping[str, int]) -> int:
    """Bytes that the placement needs."""
    return max((offsets[name] + sizes[name] for name in offsets), default=ALIGNMENT)
