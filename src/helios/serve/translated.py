"""What routes share that speak to clients in other words than OpenAI's chat.

Owns the way back: a refusal of preparation names the field that the client sent.  And sealed
reasoning: text that a client carries to the next turn without reading it.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final, NoReturn

import msgspec

from helios.frontend.prepare import Asked, Prepared
from helios.serve.route import Service
from helios.values import RequestInvalid

Object = Mapping[str, Any]
MESSAGE: Final = re.compile(r"messages\[(\d+)\].*")
SEALED: Final = "helios-reasoning:"


class Translated(msgspec.Struct, frozen=True, kw_only=True):
    """A request in OpenAI's chat form, and where its messages come from."""

    asked: Asked
    places: Sequence[str]  # the client's field of each message
    names: Sequence[tuple[re.Pattern[str], str]]  # of the client's other fields

    def field(self, name: str) -> str:
        """The client's name of a field."""
        if found := MESSAGE.fullmatch(name):
            return self.places[int(found[1])]
        for pattern, words in self.names:
            if found := pattern.match(name):
                return found.expand(words) + name[found.end() :]
        return name


async def prepare(service: Service, translated: Translated) -> Prepared:
    """Prepare; what is refused has the client's name."""
    try:
        return await service.prepare(translated.asked)
    except RequestInvalid as error:
        raise error.at(translated.field(error.field)) from None


# ------------------------------------------------------------------ objects


def refuse(field: str, found: object, *, expected: str) -> NoReturn:
    """The client must change this field."""
    raise RequestInvalid(field, found, expected=expected)


def member(value: object, field: str) -> Object:
    """The value, which must be an object."""
    if not isinstance(value, Mapping):
        refuse(field, kind_of(value), expected="an object")
    return value


def text_in(value: Object, name: str, at: str) -> str:
    """A text of an object."""
    found = value.get(name)
    if not isinstance(found, str):
        refuse(f"{at}.{name}", kind_of(found), expected="text")
    return found


def kind_of(value: object) -> str:
    """What a value is, in a sentence."""
    return "nothing" if value is None else type(value).__name__


def known(value: Object, names: Sequence[str], at: str) -> None:
    """Refuse a member that nobody would read; null says nothing."""
    for name, said in value.items():
        if name not in names and said is not None:
            refuse(
                f"{at}.{name}",
                "a field that this server does not know",
                expected=f"one of {', '.join(names)}",
            )


# ---------------------------------------------------------------- reasoning


def sealed(reasoning: str) -> str:
    """Reasoning as clients carry it; not secret, only not to be read on the way."""
    return SEALED + base64.b64encode(reasoning.encode()).decode()


def unsealed(value: object) -> str:
    """What this server sealed; nothing of what another did, for nobody here can read that."""
    if not isinstance(value, str) or not value.startswith(SEALED):
        return ""
    try:
        return base64.b64decode(value.removeprefix(SEALED), validate=True).decode()
    except (binascii.Error, UnicodeDecodeError):
        return ""
