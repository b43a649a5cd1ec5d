"""Tool calls as grammars of the declared tool syntax, never of another one (T-13).

Names are those registered.  JSON arguments follow the tool's schema.  Tagged arguments come in
the schema's order, the required ones always; a value that may be a string is raw text up to a
closer that legally continues the call, and every other value is JSON of its schema.  Whatever is
generated here, the parser of the same syntax takes as a call (G-07).
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Final

from helios.frontend.grammar.lark import Rules, Spelling, either, quoted
from helios.frontend.grammar.schema import kinds_of, properties_of, written_schema
from helios.frontend.grammar.tags import Tags, Tool
from helios.values import RequestInvalid
from prepared.contract import ToolParser, ToolSyntax

GAP: Final = "/[ \\t\\r\\n]{1,8}/"
TAGGED: Final = frozenset(
    {
        ToolParser.QWEN_CODER_TAGS,
        ToolParser.GLM_ARGUMENT_TAGS,
        ToolParser.DSML,
        ToolParser.XTML_TOOLS,
        ToolParser.ATEM,
        ToolParser.INVOKE_TAGS,
    }
)


def calls(
    rules: Rules, syntax: ToolSyntax, spelling: Spelling, tools: Sequence[Tool], *, parallel: bool
) -> str:
    """One call of one of the tools, or several; the rule's name."""
    gap = rules.once("gap", GAP)
    if syntax.parser in TAGGED:
        return Tags(rules, syntax, spelling, gap=gap).calls(tools, parallel=parallel)
    if syntax.parser is ToolParser.PYTHON_CALLS:
        body = python_calls(rules, tools, parallel=parallel)
        opened = spelling.written(syntax.section_open)
        closed = spelling.written(syntax.section_close)
        return rules.add("calls", f"{opened} {body} {closed}")
    if syntax.parser is ToolParser.HARMONY:
        return either(arguments(rules, tool) for tool in tools)
    if syntax.parser in (ToolParser.NO_TOOLS, ToolParser.GEMMA_CALLS):
        raise RequestInvalid(
            "tool_choice",
            "a call that must be made",
            expected="'auto' or 'none': this model's syntax of calls cannot be imposed",
        )
    return json_calls(rules, syntax, spelling, tools, parallel=parallel)


def arguments(rules: Rules, tool: Tool) -> str:
    """A tool's arguments as one JSON object."""
    schema = tool.parameters
    if isinstance(schema, Mapping) and "type" not in schema:
        schema = {"type": "object", **schema}
    return rules.add("json", "%json " + written_schema(schema, exact=tool.exact))


def json_calls(
    rules: Rules, syntax: ToolSyntax, spelling: Spelling, tools: Sequence[Tool], *, parallel: bool
) -> str:
    """Calls whose arguments are a JSON object: beside the name, or in one object with it."""
    if syntax.name_close is not None:
        one = either(named_json(rules, syntax, spelling, tool) for tool in tools)
    else:
        one = either(enveloped_json(rules, syntax, tool) for tool in tools)
    one = rules.add("one", one)
    opened, closed = spelling.written(syntax.call_open), spelling.written(syntax.call_close)
    begun, ended = spelling.written(syntax.section_open), spelling.written(syntax.section_close)
    if opened:
        blank = "" if syntax.name_close is not None else "gap?"
        one = rules.add("call", f"{opened} {blank} {one} {blank} {closed}")
        many = f"{one} (gap? {one})*" if parallel else one
        return rules.add("calls", f"{begun} gap? {many} gap? {ended}" if begun else many)
    if begun:
        more = f'("," gap? {one})*' if parallel else ""
        return rules.add("calls", f'{begun} gap? "[" {one} {more} "]" {ended}')
    return rules.add("calls", one)


def named_json(rules: Rules, syntax: ToolSyntax, spelling: Spelling, tool: Tool) -> str:
    """A name between markers, then its arguments."""
    number = ' ":" /[0-9]{1,4}/' if syntax.parser is ToolParser.KIMI_SECTIONS else ""
    before, close = spelling.written(syntax.name_open), spelling.written(syntax.name_close)
    return f"{before} {quoted(tool.name)}{number} {close} {arguments(rules, tool)}"


def enveloped_json(rules: Rules, syntax: ToolSyntax, tool: Tool) -> str:
    """One object with the name first and the arguments after it."""
    name, held = quoted(json.dumps(syntax.name_field)), quoted(json.dumps(syntax.arguments_field))
    value = quoted(json.dumps(tool.name, ensure_ascii=False))
    return (
        f'"{{" gap? {name} gap? ":" gap? {value} gap? "," gap? '
        f'{held} gap? ":" gap? {arguments(rules, tool)} gap? "}}"'
    )


def python_calls(rules: Rules, tools: Sequence[Tool], *, parallel: bool) -> str:
    """A list of Python calls with named arguments."""
    one = rules.add("call", either(python_call(rules, tool) for tool in tools))
    more = f'("," gap? {one})*' if parallel else ""
    return f'"[" {one} {more} "]"'


def python_call(rules: Rules, tool: Tool) -> str:
    """One call; its arguments in the schema's order."""
    after = first = '")"'
    for argument in reversed(properties_of(tool.parameters)):
        if kinds_of(argument.schema, tool.parameters) == {"boolean"}:
            value = '("True" | "False")'
        else:
            value = rules.add("json", "%json " + written_schema(argument.schema, exact=tool.exact))
        written = f"{quoted(argument.name + '=')} {value}"
        following, skipping = rules.add("more", after), rules.add("none", first)
        after = f'"," gap? {written} {following}'
        first = f"{written} {following}"
        if not argument.required:
            after, first = f"{after} | {following}", f"{first} | {skipping}"
    return f"{quoted(tool.name + '(')} ({first})"
