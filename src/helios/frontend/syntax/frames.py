"""Frames: where a header ends, and where it sends the body (FI-15 to FI-25).

A recipient or a channel decides: reasoning, answer, or a registered tool.  A name written twice
with a dot between (`f.f`) is the tool `f`, if that is registered and `f.f` is not; no other part
of a name counts, so that nothing calls a tool it did not name.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Final

import msgspec

from helios.frontend.syntax.states import Delimiters, State

MOST_HEADER: Final = 512
WORD: Final = re.compile("[^\\s\ud800-\udfff]*")


def registered(name: str, tools: Collection[str]) -> str | None:
    """The registered tool that a name means."""
    if name in tools:
        return name
    half = name[: len(name) // 2]
    return half if name == f"{half}.{half}" and half in tools else None


class Route(msgspec.Struct, frozen=True, kw_only=True):
    """Where a frame's body goes."""

    state: State
    tools: Collection[str] = ()
    name: str = ""  # the tool that the header names; empty: any registered one

    def registered(self, name: str) -> str | None:
        """The tool that an invocation in this frame calls (FI-20, FI-21)."""
        tool = registered(name, self.tools)
        return tool if not self.name or tool == self.name else None

    def accepts(self, name: str) -> bool:
        """Whether an invocation of this name is a call here."""
        return self.registered(name) is not None


class HeaderEnd(msgspec.Struct, frozen=True, kw_only=True):
    """Where a header ends and its body begins; or that there is no header."""

    header: int
    body: int
    is_header: bool


class Framing(msgspec.Struct, frozen=True, kw_only=True):
    """The frames of one syntax."""

    marks: Delimiters
    reasoning: tuple[str, ...]
    content: tuple[str, ...]
    function_prefix: str  # before a tool's name in a header; empty: bodies name their tools
    generic: str | None  # the recipient any registered name may follow

    def header_end(self, text: str, *, final: bool) -> HeaderEnd | None:
        """Where the header ends, if that can be told."""
        close = self.marks.header_close
        at = text.find(close)
        if 0 <= at <= MOST_HEADER:
            return HeaderEnd(header=at, body=at + len(close), is_header=True)
        if not final and len(text) <= MOST_HEADER:
            return None
        begun = (self.marks.frame_open, self.marks.recipient_prefix, self.marks.channel_open)
        if not text or text.startswith(tuple(mark for mark in begun if mark)):
            return HeaderEnd(header=len(text), body=len(text), is_header=False)
        return HeaderEnd(header=0, body=0, is_header=False)

    def route(self, header: str, tools: Collection[str]) -> Route:
        """Where this header sends its body."""
        header = header.rsplit(self.marks.frame_open, 1)[-1]
        recipient = self._after(self.marks.recipient_prefix, header)
        channel = self._after(self.marks.channel_open, header)
        for word in (recipient, channel or (None if recipient else "")):
            if word is None:
                continue
            if word in self.reasoning:
                return Route(state=State.THINKING_BEGINS)
            if word in self.content:
                return Route(state=State.ANSWER_BEGINS)
            if word == recipient and tools:
                found = self._tool(word, tools)
                if found is not None:
                    return found
        return Route(state=State.ANSWER_BEGINS)

    def _tool(self, recipient: str, tools: Collection[str]) -> Route | None:
        if self.function_prefix:
            name = recipient.removeprefix(self.function_prefix)
            if name == recipient and name not in tools:
                return None
            return Route(state=State.CALL_FRAME, tools=tools, name=name)
        if recipient == self.generic:
            return Route(state=State.CALLS, tools=tools)
        named = registered(recipient, tools)
        return Route(state=State.CALLS if named else State.IGNORED, tools=tools, name=named or "")

    @staticmethod
    def _after(mark: str, header: str) -> str | None:
        """The word behind a mark, if it is there."""
        at = header.find(mark) if mark else -1
        found = WORD.match(header, at + len(mark)) if at >= 0 else None
        return found[0] if found is not None and found[0] else None
