"""What crosses to the worker: one grammar for all that a request may generate."""

from __future__ import annotations

import msgspec


class Constraint(msgspec.Struct, frozen=True, kw_only=True):
    """The grammar of a whole output, envelope included, as llguidance reads it."""

    grammar: str
