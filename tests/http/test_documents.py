"""Structured output through HTTP: what a grammar allows passes, what it forbids is an error."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.http.scripted import QUESTION, Stage, Theatre
from tests.http.stages import ATEM, BOTH, CODER, HERMES, KIMI_K3, TEXT

PERSON = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "age": {"type": "integer"}},
    "required": ["name", "age"],
    "additionalProperties": False,
}
SCHEMA = {"type": "json_schema", "json_schema": {"name": "person", "schema": PERSON}}
BOB = '{"name": "Bob </think> <tool_call>", "age": 3}'
OPENED = {"chat_template_kwargs": {"enable_thinking": True}}
GOOD: dict[str, tuple[Stage, tuple[int, ...], dict[str, Any]]] = {
    "hermes": (HERMES, HERMES.ways('<think>\nhm {\n</think>\n\n{"name": "Bob", "age": 3}'), {}),
    "opened": (HERMES, HERMES.ways("hm {\n</think>\n\n" + '{"name": "Bob", "age": 3}'), OPENED),
    "text": (TEXT, TEXT.ways("<think>\nhm {\n</think>\n\n" + BOB), {}),
    "coder": (CODER, CODER.ways('<think>\nhm {\n</think>\n\n{"name": "Bob", "age": 3}'), {}),
    "xtml": (
        KIMI_K3,
        KIMI_K3.ways(
            "hm {<|close|>think<|sep|><|open|>response<|sep|>"
            '{"name": "Bob", "age": 3}<|close|>response<|sep|>'
        ),
        {},
    ),
    "atem": (
        ATEM,
        ATEM.ways(
            " to=self<|message|>hm {<|eom|><|start|>assistant to=user<|message|>"
            '{"name": "Bob", "age": 3}'
        ),
        {},
    ),
}


@pytest.mark.clause("FI-09", "FI-26", "FI-29")
@pytest.mark.parametrize("name", GOOD)
def test_a_document_stands_behind_free_reasoning_g01(play: Theatre, name: str) -> None:
    stage, ways, changes = GOOD[name]
    said = play(stage).alike(ways, response_format=SCHEMA, **changes)
    assert said.reasoning.strip() == "hm {"
    assert json.loads(said.content)["age"] == 3
    assert said.finish == "stop"


ORDERS = HERMES.ways('{"age": 3, "name": "Bob"}')


@pytest.mark.parametrize("pair", ORDERS)
def test_a_forbidden_token_is_an_error_that_names_it_g08(play: Theatre, pair: int) -> None:
    playing = play(HERMES)
    answer = playing.ask(pair, response_format=SCHEMA)
    assert answer.status_code == 500
    sentence = answer.json()["error"]["message"]
    assert sentence.startswith("token ")
    assert sentence.endswith("is forbidden by the grammar")
    streamed = playing.ask(pair + 1, stream=True, response_format=SCHEMA)
    events = [event for event in streamed.text.split("\n\n") if event]
    last = events[-1].removeprefix("data: ")
    assert json.loads(last)["error"]["message"] == sentence
    assert "[DONE]" not in streamed.text


ALLOWED: list[tuple[str, dict[str, Any]]] = [
    ("[1, 2]", {"structured_outputs": {"json": {"type": "array"}}}),
    ("abab", {"structured_outputs": {"regex": "(ab)+"}}),
    ("no", {"structured_outputs": {"choice": ["yes", "no"]}}),
    ("xyz", {"structured_outputs": {"grammar": 'start: "x" "yz"'}}),
    ('{"a": [1 , 2]}', {"response_format": {"type": "json_object"}}),
    ("anything", {"response_format": {"type": "text"}}),
]
PASSING = [(HERMES.ways(text), text, changes) for text, changes in ALLOWED]


@pytest.mark.parametrize(("ways", "text", "changes"), PASSING, ids=[text for text, _ in ALLOWED])
def test_what_a_grammar_allows_passes_g03_g07(
    play: Theatre, ways: tuple[int, ...], text: str, changes: dict[str, Any]
) -> None:
    said = play(HERMES).alike(ways, **changes)
    assert (said.content, said.finish) == (text, "stop")


SPACES = HERMES.pair('{"name":' + " " * 400 + '"Bob", "age": 3}')


def test_white_space_has_a_bound_g05(play: Theatre) -> None:
    assert play(HERMES).ask(SPACES, response_format=SCHEMA).status_code == 500


CALL = HERMES.ways('<tool_call>\n{"name": "get_time", "arguments": {}}\n</tool_call>')


def test_a_call_may_stand_for_the_document(play: Theatre) -> None:
    said = play(HERMES).alike(CALL, tools=BOTH, response_format=SCHEMA)
    assert [call.name for call in said.calls] == ["get_time"]
    assert said.finish == "tool_calls"


def test_a_document_and_its_neighbour_do_not_meet(play: Theatre) -> None:
    stage, ways, _ = GOOD["coder"]
    playing = play(stage)
    playing.seek(ways[0])
    free = playing.post("/v1/chat/completions", messages=QUESTION)
    assert free.status_code == 200
    assert playing.both(ways[1], response_format=SCHEMA).finish == "stop"
