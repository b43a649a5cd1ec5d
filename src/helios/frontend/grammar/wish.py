"""What a client asks of the shape of its answer: OpenAI's fields and `structured_outputs`.

Objects come in the order in which the schema declares their members.  `strict: true` and
`structured_outputs.json` hold every keyword of the schema or are refused; without `strict`,
keywords that cannot be enforced are left out, as OpenAI's best effort has it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from helios.frontend.grammar.envelope import Wish
from helios.frontend.grammar.lark import quoted
from helios.frontend.grammar.patterns import check_grammar, check_pattern
from helios.frontend.grammar.schema import Schema, checked_schema, written_schema
from helios.frontend.grammar.tags import Tool
from helios.values import RequestInvalid

KINDS: Final = ("json", "regex", "choice", "grammar")
MOST_CHOICES: Final = 1024
MOST_GRAMMAR_NBYTES: Final = 64 << 10
MOST_TOOLS: Final = 128
NAME: Final = re.compile(r"[A-Za-z0-9_.\-]{1,128}")


def wish_of(
    *,
    response_format: object = None,
    structured_outputs: object = None,
    tools: object = None,
    tool_choice: object = None,
    parallel_tool_calls: bool = True,
) -> Wish | None:
    """What the output must be, or None where the model is free.

    A document stands beside calls while `tool_choice` leaves the model the choice.
    """
    document, grammar = asked_document(response_format, structured_outputs)
    offered = tools_of(tools)
    must, chosen = chosen_tools(tool_choice, offered)
    if must:
        return Wish(document=None, grammar=None, tools=chosen, parallel=parallel_tool_calls)
    if document is None and grammar is None:
        return None
    return Wish(document=document, grammar=grammar, tools=chosen, parallel=parallel_tool_calls)


def asked_document(
    response_format: object, structured_outputs: object
) -> tuple[str | None, str | None]:
    """A rule's body, or a whole grammar, or neither."""
    document = formatted(response_format)
    if structured_outputs is None:
        return document, None
    if document is not None:
        raise RequestInvalid(
            "structured_outputs", "it beside response_format", expected="one of the two"
        )
    return structured(structured_outputs)


def member(value: object, field: str) -> Mapping[str, Any]:
    """An object of the request."""
    if not isinstance(value, Mapping):
        raise RequestInvalid(field, type(value).__name__, expected="an object")
    return value


def formatted(response_format: object) -> str | None:
    """The document that `response_format` asks for."""
    if response_format is None:
        return None
    asked = member(response_format, "response_format")
    match asked.get("type"):
        case "text":
            return None
        case "json_object":
            return "%json " + written_schema({"type": "object"}, exact=True)
        case "json_schema":
            held = member(asked.get("json_schema"), "response_format.json_schema")
            field = "response_format.json_schema.schema"
            strict = flag(held.get("strict"), "response_format.json_schema.strict")
            if "schema" not in held:
                raise RequestInvalid(field, "nothing", expected="a JSON Schema object")
            schema = checked_schema(held["schema"], field)
            return "%json " + written_schema(schema, exact=strict)
        case other:
            raise RequestInvalid(
                "response_format.type",
                repr(other)[:80],
                expected="'text', 'json_object' or 'json_schema'",
            )


def flag(value: object, field: str) -> bool:
    """A boolean; null is false."""
    if value is None or isinstance(value, bool):
        return bool(value)
    raise RequestInvalid(field, repr(value)[:80], expected="true, false or null")


def structured(asked: object) -> tuple[str | None, str | None]:
    """The document that `structured_outputs` asks for: exactly one kind."""
    asked = member(asked, "structured_outputs")
    for name in asked:
        if name not in KINDS:
            raise RequestInvalid(
                f"structured_outputs.{name}", "a field", expected=f"one of {', '.join(KINDS)}"
            )
    kinds = [name for name in KINDS if asked.get(name) is not None]
    if len(kinds) != 1:
        raise RequestInvalid(
            "structured_outputs",
            " and ".join(kinds) or "nothing",
            expected=f"exactly one of {', '.join(KINDS)}",
        )
    field, value = f"structured_outputs.{kinds[0]}", asked[kinds[0]]
    match kinds[0]:
        case "json":
            return "%json " + written_schema(checked_schema(value, field), exact=True), None
        case "regex":
            return expression(text(value, field), field), None
        case "choice":
            return choice(value, field), None
        case _:
            return None, own_grammar(text(value, field), field)


