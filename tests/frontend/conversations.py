"""Conversations that exercise what templates do, a byte tokenizer, and transformers' rendering."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from helios.frontend.prompt import Conversation
from helios.frontend.text import Tokenizer

TOKENS = {"bos_token": "<s>", "eos_token": "</s>"}
PRINTABLE = (*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100))
OTHERS = [byte for byte in range(256) if byte not in PRINTABLE]
LETTERS = [
    chr(byte) if byte in PRINTABLE else chr(0x100 + OTHERS.index(byte)) for byte in range(256)
]
MERGES = (("l", "l"), ("ll", "o"), ("\u0120", "a"), ("<", "|"), ("|", ">"), ("\u010a", "\u010a"))
SPELLED = re.compile(r"<[^<>\s'\"{}]{1,40}>|\[[A-Z_/]{3,30}\]")

TOOL = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "Weather of a <city> & 'more'",
        "parameters": {
            "type": "object",
            "properties": {
                "city": {"type": "string", "description": "The city"},
                "days": {"type": "integer", "enum": [1, 2]},
                "how": {"type": "object", "properties": {"a": {"type": ["string", "null"]}}},
            },
            "required": ["city"],
        },
    },
}


def user(text: object) -> dict[str, Any]:
    """A user's message."""
    return {"role": "user", "content": text}


def call(arguments: Mapping[str, Any], *, number: int = 0) -> dict[str, Any]:
    """A call of the tool, as clients send it."""
    function = {"name": "get_weather", "arguments": json.dumps(arguments, ensure_ascii=False)}
    return {"id": f"callabc0{number}", "type": "function", "function": function}


def result(text: object, *, number: int = 0) -> dict[str, Any]:
    """What the tool answered."""
    return {"role": "tool", "tool_call_id": f"callabc0{number}", "content": text}


def conversations(word: str = "word") -> dict[str, Conversation]:
    """Conversations in which a client's every text contains the word."""
    system = {"role": "system", "content": f" Be {word}.\n"}
    asked = user(f"Hi  {word} ")
    calls = {"role": "assistant", "tool_calls": [call({"city": f"P\xe2ris {word}", "days": 2})]}
    two = [call({"city": word}), call({"city": "B", "how": {"a": None}}, number=1)]
    parts = [{"type": "text", "text": word}, {"type": "text", "text": "y"}]
    tool = json.loads(json.dumps(TOOL))
    tool["function"]["description"] += word
    thought = {"role": "assistant", "content": f"b {word}", "reasoning_content": f"why\n{word}"}
    return {
        "one": Conversation(messages=[asked]),
        "no prompt": Conversation(messages=[asked], add_generation_prompt=False),
        "system": Conversation(messages=[system, asked]),
        "developer": Conversation(messages=[{"role": "developer", "content": word}, asked]),
        "turns": Conversation(
            messages=[asked, {"role": "assistant", "content": f" {word} b "}, user("c\n")]
        ),
        "parts": Conversation(messages=[user(parts)]),
        "tools": Conversation(messages=[asked], tools=[tool]),
        "calls": Conversation(messages=[asked, calls, result(f"3 {word}")], tools=[tool]),
        "two calls": Conversation(
            messages=[
                system,
                asked,
                {"role": "assistant", "content": f"so {word}", "tool_calls": two},
                result(word),
                result("4", number=1),
                {"role": "assistant", "content": "ok"},
                asked,
            ],
            tools=[tool],
        ),
        "thought": Conversation(messages=[asked, thought, user("c")]),
        "thinking": Conversation(messages=[asked], template_variables={"enable_thinking": True}),
        "silent": Conversation(messages=[asked], template_variables={"enable_thinking": False}),
    }


def byte_tokenizer(markers: Iterable[str], **flags: bool) -> Tokenizer:
    """A byte-level tokenizer with a few merges and these markers."""
    return Tokenizer(json.dumps(byte_tokenizer_file(markers, **flags)).encode())


def byte_tokenizer_file(markers: Iterable[str], **flags: bool) -> dict[str, Any]:
    """Its tokenizer.json."""
    words = [*LETTERS, *("".join(merge) for merge in MERGES)]
    common = {
        "single_word": False,
        "lstrip": False,
        "rstrip": False,
        "normalized": False,
        "special": True,
        **flags,
    }
    level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": False}
    return {
        "version": "1.0",
        "added_tokens": [
            {"id": len(words) + index, "content": marker, **common}
            for index, marker in enumerate(dict.fromkeys(markers))
        ],
        "normalizer": None,
        "pre_tokenizer": {**level, "use_regex": False},
        "decoder": level,
        "model": {
            "type": "BPE",
            "vocab": {word: index for index, word in enumerate(words)},
            "merges": [list(merge) for merge in MERGES],
        },
    }


def markers_in(source: str) -> list[str]:
    """Spellings in a template that look like markers."""
    return list(dict.fromkeys([*TOKENS.values(), *SPELLED.findall(source)]))


def as_transformers_renders(
    source: str,
    messages: Sequence[Mapping[str, Any]],
    conversation: Conversation,
    *,
    generate: bool,
    continued: bool | str = False,
) -> str | Exception:
    """The text that transformers renders, or the exception that it raises."""
    from transformers.utils.chat_template_utils import (  # noqa: PLC0415 - slow to import
        _normalize_chat_messages,
        render_jinja_template,
    )

    try:
        texts, _ = render_jinja_template(
            [_normalize_chat_messages(messages)],
            tools=conversation.tools,
            chat_template=source,
            add_generation_prompt=generate,
            continue_final_message=continued,
            **TOKENS,
            **conversation.template_variables,
        )
    except Exception as error:  # noqa: BLE001 - whatever it is, it is the answer
        return error
    text: str = texts[0]
    return text
