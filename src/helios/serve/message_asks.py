"""What clients may send to /v1/messages, typed, and what each request asks."""

from __future__ import annotations

import re
from typing import Annotated, Any, Final

import msgspec

from helios.frontend.prepare import Asked, Sampled
from helios.frontend.prompt import Conversation
from helios.serve.message_turns import Turns, chat_tool
from helios.serve.translated import Translated, known, refuse, text_in
from helios.serve.wire import Count, Positive, Probability, Temperature

Object = dict[str, Any]

IGNORED: Final = ("metadata", "service_tier", "cache_control")
"""They describe the client or its bill; what can be reused of a prompt always is."""

NAMES: Final = tuple(
    (re.compile(pattern), words)
    for pattern, words in (
        (r"stop\b", "stop_sequences"),
        (r"response_format\.json_schema\b", "output_config.format"),
        (r"response_format\b", "output_config.format"),
        (r"tools\[(\d+)\]\.function\.parameters\b", r"tools[\1].input_schema"),
        (r"tools\[(\d+)\]\.function\b", r"tools[\1]"),
        (r"tool_choice\.function\b", "tool_choice"),
        (r"reasoning_effort", "output_config.effort"),
    )
)
LEAST_BUDGET: Final = 1024
EFFORTS: Final = ((4096, "low"), (16384, "medium"))
"""The effort that a budget below so many tokens of thinking stands for; beyond, it is high."""
NO_EFFORT: Final = "none"
KEEPS_THINKING: Final = {"type": "clear_thinking_20251015", "keep": "all"}


