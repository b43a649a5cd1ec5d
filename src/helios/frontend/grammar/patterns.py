"""Regular expressions of clients, bounded before a compiler sees them.

A compiler unfolds counted repetition, and repetition within repetition multiplies.  It is the
first mask that then never ends, not the compiler, so no trial finds all of them.  Nothing here
understands a pattern: brackets are followed, classes and escapes skipped, counts multiplied.
"""

from __future__ import annotations

import re
from typing import Final

from helios.values import RequestInvalid

MOST_PATTERN_CHARACTERS: Final = 4096
MOST_REPETITION: Final = 10_000
"""The most a pattern's parts may be unfolded, repetitions within each other multiplied."""

COUNT: Final = r"(?P<count>\{\s*(?P<least>\d*)\s*(?:,\s*(?P<most>\d*)\s*)?\})"
GROUP: Final = r"(?P<open>\()|(?P<close>\))"
MOST_NESTED_NAMES: Final = 64
PART: Final = re.compile(
    rf"(?P<skip>\\.|\[\^?\]?(?:\\.|[^\]\\])*\]?)|{GROUP}|{COUNT}|(?P<one>.)", re.DOTALL
)
LARK: Final = re.compile(
    r"(?P<string>\"(?:\\.|[^\"\\])*\"i?)|/(?P<regex>(?:\\.|\[(?:\\.|[^\]\\])*\]|[^/\\])+)/[a-z]*"
    rf"|(?P<name>[A-Za-z_][\w\-]*)|{GROUP}|{COUNT}|~\s*(?P<from>\d+)(?:\s*\.\.\s*(?P<to>\d+))?",
    re.DOTALL,
)
DEFINITION: Final = re.compile(
    r"^[?!]*([A-Za-z_][\w\-]*)(?:\.\d+)?(?:\[[^\]]*\])?\s*:", re.MULTILINE
)
COMMENT: Final = re.compile(r"^\s*(?://|#).*$", re.MULTILINE)
DIRECTIVE: Final = re.compile(r"%\s*(?!ignore\b)\w+|@\w+")


def check_pattern(pattern: str, field: str) -> None:
    """Refuse a pattern that is long, or would be once unfolded."""
    if len(pattern) > MOST_PATTERN_CHARACTERS:
        raise RequestInvalid(
            field,
            f"a pattern of {len(pattern)} characters",
            expected=f"at most {MOST_PATTERN_CHARACTERS}",
        )
    size = unfolded(pattern)
    if size > MOST_REPETITION:
        raise RequestInvalid(
            field,
            f"a pattern that unfolds to {min(size, 10**15)} parts",
            expected=f"at most {MOST_REPETITION}",
        )


def check_grammar(grammar: str, field: str) -> None:
    """Refuse a client's grammar whose terminals unfold too far, or that reaches out of itself."""
    plain = COMMENT.sub("", grammar)
    outside = LARK.sub(lambda found: "" if found["string"] or found["regex"] else found[0], plain)
    if found := DIRECTIVE.search(outside):
        raise RequestInvalid(field, repr(found[0]), expected="rules, terminals and %ignore only")
    heads = list(DEFINITION.finditer(plain))
    ends = [*(head.start() for head in heads[1:]), len(plain)]
    bodies = {head[1]: plain[head.end() : end] for head, end in zip(heads, ends, strict=True)}
    sizes: dict[str, int] = {}
    for name in bodies:
        size = terminal_size(name, bodies, sizes, depth=0)
        if size > MOST_REPETITION:
            raise RequestInvalid(
                field,
                f"a definition {name} that unfolds to {min(size, 10**15)} parts",
                expected=f"at most {MOST_REPETITION}",
            )


def terminal_size(name: str, bodies: dict[str, str], sizes: dict[str, int], *, depth: int) -> int:
    """Parts of a definition, those of the terminals it names among them.

    Rules count as one where they are named: only terminals are written out.
    """
    if name not in sizes:
        if depth > MOST_NESTED_NAMES:
            return MOST_REPETITION + 1
        tally = Tally()
        for found in LARK.finditer(bodies[name]):
            if found["regex"] is not None:
                tally.add(unfolded(found["regex"]))
            elif (other := found["name"]) is not None:
                terminal = other.isupper() and other in bodies
                tally.add(terminal_size(other, bodies, sizes, depth=depth + 1) if terminal else 1)
            elif found["from"] is not None:
                repeats = max(int(found["from"]), int(found["to"] or 0))
                tally.repeat(repeats if name.isupper() else 1)
            else:
                tally.see(found, counts=name.isupper())
        sizes[name] = tally.total
    return sizes[name]


class Tally:
    """Parts counted so far, groups within groups."""

    def __init__(self) -> None:
        self._levels = [0]
        self._last = 0  # parts of what a count would repeat

    @property
    def total(self) -> int:
        """All parts; groups that never close are closed."""
        return sum(self._levels)

    def add(self, parts: int) -> None:
        """An atom of so many parts."""
        self._last = parts
        self._levels[-1] += parts

    def repeat(self, times: int) -> None:
        """A count behind the last atom or group."""
        self._levels[-1] += self._last * (max(times, 1) - 1)
        self._last *= max(times, 1)

    def see(self, found: re.Match[str], *, counts: bool = True) -> None:
        """A bracket, a count, or an atom of one part."""
        if found["open"]:
            self._levels.append(1)
        elif found["close"] and len(self._levels) > 1:
            inner = self._levels.pop()
            self.add(inner)
        elif found["count"]:
            times = max(int(found["least"] or 0), int(found["most"] or 0))
            self.repeat(times if counts else 1)
        else:
            self.add(1)


def unfolded(pattern: str) -> int:
    """Parts of a pattern with its counted repetitions written out."""
    tally = Tally()
    for found in PART.finditer(pattern):
        tally.see(found)
    return tally.total
