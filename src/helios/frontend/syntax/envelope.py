"""Calls written as a JSON object with a name and arguments: where the arguments begin.

Nothing is decided before the name is known and the arguments have begun, so an object that turns
out to be no call is still text.
"""

from __future__ import annotations

import json
import re
from typing import Final

import msgspec

from helios.frontend.syntax.notation import JSON, Outcome, Transcoder, transcoded
from helios.frontend.syntax.pattern import FAILED, SPACES, Text, Undecided

KEY: Final = re.compile(r'"((?:[^"\\\x00-\x1f]|\\.)*)"')
MOST_ENVELOPE: Final = 16_384
"""Characters before an object's arguments begin, or of one whose arguments come first."""
MOST_BARE: Final = 256
"""Characters before an object without markers names its tool: an answer in JSON streams on."""
WHOLE: Final = "arguments"
"""What is taken when the arguments are complete and need not be streamed."""


def past_space(text: str, at: int) -> int:
    """The first character that is no white space."""
    found = SPACES.match(text, at)
    return at if found is None else found.end()


def character(text: Text, at: int, allowed: str) -> str | Undecided:
    """The character here, if it is one of these."""
    if at >= len(text.text):
        return text.lacking()
    return text.text[at] if text.text[at] in allowed else FAILED


def value(text: Text, at: int) -> tuple[int, str] | Undecided:
    """One complete JSON value: its end, and itself as strict JSON."""
    coder = Transcoder(JSON, str)
    read, made = coder.advance(text.text[at:], final=text.final)
    if coder.outcome is Outcome.DONE:
        return at + read, made
    return FAILED if coder.outcome is Outcome.BAD else text.lacking()


def member(text: Text, at: int) -> tuple[int, str] | Undecided:
    """A key and its colon: where the value begins, and the key."""
    at = past_space(text.text, at)
    found = KEY.match(text.text, at)
    if found is None:
        opened = character(text, at, '"')
        if isinstance(opened, Undecided):
            return opened
        return FAILED if "\n" in text.text[at:] else text.lacking()
    at = past_space(text.text, found.end())
    colon = character(text, at, ":")
    if isinstance(colon, Undecided):
        return colon
    at = past_space(text.text, at + 1)
    return (at, found[1]) if at < len(text.text) else text.lacking()


class Seen(msgspec.Struct):
    """What an object's members have said so far."""

    named_at: int | None = None
    arguments: str | None = None  # as JSON; empty: none that could be an object


class Envelope(msgspec.Struct, frozen=True):
    """`{"name": ..., "arguments": ...}`, the members' names being data."""

    name_field: str
    arguments_field: str
    needs_arguments: bool

    def step(self, text: Text, at: int) -> int | Undecided:
        """Where the arguments begin; or the end of the object, the arguments being taken."""
        seen = Seen()
        found = self._read(text, at, seen)
        if found is FAILED:
            return FAILED
        end = len(text.text) if isinstance(found, Undecided) else found
        named = end if seen.named_at is None else seen.named_at
        if end - at > MOST_ENVELOPE or (self.needs_arguments and named - at > MOST_BARE):
            return FAILED
        return found

    def _read(self, text: Text, at: int, seen: Seen) -> int | Undecided:
        opened = character(text, at, "{")
        if isinstance(opened, Undecided):
            return opened
        at += 1
        while True:
            found = member(text, at)
            if isinstance(found, Undecided):
                return found
            at, key = found
            if key == self.arguments_field and seen.named_at is not None and text.text[at] == "{":
                return at
            ended = self._past(text, at, key, seen)
            if isinstance(ended, Undecided):
                return ended
            at = ended
            if text.text[at - 1] == "}":
                return self._whole(text, at, seen)

    def _past(self, text: Text, at: int, key: str, seen: Seen) -> int | Undecided:
        """Past a member and the comma or the end behind it."""
        whole = value(text, at)
        if isinstance(whole, Undecided):
            return whole
        at, made = whole
        if key == self.name_field:
            seen.named_at = at if self._named(text, made) else None
        elif key == self.arguments_field:
            seen.arguments = as_object(made)
        unlike = key != self.arguments_field and made.startswith("{")
        if unlike or (key == self.name_field and seen.named_at is None):
            return FAILED  # arguments under another name are not dropped silently
        at = past_space(text.text, at)
        ended = character(text, at, ",}")
        return ended if isinstance(ended, Undecided) else at + 1

    @staticmethod
    def _named(text: Text, made: str) -> bool:
        name = json.loads(made)
        if not isinstance(name, str) or not name or not text.accept("name", name):
            return False
        text.taken["name"] = name
        return True

    def _whole(self, text: Text, at: int, seen: Seen) -> int | Undecided:
        """The end of an object whose arguments are complete, or were none."""
        arguments = seen.arguments
        if seen.named_at is None or arguments == "" or (arguments is None and self.needs_arguments):
            return FAILED
        text.taken[WHOLE] = arguments or "{}"
        return at


def as_object(made: str) -> str:
    """Arguments as an object: one, one inside a string, or none; empty if they are neither."""
    if made == "null":
        return "{}"
    if made.startswith('"'):
        inner = json.loads(made)
        if any("\ud800" <= letter <= "\udfff" for letter in inner):
            return ""
        made = transcoded(inner, JSON, str) or "" if inner.strip() else "{}"
    return made if made.startswith("{") else ""


class ObjectTail(msgspec.Struct, frozen=True):
    """What is left of an object after its arguments."""

    def step(self, text: Text, at: int) -> int | Undecided:
        """The end of the object."""
        while True:
            at = past_space(text.text, at)
            ended = character(text, at, ",}")
            if isinstance(ended, Undecided):
                return ended
            if ended == "}":
                return at + 1
            found = member(text, at + 1)
            if isinstance(found, Undecided):
                return found
            whole = value(text, found[0])
            if isinstance(whole, Undecided):
                return whole
            at = whole[0]
