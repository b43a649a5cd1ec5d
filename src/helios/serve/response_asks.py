"""What clients may send to /v1/responses, typed, and the conversation that it means."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from helios.frontend.prepare import Asked, Sampled
from helios.frontend.prompt import Conversation
from helios.serve.response_turns import Turns
from helios.serve.translated import Translated, known, refuse, text_in
from helios.serve.wire import (
    WITHOUT_EFFECT,
    Count,
    Least,
    Positive,
    Probability,
    Salt,
    Seed,
    Temperature,
)

Object = dict[str, Any]

IGNORED: Final = (
    *(name for name in WITHOUT_EFFECT if name != "metadata"),
    "client_metadata",
    "prompt_cache_options",
    "prompt_cache_retention",
)
"""Members without effect here; `metadata` comes back with the response."""

ENCRYPTED: Final = "reasoning.encrypted_content"
NAMES: Final = tuple(
    (re.compile(pattern), words)
    for pattern, words in (
        (r"messages", "input"),
        (r"response_format\.json_schema\b", "text.format"),
        (r"response_format\b", "text.format"),
        (r"tools\[(\d+)\]\.function\b", r"tools[\1]"),
        (r"tool_choice\.function\b", "tool_choice"),
        (r"reasoning_effort", "reasoning.effort"),
    )
)
ONLY: Final[Mapping[str, tuple[tuple[object, ...], str]]] = {
    "background": ((None, False), "false: an answer is given while its client waits"),
    "conversation": ((None,), "nothing: no conversation is stored; send all of it as `input`"),
    "max_tool_calls": ((None,), "nothing: only functions that the client runs are called"),
    "previous_response_id": ((None,), "nothing: no response is stored; send all as `input`"),
    "prompt": ((None,), "nothing: no prompt is stored; send it as `input`"),
    "truncation": ((None, "disabled"), "'disabled': nothing is left out of a conversation"),
}
"""Fields that may say only what holds here anyway."""


class Reasoning(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """How the model thinks."""

    effort: str | None = None
    summary: str | None = None


class Text(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """How the answer is written."""

    format: Object | None = None
    verbosity: str | None = None


class StreamOptions(msgspec.Struct, forbid_unknown_fields=True):
    """What a stream says besides the answer."""

    include_obfuscation: bool | None = None


class ResponseRequest(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """POST /v1/responses."""

    input: str | list[Object]
    model: str | None = None
    instructions: str | None = None
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    tools: list[Object] | None = None
    tool_choice: Any = None
    parallel_tool_calls: bool | None = None
    text: Text | None = None
    reasoning: Reasoning | None = None
    include: list[str] | None = None
    max_output_tokens: Positive | None = None
    temperature: Temperature | None = None
    top_p: Probability | None = None
    top_k: Count | None = None
    min_p: Least | None = None
    seed: Seed | None = None
    cache_salt: Salt | None = None
    metadata: Object | None = None
    background: Any = None
    conversation: Any = None
    max_tool_calls: Any = None
    previous_response_id: Any = None
    prompt: Any = None
    truncation: Any = None

    @property
    def seals(self) -> bool:
        """Whether reasoning comes sealed as well, to be carried to the next turn."""
        return ENCRYPTED in (self.include or ())

    def translated(self) -> Translated:
        """The request in OpenAI's chat form."""
        self.check()
        turns = Turns()
        if self.instructions is not None:
            turns.say("developer", self.instructions, "instructions")
        turns.take(self.input)
        tools = [chat_tool(tool, f"tools[{at}]") for at, tool in enumerate(self.tools or ())]
        choice = chat_choice(self.tool_choice)
        return Translated(
            asked=Asked(
                conversation=Conversation(
                    messages=turns.messages,
                    tools=None if choice == "none" else tools or None,
                    reasoning_effort=self.reasoning.effort if self.reasoning else None,
                ),
                prompt_field="input",
                limit_field="max_output_tokens",
                output_limit=self.max_output_tokens,
                sampled=Sampled(
                    temperature=self.temperature,
                    top_p=self.top_p,
                    top_k=self.top_k,
                    min_p=self.min_p,
                    seed=self.seed,
                ),
                tools=tools or None,
                tool_choice=choice,
                parallel_calls=self.parallel_tool_calls is not False,
                response_format=chat_format(self.text.format if self.text else None),
                salt=self.cache_salt,
            ),
            places=turns.places,
            names=NAMES,
        )

    def check(self) -> None:
        """Refuse what this server cannot do."""
        for name, (values, expected) in ONLY.items():
            value = getattr(self, name)
            if not any(type(value) is type(allowed) and value == allowed for allowed in values):
                refuse(name, repr(value)[:80], expected=expected)
        for index, name in enumerate(self.include or ()):
            if name != ENCRYPTED:
                refuse(f"include[{index}]", repr(name)[:80], expected=repr(ENCRYPTED))
        if self.text and self.text.verbosity not in (None, "medium"):
            found = repr(self.text.verbosity)
            refuse("text.verbosity", found, expected="'medium': the model has no other")
        if self.reasoning and self.reasoning.summary not in (None, "auto"):
            found = repr(self.reasoning.summary)
            refuse("reasoning.summary", found, expected="'auto': reasoning is given as it is")
        if self.stream_options and self.stream_options.include_obfuscation:
            refuse("stream_options.include_obfuscation", "true", expected="false: nothing is added")


RESPONSE: Final = msgspec.json.Decoder(ResponseRequest)


# ---------------------------------------------------------------- functions


def chat_tool(tool: Object, at: str) -> Object:
    """A function in chat's form."""
    if tool.get("type") != "function":
        refuse(
            f"{at}.type",
            repr(tool.get("type"))[:80],
            expected="'function': this server runs no tools of its own; turn it off in the client",
        )
    known(tool, ("type", "name", "description", "parameters", "strict"), at)
    function = {name: value for name, value in tool.items() if name != "type"}
    return {"type": "function", "function": function}


def chat_choice(choice: object) -> object:
    """The choice in chat's form."""
    if isinstance(choice, Mapping) and choice.get("type") == "function":
        known(choice, ("type", "name"), "tool_choice")
        return {"type": "function", "function": {"name": text_in(choice, "name", "tool_choice")}}
    return choice


def chat_format(asked: Object | None) -> Object | None:
    """The answer's format in chat's form."""
    if asked is None or asked.get("type") != "json_schema":
        return asked
    known(asked, ("type", "name", "description", "schema", "strict"), "text.format")
    return {
        "type": "json_schema",
        "json_schema": {name: value for name, value in asked.items() if name != "type"},
    }
