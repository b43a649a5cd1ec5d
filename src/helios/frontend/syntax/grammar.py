"""The patterns of a tool syntax, made from the contract's data: one builder a form of writing.

A `Grammar` says how a call begins, how its arguments are written and end, and what may be left
over behind it; the machine knows nothing else of a syntax.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

import msgspec

from helios.frontend.syntax.envelope import Envelope, ObjectTail
from helios.frontend.syntax.notation import JSON, PYTHON_CALL, Notation, bare_notation
from helios.frontend.syntax.pattern import (
    Ahead,
    Attributes,
    Either,
    End,
    Gap,
    Literal,
    Name,
    Pattern,
    maybe,
    texts,
)
from prepared.contract import Marker, ToolParser, ToolSyntax

KEY_FORBIDDEN: Final = "<>\\n\\r\ud800-\udfff"
SPACE_STOPS: Final = ("\n", " ", "\r", "\t")
Written = Callable[[Marker | None], str]


class Tags(msgspec.Struct, frozen=True, kw_only=True):
    """Arguments as tags: how one begins, and how it ends inside a section and outside."""

    key: Pattern
    value_ends: tuple[Pattern, ...]
    value_ends_alone: tuple[Pattern, ...]
    close: str
    value_close: str
    whole_object: str  # opens arguments given as one JSON object; empty: never
    wrapping: str


class Grammar(msgspec.Struct, frozen=True, kw_only=True):
    """One tool syntax."""

    sectioned: tuple[Pattern, ...]  # a section's opening with its first call
    calls: tuple[Pattern, ...]  # a call without the opening of a section
    alone: tuple[Pattern, ...]  # a call without any marker: at the answer's start only
    following: tuple[Pattern, ...]  # a call right behind another one
    leftovers: tuple[Pattern, ...]  # markup behind a call that says nothing
    tail: Pattern | None  # what is left of a call's own object
    tags: Tags | None
    notation: Notation
    prefix: str  # before the name, no part of it
    numbered: bool  # the name carries the call's id


class Source(msgspec.Struct, frozen=True):
    """What a builder works from: the data, how a marker is seen, what ends a frame."""

    tools: ToolSyntax
    written: Written
    ends: tuple[str, ...]


def built(tools: ToolSyntax, written: Written, *, ends: tuple[str, ...]) -> Grammar:
    """The grammar of this syntax; `ends` are texts that end an answer's frame."""
    return BUILDERS[tools.parser](Source(tools, written, ends))


def no_calls(source: Source) -> Grammar:
    """A syntax that never calls, or only by frames."""
    tools, written = source.tools, source.written
    return Grammar(
        sectioned=(), calls=(), alone=(), following=(), leftovers=(), tail=None, tags=None,
        notation=JSON, prefix=written(tools.name_open), numbered=False,
    )  # fmt: skip


def tagged(source: Source) -> Grammar:
    """Names in the opening tag, arguments as tags."""
    tools, written = source.tools, source.written
    head = tag_head(tools, written)
    opened, closed = written(tools.section_open), written(tools.section_close)
    tags = tag_rules(tools, written, head, source.ends)
    sectioned: Pattern = (Literal(opened), Gap(), *head)
    needs_section = tools.parser is ToolParser.ATEM
    return Grammar(
        sectioned=(sectioned,) if opened else (),
        calls=() if needs_section else (head,),
        alone=(),
        following=() if needs_section else (head, *((sectioned,) if opened else ())),
        leftovers=texts(tags.close, closed, tags.value_close, written(tools.object_close)),
        tail=None,
        tags=tags,
        notation=JSON,
        prefix="",
        numbered=False,
    )


def tag_head(tools: ToolSyntax, written: Written) -> Pattern:
    """The opening of a call: the name in an attribute, before a close, or before what follows."""
    opened, close = Literal(written(tools.call_open)), written(tools.name_close)
    if tools.parser is ToolParser.GLM_ARGUMENT_TAGS:
        after = (written(tools.key_open), written(tools.call_close))
        stops = (*SPACE_STOPS, *after)
        return (opened, Gap(), Name("name", stops), Gap(), Ahead((Either(texts(*after)),)))
    if tools.name_field:
        return (opened, Attributes(close, ((tools.name_field, "name"),)))
    return (opened, Name("name", (close,)), Literal(close))


