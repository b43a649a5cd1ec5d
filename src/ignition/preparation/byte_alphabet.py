"""The printable alphabet in which byte-level vocabularies spell the bytes of a text.

Bytes that are printable Latin-1 characters stand for themselves; the others take the
characters from U+0100 on, in order.

Always: 256 characters, one for each byte, none of them blank.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

THEMSELVES: Final = (*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100))


def alphabet() -> Iterator[tuple[int, str]]:
    """Each byte with its character."""
    others = [byte for byte in range(256) if byte not in THEMSELVES]
    for byte in THEMSELVES:
        yield byte, chr(byte)
    for place, byte in enumerate(others):
        yield byte, chr(0x100 + place)


CHARACTERS: Final[Mapping[int, str]] = dict(alphabet())
LETTERS: Final = frozenset(CHARACTERS.values())


def spelt(text: str) -> str:
    """A text's UTF-8 bytes in the alphabet."""
    return "".join(CHARACTERS[byte] for byte in text.encode())


def is_spelling(text: str) -> bool:
    """Whether a token's text is what some bytes are spelt as."""
    return LETTERS.issuperset(text)
