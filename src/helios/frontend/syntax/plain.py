"""An answer without a syntax: every text is content, control tokens are nothing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Protocol

from helios.frontend.syntax.events import Content, Event
from helios.frontend.syntax.pieces import AddedToken, Piece


class Reader(Protocol):
    """What turns pieces into events."""

    @property
    def thinking(self) -> bool:
        """Whether what comes next is still reasoning."""

    def feed(self, piece: Piece) -> list[Event]:
        """The events that this piece completes."""

    def close(self, *, truncated: bool) -> list[Event]:
        """The events that were held back."""


class PlainText:
    """Reads a completion."""

    thinking: Final = False

    def __init__(self, added: Mapping[int, AddedToken]) -> None:
        self._added = added

    def feed(self, piece: Piece) -> list[Event]:
        """See `Reader`."""
        token = self._added.get(piece.token_id)
        control = token is not None and token.special and token.text == piece.text
        return [] if control or not piece.text else [Content(piece.text)]

    def close(self, *, truncated: bool) -> list[Event]:
        """See `Reader`."""
        del truncated
        return []
