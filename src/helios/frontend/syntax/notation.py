"""Written values become JSON while they are still coming: JSON itself, Python calls, bare keys.

A transcoder reads one object (or the arguments of a Python call) and writes JSON.  Always: what
it has written is the start of a JSON text, and all of one once it is done; what cannot become
JSON is refused at the first character that shows it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from enum import Enum
from typing import Final

import msgspec

MOST_DEPTH: Final = 128
MOST_WORD: Final = 4096
NUMBER: Final = re.compile(r"-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?", re.ASCII)
LOOSE_NUMBER: Final = re.compile(r"[+-]?(?:\d[\d_]*)?\.?\d*(?:[eE][+-]?\d+)?", re.ASCII)
WORD: Final = re.compile("[^\\s,:\\[\\]{}()\"'=\ud800-\udfff]+")
JSON_ESCAPES: Final = '"\\/bfnrt'
PYTHON_ESCAPES: Final = {
    "n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f", "a": "\a", "v": "\v", "0": "\0",
    "\\": "\\", "'": "'", '"': '"', "\n": "",
}  # fmt: skip
HEX_ESCAPES: Final = {"x": 2, "u": 4, "U": 8}
WORDS: Final = {
    "true": "true", "false": "false", "null": "null",
    "True": "true", "False": "false", "None": "null",
}  # fmt: skip
CLOSES: Final = {"{": "}", "[": "]", "(": ")"}


def quoted(text: str) -> str:
    """The inside of a JSON string."""
    return json.dumps(text, ensure_ascii=False)[1:-1]


class Notation(msgspec.Struct, frozen=True, kw_only=True):
    """How values are written."""

    quotes: tuple[str, ...]  # longest first
    escapes: Mapping[str, str] | None  # None: strings hold their text as it is
    keeps_escapes: bool  # the escapes are JSON's own
    bare_keys: bool
    bare_strings: bool
    loose_numbers: bool
    calls: bool  # the outermost object is `(key=value)`


JSON: Final = Notation(
    quotes=('"',), escapes={}, keeps_escapes=True,
    bare_keys=False, bare_strings=False, loose_numbers=False, calls=False,
)  # fmt: skip
PYTHON: Final = Notation(
    quotes=('"""', "'''", '"', "'"), escapes=PYTHON_ESCAPES, keeps_escapes=False,
    bare_keys=False, bare_strings=False, loose_numbers=True, calls=False,
)  # fmt: skip
PYTHON_CALL: Final = Notation(
    quotes=PYTHON.quotes, escapes=PYTHON_ESCAPES, keeps_escapes=False,
    bare_keys=True, bare_strings=False, loose_numbers=True, calls=True,
)  # fmt: skip


def bare_notation(quote: str) -> Notation:
    """Objects with bare keys, whose strings stand between marks of their own."""
    return Notation(
        quotes=(quote, '"') if quote != '"' else ('"',), escapes=None, keeps_escapes=False,
        bare_keys=True, bare_strings=True, loose_numbers=False, calls=False,
    )  # fmt: skip


class Outcome(Enum):
    """Where a transcoder stands."""

    MORE = 1
    DONE = 2
    BAD = 3


class Expect(Enum):
    """What may come next inside the innermost container."""

    VALUE = 1
    ITEM = 2  # a value, a key or the end of the container
    COLON = 3
    COMMA = 4


class Spoilt(Exception):
    """What came cannot become JSON."""