def text(value: object, field: str) -> str:
    """A nonempty string."""
    if not isinstance(value, str) or not value:
        raise RequestInvalid(field, repr(value)[:80], expected="a nonempty string")
    return value


def expression(pattern: str, field: str) -> str:
    """A regular expression that the whole answer matches; anchors say nothing more."""
    check_pattern(pattern, field)
    pattern = pattern.removeprefix("^")
    if pattern.endswith("$") and not pattern.endswith("\\$"):
        pattern = pattern[:-1]
    slashes = re.sub(r"(?<!\\)((?:\\\\)*)/", r"\1\\/", pattern)
    return "/" + slashes.replace("\n", "\\n") + "/"


def choice(values: object, field: str) -> str:
    """One of several texts."""
    if not isinstance(values, list | tuple) or not 1 <= len(values) <= MOST_CHOICES:
        raise RequestInvalid(field, repr(values)[:80], expected=f"1 to {MOST_CHOICES} strings")
    return " | ".join(
        quoted(text(value, f"{field}[{index}]")) for index, value in enumerate(values)
    )


def own_grammar(grammar: str, field: str) -> str:
    """A grammar in llguidance's Lark."""
    if len(grammar.encode()) > MOST_GRAMMAR_NBYTES:
        raise RequestInvalid(
            field, f"{len(grammar.encode())} bytes", expected=f"at most {MOST_GRAMMAR_NBYTES}"
        )
    check_grammar(grammar, field)
    return grammar


# ------------------------------------------------------------- tools


def tools_of(tools: object) -> tuple[Tool, ...]:
    """The registered functions."""
    if tools is None:
        return ()
    if not isinstance(tools, Sequence) or isinstance(tools, str) or len(tools) > MOST_TOOLS:
        raise RequestInvalid("tools", repr(tools)[:80], expected=f"at most {MOST_TOOLS} functions")
    found = tuple(tool_of(tool, f"tools[{index}]") for index, tool in enumerate(tools))
    for index, tool in enumerate(found):
        if tool.name in {other.name for other in found[:index]}:
            raise RequestInvalid(
                f"tools[{index}].function.name", repr(tool.name), expected="a name of its own"
            )
    return found


def tool_of(tool: object, field: str) -> Tool:
    """A registered function."""
    function = member(member(tool, field).get("function"), f"{field}.function")
    name = function.get("name")
    if not isinstance(name, str) or NAME.fullmatch(name) is None:
        raise RequestInvalid(
            f"{field}.function.name",
            repr(name)[:160],
            expected="1 to 128 letters, digits, dots, underscores or hyphens",
        )
    schema: Schema = {"type": "object", "properties": {}}
    if function.get("parameters") is not None:
        schema = checked_schema(function["parameters"], f"{field}.function.parameters")
    strict = flag(function.get("strict"), f"{field}.function.strict")
    return Tool(name=name, parameters=schema, exact=strict)


def chosen_tools(tool_choice: object, offered: tuple[Tool, ...]) -> tuple[bool, tuple[Tool, ...]]:
    """Whether a call must be made, and the functions that may be called."""
    match tool_choice:
        case None | "auto":
            return False, offered
        case "none":
            return False, ()
        case "required":
            if not offered:
                raise RequestInvalid("tool_choice", "'required'", expected="tools to choose from")
            return True, offered
        case {"type": "function", "function": {"name": str(name)}}:
            chosen = tuple(tool for tool in offered if tool.name == name)
            if not chosen:
                raise RequestInvalid(
                    "tool_choice.function.name", repr(name)[:160], expected="one of the tools"
                )
            return True, chosen
        case _:
            raise RequestInvalid(
                "tool_choice",
                repr(tool_choice)[:160],
                expected="'none', 'auto', 'required' or a function's name",
            )
