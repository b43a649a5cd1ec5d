"""Public output syntaxes by plain names: data, no code.

A name stands for a way of writing that several publishers use.  Token ids come from the model's
own tokenizer: a marker that it keeps as one added token counts only as that token (FI-07).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from msgspec.structs import replace

from ignition.preparation.frontend import no_reasoning, no_tools
from prepared.contract import (
    ArgumentTyping,
    FrameSyntax,
    Marker,
    ReasoningParser,
    ReasoningSyntax,
    ToolParser,
    ToolSyntax,
)


class UnknownSyntax(Exception):
    """No syntax has this name."""


def tools(parser: ToolParser, **data: Any) -> ToolSyntax:
    """A tool syntax; texts of markers may be given as they are."""
    markers = {
        name: Marker(text=value, token_id=None) if name.endswith(("_open", "_close")) else value
        for name, value in data.items()
    }
    return replace(
        no_tools(), parser=parser, **{"typing": ArgumentTyping.TYPED_BY_SCHEMA, **markers}
    )


def tag_calls(
    parser: ToolParser, mark: str, *, section: str, spaced: str = "", **data: Any
) -> ToolSyntax:
    """Invoke and parameter tags, every tag's name after the same mark."""
    shared = {
        "section_open": f"<{mark}{spaced}{section}>",
        "section_close": f"</{mark}{spaced}{section}>",
        "call_open": f"<{mark}{spaced}invoke",
        "call_close": f"</{mark}{spaced}invoke>",
        "name_close": ">",
        "key_open": f"<{mark}{spaced}parameter",
        "key_close": ">",
        "value_close": f"</{mark}{spaced}parameter>",
        "name_field": "name",
        "arguments_field": "name",
    }
    return tools(parser, **{**shared, **data})


def dsml(section: str, *, spaced: str = "") -> ToolSyntax:
    """DSML: the tags say whether a value is text."""
    return tag_calls(
        ToolParser.DSML,
        "｜DSML｜",  # noqa: RUF001
        section=section,
        spaced=spaced,
        typing=ArgumentTyping.TYPED_BY_ATTRIBUTE,
        type_attribute="string",
        separator="\n\n",
    )


def function_tags(section: str) -> ToolSyntax:
    """Function and parameter tags with the name after an equals sign."""
    return tools(
        ToolParser.QWEN_CODER_TAGS,
        section_open=f"<{section}>",
        section_close=f"</{section}>",
        call_open="<function=",
        call_close="</function>",
        name_close=">",
        key_open="<parameter=",
        key_close=">",
        value_close="</parameter>",
        wrapping="\n",
        separator="\n",
    )


def json_calls(**data: Any) -> ToolSyntax:
    """JSON objects with a name and arguments."""
    shared = {
        "typing": ArgumentTyping.TYPED_AS_JSON,
        "name_field": "name",
        "arguments_field": "arguments",
    }
    return tools(ToolParser.JSON_CALLS, **{**shared, **data})


def xtml() -> ToolSyntax:
    """Tags of four control tokens."""
    return tools(
        ToolParser.XTML_TOOLS,
        section_open="<|open|>tools<|sep|>",
        section_close="<|close|>tools<|sep|>",
        call_open="<|open|>call",
        call_close="<|close|>call<|sep|>",
        name_close="<|sep|>",
        key_open="<|open|>argument",
        key_close="<|sep|>",
        value_close="<|close|>argument<|sep|>",
        object_open='<|open|>json type="object"<|sep|>',
        object_close="<|close|>json<|sep|>",
        name_field="tool",
        arguments_field="key",
        typing=ArgumentTyping.TYPED_BY_ATTRIBUTE,
        type_attribute="type",
    )


def deepseek(**data: Any) -> ToolSyntax:
    """Sections of calls, each a name and JSON."""
    shared = {
        "section_open": "<｜tool▁calls▁begin｜>",  # noqa: RUF001
        "section_close": "<｜tool▁calls▁end｜>",  # noqa: RUF001
        "call_open": "<｜tool▁call▁begin｜>",  # noqa: RUF001
        "call_close": "<｜tool▁call▁end｜>",  # noqa: RUF001
        "name_close": "<｜tool▁sep｜>",  # noqa: RUF001
        "typing": ArgumentTyping.TYPED_AS_JSON,
    }
    return tools(ToolParser.DEEPSEEK_SECTIONS, **{**shared, **data})


