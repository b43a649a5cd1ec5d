"""OpenAI's official client and its responses, against a real server whose model is scripted."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Final

import openai
import pytest
from openai import OpenAI
from pydantic import BaseModel

from tests.http.scripted_server import LINES, ScriptedServer

WEATHER: Final = {
    "type": "function",
    "name": "get_weather",
    "description": "The weather.",
    "parameters": {
        "type": "object",
        "properties": {"city": {"type": "string"}, "days": {"type": "integer"}},
        "required": ["city", "days"],
    },
    "strict": False,
}
TIME: Final = {"type": "function", "name": "get_time", "parameters": None, "strict": None}
ANSWERS: Final = [name for name in LINES if not name.startswith("fails") and name != "no end"]


class Word(BaseModel):
    """What the document says."""

    word: str
    count: int


@pytest.fixture(scope="module")
def client(scripted: ScriptedServer) -> Iterator[OpenAI]:
    with OpenAI(base_url=f"{scripted.origin}/v1", api_key="none", max_retries=0) as client:
        yield client


class Asking:
    """Asks for a line of the script."""

    def __init__(self, client: OpenAI, scripted: ScriptedServer) -> None:
        self.client, self._scripted = client, scripted

    def __call__(self, line: str, **changes: Any) -> Any:
        self._scripted.say(line)
        wanted = {"model": "scripted", "input": "hi", "tools": [WEATHER, TIME], **changes}
        return self.client.responses.create(**wanted)

    def refused(self, **changes: Any) -> dict[str, Any]:
        """The error of a request that never reaches the model."""
        answer = self._scripted.http.post("/v1/responses", json={"input": "hi", **changes})
        assert answer.status_code == 400, answer.text
        error: dict[str, Any] = answer.json()["error"]
        return error


@pytest.fixture
def ask(client: OpenAI, scripted: ScriptedServer) -> Asking:
    return Asking(client, scripted)


def unnamed(value: Any) -> Any:
    """A response without what differs between two: ids, times, and what was reused."""
    own = ("id", "call_id", "created_at", "completed_at", "input_tokens_details")
    match value:
        case dict():
            return {name: unnamed(more) for name, more in value.items() if name not in own}
        case list():
            return [unnamed(more) for more in value]
    return value


def arguments_of(response: Any) -> list[str]:
    return [item.arguments for item in response.output if item.type == "function_call"]


def test_a_response_has_its_parts(ask: Asking) -> None:
    response = ask("text", instructions="Be kind.", metadata={"a": "b"})
    assert response.output_text == "Hello there."
    assert response.status == "completed"
    assert (response.object, response.model) == ("response", "scripted")
    assert response.instructions == "Be kind."
    assert response.metadata == {"a": "b"}
    assert response.usage.output_tokens == len("Hello there.") + 1
    assert response.usage.total_tokens == response.usage.input_tokens + 13


def test_reasoning_is_an_item_before_the_answer(ask: Asking) -> None:
    response = ask("thought")
    reasoning, message = response.output
    assert reasoning.content[0].text == "Let me think."
    assert message.content[0].text == "It is four."
    assert response.usage.output_tokens_details.reasoning_tokens > len("Let me think.")


def test_calls_are_items_with_ids_of_their_own(ask: Asking) -> None:
    one, two = ask("two calls").output
    assert (one.name, json.loads(one.arguments)) == ("get_weather", {"city": "Paris", "days": 3})
    assert (two.name, two.arguments) == ("get_time", "{}")
    assert one.call_id != two.call_id


def test_with_one_call_allowed_the_answer_ends_with_it(ask: Asking) -> None:
    assert len(ask("two calls", parallel_tool_calls=False).output) == 1


def test_an_empty_answer_is_an_empty_output(ask: Asking) -> None:
    response = ask("nothing")
    assert (response.output, response.status, response.output_text) == ([], "completed", "")


@pytest.mark.parametrize("line", ANSWERS)
@pytest.mark.parametrize("limit", [None, 3, 40])
def test_a_stream_ends_with_the_whole_response(ask: Asking, line: str, limit: int | None) -> None:
    more = {} if limit is None else {"max_output_tokens": limit}
    whole = ask(line, **more)
    events = list(ask(line, stream=True, **more))
    assert [event.sequence_number for event in events] == list(range(len(events)))
    last = events[-1]
    assert last.type == f"response.{whole.status}"
    assert unnamed(last.response.model_dump()) == unnamed(whole.model_dump())


@pytest.mark.parametrize("line", ANSWERS)
def test_items_of_a_stream_are_those_of_its_end(ask: Asking, line: str) -> None:
    events = list(ask(line, stream=True))
    done = [event.item for event in events if event.type == "response.output_item.done"]
    assert done == events[-1].response.output


def test_events_come_in_the_order_of_openai(ask: Asking) -> None:
    names = [event.type.removeprefix("response.") for event in ask("everything", stream=True)]
    once = [name for at, name in enumerate(names) if at == 0 or names[at - 1] != name]
    part = ["content_part.added", "{}.delta", "{}.done", "content_part.done"]
    assert once == [
        "created",
        "in_progress",
        "output_item.added",
        *(name.format("reasoning_text") for name in part),
        "output_item.done",
        "output_item.added",
        *(name.format("output_text") for name in part),
        "output_item.done",
        "output_item.added",
        "function_call_arguments.delta",
        "function_call_arguments.done",
        "output_item.done",
        "completed",
    ]


@pytest.mark.parametrize("line", [name for name in ANSWERS if name != "long thought"])
def test_the_clients_own_stream_puts_the_response_together(
    ask: Asking, client: OpenAI, scripted: ScriptedServer, line: str
) -> None:
    whole = ask(line)
    scripted.say(line)
    tools: Any = [WEATHER, TIME]
    with client.responses.stream(model="scripted", input="hi", tools=tools) as stream:
        text = "".join(
            event.delta for event in stream if event.type == "response.output_text.delta"
        )
        final = stream.get_final_response()
    assert text == whole.output_text
    assert arguments_of(final) == arguments_of(whole)


# ----------------------------------------------------------------- endings


@pytest.mark.parametrize("stream", [True, False])
def test_a_call_that_is_cut_off_is_incomplete_and_never_done(ask: Asking, *, stream: bool) -> None:
    answer = ask("one call", max_output_tokens=50, stream=stream)
    if stream:
        events = list(answer)
        answer = events[-1].response
        assert not [event.type for event in events if event.type.endswith("done")]
    assert answer.status == "incomplete"
    assert answer.incomplete_details.reason == "max_output_tokens"
    (call,) = answer.output
    assert call.status == "incomplete"
    assert '{"city": "Paris", "days": 3}'.startswith(call.arguments)


def test_an_answer_that_is_cut_off_is_incomplete(ask: Asking) -> None:
    for line, limit, kind in (("text", 5, "message"), ("thought", 9, "reasoning")):
        response = ask(line, max_output_tokens=limit)
        (item,) = response.output
        assert (response.status, item.type, item.status) == ("incomplete", kind, "incomplete")


@pytest.mark.clause("TO-42")
@pytest.mark.parametrize("line", ["fails", "fails in a call"])
def test_a_failure_in_a_stream_is_its_last_event(ask: Asking, line: str) -> None:
    last = list(ask(line, stream=True))[-1]
    assert last.type == "response.failed"
    assert last.response.error.code == "server_error"
    assert last.response.output[0].status == "incomplete"


@pytest.mark.parametrize("stream", [True, False])
def test_a_failure_before_the_answer_has_a_status(ask: Asking, *, stream: bool) -> None:
    with pytest.raises(openai.InternalServerError, match="execution failed"):
        ask("fails at once", stream=stream)


# --------------------------------------------------------------- structured


def test_a_schema_makes_the_clients_own_type(client: OpenAI, scripted: ScriptedServer) -> None:
    scripted.say("document")
    parsed = client.responses.parse(model="scripted", input="hi", text_format=Word)
    assert parsed.output_parsed == Word(word="sun", count=2)


FORMATS: Final = [
    {"type": "json_object"},
    {"type": "json_schema", "name": "w", "schema": Word.model_json_schema()},
]


@pytest.mark.parametrize("form", FORMATS)
def test_a_format_holds_the_model_to_it(ask: Asking, form: dict[str, Any]) -> None:
    """A scripted token that the grammar forbids is a failure that names it (G-10)."""
    assert json.loads(ask("document", tools=[], text={"format": form}).output_text)
    with pytest.raises(openai.InternalServerError, match="forbidden by the grammar"):
        ask("text", tools=[], text={"format": form})


def test_a_required_call_holds_the_model_to_it(ask: Asking) -> None:
    for choice in ("required", {"type": "function", "name": "get_weather"}):
        assert ask("one call", tool_choice=choice).output[0].name == "get_weather"
        with pytest.raises(openai.InternalServerError, match="forbidden by the grammar"):
            ask("text", tool_choice=choice)


def test_without_a_choice_of_tools_their_markup_is_text(ask: Asking) -> None:
    assert "get_weather" in ask("one call", tool_choice="none").output_text


# ------------------------------------------------------------ conversations


def test_what_was_said_comes_from_the_cache(ask: Asking) -> None:
    question = "A rather long question, so that there is something to find again."
    ask("text", input=question)
    usage = ask("text", input=question).usage
    assert usage.input_tokens_details.cached_tokens == usage.input_tokens - 1


def test_the_output_of_one_response_is_input_of_the_next(ask: Asking) -> None:
    include = ["reasoning.encrypted_content"]
    first = ask("everything", include=include)
    items = [item.model_dump(exclude_none=True) for item in first.output]
    result = {"type": "function_call_output", "call_id": items[-1]["call_id"], "output": "sunny"}
    second = ask("text", input=[{"role": "user", "content": "hi"}, *items, result])
    assert second.output_text == "Hello there."
    assert second.usage.input_tokens > first.usage.input_tokens


def test_sealed_reasoning_stands_for_the_reasoning(ask: Asking) -> None:
    first = ask("thought", include=["reasoning.encrypted_content"])
    items = [item.model_dump(exclude_none=True) for item in first.output]
    plain = ask("text", input=items).usage.input_tokens
    items[0]["content"] = []
    assert ask("text", input=items).usage.input_tokens == plain
    assert ask("text", input=items[1:]).usage.input_tokens < plain


# ------------------------------------------------------------------ refused

REFUSED: Final[list[tuple[dict[str, Any], str]]] = [
    ({"foo": 1}, "foo"),
    ({"previous_response_id": "resp_1"}, "previous_response_id"),
    ({"conversation": "conv_1"}, "conversation"),
    ({"prompt": {"id": "p"}}, "prompt"),
    ({"background": True}, "background"),
    ({"truncation": "auto"}, "truncation"),
    ({"max_tool_calls": 2}, "max_tool_calls"),
    ({"include": ["web_search_call.results"]}, "include[0]"),
    ({"reasoning": {"effort": "high"}}, "reasoning.effort"),
    ({"reasoning": {"summary": "detailed"}}, "reasoning.summary"),
    ({"reasoning": {"depth": 1}}, "reasoning.depth"),
    ({"text": {"verbosity": "low"}}, "text.verbosity"),
    ({"text": {"format": {"type": "xml"}}}, "text.format.type"),
    ({"text": {"format": {"type": "json_schema", "name": "x"}}}, "text.format.schema"),
    ({"text": {"format": {"type": "json_schema", "schema": {"type": 4}}}}, "text.format"),
    ({"tools": [{"type": "web_search"}]}, "tools[0].type"),
    ({"tools": [{"type": "function", "name": "bad name"}]}, "tools[0].name"),
    ({"tools": [{**WEATHER, "defer_loading": True}]}, "tools[0].defer_loading"),
    ({"tools": [WEATHER], "tool_choice": {"type": "function", "name": "x"}}, "tool_choice.name"),
    ({"tool_choice": "required"}, "tool_choice"),
    ({"tool_choice": {"type": "web_search"}}, "tool_choice"),
    ({"max_output_tokens": 0}, "max_output_tokens"),
    ({"max_output_tokens": 10**6}, "max_output_tokens"),
    ({"temperature": 3}, "temperature"),
    ({"model": "another"}, "model"),
    ({"input": []}, "input"),
    ({"input": "word " * 9000}, "input"),
    ({"input": [{"role": "robot", "content": "x"}]}, "input[0]"),
    ({"input": [{"role": "tool", "content": "x"}]}, "input[0].role"),
    ({"input": [{"role": "user", "content": "x", "colour": 1}]}, "input[0].colour"),
    (
        {"input": [{"role": "user", "content": [{"type": "input_text", "text": "x", "a": 1}]}]},
        "input[0].content[0].a",
    ),
    ({"input": [{"role": "user", "content": 3}]}, "input[0].content"),
    (
        {"input": [{"role": "user", "content": [{"type": "input_file"}]}]},
        "input[0].content[0].type",
    ),
    ({"input": [{"type": "item_reference", "id": "x"}]}, "input[0].type"),
    ({"input": [{"type": "web_search_call"}]}, "input[0].type"),
    ({"input": [{"type": "function_call", "name": "x"}]}, "input[0].call_id"),
    ({"input": [{"type": "function_call_output", "call_id": "x"}]}, "input[0].output"),
    ({"stream_options": {"include_obfuscation": True}}, "stream_options.include_obfuscation"),
]


@pytest.mark.parametrize(("changes", "field"), REFUSED, ids=[str(case[0])[:50] for case in REFUSED])
def test_what_cannot_be_done_is_refused_by_name(
    ask: Asking, changes: dict[str, Any], field: str
) -> None:
    error = ask.refused(**changes)
    assert error["param"] == field
    assert error["message"].startswith(f"{field}: found ")


def test_fields_about_the_client_change_nothing(ask: Asking) -> None:
    more = {"store": True, "user": "u", "prompt_cache_key": "k", "service_tier": "auto"}
    assert ask("text", **more).output_text == "Hello there."
