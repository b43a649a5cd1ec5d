"""Calls whose arguments are tags: a name in an opening tag, then keys with their values.

Nothing in such a value is escaped.  So a closer ends a value only where what follows continues
the call, and that continuation is part of the terminal that ends the value: a value may hold the
closer itself (T-06).  Closers that are tokens end it at once, for free text has no tokens of
markers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from helios.frontend.grammar.lark import FREE, Rules, Spelling, either, escaped, quoted
from helios.frontend.grammar.schema import (
    Property,
    Schema,
    kinds_of,
    properties_of,
    texts_of,
    written_schema,
)
from helios.values import RequestInvalid
from prepared.contract import ArgumentTyping, Marker, ToolParser, ToolSyntax

ANY_KEY: Final = "/[A-Za-z_][A-Za-z0-9_.\\-]{0,63}/"
GAP_INSIDE: Final = "[ \\t\\r\\n]{0,8}"
MOST_PROPERTIES: Final = 256


class Tool(msgspec.Struct, frozen=True, kw_only=True):
    """A registered function."""

    name: str
    parameters: Schema
    exact: bool  # `strict`: every keyword of the schema holds


class Tags:
    """One tagged syntax, being written into a grammar."""

    def __init__(self, rules: Rules, syntax: ToolSyntax, spelling: Spelling, *, gap: str) -> None:
        self._rules, self._syntax, self._spelling, self._gap = rules, syntax, spelling, gap

    def calls(self, tools: Sequence[Tool], *, parallel: bool) -> str:
        """Calls of these tools: one, or several, in a section where there are sections."""
        syntax, gap = self._syntax, self._gap
        opened, closed = self._written(syntax.section_open), self._written(syntax.section_close)
        named = self._rules.add("named", "")
        again = f"{gap}? {self._written(syntax.call_open)} {named}"
        after = self._rules.add("after", "")
        more = f"{again} | " if parallel else ""
        ended = f"{gap}? {closed}" if closed else '""'
        self._rules.put(after, f"{more}{ended}")
        self._rules.put(named, either(self._call(tool, after) for tool in tools))
        call = f"{self._written(syntax.call_open)} {named}"
        if not opened:
            return self._rules.add("calls", call)
        section = self._rules.add("section", f"{opened} {gap}? {call}")
        return self._rules.add("calls", f"{section} ({gap}? {section})*" if parallel else section)

    def _written(self, *literals: Marker | str | None) -> str:
        return self._spelling.written(*literals)

    def _call(self, tool: Tool, after: str) -> str:
        """A call behind its opening: its name, its arguments, and what follows it."""
        syntax = self._syntax
        arguments = properties_of(tool.parameters)
        if len(arguments) > MOST_PROPERTIES:
            raise RequestInvalid(
                "tools",
                f"{len(arguments)} parameters of {tool.name}",
                expected=f"at most {MOST_PROPERTIES}",
            )
        name = self._attribute(syntax.name_field, tool.name) if syntax.name_field else tool.name
        keys, needed = self._keys(tool, arguments, after)
        ways = [] if needed else [f"{self._written(syntax.call_close)} {after}"]
        ways += [f"{self._written(syntax.key_open)} {keys}"] if keys else []
        return f"{self._written(name, syntax.name_close)} {self._gap}? {either(ways)}"

    @staticmethod
    def _attribute(name: str, value: str) -> str:
        escaped_value = value.replace("&", "&amp;").replace('"', "&quot;")
        return f' {name}="{escaped_value}"'

    def _keys(self, tool: Tool, arguments: list[Property], after: str) -> tuple[str, bool]:
        """What may stand behind the opening of a key, and whether a key must come."""
        if not arguments:
            return "", False
        following, needed = "", False
        for argument in reversed(arguments):
            value = self._value(tool, argument, following=following, needed=needed, after=after)
            way = self._rules.add("key", f"{self._key(argument.name)} {value}")
            if following and not argument.required:
                way = self._rules.add("keys", f"{way} | {following}")
            following, needed = way, needed or argument.required
        return following, needed

    def _key(self, name: str) -> str:
        syntax = self._syntax
        if not syntax.arguments_field:
            close = self._written(name, syntax.key_close)
            return (
                f"{close} {self._gap}? {self._written(syntax.value_open)}"
                if (syntax.value_open)
                else close
            )
        return self._written(self._attribute(syntax.arguments_field, name))

    def _value(
        self, tool: Tool, argument: Property, *, following: str, needed: bool, after: str
    ) -> str:
        """A value with its closer and what may follow: another key, or the end of the call."""
        kinds = kinds_of(argument.schema, tool.parameters)
        ways = []
        if "string" in kinds:
            opened = self._opened("string")
            ends = self._text_ends(
                texts_of(argument.schema, tool.parameters),
                following=following,
                needed=needed,
                after=after,
            )
            ways.append(f"{opened} {ends}")
        if "string" not in kinds or self._syntax.typing is ArgumentTyping.TYPED_BY_ATTRIBUTE:
            closed = self._written(self._syntax.wrapping, self._syntax.value_close)
            on = [f"{self._written(self._syntax.key_open)} {following}"] if following else []
            on += [] if needed else [f"{self._written(self._syntax.call_close)} {after}"]
            on_rule = self._rules.add("on", f"{self._gap}? {either(on)}")
            for opened, schema in self._other_values(argument.schema, kinds - {"string"}):
                document = self._rules.add(
                    "json", "%json " + written_schema(schema, exact=tool.exact)
                )
                ways.append(f"{opened} {document} {closed} {on_rule}")
        return self._rules.add("value", either(ways))

    def _opened(self, kind: str) -> str:
        """What stands between a key and its text: the type, if the syntax writes it."""
        syntax = self._syntax
        written = ""
        if syntax.type_attribute is not None:
            if syntax.parser is ToolParser.DSML:
                kind = "true" if kind == "string" else "false"
            written = f' {syntax.type_attribute}="{kind}"'
        closes = syntax.key_close if syntax.arguments_field else None
        return self._written(written, closes, syntax.wrapping)

    def _other_values(self, schema: Schema, kinds: frozenset[str]) -> list[tuple[str, Schema]]:
        """Openings of values that are no text, with the schema of each."""
        if not kinds:
            return []
        if self._syntax.type_attribute is None or self._syntax.parser is ToolParser.DSML:
            return [(self._opened("number"), restricted(schema, kinds))]
        return [(self._opened(kind), restricted(schema, {kind})) for kind in sorted(kinds)]

    def _text_ends(
        self, texts: tuple[str, ...] | None, *, following: str, needed: bool, after: str
    ) -> str:
        """Raw text with its closer, and what comes behind."""
        syntax, spelling = self._syntax, self._spelling
        key, close = syntax.key_open, syntax.call_close
        on = [f"{self._written(key)} {following}"] if following else []
        on += [] if needed else [f"{self._written(close)} {after}"]
        if texts is not None:
            known = either(quoted(text) for text in texts)
            closed = self._written(syntax.wrapping, syntax.value_close)
            return f"{known} {closed} {self._gap}? {either(on)}"
        closer = spelling.text_of(syntax.wrapping, syntax.value_close)
        if closer is None:
            return f"{self._until_token()} {self._gap}? {either(on)}"
        if spelling.text_of(key) is None or spelling.text_of(close) is None:
            return f"{self._until('until', escaped(closer))} {self._gap}? {either(on)}"
        ways = []
        if following:
            ends = escaped(closer) + GAP_INSIDE + escaped(spelling.text_of(key) or "")
            ways.append(f"{self._until('until_key', ends)} {following}")
        if not needed:
            ends = escaped(closer) + GAP_INSIDE + escaped(spelling.text_of(close) or "")
            ways.append(f"{self._until('until_end', ends)} {after}")
        return either(ways)

    def _until(self, name: str, ends: str) -> str:
        """The shortest text up to an ending."""
        return self._rules.once(name, FREE, suffix=f"/{ends}/")

    def _until_token(self) -> str:
        """Text up to a closer with a token in it; only such a token ends free text."""
        parts = self._spelling.parts(self._syntax.value_close)
        lead = self._syntax.wrapping
        if isinstance(parts[0], str):
            lead += str(parts.pop(0))
        rest = " ".join(f"<[{p}]>" if isinstance(p, int) else quoted(p) for p in parts)
        text = f"/(?s:.)*{escaped(lead)}/"
        return f"{text} {rest}" if lead else f"{text}? {rest}"


def restricted(schema: Schema, kinds: frozenset[str] | set[str]) -> Schema:
    """The schema for values of these types only."""
    whole = dict(schema) if isinstance(schema, dict) else {}
    named = whole.get("type")
    if isinstance(named, str) and named != "string":
        return whole
    definitions = {key: whole.pop(key) for key in ("$defs", "definitions") if key in whole}
    wanted: Schema = {"type": sorted(kinds)}
    return {**definitions, "allOf": [whole, wanted]} if whole else wanted
