"""Writing grammars in llguidance's Lark: literals, tokens, rules with names of their own.

A declared literal counts as the tokens that the tokenizer makes of its markers (FI-07): an added
token in it is written by its id, so the grammar never admits the same characters spelled by other
tokens, and free text never admits the marker's token.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Mapping
from typing import Final

from prepared.contract import Marker

FREE: Final = "/(?s:.)*/"


class Spelling:
    """The tokens a grammar may name: added tokens by their text, and how many ids there are."""

    def __init__(self, added: Mapping[str, int], *, tokens: int, eos_ids: Collection[int]) -> None:
        self._added = dict(added)
        longest = sorted(filter(None, added), key=len, reverse=True)
        self._pattern = re.compile("|".join(map(re.escape, longest)) or "(?!)")
        self._tokens, self._eos_ids = tokens, frozenset(eos_ids)

    def ids(self, text: str) -> list[int]:
        """The added tokens in a literal, in order."""
        return [self._added[found[0]] for found in self._pattern.finditer(text)]

    def parts(self, marker: Marker | str | None) -> list[str | int]:
        """A literal as text and the ids of added tokens."""
        if marker is None:
            return []
        if isinstance(marker, Marker):
            if marker.token_id is not None:
                return [marker.token_id]
            marker = marker.text
        parts: list[str | int] = []
        end = 0
        for found in self._pattern.finditer(marker):
            parts += [marker[end : found.start()], self._added[found[0]]]
            end = found.end()
        return [part for part in (*parts, marker[end:]) if part != ""]

    def written(self, *literals: Marker | str | None) -> str:
        """Literals one after another; nothing for those that are absent."""
        parts = [part for literal in literals for part in self.parts(literal)]
        return " ".join(f"<[{part}]>" if isinstance(part, int) else quoted(part) for part in parts)

    def text_of(self, *literals: Marker | str | None) -> str | None:
        """Literals as one text, if no token is among them."""
        parts = [part for literal in literals for part in self.parts(literal)]
        return None if any(isinstance(part, int) for part in parts) else "".join(map(str, parts))

    def anything_but(self, *ids: int) -> str:
        """Any run of tokens without these and without an end: unconstrained output (G-01)."""
        barred = sorted({*ids, *self._eos_ids})
        edges = [-1, *(number for number in barred if number < self._tokens), self._tokens]
        ranges = [
            f"{before + 1}-{after - 1}"
            for before, after in zip(edges, edges[1:], strict=False)
            if after - before > 1
        ]
        return f"<[{','.join(ranges)}]>*"


def quoted(text: str) -> str:
    """A text as a Lark string."""
    return json.dumps(text, ensure_ascii=False)


def escaped(text: str) -> str:
    """A text inside a Lark regular expression."""
    plain = re.sub(r"([\\.+*?()|\[\]{}^$#&~\-/])", r"\\\1", text)
    return plain.replace("\n", "\\n").replace("\r", "\\r").replace("\t", "\\t")


def either(alternatives: Iterable[str]) -> str:
    """One of several, in brackets."""
    found = [alternative or '""' for alternative in alternatives]
    return found[0] if len(found) == 1 else "(" + " | ".join(found) + ")"


EVERY_SPELLING: Final = '%llguidance {"no_forcing": true}'
"""Masks allow every way to cut an allowed text into tokens, as advancing does: what a mask
forbids is forbidden, and nothing else."""


class Rules:
    """The rules of a grammar as they are written."""

    def __init__(self) -> None:
        self._lines: dict[str, str] = {}
        self._numbers: dict[str, int] = {}

    def add(self, stem: str, body: str, *, suffix: str | None = None) -> str:
        """A rule with a fresh name; with a suffix it is the shortest text up to it."""
        number = self._numbers.get(stem, 0)
        self._numbers[stem] = number + 1
        name = f"{stem}_{number}"
        self._lines[name] = f"{name}{f'[suffix={suffix}]' if suffix else ''}: {body}"
        return name

    def put(self, name: str, body: str) -> None:
        """What a rule with a name of its own says after all: rules may refer to each other."""
        self._lines[name] = f"{name}: {body}"

    def once(self, name: str, body: str, *, suffix: str | None = None) -> str:
        """A rule that is written when first needed."""
        self._lines.setdefault(name, f"{name}{f'[suffix={suffix}]' if suffix else ''}: {body}")
        return name

    def written(self, start: str) -> str:
        """The grammar."""
        return "\n".join([EVERY_SPELLING, f"start: {start}", *self._lines.values()]) + "\n"
