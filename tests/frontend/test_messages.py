"""Messages of clients become what a template takes, or are refused with the field's name."""

from __future__ import annotations

from typing import Any

import pytest

from helios.frontend.messages import Silence, Taste, shaped
from helios.values import RequestInvalid
from tests.frontend.conversations import call, result, user

ALL_ROLES = frozenset(("system", "user", "assistant", "tool"))


def taste(**changes: Any) -> Taste:
    """Of a template that takes everything, but for the changes."""
    given: dict[str, Any] = {
        "parts": ALL_ROLES,
        "texts": ALL_ROLES,
        "knows_developer": True,
        "silence": Silence.ABSENT,
        "arguments_as_text": False,
    }
    return Taste(**{**given, **changes})


def calls(*arguments: str) -> dict[str, Any]:
    """An assistant's message with calls."""
    made = [call({}, number=number) for number in range(len(arguments))]
    for one, text in zip(made, arguments, strict=True):
        one["function"]["arguments"] = text
    return {"role": "assistant", "content": None, "tool_calls": made}


def test_a_developer_speaks_as_the_system_where_the_template_does_not_know_him() -> None:
    message = {"role": "developer", "content": "x"}
    assert shaped([message], taste())[0]["role"] == "developer"
    assert shaped([message], taste(knows_developer=False))[0]["role"] == "system"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{"a": 1.0, "b": [true, null]}', {"a": 1.0, "b": [True, None]}),
        ("", {}),
        ("  ", {}),
        ("[1]", "[1]"),
        ('{"a": NaN}', '{"a": NaN}'),
        ('{"a": ', '{"a": '),
        ("[" * 100000, "[" * 100000),
    ],
)
def test_arguments_are_an_object_where_their_text_says_one(text: str, expected: object) -> None:
    message = shaped([calls(text)], taste())[0]
    assert message["tool_calls"][0]["function"]["arguments"] == expected


def test_arguments_stay_text_for_a_template_that_wants_text() -> None:
    message = shaped([calls('{"a":1}')], taste(arguments_as_text=True))[0]
    assert message["tool_calls"][0]["function"]["arguments"] == '{"a":1}'


@pytest.mark.parametrize(
    ("silence", "expected"),
    [(Silence.ABSENT, "absent"), (Silence.EMPTY, ""), (Silence.NULL, None)],
)
def test_a_call_without_words_has_the_content_that_the_template_wants(
    silence: Silence, expected: str | None
) -> None:
    assert shaped([calls("{}")], taste(silence=silence))[0].get("content", "absent") == expected


def test_a_result_is_named_after_its_call_and_ids_stay_as_they_are() -> None:
    asked = calls("{}", "{}")
    asked["tool_calls"][1]["id"] = "functions.get_weather:1"
    asked["tool_calls"][1]["function"]["name"] = "other"
    answer = {**result("3"), "tool_call_id": "functions.get_weather:1"}
    messages = shaped([asked, answer, result("4")], taste())
    assert messages[0]["tool_calls"][1]["id"] == "functions.get_weather:1"
    assert [message["name"] for message in messages[1:]] == ["other", "get_weather"]


@pytest.mark.parametrize("field", ["reasoning_content", "reasoning"])
def test_reasoning_of_earlier_turns_is_taken_under_both_names(field: str) -> None:
    message = shaped([{"role": "assistant", "content": "x", field: "why"}], taste())[0]
    assert message["reasoning_content"] == "why"


def test_parts_are_joined_for_a_template_that_takes_text_alone() -> None:
    parts = [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]
    assert shaped([user(parts)], taste(parts=frozenset()))[0]["content"] == "ab"
    assert shaped([user(parts)], taste())[0]["content"] == parts
    assert shaped([user("a")], taste(texts=frozenset()))[0]["content"] == parts[:1]


def test_an_image_is_a_part_without_its_data() -> None:
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
    assert shaped([user([image])], taste())[0]["content"] == [{"type": "image"}]
    with pytest.raises(RequestInvalid, match=r"messages\[0\]\.content\[0\]: found an image"):
        shaped([user([image])], taste(parts=frozenset()))


@pytest.mark.parametrize(
    ("message", "field"),
    [
        ({"role": "critic", "content": "x"}, "messages[0].role"),
        ({"role": "user"}, "messages[0].content"),
        ({"role": "user", "content": None}, "messages[0].content"),
        ({"role": "assistant"}, "messages[0].content"),
        ({"role": "user", "content": 3}, "messages[0].content"),
        ({"role": "user", "content": ["x"]}, "messages[0].content[0]"),
        ({"role": "user", "content": [{"type": "text"}]}, "messages[0].content[0].text"),
        ({"role": "user", "content": [{"text": "x"}]}, "messages[0].content[0].type"),
        (
            {"role": "user", "content": [{"type": "text", "text": "x", "image_url": {}}]},
            "messages[0].content[0].image_url",
        ),
        ({**calls("{}"), "role": "user"}, "messages[0].tool_calls"),
        ({"role": "assistant", "tool_calls": [{}]}, "messages[0].tool_calls[0].function"),
        ({"role": "assistant", "content": "x", "reasoning": 3}, "messages[0].reasoning"),
    ],
)
def test_what_a_message_cannot_be_is_refused_by_its_path(
    message: dict[str, Any], field: str
) -> None:
    with pytest.raises(RequestInvalid) as refusal:
        shaped([message], taste())
    assert refusal.value.field == field