class Thinking(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """Whether and how much the model thinks, and whether that is shown."""

    type: str
    budget_tokens: Annotated[int, msgspec.Meta(ge=LEAST_BUDGET)] | None = None
    display: str | None = None


class OutputConfig(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """Effort, and the form of the answer."""

    effort: str | None = None
    format: Object | None = None


class ContextManagement(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """What of the conversation is left out."""

    edits: list[Object] = []


class Counted(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """POST /v1/messages/count_tokens, and what both routes take."""

    messages: Annotated[list[Object], msgspec.Meta(min_length=1)]
    model: str | None = None
    system: str | list[Object] | None = None
    tools: list[Object] | None = None
    tool_choice: Object | None = None
    thinking: Thinking | None = None
    output_config: OutputConfig | None = None
    context_management: ContextManagement | None = None
    speed: str | None = None

    @property
    def shows_thinking(self) -> bool:
        """Whether thinking is shown as it is."""
        return self.thinking is None or self.thinking.display != "omitted"

    def translated(self, *, efforts: frozenset[str]) -> Translated:
        """The request in OpenAI's chat form; `efforts` are what the model declares."""
        self.check()
        turns = Turns()
        if self.system is not None:
            turns.system(self.system, "system")
        for index, message in enumerate(self.messages):
            turns.message(message, f"messages[{index}]")
        tools = [chat_tool(tool, f"tools[{at}]") for at, tool in enumerate(self.tools or ())]
        choice, parallel = chat_choice(self.tool_choice or {"type": "auto"})
        return Translated(
            asked=Asked(
                conversation=Conversation(
                    messages=turns.messages,
                    tools=None if choice == "none" else tools or None,
                    continue_final_message=turns.continues(),
                    reasoning_effort=self.effort(efforts),
                ),
                fitted=True,
                tools=tools or None,
                tool_choice=choice,
                parallel_calls=parallel,
                response_format=self.format(),
                **self.more(),
            ),
            places=turns.places,
            names=NAMES,
        )

    def more(self) -> dict[str, Any]:
        """What only one of the routes takes."""
        return {}

    def format(self) -> Object | None:
        """The answer's format in chat's form; always held to every keyword."""
        asked = self.output_config.format if self.output_config else None
        if asked is None:
            return None
        known(asked, ("type", "schema"), "output_config.format")
        if asked.get("type") != "json_schema":
            found = repr(asked.get("type"))[:80]
            refuse("output_config.format.type", found, expected="'json_schema'")
        held = {name: value for name, value in asked.items() if name == "schema"}
        return {"type": "json_schema", "json_schema": {**held, "strict": True}}

    def effort(self, efforts: frozenset[str]) -> str | None:
        """The effort by its declared name; a budget is a target, and so is what stands for it."""
        if self.output_config and self.output_config.effort is not None:
            return self.output_config.effort
        if self.thinking is None:
            return None
        if self.thinking.type == "disabled":
            if efforts and NO_EFFORT not in efforts:
                expected = "'enabled' or 'adaptive': this model cannot be kept from thinking"
                refuse("thinking.type", "'disabled'", expected=expected)
            return NO_EFFORT if efforts else None
        budget = self.thinking.budget_tokens
        if budget is None:
            return None
        effort = next((name for most, name in EFFORTS if budget < most), "high")
        return effort if effort in efforts else None

    def check(self) -> None:
        """Refuse what this server cannot do."""
        if self.speed not in (None, "standard"):
            refuse("speed", repr(self.speed)[:80], expected="'standard'")
        for index, edit in enumerate(
            self.context_management.edits if self.context_management else ()
        ):
            if edit != KEEPS_THINKING:
                refuse(
                    f"context_management.edits[{index}]",
                    repr(edit)[:80],
                    expected="clear_thinking_20251015 with keep: 'all'; nothing is left out here",
                )
        if self.thinking is None:
            return
        if self.thinking.type not in ("enabled", "disabled", "adaptive"):
            found = repr(self.thinking.type)[:80]
            refuse("thinking.type", found, expected="'enabled', 'disabled' or 'adaptive'")
        if (self.thinking.type == "enabled") != (self.thinking.budget_tokens is not None):
            refuse(
                "thinking.budget_tokens",
                self.thinking.budget_tokens or "nothing",
                expected="a number of tokens beside the type 'enabled', and there only",
            )
        if self.thinking.display not in (None, "summarized", "omitted"):
            found = repr(self.thinking.display)[:80]
            refuse("thinking.display", found, expected="'summarized' or 'omitted'")


class MessageRequest(Counted, kw_only=True):
    """POST /v1/messages."""

    max_tokens: Positive
    stream: bool | None = None
    stop_sequences: list[str] | None = None
    temperature: Temperature | None = None
    top_p: Probability | None = None
    top_k: Count | None = None

    def more(self) -> dict[str, Any]:
        """See `Counted`."""
        return {
            "output_limit": self.max_tokens,
            "stop": self.stop_sequences,
            "sampled": Sampled(temperature=self.temperature, top_p=self.top_p, top_k=self.top_k),
        }

    def check(self) -> None:
        """See `Counted`."""
        super().check()
        budget = self.thinking.budget_tokens if self.thinking else None
        if budget is not None and budget >= self.max_tokens:
            expected = f"fewer than max_tokens, {self.max_tokens}"
            refuse("thinking.budget_tokens", budget, expected=expected)


MESSAGE: Final = msgspec.json.Decoder(MessageRequest)
COUNTED: Final = msgspec.json.Decoder(Counted)


def chat_choice(choice: Object) -> tuple[object, bool]:
    """The choice in chat's form, and whether several calls may be made."""
    known(choice, ("type", "name", "disable_parallel_tool_use"), "tool_choice")
    alone = choice.get("disable_parallel_tool_use", False)
    if not isinstance(alone, bool):
        refuse("tool_choice.disable_parallel_tool_use", repr(alone)[:80], expected="true or false")
    match choice.get("type"):
        case "auto" | "none" as same:
            return same, not alone
        case "any":
            return "required", not alone
        case "tool":
            name = text_in(choice, "name", "tool_choice")
            return {"type": "function", "function": {"name": name}}, not alone
        case other:
            return refuse(
                "tool_choice.type", repr(other)[:80], expected="'auto', 'any', 'tool' or 'none'"
            )