def key_head(tools: ToolSyntax, written: Written, what: str) -> Pattern:
    """The opening of an argument, up to its value; `what` the key is asked for as."""
    opened, close = Literal(written(tools.key_open)), written(tools.key_close)
    if tools.arguments_field:
        kept = ((tools.type_attribute, "type"),) if tools.type_attribute else ()
        return (opened, Attributes(close, ((tools.arguments_field, what), *kept)))
    head = (opened, Name(what, (close,), KEY_FORBIDDEN), Literal(close))
    return (*head, Gap(), Literal(written(tools.value_open))) if tools.value_open else head


def tag_rules(tools: ToolSyntax, written: Written, head: Pattern, ends: tuple[str, ...]) -> Tags:
    """When a closer is one: only where what follows it continues the call (T-06)."""
    close, value_close = written(tools.call_close), written(tools.value_close)
    closed = written(tools.section_close)
    over = ((End(),), *texts(*ends))
    finished: Pattern = (Literal(close), Gap(), Either((*texts(closed), head, *over)))
    anyhow: Pattern = finished if closed else (Literal(close),)
    key, unclosed = key_head(tools, written, "next"), key_head(tools, written, "declared")
    wrapping = (Literal(tools.wrapping),) if tools.wrapping else ()

    def value_ends(after: Pattern) -> tuple[Pattern, ...]:
        on = (key, after, *over)
        again: Pattern = (Literal(value_close), Gap(), Either(on))
        legal = Ahead((Gap(), Either((*on, again))))
        found: list[Pattern] = [(*wrapping, Literal(value_close), legal)]
        if tools.parser is not ToolParser.GLM_ARGUMENT_TAGS:
            broken = (Literal(tools.wrapping or "\n"),)
            found += [(*broken, Ahead(unclosed)), (*broken, Ahead(finished))]
        if not wrapping and tools.parser is not ToolParser.GLM_ARGUMENT_TAGS:
            found += [(Ahead(unclosed),), (Ahead(finished),)]
        if wrapping:
            found.insert(1, (Literal(value_close), legal))
        return tuple(found)

    return Tags(
        key=key_head(tools, written, "key"),
        value_ends=value_ends(anyhow),
        value_ends_alone=value_ends((Literal(close),)),
        close=close,
        value_close=value_close,
        whole_object=written(tools.object_open),
        wrapping=tools.wrapping,
    )


def json_calls(source: Source) -> Grammar:
    """JSON objects that hold name and arguments, alone or in a list, between markers or bare."""
    tools, written = source.tools, source.written
    if tools.name_close is not None:
        return named_json(source)
    marked = tools.call_open or tools.section_open
    envelope = Envelope(tools.name_field, tools.arguments_field, needs_arguments=marked is None)
    listed: Pattern = (maybe(Literal("["), Gap()), envelope)
    section, call = written(tools.section_open), written(tools.call_open)
    opened: list[Pattern] = [(Literal(text), Gap(), *listed) for text in (call, section) if text]
    if section and call:
        opened.insert(0, (Literal(section), Gap(), Literal(call), Gap(), *listed))
    between = Either((*texts(",", ";", tools.separator), ()))
    closes = texts(written(tools.call_close), written(tools.section_close))
    return Grammar(
        sectioned=(),
        calls=tuple(opened),
        alone=() if marked else (listed,),
        following=((between, Gap(), envelope), *opened),
        leftovers=(*closes, *texts("]")),
        tail=(ObjectTail(),),
        tags=None,
        notation=JSON,
        prefix="",
        numbered=False,
    )


def named_json(source: Source) -> Grammar:
    """A name between markers, then its arguments as one JSON object."""
    tools, written = source.tools, source.written
    close, end = written(tools.call_close).lstrip(), written(tools.name_close)
    opened, closed = written(tools.section_open), written(tools.section_close)
    begins = Ahead((Gap(), Either(texts("{", close))))
    prefix = written(tools.name_open)
    numbered = tools.parser is ToolParser.KIMI_SECTIONS
    before = (maybe(Literal(prefix)),) if prefix and not numbered else ()
    named = (Name("name", (end,)), Literal(end), begins)
    head: Pattern = (Literal(written(tools.call_open)), Gap(), *before, *named)
    sectioned: Pattern = (Literal(opened), Gap(), *head)
    return Grammar(
        sectioned=(sectioned,) if opened else (),
        calls=(head,),
        alone=(),
        following=(head, *((sectioned,) if opened else ())),
        leftovers=texts(close, closed),
        tail=None,
        tags=None,
        notation=JSON,
        prefix=prefix if numbered else "",
        numbered=numbered,
    )


