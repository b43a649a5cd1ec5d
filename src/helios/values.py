"""Words that every room shares: ids, units, the clock, and errors by who must act."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Final, NewType, Protocol

RequestId = NewType("RequestId", int)
Slot = NewType("Slot", int)  # a physical request row
PageId = NewType("PageId", int)
Generation = NewType("Generation", int)  # grows each time a slot changes hands
ProgramId = NewType("ProgramId", int)  # index among the manifest's programs
TokenId = NewType("TokenId", int)
Sequence = NewType("Sequence", int)  # of submissions, from 1


class Clock(Protocol):
    """Monotonic time; made up in simulations."""

    def now_ns(self) -> int:
        """Nanoseconds since the clock's origin."""


class MonotonicClock:
    """The machine's monotonic time, counted from when this object was made (TO-10)."""

    def __init__(self) -> None:
        self._origin = time.monotonic_ns()

    def now_ns(self) -> int:
        """Nanoseconds since the origin."""
        return time.monotonic_ns() - self._origin


class HeliosError(Exception):
    """What Helios refuses or fails at.  The class decides the answer, never the text."""


class RequestInvalid(HeliosError):
    """The client must change the request; `field` names what to change."""

    def __init__(self, field: str, found: object, *, expected: str) -> None:
        super().__init__(f"{field}: found {found}, expected {expected}")
        self.field = field


class IngressFull(HeliosError):
    """The client may try again later."""


class AdmissionRejected(HeliosError):
    """This server cannot ever, or cannot now, hold the request."""


class ExecutionFailed(HeliosError):
    """The model or the device failed; the request is not to blame."""


class StartRefused(HeliosError):
    """The server cannot start: what was found, what was expected, what to do."""


STATUS: Final[Mapping[type[HeliosError], int]] = {
    RequestInvalid: 400,
    IngressFull: 429,
    ExecutionFailed: 500,
    AdmissionRejected: 503,
}
