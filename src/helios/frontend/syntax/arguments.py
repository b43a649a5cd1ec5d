"""Arguments written as separate keys and values become one JSON object, a piece at a time.

A value that may be a string streams as it comes; any other waits until it is complete, since its
JSON type shows only then.  Always: a key is written once (the first counts), and what was written
is the start of a JSON object.
"""

from __future__ import annotations

from enum import Enum
from typing import Final

from helios.frontend.syntax.notation import quoted
from helios.frontend.syntax.parameters import (
    NULL,
    Parameters,
    as_json,
    json_or_text,
    may_be_text,
)

TEXT_TYPES: Final = ("string", "true")
"""What a type attribute says of a value that is text as it stands; others announce JSON."""


class Typed(Enum):
    """How the value being written is typed."""

    SCHEMA = 1
    TEXT = 2
    JSON = 3


class TaggedArguments:
    """The arguments of one call."""

    def __init__(self, parameters: Parameters, *, as_json: bool) -> None:
        self._parameters, self._default = parameters, Typed.JSON if as_json else Typed.SCHEMA
        self._keys: set[str] = set()
        self._typed = self._default
        self._kinds: frozenset[str] = frozenset()
        self._held: str | None = ""  # None: the string streams
        self._dropped = False

    @property
    def empty(self) -> bool:
        """Whether no argument came yet."""
        return not self._keys

    def may_add(self, key: str) -> bool:
        """Whether this key may follow: new, and allowed by the schema."""
        return key not in self._keys and self._parameters.takes(key)

    def declares(self, key: str) -> bool:
        """Whether this key may follow even without the end of the value before it."""
        return key not in self._keys and self._parameters.declares(key)

    def begin(self, key: str, attribute: str | None) -> str:
        """Start a value."""
        self._dropped = key in self._keys
        if self._dropped:
            self._held = ""
            return ""
        lead = "{" if not self._keys else ", "
        self._keys.add(key)
        self._typed = self._default
        if attribute is not None:
            self._typed = Typed.TEXT if attribute in TEXT_TYPES else Typed.JSON
        self._kinds, self._held = self._parameters.kinds(key), ""
        return f'{lead}"{quoted(key)}": '

    def feed(self, text: str) -> str:
        """More of the value."""
        if self._held is None:
            return quoted(text)
        self._held += text
        if self._dropped or not self._held or not self._streams(self._held):
            return ""
        text, self._held = self._held, None
        return '"' + quoted(text)

    def _streams(self, text: str) -> bool:
        """Whether the value is known to be a string."""
        if self._typed is not Typed.SCHEMA:
            return self._typed is Typed.TEXT
        if not may_be_text(self._kinds):
            return False
        return NULL not in self._kinds or not NULL.startswith(text)

    def end(self) -> str:
        """The value is complete."""
        held, self._held = self._held, ""
        if self._dropped:
            return ""
        if held is None:
            return '"'
        if self._typed is Typed.SCHEMA:
            return as_json(held, self._kinds)
        return json_or_text(held) if self._typed is Typed.JSON else f'"{quoted(held)}"'

    def finish(self) -> str:
        """All values are there."""
        return "}" if self._keys else "{}"
