"""The states of an answer, and which markup each of them looks for: a table, made once a syntax.

Every pattern here comes from the contract.  `Rules` is all that a machine is driven by.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Final

import msgspec

from helios.frontend.syntax.grammar import Grammar
from helios.frontend.syntax.pattern import (
    Ahead,
    End,
    Gap,
    Literal,
    Name,
    Pattern,
    Text,
    Undecided,
    match,
)
from helios.frontend.syntax.scan import Edge, Scanner


class State(Enum):
    """Where in an answer the next character falls."""

    THINKING_BEGINS = "thinking begins"  # the wrapping of reasoning may come
    THINKING = "thinking"
    ANSWER_PREFIX = "answer prefix"  # the text that separates reasoning and answer may come
    ANSWER_BEGINS = "answer begins"  # nothing of it was said yet
    ANSWER = "answer"
    HEADER = "header"  # of a frame
    CALLS = "calls"  # a tool frame's body
    ARGUMENTS = "arguments"  # between a call's arguments
    VALUE_BEGINS = "value begins"  # the wrapping of a value may come
    VALUE = "value"  # inside one
    VALUE_ALONE = "value alone"  # inside one of a call that stands in no section
    WRITTEN = "written"  # arguments as one object
    TAIL = "tail"  # what is left of a call's own object
    CALL_FRAME = "call frame"  # a frame whose body is the arguments
    SPOILT = "spoilt"  # a call that cannot be told any more
    AFTER = "after"  # behind a call
    IGNORED = "ignored"  # what is left of a frame

    __hash__ = object.__hash__  # there is one of each: the hash of a name, for every token, is dear


class Use(Enum):
    """What a request makes of tool markup."""

    CALLS = 1  # tools are registered
    NO_CALLS = 2  # tool markup is content
    OPAQUE = 3  # the answer is a document: no markup inside it counts
    OPAQUE_CALLS = 4  # a document, unless the answer begins with a call

    __hash__ = object.__hash__  # see `State`


class Delimiters(msgspec.Struct, frozen=True, kw_only=True):
    """The terminals around reasoning, answer and frames, as the machine sees them."""

    open: str = ""
    close: str = ""
    close_is_token: bool = False
    open_is_token: bool = False
    terminal: bool = False  # a tool call ends reasoning
    wrapping: str = ""
    answer_prefix: str = ""
    answer_open: str = ""
    answer_close: str = ""
    message_close: str = ""
    frame_open: str = ""
    header_close: str = ""
    frame_closes: tuple[str, ...] = ()
    recipient_prefix: str = ""
    channel_open: str = ""
    role: str = ""
    separator: str = ""

    @property
    def frame_ends(self) -> tuple[str, ...]:
        """Texts that end a frame's body."""
        return (*self.frame_closes, self.frame_open) if self.frame_open else ()


def edges(meaning: str, *patterns: Pattern) -> tuple[Edge, ...]:
    """One meaning for several patterns; empty ones are left out."""
    return tuple(Edge(pattern, meaning) for pattern in patterns if pattern)


def literal(text: str) -> Pattern:
    """A pattern of plain text; nothing for nothing."""
    return (Literal(text),) if text else ()


def behind(lead: str, patterns: tuple[Pattern, ...]) -> tuple[Pattern, ...]:
    """The patterns with this text before them, and without."""
    return (*((Literal(lead), *pattern) for pattern in patterns), *patterns) if lead else patterns


def frame_edges(marks: Delimiters) -> tuple[Edge, ...]:
    """Ends of a frame; a header written straight behind a body counts too."""
    if not marks.frame_open:
        return ()
    header = HeaderAhead(marks.recipient_prefix, marks.header_close)
    closes = edges("frame", *((Literal(text),) for text in marks.frame_closes))
    ahead = edges("frame", (Ahead(literal(marks.frame_open)),), (header,))
    return (*closes, *ahead)


class HeaderAhead(msgspec.Struct, frozen=True):
    """A recipient and the end of a header, without the frame's opening."""

    prefix: str
    close: str

    def step(self, text: Text, at: int) -> int | Undecided:
        """Here, if a header follows."""
        found = match((Literal(self.prefix), Name("recipient", (self.close,))), text, at)
        return found if isinstance(found, Undecided) else at


def noise(marks: Delimiters, *, opaque: bool) -> tuple[Edge, ...]:
    """Markup of the envelope that is no answer: dropped (FI-08)."""
    found = edges(
        "dropped",
        literal(marks.answer_close + marks.message_close if marks.answer_close else ""),
        literal(marks.answer_open),
        literal(marks.answer_close),
        literal(marks.message_close),
    )
    late = marks.close if marks.close_is_token and not opaque else ""
    return (*found, *edges("dropped", literal(late)))