def key_value_calls(source: Source) -> Grammar:
    """`NAME{key:value}` between markers; strings between marks of their own."""
    tools, written = source.tools, source.written
    prefix, close = written(tools.name_open), written(tools.call_close)
    before = (maybe(Literal(prefix)),) if prefix else ()
    begins = Ahead((Literal("{"),))
    head: Pattern = (
        Literal(written(tools.call_open)),
        Gap(),
        *before,
        Name("name", ("{",)),
        begins,
    )
    return Grammar(
        sectioned=(), calls=(head,), alone=(), following=(head,), leftovers=texts(close),
        tail=None, tags=None, notation=bare_notation(written(tools.value_open) or '"'),
        prefix="", numbered=False,
    )  # fmt: skip


def python_calls(source: Source) -> Grammar:
    """A list of Python calls with named arguments, between markers or bare."""
    tools, written = source.tools, source.written
    opened, closed = written(tools.section_open), written(tools.section_close)
    first = Name("argument", ("=", " "))
    empty_or_named = Either(((Literal(")"),), (first, Gap(), Literal("="))))
    call: Pattern = (Name("name", ("(",)), Ahead((Literal("("), Gap(), empty_or_named)))
    listed: Pattern = (Literal("["), Gap(), *call)
    marked: Pattern = (Literal(opened), Gap(), maybe(Literal("["), Gap()), *call)
    return Grammar(
        sectioned=(),
        calls=(marked,) if opened else (),
        alone=() if opened else (listed,),
        following=((Literal(","), Gap(), *call), *((marked,) if opened else ())),
        leftovers=texts("]", closed),
        tail=None,
        tags=None,
        notation=PYTHON_CALL,
        prefix="",
        numbered=False,
    )


Builder = Callable[[Source], Grammar]
BUILDERS: Final[Mapping[ToolParser, Builder]] = {
    ToolParser.NO_TOOLS: no_calls,
    ToolParser.QWEN_CODER_TAGS: tagged,
    ToolParser.GLM_ARGUMENT_TAGS: tagged,
    ToolParser.DSML: tagged,
    ToolParser.XTML_TOOLS: tagged,
    ToolParser.ATEM: tagged,
    ToolParser.INVOKE_TAGS: tagged,
    ToolParser.JSON_CALLS: json_calls,
    ToolParser.HARMONY: no_calls,
    ToolParser.KIMI_SECTIONS: named_json,
    ToolParser.DEEPSEEK_SECTIONS: named_json,
    ToolParser.GEMMA_CALLS: key_value_calls,
    ToolParser.PYTHON_CALLS: python_calls,
}
NEEDED: Final[Mapping[ToolParser, tuple[str, ...]]] = {
    ToolParser.NO_TOOLS: (),
    ToolParser.QWEN_CODER_TAGS: (
        "call_open", "call_close", "name_close", "key_open", "key_close", "value_close",
    ),
    ToolParser.GLM_ARGUMENT_TAGS: (
        "call_open", "call_close", "key_open", "key_close", "value_open", "value_close",
    ),
    ToolParser.DSML: (
        "section_open", "section_close", "call_open", "call_close", "name_close", "key_open",
        "key_close", "value_close", "name_field", "arguments_field",
    ),
    ToolParser.XTML_TOOLS: (
        "section_open", "section_close", "call_open", "call_close", "name_close", "key_open",
        "key_close", "value_close", "name_field", "arguments_field",
    ),
    ToolParser.ATEM: (
        "section_open", "section_close", "call_open", "call_close", "name_close", "key_open",
        "key_close", "value_close", "name_field", "arguments_field",
    ),
    ToolParser.INVOKE_TAGS: (
        "call_open", "call_close", "name_close", "key_open", "key_close", "value_close",
        "name_field", "arguments_field",
    ),
    ToolParser.JSON_CALLS: (),
    ToolParser.HARMONY: ("name_open",),
    ToolParser.KIMI_SECTIONS: ("call_open", "call_close", "name_open", "name_close"),
    ToolParser.DEEPSEEK_SECTIONS: ("call_open", "call_close", "name_close"),
    ToolParser.GEMMA_CALLS: ("call_open", "call_close", "value_open"),
    ToolParser.PYTHON_CALLS: (),
}  # fmt: skip
"""What each form of writing cannot do without."""
