"""What goes wrong in a history: the Nth launch, fence, copy or byte of a completion record."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final


@dataclass(frozen=True, slots=True, kw_only=True)
class Flip:
    """A bit of a completion record that arrives wrong."""

    submission: int
    byte: int
    bit: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Faults:
    """Numbers count from one."""

    launches: frozenset[int] = field(default_factory=frozenset)  # submissions that fail
    stalls: frozenset[int] = field(default_factory=frozenset)  # whose fence comes late
    copies: frozenset[int] = field(default_factory=frozenset)  # between device and host
    flips: tuple[Flip, ...] = ()


NONE: Final = Faults()
STALL_NS: Final = 1_000_000_000
