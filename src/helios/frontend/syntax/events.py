"""What an answer consists of, as it is made: frozen events in the order of generation.

Always: indices count from 0 without gaps; the `Arguments` of an index joined are the start of a
JSON object, and all of it once `CallClosed` was sent.  A call that is never closed was cut off
or spoilt by the model, and nobody may report it as finished (T-27).
"""

from __future__ import annotations

import msgspec


class Reasoning(msgspec.Struct, frozen=True, tag=True):
    """Text of the reasoning."""

    text: str


class Content(msgspec.Struct, frozen=True, tag=True):
    """Text of the answer."""

    text: str


class CallOpened(msgspec.Struct, frozen=True, tag=True):
    """A call begins; `call_id` where the syntax itself carries one."""

    index: int
    name: str
    call_id: str | None = None


class Arguments(msgspec.Struct, frozen=True, tag=True):
    """The next characters of a call's arguments."""

    index: int
    text: str


class CallClosed(msgspec.Struct, frozen=True, tag=True):
    """A call is complete: its arguments are one JSON object."""

    index: int


Event = Reasoning | Content | CallOpened | Arguments | CallClosed
