"""Marks: added tokens that occur in declared terminals, written as single characters.

Inside the machine, text is a string in which such a token is one lone surrogate, which decoded
text never contains.  So a terminal is a plain string, counts only when generated as its tokens
(FI-07), and its spelling by other tokens is other text.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final

from helios.frontend.syntax.pieces import AddedToken, Piece

FIRST_MARK: Final = 0xD800
MARK: Final = re.compile("[\ud800-\udfff]")


class Marks:
    """The alphabet of one syntax."""

    def __init__(self, added: Mapping[int, AddedToken], terminals: Iterable[str]) -> None:
        self.added: Final = added
        wanted = list(terminals)
        used = [
            (number, token)
            for number, token in sorted(added.items())
            if token.text.strip() and any(token.text in terminal for terminal in wanted)
        ]
        self.ids: Final = frozenset(number for number, _ in used)
        self._mark = {number: chr(FIRST_MARK + at) for at, (number, _) in enumerate(used)}
        self._token = {self._mark[number]: token for number, token in used}
        longest = sorted(used, key=lambda pair: -len(pair[1].text))
        self._spelling = re.compile("|".join(re.escape(t.text) for _, t in longest) or "(?!)")
        self._by_text = {token.text: self._mark[number] for number, token in used}

    def written(self, terminal: str) -> str:
        """A terminal as the machine sees it generated."""
        return self._spelling.sub(lambda found: self._by_text[found[0]], terminal)

    def seen(self, piece: Piece) -> str:
        """A generated piece; a control token that no terminal has is nothing (T-15)."""
        mark = self._mark.get(piece.token_id)
        token = self.added.get(piece.token_id)
        if token is None or token.text != piece.text:
            return MARK.sub("\ufffd", piece.text)
        if mark is not None:
            return mark
        return "" if token.special else piece.text

    def plain(self, text: str, *, control: bool) -> str:
        """The text of marks that turned out to be data; control tokens only if asked for."""

        def spelled(found: re.Match[str]) -> str:
            token = self._token[found[0]]
            return token.text if control or not token.special else ""

        return MARK.sub(spelled, text)