def markup(**data: str) -> dict[str, Any]:
    """Data of a syntax whose values are JSON already."""
    return {**data, "typing": ArgumentTyping.TYPED_AS_JSON}


TOOLS: Final[Mapping[str, ToolSyntax]] = {
    "none": no_tools(),
    "qwen_coder": function_tags("tool_call"),
    "seed": function_tags("seed:tool_call"),
    "glm": tools(
        ToolParser.GLM_ARGUMENT_TAGS,
        call_open="<tool_call>",
        call_close="</tool_call>",
        key_open="<arg_key>",
        key_close="</arg_key>",
        value_open="<arg_value>",
        value_close="</arg_value>",
        separator="\n",
    ),
    "dsml": dsml("tool_calls"),
    "dsml_v32": dsml("function_calls"),
    "dsml_v41": dsml("calls", spaced=" "),
    "xtml": xtml(),
    "atem": replace(
        tag_calls(ToolParser.ATEM, "atem:", section="function_calls"), generic_recipient="tool"
    ),
    "minimax": tag_calls(
        ToolParser.INVOKE_TAGS, "", section="minimax:tool_call", separator="\n", wrapping=""
    ),
    "minicpm": tools(
        ToolParser.INVOKE_TAGS,
        call_open="<function",
        call_close="</function>",
        name_close=">",
        key_open="<param",
        key_close=">",
        value_close="</param>",
        name_field="name",
        arguments_field="name",
    ),
    "hermes": json_calls(call_open="<tool_call>", call_close="</tool_call>", separator="\n"),
    "llama3_json": json_calls(arguments_field="parameters", separator=";"),
    "llama3_tags": tools(
        ToolParser.JSON_CALLS,
        **markup(call_open="<function=", name_close=">", call_close="</function>"),
    ),
    "mistral": tools(
        ToolParser.JSON_CALLS, **markup(call_open="[TOOL_CALLS]", name_close="[ARGS]")
    ),
    "mistral_list": json_calls(section_open="[TOOL_CALLS]"),
    "granite": json_calls(section_open="<|tool_call|>"),
    "phi": json_calls(section_open="<|tool_call|>", section_close="<|/tool_call|>"),
    "phi_functools": json_calls(section_open="functools"),
    "nemotron": json_calls(section_open="<TOOLCALL>", section_close="</TOOLCALL>"),
    "hunyuan": json_calls(section_open="<tool_calls>", section_close="</tool_calls>"),
    "command": json_calls(
        section_open="<|START_ACTION|>",
        section_close="<|END_ACTION|>",
        name_field="tool_name",
        arguments_field="parameters",
    ),
    "xlam": json_calls(),
    "harmony": tools(ToolParser.HARMONY, **markup(name_open="functions.")),
    "kimi_k2": tools(
        ToolParser.KIMI_SECTIONS,
        **markup(
            section_open="<|tool_calls_section_begin|>",
            section_close="<|tool_calls_section_end|>",
            call_open="<|tool_call_begin|>",
            name_open="functions.",
            name_close="<|tool_call_argument_begin|>",
            call_close="<|tool_call_end|>",
        ),
    ),
    "deepseek_v3": deepseek(
        name_open="function<｜tool▁sep｜>",  # noqa: RUF001
        name_close="\n```json\n",
        call_close="\n```<｜tool▁call▁end｜>",  # noqa: RUF001
    ),
    "deepseek_v31": deepseek(),
    "gemma": tools(
        ToolParser.GEMMA_CALLS,
        **markup(
            call_open="<|tool_call>",
            name_open="call:",
            value_open='<|"|>',
            value_close='<|"|>',
            call_close="<tool_call|>",
        ),
    ),
    "function_gemma": tools(
        ToolParser.GEMMA_CALLS,
        **markup(
            call_open="<start_function_call>",
            name_open="call:",
            value_open="<escape>",
            value_close="<escape>",
            call_close="<end_function_call>",
        ),
    ),
    "pythonic": tools(ToolParser.PYTHON_CALLS, **markup()),
    "llama4_pythonic": tools(
        ToolParser.PYTHON_CALLS,
        **markup(section_open="<|python_start|>", section_close="<|python_end|>"),
    ),
    "olmo": tools(
        ToolParser.PYTHON_CALLS,
        **markup(section_open="<function_calls>", section_close="</function_calls>"),
    ),
    "lfm2": tools(
        ToolParser.PYTHON_CALLS,
        **markup(section_open="<|tool_call_start|>", section_close="<|tool_call_end|>"),
    ),
}
"""Tool syntaxes by plain names."""


