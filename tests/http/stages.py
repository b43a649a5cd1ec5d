"""The syntaxes that tests over HTTP play, each on a tokenizer of its own."""

from __future__ import annotations

from typing import Any, Final

from tests.http.scripted import FRAMES, XTML, Stage

THINK: Final = ("<think>", "</think>")
CALLS: Final = ("<tool_call>", "</tool_call>")
GLM_TAGS: Final = ("<arg_key>", "</arg_key>", "<arg_value>", "</arg_value>")


def tool(name: str, **properties: object) -> dict[str, Any]:
    """A tool whose parameters have these schemas."""
    schema = {"type": "object", "properties": properties}
    return {"type": "function", "function": {"name": name, "parameters": schema}}


WEATHER: Final = tool("get_weather", city={"type": "string"}, days={"type": "integer"})
TIME: Final = tool("get_time")
BOTH: Final = [WEATHER, TIME]

PLAIN = Stage("plain")
TEXT = Stage("text", tools="hermes", reasoning="think")
HERMES = Stage("hermes", tools="hermes", reasoning="think", added=(*THINK, *CALLS))
CODER = Stage("coder", tools="qwen_coder", reasoning="think", added=(*THINK, *CALLS))
GLM = Stage("glm", tools="glm", reasoning="think", added=(*THINK, *CALLS, *GLM_TAGS))
DSML = Stage(
    "dsml",
    tools="dsml",
    reasoning="think",
    added=("｜DSML｜", *THINK),  # noqa: RUF001
    special=("<|im_start|>", "<｜begin▁of▁sentence｜>"),  # noqa: RUF001
)
KIMI_K3 = Stage(
    "xtml",
    tools="xtml",
    reasoning="xtml",
    special=("<|open|>", "<|close|>", "<|sep|>"),
    ends=("<|end_of_msg|>",),
    template=XTML,
)
ATEM = Stage(
    "atem",
    tools="atem",
    reasoning="recipient",
    special=("<|start|>", "<|message|>", "<|eom|>"),
    ends=("<|eot|>", "<|end_of_text|>"),
    template=FRAMES,
)
HARMONY = Stage(
    "harmony",
    tools="harmony",
    reasoning="harmony",
    special=("<|start|>", "<|message|>", "<|end|>", "<|channel|>", "<|constrain|>"),
    ends=("<|return|>", "<|call|>"),
    template=FRAMES.replace("END", "<|end|>"),
)
KIMI_K2 = Stage(
    "kimi",
    tools="kimi_k2",
    special=(
        "<|im_start|>",
        "<|tool_calls_section_begin|>",
        "<|tool_call_begin|>",
        "<|tool_call_argument_begin|>",
        "<|tool_call_end|>",
        "<|tool_calls_section_end|>",
    ),
)
MISTRAL = Stage(
    "mistral",
    tools="mistral",
    reasoning="mistral",
    special=("<|im_start|>", "[TOOL_CALLS]", "[ARGS]", "[THINK]", "[/THINK]"),
)
LLAMA = Stage("llama", tools="llama3_json", special=("<|im_start|>", "<|python_tag|>"))
PYTHONIC = Stage("pythonic", tools="pythonic")
GEMMA = Stage(
    "gemma",
    tools="gemma",
    reasoning="gemma",
    special=(
        "<|im_start|>",
        "<|tool_call>",
        "<tool_call|>",
        '<|"|>',
        "<|channel>",
        "<channel|>",
    ),
)
MINIMAX = Stage("minimax", tools="minimax", reasoning="think", added=THINK)
DEEPSEEK = Stage("deepseek", tools="deepseek_v3", reasoning="think", added=THINK)
