"""The official client, unmodified, against scripted syntaxes: streams, tools, choices."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import openai
import pytest
from openai import OpenAI
from pydantic import BaseModel

from tests.http.scripted import Playing, Theatre
from tests.http.stages import BOTH, CODER, HERMES

QUESTION: Any = [{"role": "user", "content": "How is it?"}]


class Person(BaseModel):
    """What is asked for."""

    name: str
    age: int


@pytest.fixture(scope="module")
def hermes(play: Theatre) -> Playing:
    return play(HERMES)


@pytest.fixture(scope="module")
def client(hermes: Playing) -> Iterator[OpenAI]:
    with OpenAI(base_url=f"{hermes.server.origin}/v1", api_key="none", max_retries=0) as client:
        yield client


CALLS = (
    '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Paris 🎈"}}\n</tool_call>\n'
    '<tool_call>\n{"name": "get_time", "arguments": {}}\n</tool_call>'
)
LOOP = [
    HERMES.line(f"<think>\nhm\n</think>\n\nLet me see.\n{CALLS}"),
    HERMES.line(segments=HERMES.cut(CALLS, every=1), group=3),
    HERMES.line("It is fine."),
]


def test_a_loop_of_tools_takes_several_turns(client: OpenAI, hermes: Playing) -> None:
    hermes.seek(LOOP[0])
    messages = list(QUESTION)
    tools: Any = BOTH
    for _ in range(2):
        answer = client.chat.completions.create(model="hermes", messages=messages, tools=tools)
        hermes.used(1, status=200)
        (choice,) = answer.choices
        assert choice.finish_reason == "tool_calls"
        calls = choice.message.tool_calls or []
        assert [call.function.name for call in calls] == ["get_weather", "get_time"]
        assert json.loads(calls[0].function.arguments) == {"city": "Paris 🎈"}
        messages.append(choice.message)
        messages += [{"role": "tool", "tool_call_id": call.id, "content": "ok"} for call in calls]
    final = client.chat.completions.create(model="hermes", messages=messages, tools=tools)
    hermes.used(1, status=200)
    assert final.choices[0].message.content == "It is fine."


def test_the_clients_own_stream_collects_calls(client: OpenAI, hermes: Playing) -> None:
    hermes.seek(LOOP[0])
    tools: Any = [{**tool, "function": {**tool["function"], "strict": True}} for tool in BOTH]
    with client.chat.completions.stream(
        model="hermes", messages=QUESTION, tools=tools, stream_options={"include_usage": True}
    ) as stream:
        kinds = {event.type for event in stream}
        found = stream.get_final_completion()
    hermes.used(1, status=200)
    assert "tool_calls.function.arguments.delta" in kinds
    calls = found.choices[0].message.tool_calls or []
    assert [call.function.name for call in calls] == ["get_weather", "get_time"]
    assert found.choices[0].message.content == "Let me see."
    assert found.usage is not None


BOB = [HERMES.line('<think>\nhm\n</think>\n\n{"name": "Bob", "age": 3}') for _ in range(2)]


def test_a_model_of_pydantic_is_parsed(client: OpenAI, hermes: Playing) -> None:
    hermes.seek(BOB[0])
    answer = client.chat.completions.parse(
        model="hermes", messages=QUESTION, response_format=Person
    )
    hermes.used(1, status=200)
    assert answer.choices[0].message.parsed == Person(name="Bob", age=3)
    with client.chat.completions.stream(
        model="hermes", messages=QUESTION, response_format=Person
    ) as stream:
        final = stream.get_final_completion()
    hermes.used(1, status=200)
    assert final.choices[0].message.parsed == Person(name="Bob", age=3)


MANY = [HERMES.line(f"number {number}") for number in range(6)]


def test_several_choices_and_completions(client: OpenAI, hermes: Playing) -> None:
    hermes.seek(MANY[0])
    answer = client.chat.completions.create(model="hermes", messages=QUESTION, n=3)
    hermes.used(3, status=200)
    texts = {choice.message.content for choice in answer.choices}
    assert texts == {"number 0", "number 1", "number 2"}
    both = client.completions.create(model="hermes", prompt=["a", "b"], max_tokens=32)
    hermes.used(2, status=200)
    assert [choice.text for choice in both.choices] == ["number 3", "number 4"]
    pieces = client.completions.create(model="hermes", prompt="a", max_tokens=32, stream=True)
    assert "".join(piece.choices[0].text for piece in pieces) == "number 5"
    hermes.used(1, status=200)


def test_log_probabilities_of_a_script_are_refused(client: OpenAI) -> None:
    with pytest.raises(openai.BadRequestError, match="logprobs"):
        client.chat.completions.create(model="hermes", messages=QUESTION, logprobs=True)
    with pytest.raises(openai.BadRequestError, match="logprobs"):
        client.completions.create(model="hermes", prompt="a", logprobs=1)


FAILING = CODER.line("the weather in Paris", fail_at=4)


def test_an_error_inside_a_stream_is_raised(play: Theatre) -> None:
    playing = play(CODER)
    playing.seek(FAILING)
    with OpenAI(base_url=f"{playing.server.origin}/v1", api_key="x", max_retries=0) as client:
        stream = client.chat.completions.create(model="coder", messages=QUESTION, stream=True)
        with pytest.raises(openai.APIError):
            list(stream)
    playing.used(1, status=200)