def tags(opened: str, closed: str, **data: Any) -> ReasoningSyntax:
    """Reasoning between a pair of tags."""
    return replace(
        no_reasoning(),
        parser=ReasoningParser.THINK_TAGS,
        open=Marker(text=opened, token_id=None),
        close=Marker(text=closed, token_id=None),
        **data,
    )


def plain(text: str) -> Marker:
    """A marker whose token the tokenizer will say."""
    return Marker(text=text, token_id=None)


REASONING: Final[Mapping[str, ReasoningSyntax]] = {
    "none": no_reasoning(),
    "think": tags("<think>", "</think>", wrapping="\n", answer_prefix="\n\n"),
    "seed": tags("<seed:think>", "</seed:think>", wrapping="\n", answer_prefix="\n\n"),
    "minimax": tags("<mm:think>", "</mm:think>", wrapping="\n", answer_prefix="\n\n"),
    "mistral": tags("[THINK]", "[/THINK]"),
    "gemma": tags("<|channel>thought\n", "<channel|>", wrapping="\n"),
    "command": tags("<|START_THINKING|>", "<|END_THINKING|>"),
    "xtml": replace(
        no_reasoning(),
        parser=ReasoningParser.XTML_THINK,
        open=plain("<|open|>think<|sep|>"),
        close=plain("<|close|>think<|sep|>"),
        answer_open=plain("<|open|>response<|sep|>"),
        answer_close=plain("<|close|>response<|sep|>"),
    ),
    "recipient": replace(
        no_reasoning(),
        parser=ReasoningParser.RECIPIENT_HEADERS,
        reasoning_recipients=("self",),
        content_recipients=("user", "commentary", ""),
        frames=FrameSyntax(
            open=plain("<|start|>"),
            header_close=plain("<|message|>"),
            closes=(plain("<|eom|>"), plain("<|eot|>")),
            recipient_prefix=" to=",
            channel_open=None,
        ),
    ),
    "harmony": replace(
        no_reasoning(),
        parser=ReasoningParser.HARMONY_CHANNELS,
        reasoning_recipients=("analysis",),
        content_recipients=("final", "commentary", ""),
        frames=FrameSyntax(
            open=plain("<|start|>"),
            header_close=plain("<|message|>"),
            closes=(plain("<|end|>"), plain("<|call|>"), plain("<|return|>")),
            recipient_prefix=" to=",
            channel_open=plain("<|channel|>"),
        ),
    ),
}
"""Reasoning syntaxes by plain names."""


def syntax_named(
    tool_name: str, reasoning_name: str, added: Mapping[str, int]
) -> tuple[ToolSyntax, ReasoningSyntax]:
    """The two syntaxes of these names, for a tokenizer with these added tokens.

    Tag reasoning also ends at the opening of a call, where the tool syntax has one (FI-06).
    """
    for name, known in ((tool_name, TOOLS), (reasoning_name, REASONING)):
        if name not in known:
            raise UnknownSyntax(f"{name}: no such syntax; there are {', '.join(sorted(known))}")
    calls = with_tokens(TOOLS[tool_name], added)
    reasoning = with_tokens(REASONING[reasoning_name], added)
    tagged = reasoning.parser in (ReasoningParser.THINK_TAGS, ReasoningParser.XTML_THINK)
    if tagged:
        reasoning = replace(reasoning, terminal=calls.section_open or calls.call_open)
    return calls, reasoning


def with_tokens(shape: Any, added: Mapping[str, int]) -> Any:
    """The same data, each marker with the id of its token if the tokenizer has it as one."""
    found: dict[str, Any] = {}
    for name in shape.__struct_fields__:
        value = getattr(shape, name)
        if isinstance(value, Marker):
            found[name] = replace(value, token_id=added.get(value.text))
        elif isinstance(value, FrameSyntax):
            found[name] = with_tokens(value, added)
        elif name == "closes":
            found[name] = tuple(replace(mark, token_id=added.get(mark.text)) for mark in value)
    return replace(shape, **found)
