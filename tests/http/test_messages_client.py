"""Anthropic's official client, unmodified, against a real server whose model is scripted."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import anthropic
import httpx
import pytest
from anthropic import Anthropic

from tests.http.scripted_server import LINES, ScriptedServer

WEATHER: Final = {
    "name": "get_weather",
    "description": "The weather.",
    "input_schema": {
        "type": "object",
        "properties": {"city": {"type": "string"}, "days": {"type": "integer"}},
        "required": ["city", "days"],
    },
}
TIME: Final = {"name": "get_time", "input_schema": {"type": "object"}}
QUESTION: Final = {"role": "user", "content": "hi"}
ANSWERS: Final = [name for name in LINES if not name.startswith("fails") and name != "no end"]
PARIS: Final = {"city": "Paris", "days": 3}


@pytest.fixture(scope="module")
def client(scripted: ScriptedServer) -> Iterator[Anthropic]:
    with Anthropic(base_url=scripted.origin, api_key="none", max_retries=0) as client:
        yield client


def wanted(**changes: Any) -> dict[str, Any]:
    tools = [WEATHER, TIME]
    body = {"model": "scripted", "max_tokens": 1000, "messages": [QUESTION], "tools": tools}
    return {**body, **changes}


class Asking:
    """Asks for a line of the script."""

    def __init__(self, client: Anthropic, scripted: ScriptedServer) -> None:
        self.client, self._scripted = client, scripted

    def __call__(self, line: str, **changes: Any) -> Any:
        self._scripted.say(line)
        return self.client.messages.create(**wanted(**changes))

    def streamed(self, line: str, **changes: Any) -> tuple[list[Any], Any]:
        """The events, and the message that the client puts together."""
        self._scripted.say(line)
        with self.client.messages.stream(**wanted(**changes)) as stream:
            events = list(stream)
            return events, stream.get_final_message()

    def raw(self, **changes: Any) -> httpx.Response:
        """The plain answer to a request."""
        headers = {"anthropic-version": "2023-06-01", "x-api-key": "none"}
        return self._scripted.http.post("/v1/messages", json=wanted(**changes), headers=headers)


@pytest.fixture
def ask(client: Anthropic, scripted: ScriptedServer) -> Asking:
    return Asking(client, scripted)


def shown(message: Any) -> list[Any]:
    """Its content without ids."""
    blocks = [block.model_dump(exclude_none=True) for block in message.content]
    return [{name: value for name, value in b.items() if name != "id"} for b in blocks]


def test_a_message_has_its_parts(ask: Asking) -> None:
    message = ask("text", system="Be kind.")
    assert shown(message) == [{"type": "text", "text": "Hello there."}]
    assert (message.role, message.type, message.model) == ("assistant", "message", "scripted")
    assert (message.stop_reason, message.stop_sequence) == ("end_turn", None)
    assert message.usage.output_tokens == len("Hello there.") + 1


def test_thinking_text_and_call_are_blocks_in_order(ask: Asking) -> None:
    message = ask("everything")
    assert [block.type for block in message.content] == ["thinking", "text", "tool_use"]
    thinking, text, call = message.content
    assert (thinking.thinking, text.text) == ("hmm", "I look. ")
    assert (call.name, call.input) == ("get_weather", PARIS)
    assert message.stop_reason == "tool_use"
    assert message.usage.output_tokens_details.thinking_tokens > len("hmm")


def test_calls_have_ids_of_their_own(ask: Asking) -> None:
    one, two = ask("two calls").content
    assert (one.input, two.input) == (PARIS, {})
    assert one.id != two.id
    alone = ask("two calls", tool_choice={"type": "auto", "disable_parallel_tool_use": True})
    assert len(alone.content) == 1


def test_an_empty_answer_has_no_content(ask: Asking) -> None:
    message = ask("nothing")
    assert (message.content, message.stop_reason) == ([], "end_turn")


@pytest.mark.parametrize("line", ANSWERS)
@pytest.mark.parametrize("limit", [1000, 3, 40])
def test_a_stream_makes_the_whole_message(ask: Asking, line: str, limit: int) -> None:
    whole = ask(line, max_tokens=limit)
    _, made = ask.streamed(line, max_tokens=limit)
    assert shown(made) == shown(whole)
    assert (made.stop_reason, made.usage.output_tokens) == (
        whole.stop_reason,
        whole.usage.output_tokens,
    )


def test_events_come_in_the_order_of_anthropic(ask: Asking, scripted: ScriptedServer) -> None:
    scripted.say("everything")
    lines = ask.raw(stream=True).text.splitlines()
    names = [line.removeprefix("event: ") for line in lines if line.startswith("event: ")]
    once = [name for at, name in enumerate(names) if at == 0 or names[at - 1] != name]
    block = ["content_block_start", "content_block_delta", "content_block_stop"]
    assert once == ["message_start", "ping", *block * 3, "message_delta", "message_stop"]


# ----------------------------------------------------------------- endings


@pytest.mark.parametrize("stop", ["there", "lo th", "."])
def test_the_stop_sequence_that_was_reached_is_told(ask: Asking, stop: str) -> None:
    stops = ["nowhere", stop]
    message = ask("text", stop_sequences=stops)
    assert message.content[0].text == "Hello there."[: "Hello there.".index(stop)]
    assert (message.stop_reason, message.stop_sequence) == ("stop_sequence", stop)
    _, made = ask.streamed("text", stop_sequences=stops)
    assert (shown(made), made.stop_sequence) == (shown(message), stop)


def test_of_a_call_that_is_cut_off_only_complete_members_are_input(ask: Asking) -> None:
    message = ask("one call", max_tokens=58)
    assert message.stop_reason == "max_tokens"
    assert message.content[0].input == {"city": "Paris"}


def test_text_and_thinking_that_are_cut_off_say_so(ask: Asking) -> None:
    for line, kind in (("text", "text"), ("long thought", "thinking")):
        message = ask(line, max_tokens=8)
        assert (message.content[0].type, message.stop_reason) == (kind, "max_tokens")


def test_a_limit_beyond_the_context_ends_where_the_context_does(ask: Asking) -> None:
    for line, reason in (("no end", "model_context_window_exceeded"), ("text", "end_turn")):
        _, message = ask.streamed(line, max_tokens=32000)
        assert message.stop_reason == reason


@pytest.mark.clause("TO-42")
def test_a_failure_in_a_stream_is_its_last_event(ask: Asking) -> None:
    with pytest.raises(anthropic.APIStatusError, match="execution failed") as caught:
        ask.streamed("fails")
    assert caught.value.body == {
        "type": "error",
        "error": {"type": "api_error", "message": "the device reports that execution failed"},
    }


def test_a_failure_before_the_answer_has_a_status(ask: Asking) -> None:
    with pytest.raises(anthropic.InternalServerError, match="execution failed"):
        ask.streamed("fails at once")
    with pytest.raises(anthropic.InternalServerError, match="execution failed"):
        ask("fails")


# ------------------------------------------------------- choices and forms


def test_a_required_call_holds_the_model_to_it(ask: Asking) -> None:
    for choice in ({"type": "any"}, {"type": "tool", "name": "get_weather"}):
        assert ask("one call", tool_choice=choice).content[0].input == PARIS
        with pytest.raises(anthropic.InternalServerError, match="forbidden by the grammar"):
            ask("text", tool_choice=choice)


def test_without_a_choice_of_tools_their_markup_is_text(ask: Asking) -> None:
    assert ask("one call", tool_choice={"type": "none"}).content[0].type == "text"


def test_a_format_holds_the_model_to_it(ask: Asking) -> None:
    schema = {"type": "object", "properties": {"word": {"type": "string"}}}
    config = {"format": {"type": "json_schema", "schema": schema}}
    assert ask("document", tools=[], output_config=config).stop_reason == "end_turn"
    with pytest.raises(anthropic.InternalServerError, match="forbidden by the grammar"):
        ask("text", tools=[], output_config=config)


@pytest.mark.parametrize(
    "thinking",
    [
        {"type": "disabled"},
        {"type": "adaptive"},
        {"type": "adaptive", "display": "summarized"},
        {"type": "enabled", "budget_tokens": 1024},
    ],
)
def test_thinking_is_shown(ask: Asking, thinking: dict[str, Any]) -> None:
    message = ask("thought", max_tokens=2000, thinking=thinking)
    assert message.content[0].thinking == "Let me think."


def test_thinking_that_is_not_shown_comes_back_by_its_signature(ask: Asking) -> None:
    hidden = {"type": "adaptive", "display": "omitted"}
    message = ask("thought", thinking=hidden)
    _, made = ask.streamed("thought", thinking=hidden)
    assert message.content[0].thinking == ""
    assert shown(made) == shown(message)
    block = message.content[0].model_dump()
    shown_block = {"type": "thinking", "thinking": "Let me think.", "signature": "x"}
    text = {"type": "text", "text": "It is four."}

    def prompt(*blocks: Any) -> int:
        turns: Any = [QUESTION, {"role": "assistant", "content": list(blocks)}]
        return ask.client.messages.count_tokens(model="scripted", messages=turns).input_tokens

    assert prompt(block, text) == prompt(shown_block, text) > prompt(text)


# -------------------------------------------------------------- conversation


def test_a_call_and_its_result_are_a_conversation(ask: Asking) -> None:
    first = ask("everything")
    content: Any = [block.model_dump(exclude_none=True) for block in first.content]
    result = {
        "type": "tool_result",
        "tool_use_id": content[-1]["id"],
        "content": [{"type": "text", "text": "sunny", "cache_control": {"type": "ephemeral"}}],
        "is_error": True,
    }
    turns = [QUESTION, {"role": "assistant", "content": content}]
    follow = {"role": "user", "content": [result, {"type": "text", "text": "And now?"}]}
    assert ask("text", messages=[*turns, follow]).content[0].text == "Hello there."


def test_a_message_of_the_assistant_at_the_end_is_continued(ask: Asking) -> None:
    begun = [QUESTION, {"role": "assistant", "content": "The answer: "}]
    assert ask("text", messages=begun).content[0].text == "Hello there."


def test_counted_tokens_are_those_of_the_message(ask: Asking) -> None:
    asked: Any = {"system": "Be kind.", "tools": [WEATHER], "messages": [QUESTION]}
    counted = ask.client.messages.count_tokens(model="scripted", **asked)
    usage = ask("text", **asked).usage
    assert counted.input_tokens == usage.input_tokens + usage.cache_read_input_tokens
    assert ask("text", **asked).usage.cache_read_input_tokens == counted.input_tokens - 1


# ------------------------------------------------------------------ refused

REFUSED: Final[list[tuple[dict[str, Any], str]]] = [
    ({"foo": 1}, "foo"),
    ({"messages": []}, "messages"),
    ({"messages": [{"role": "robot", "content": "x"}]}, "messages[0].role"),
    ({"messages": [{"role": "user", "content": None}]}, "messages[0].content"),
    ({"messages": [{"role": "user", "content": [{"type": "x"}]}]}, "messages[0].content[0].type"),
    (
        {"messages": [{"role": "user", "content": [{"type": "text"}]}]},
        "messages[0].content[0].text",
    ),
    ({"messages": [QUESTION, {"role": "assistant", "content": []}]}, "messages[1].content"),
    ({"max_tokens": 0}, "max_tokens"),
    ({"stop_sequences": ["a", "b", "c", "d", "e"]}, "stop_sequences"),
    ({"stop_sequences": [""]}, "stop_sequences[0]"),
    ({"temperature": 3}, "temperature"),
    ({"top_k": -1}, "top_k"),
    ({"speed": "fast"}, "speed"),
    ({"thinking": {"type": "between_tools"}}, "thinking.type"),
    ({"thinking": {"type": "enabled"}}, "thinking.budget_tokens"),
    ({"thinking": {"type": "enabled", "budget_tokens": 10}}, "thinking.budget_tokens"),
    ({"thinking": {"type": "enabled", "budget_tokens": 1024}}, "thinking.budget_tokens"),
    ({"thinking": {"type": "adaptive", "display": "x"}}, "thinking.display"),
    ({"output_config": {"effort": "high"}}, "output_config.effort"),
    ({"output_config": {"format": {"type": "x"}}}, "output_config.format.type"),
    ({"output_config": {"format": {"type": "json_schema"}}}, "output_config.format.schema"),
    ({"context_management": {"edits": [{"type": "compact"}]}}, "context_management.edits[0]"),
    ({"tools": [{"type": "bash_20250124", "name": "bash"}]}, "tools[0].type"),
    ({"tools": [{"name": "x"}]}, "tools[0].input_schema"),
    ({"tools": [{"name": "x", "input_schema": 3}]}, "tools[0].input_schema"),
    ({"tools": [{"name": "a b", "input_schema": {}}]}, "tools[0].name"),
    ({"tool_choice": {"type": "tool", "name": "x"}}, "tool_choice.name"),
    ({"tool_choice": {"type": "some"}}, "tool_choice.type"),
    ({"system": [{"type": "image"}]}, "system[0].type"),
    ({"model": "another"}, "model"),
]


@pytest.mark.parametrize(("changes", "field"), REFUSED, ids=[str(case[0])[:50] for case in REFUSED])
def test_what_cannot_be_done_is_refused_by_name(
    ask: Asking, changes: dict[str, Any], field: str
) -> None:
    answer = ask.raw(**changes)
    assert answer.status_code == 400, answer.text
    body = answer.json()
    assert (body["type"], body["error"]["type"]) == ("error", "invalid_request_error")
    assert body["error"]["message"].startswith(f"{field}: found ")


def test_a_refusal_is_the_clients_own_kind(ask: Asking) -> None:
    with pytest.raises(anthropic.BadRequestError, match="stop_sequences"):
        ask("text", stop_sequences=[""])


def test_what_describes_the_client_or_its_bill_changes_nothing(ask: Asking) -> None:
    cached = {"cache_control": {"type": "ephemeral"}}
    system: Any = [{"type": "text", "text": "Be kind.", **cached}]
    more = {"metadata": {"user_id": "u"}, "service_tier": "auto", **cached}
    tools = [{**WEATHER, **cached}]
    assert ask("text", system=system, tools=tools, **more).content[0].text == "Hello there."