class Transcoder:
    """One value on its way to JSON."""

    def __init__(self, notation: Notation, plain: Callable[[str], str]) -> None:
        self._notation, self._plain = notation, plain
        self._stack: list[str] = []
        self._expect = Expect.VALUE
        self._comma = False
        self._quote: str | None = None
        self._key = False
        self._final = False
        self._inside = re.compile(
            "[^\\\\" + "".join(re.escape(quote[0]) for quote in notation.quotes) + "]+"
            if notation.escapes is not None
            else "[^" + "".join(re.escape(quote[0]) for quote in notation.quotes) + "]+"
        )
        self.outcome = Outcome.MORE

    def advance(self, text: str, *, final: bool) -> tuple[int, str]:
        """Read what can be told; how much was read, and the JSON it makes."""
        self._final = final
        at, made = 0, []
        try:
            while self.outcome is Outcome.MORE and at < len(text):
                read, out = self._step(text, at)
                if not read:
                    break
                at += read
                made.append(out)
        except Spoilt:
            self.outcome = Outcome.BAD
        return at, "".join(made)

    def _step(self, text: str, at: int) -> tuple[int, str]:
        if self._quote is not None:
            return self._string(text, at, self._quote)
        character = text[at]
        if character.isspace():
            return 1, ""
        if self._expect is Expect.COLON:
            return self._colon(character)
        if self._expect is Expect.COMMA:
            return self._after(character)
        return self._item(text, at)

    def _colon(self, character: str) -> tuple[int, str]:
        expected = "=" if self._stack[-1] == ")" else ":"
        if character != expected:
            raise Spoilt
        self._expect = Expect.VALUE
        return 1, ": "

    def _after(self, character: str) -> tuple[int, str]:
        if character == "," and self._stack:
            self._comma, self._expect = True, Expect.ITEM
            return 1, ""
        return self._close(character)

    def _close(self, character: str) -> tuple[int, str]:
        if not self._stack or character != self._stack[-1]:
            raise Spoilt
        self._stack.pop()
        self._comma = False
        self._ended()
        if character == ")":
            character = "}" if not self._stack else "]"
        return 1, character

    def _ended(self) -> None:
        """A value is complete."""
        self._expect = Expect.COMMA
        if not self._stack:
            self.outcome = Outcome.DONE

    def _item(self, text: str, at: int) -> tuple[int, str]:
        character = text[at]
        if self._expect is Expect.ITEM and self._stack and character == self._stack[-1]:
            return self._close(character)
        keyed = self._expect is Expect.ITEM and self._in_object()
        if character in CLOSES and not keyed:
            return self._open(character)
        for quote in self._notation.quotes:
            if text.startswith(quote, at):
                return self._begin_string(quote, keyed=keyed)
            if len(quote) > 1 and quote.startswith(text[at:]) and not self._final:
                return 0, ""
        return self._word(text, at, keyed=keyed)

    def _in_object(self) -> bool:
        root_call = self._notation.calls and len(self._stack) == 1
        return bool(self._stack) and (self._stack[-1] == "}" or root_call)

    def _lead(self) -> str:
        """The comma that was waiting for another item."""
        lead, self._comma = ", " if self._comma else "", False
        return lead

    def _open(self, character: str) -> tuple[int, str]:
        rounded = character == "("
        if rounded and self._notation.escapes is not PYTHON_ESCAPES:
            raise Spoilt
        if len(self._stack) == MOST_DEPTH:
            raise Spoilt
        rooted = rounded and not self._stack and self._notation.calls
        self._stack.append(CLOSES[character])
        self._expect = Expect.ITEM
        return 1, self._lead() + ("{" if rooted else "[" if rounded else character)

    def _begin_string(self, quote: str, *, keyed: bool) -> tuple[int, str]:
        if keyed and self._stack[-1] == ")":
            raise Spoilt  # a call's arguments have bare names
        self._quote, self._key = quote, keyed
        return len(quote), self._lead() + '"'

    def _word(self, text: str, at: int, *, keyed: bool) -> tuple[int, str]:
        found = WORD.match(text, at)
        if found is None or len(found[0]) > MOST_WORD:
            raise Spoilt
        if found.end() == len(text) and not self._final:
            return 0, ""
        word, lead = found[0], self._lead()
        if keyed:
            if not self._notation.bare_keys and not self._notation.loose_numbers:
                raise Spoilt
            self._expect = Expect.COLON
            return len(word), f'{lead}"{quoted(word)}"'
        self._ended()
        return len(word), lead + self._scalar(word)

    def _scalar(self, word: str) -> str:
        if word in WORDS:
            return WORDS[word]
        if NUMBER.fullmatch(word):
            return word
        if self._notation.loose_numbers and LOOSE_NUMBER.fullmatch(word):
            return loose_number(word)
        if self._notation.bare_strings:
            return f'"{quoted(word)}"'
        raise Spoilt

    def _string(self, text: str, at: int, quote: str) -> tuple[int, str]:
        if text.startswith(quote, at):
            self._quote = None
            if self._key:
                self._expect = Expect.COLON
            else:
                self._ended()
            return len(quote), '"'
        if quote.startswith(text[at:]) and not self._final:
            return 0, ""
        if text[at] == "\\" and self._notation.escapes is not None:
            return self._escape(text, at)
        run = self._inside.match(text, at)
        chunk = run[0] if run is not None else text[at]
        return len(chunk), quoted(self._plain(chunk))

    def _escape(self, text: str, at: int) -> tuple[int, str]:
        if at + 1 == len(text):
            if self._final:
                raise Spoilt
            return 0, ""
        letter = text[at + 1]
        if letter in HEX_ESCAPES and (letter == "u" or not self._notation.keeps_escapes):
            return self._hexadecimal(text, at, letter)
        if self._notation.keeps_escapes:
            if letter in JSON_ESCAPES:
                return 2, text[at : at + 2]
            return (2, "'") if letter == "'" else (1, "\\\\")
        escapes = self._notation.escapes or {}
        return (2, quoted(escapes[letter])) if letter in escapes else (1, "\\\\")

    def _hexadecimal(self, text: str, at: int, letter: str) -> tuple[int, str]:
        digits = text[at + 2 : at + 2 + HEX_ESCAPES[letter]]
        if not all(digit in "0123456789abcdefABCDEF" for digit in digits):
            return 1, "\\\\"
        if len(digits) < HEX_ESCAPES[letter]:
            if self._final:
                raise Spoilt
            return 0, ""
        number = int(digits, 16)
        if number > 0x10FFFF:
            raise Spoilt
        out = f"\\u{number:04x}" if 0xD800 <= number < 0xE000 else quoted(chr(number))
        return 2 + len(digits), text[at : at + 6] if self._notation.keeps_escapes else out


def loose_number(word: str) -> str:
    """A Python number that JSON writes otherwise: `1_000`, `.5`, `1.`, `+3`."""
    try:
        value: float = int(word) if re.fullmatch(r"[+-]?[\d_]+", word) else float(word)
    except ValueError:
        raise Spoilt from None
    if value in (float("inf"), float("-inf")):
        raise Spoilt
    return json.dumps(value)


def transcoded(text: str, notation: Notation, plain: Callable[[str], str]) -> str | None:
    """A complete text as JSON, or None when it is not one value."""
    coder = Transcoder(notation, plain)
    read, made = coder.advance(text, final=True)
    if coder.outcome is not Outcome.DONE or text[read:].strip():
        return None
    return made