class Rules:
    """Which scanner each state has, for each use."""

    def __init__(self, grammar: Grammar, marks: Delimiters) -> None:
        self.grammar: Final = grammar
        self.marks: Final = marks
        self._table: dict[tuple[State, Use, bool], Scanner] = {}
        for use in Use:
            for reasoned in (False, True):
                made = scanners(grammar, marks, use, reasoned=reasoned)
                self._table.update({(state, use, reasoned): s for state, s in made.items()})

    def scanner(self, state: State, use: Use, *, reasoned: bool) -> Scanner:
        """What this state looks for."""
        return self._table[state, use, reasoned]


def scanners(
    grammar: Grammar, marks: Delimiters, use: Use, *, reasoned: bool
) -> Mapping[State, Scanner]:
    """Every state's edges; the order is the order of preference."""
    frames = frame_edges(marks)
    calling = use in (Use.CALLS, Use.OPAQUE_CALLS) and not frames
    opaque = use in (Use.OPAQUE, Use.OPAQUE_CALLS)
    every = (
        *edges("section", *behind(marks.separator, grammar.sectioned)),
        *edges("call", *behind(marks.separator, grammar.calls)),
    )
    opening = every if calling else ()
    alone = edges("call", *grammar.alone) if calling and not opaque else ()
    kept = (*noise(marks, opaque=opaque), *frames)
    thinking = edges("thinking", literal(marks.open) if not reasoned else ())
    table = {
        State.THINKING: (
            *edges("answer", *thinking_ends(marks)),
            *(
                edges("answering", *(lead_ahead(e.pattern) for e in opening))
                if marks.terminal
                else ()
            ),
            *edges("dropped", literal(marks.open if marks.open_is_token else "")),
            *frames,
        ),
        State.ANSWER_BEGINS: (
            *(Edge((Gap(), *edge.pattern), edge.meaning) for edge in (*opening, *alone, *thinking)),
            *kept,
        ),
        State.ANSWER: (
            *(() if opaque else opening),
            *(thinking if marks.open_is_token and not opaque else ()),
            *kept,
        ),
        State.CALLS: (*every, *frames),
        State.AFTER: after_edges(grammar, frames, kept, calling=calling),
        State.SPOILT: (*edges("spoilt over", *grammar.leftovers), *frames),
        State.IGNORED: frames,
        State.THINKING_BEGINS: edges("dropped", literal(marks.wrapping)),
        State.ANSWER_PREFIX: edges("dropped", literal(marks.answer_prefix)),
        State.TAIL: edges("dropped", grammar.tail or ()),
        **argument_edges(grammar, frames),
    }
    return {state: Scanner(found) for state, found in table.items()}


def thinking_ends(marks: Delimiters) -> tuple[Pattern, ...]:
    """What ends reasoning: its close, with the wrapping before it; an answer that opens."""
    ends = tuple(literal(text) for text in (marks.close,) if text)
    opened: Pattern = (Ahead(literal(marks.answer_open)),) if marks.answer_open else ()
    return (*behind(marks.wrapping, ends), opened)


def lead_ahead(pattern: Pattern) -> Pattern:
    """A call that follows, not consumed."""
    return (Ahead(pattern),)


def after_edges(
    grammar: Grammar, frames: tuple[Edge, ...], kept: tuple[Edge, ...], *, calling: bool
) -> tuple[Edge, ...]:
    """Behind a call: another one, what is left over of this one, or the end."""
    if frames:
        return (*edges("dropped", *((Gap(), *p) for p in grammar.leftovers)), *frames)
    more = (*grammar.following, *grammar.sectioned, *grammar.calls) if calling else ()
    return (
        *edges("call", *((Gap(), *pattern) for pattern in more)),
        *edges("dropped", *((Gap(), *pattern) for pattern in grammar.leftovers)),
        *edges("dropped", (Gap(), End())),
        *(Edge((Gap(), *edge.pattern), edge.meaning) for edge in kept),
    )


def argument_edges(grammar: Grammar, frames: tuple[Edge, ...]) -> dict[State, tuple[Edge, ...]]:
    """Inside a call."""
    tags = grammar.tags
    if tags is None:
        return {}
    over = edges("closed", *(p for p in grammar.leftovers if p != literal(tags.value_close)))
    another = edges("next", *(lead_ahead(p) for p in (*grammar.sectioned, *grammar.following)))
    return {
        State.ARGUMENTS: (
            *edges("key", tags.key),
            *edges("object", literal(tags.whole_object)),
            *over,
            *another,
            *edges("finished", (End(),)),
            *frames,
        ),
        State.VALUE_BEGINS: edges("dropped", literal(tags.wrapping)),
        State.VALUE: (*edges("value", *tags.value_ends), *frames),
        State.VALUE_ALONE: (*edges("value", *tags.value_ends_alone), *frames),
    }
