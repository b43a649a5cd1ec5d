"""Words that every room shares: ids, units, the clock, and errors by who must act."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Final, NewType, Protocol

RequestId = NewType("RequestId", int)
Slot = NewType("Slot", int)  # a physical request row
PageId = NewType("PageId", int)
SnapshotRow = NewType("SnapshotRow", int)  # of continuation storage
HostSlot = NewType("HostSlot", int)  # a page's place in host memory
Generation = NewType("Generation", int)  # grows each time a slot changes hands
ProgramId = NewType("ProgramId", int)  # index among the manifest's programs
TokenId = NewType("TokenId", int)
Sequence = NewType("Sequence", int)  # of submissions, from 1


PROOF: Final = RequestId(0)
"""The request that proves, before anything is served, that the model runs."""


class Clock(Protocol):
    """Monotonic time; made up in simulations."""

    def now_ns(self) -> int:
        """Nanoseconds since the clock's origin."""


class MonotonicClock:
    """The machine's monotonic time, counted from when the server began (TO-10).

    Front and worker count from the same origin, so that their times can be compared.
    """

    def __init__(self, origin_ns: int) -> None:
        self._origin = origin_ns

    def now_ns(self) -> int:
        """Nanoseconds since the origin."""
        return time.monotonic_ns() - self._origin


class HeliosError(Exception):
    """What Helios refuses or fails at.  The class decides the answer, never the text."""


class RequestInvalid(HeliosError):
    """The client must change the request; `field` names what to change."""

    def __init__(self, field: str, found: object, *, expected: str) -> None:
        super().__init__(f"{field}: found {found}, expected {expected}")
        self.field, self.found, self.expected = field, found, expected

    def at(self, field: str) -> RequestInvalid:
        """The same about the field by the name that a client knows."""
        return RequestInvalid(field, self.found, expected=self.expected)


class BodyTooLarge(RequestInvalid):
    """The client must send less."""


class BodyTooSlow(RequestInvalid):
    """The client must send its body without long pauses."""


class WrongMedia(RequestInvalid):
    """The client must send JSON."""


class NotServed(RequestInvalid):
    """The client asked about something that this server does not have."""


class KeyRefused(HeliosError):
    """The client must bring a key."""


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
    KeyRefused: 401,
    NotServed: 404,
    BodyTooSlow: 408,
    BodyTooLarge: 413,
    WrongMedia: 415,
    IngressFull: 429,
    ExecutionFailed: 500,
    AdmissionRejected: 503,
}
