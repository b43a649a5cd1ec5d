"""Other APIs' conversations in chat's form: who said what, and where it came from."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from helios.serve.message_asks import MESSAGE
from helios.serve.message_blocks import complete_members
from helios.serve.response_asks import RESPONSE
from helios.serve.translated import Translated, sealed, unsealed
from helios.values import RequestInvalid

EFFORTS = frozenset({"none", "low", "medium", "high"})


def response(**body: Any) -> Translated:
    return RESPONSE.decode(msgspec.json.encode(body)).translated()


def message(*, efforts: frozenset[str] = EFFORTS, **body: Any) -> Translated:
    whole = {"max_tokens": 9000, "messages": [{"role": "user", "content": "hi"}], **body}
    return MESSAGE.decode(msgspec.json.encode(whole)).translated(efforts=efforts)


def messages_of(translated: Translated) -> Any:
    assert translated.asked.conversation is not None
    return translated.asked.conversation.messages


def call(name: str, call_id: str) -> dict[str, Any]:
    return {"type": "function_call", "call_id": call_id, "name": name, "arguments": "{}"}


def called(name: str, call_id: str) -> dict[str, Any]:
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": "{}"}}


# ---------------------------------------------------------------- responses


def test_instructions_and_the_first_developer_items_are_one_message() -> None:
    items = [
        {"role": "developer", "content": [{"type": "input_text", "text": "b"}]},
        {"role": "user", "content": "c"},
        {"role": "developer", "content": "d"},
    ]
    assert messages_of(response(instructions="a", input=items)) == [
        {"role": "developer", "content": "a\n\nb"},
        {"role": "user", "content": "c"},
        {"role": "developer", "content": "d"},
    ]


def test_what_the_model_made_in_one_turn_is_one_message() -> None:
    items = [
        {"role": "user", "content": "q"},
        {"type": "reasoning", "summary": [], "content": [{"type": "reasoning_text", "text": "r"}]},
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "t"}]},
        call("f", "1"),
        call("g", "2"),
        {"type": "function_call_output", "call_id": "1", "output": "x"},
        {
            "type": "function_call_output",
            "call_id": "2",
            "output": [{"type": "input_text", "text": "y"}],
        },
        {"role": "assistant", "content": "end"},
    ]
    translated = response(input=items)
    assert messages_of(translated) == [
        {"role": "user", "content": "q"},
        {
            "role": "assistant",
            "reasoning_content": "r",
            "content": "t",
            "tool_calls": [called("f", "1"), called("g", "2")],
        },
        {"role": "tool", "tool_call_id": "1", "content": "x"},
        {"role": "tool", "tool_call_id": "2", "content": "y"},
        {"role": "assistant", "content": "end"},
    ]
    assert translated.field("messages[3].content") == "input[6]"


def test_two_answers_in_a_row_are_two_messages() -> None:
    items = [{"role": "assistant", "content": "a"}, {"role": "assistant", "content": "b"}]
    assert [one["content"] for one in messages_of(response(input=items))] == ["a", "b"]


def test_reasoning_after_an_answer_begins_a_message() -> None:
    thought = {"type": "reasoning", "summary": [], "encrypted_content": sealed("r")}
    items = [{"role": "assistant", "content": "a"}, thought, call("f", "1")]
    assert messages_of(response(input=items)) == [
        {"role": "assistant", "content": "a"},
        {"role": "assistant", "reasoning_content": "r", "tool_calls": [called("f", "1")]},
    ]


def test_an_image_stays_between_its_texts() -> None:
    parts = [
        {"type": "input_text", "text": "a"},
        {"type": "input_image", "image_url": "data:image/png;base64,AA==", "detail": "auto"},
    ]
    (one,) = messages_of(response(input=[{"role": "user", "content": parts}]))
    assert one["content"] == [
        {"type": "text", "text": "a"},
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}},
    ]


# ----------------------------------------------------------------- messages


def test_blocks_of_the_system_are_paragraphs() -> None:
    system = [
        {"type": "text", "text": text} for text in ("x-anthropic-billing-header: x", "a", "b")
    ]
    assert messages_of(message(system=system))[0] == {"role": "system", "content": "a\n\nb"}


def test_results_of_tools_are_messages_of_their_own() -> None:
    content = [
        {"type": "tool_result", "tool_use_id": "1", "content": "x"},
        {
            "type": "tool_result",
            "tool_use_id": "2",
            "is_error": True,
            "content": [{"type": "text", "text": "y"}],
        },
        {"type": "tool_result", "tool_use_id": "3"},
        {"type": "text", "text": "go on"},
    ]
    translated = message(messages=[{"role": "user", "content": content}])
    assert messages_of(translated) == [
        {"role": "tool", "tool_call_id": "1", "content": "x"},
        {"role": "tool", "tool_call_id": "2", "content": "Error: y"},
        {"role": "tool", "tool_call_id": "3", "content": ""},
        {"role": "user", "content": "go on"},
    ]
    assert translated.field("messages[1].content[0]") == "messages[0].content[1]"


def test_an_assistants_blocks_are_one_message() -> None:
    content = [
        {"type": "thinking", "thinking": "r", "signature": "x"},
        {"type": "redacted_thinking", "data": "of another server"},
        {"type": "text", "text": "t"},
        {"type": "tool_use", "id": "1", "name": "f", "input": {"a": 1}},
    ]
    turns = [{"role": "assistant", "content": content}, {"role": "user", "content": "q"}]
    function = {"name": "f", "arguments": {"a": 1}}
    assert messages_of(message(messages=turns))[0] == {
        "role": "assistant",
        "content": "t",
        "reasoning_content": "r",
        "tool_calls": [{"id": "1", "type": "function", "function": function}],
    }


def test_an_image_comes_as_a_data_uri() -> None:
    source = {"type": "base64", "media_type": "image/png", "data": "AA=="}
    content = [{"type": "image", "source": source}]
    (one,) = messages_of(message(messages=[{"role": "user", "content": content}]))
    assert one["content"][0]["image_url"] == {"url": "data:image/png;base64,AA=="}


@pytest.mark.parametrize(
    ("body", "effort"),
    [
        ({}, None),
        ({"thinking": {"type": "disabled"}}, "none"),
        ({"thinking": {"type": "adaptive"}}, None),
        ({"thinking": {"type": "enabled", "budget_tokens": 1024}}, "low"),
        ({"thinking": {"type": "enabled", "budget_tokens": 4096}}, "medium"),
        ({"thinking": {"type": "enabled", "budget_tokens": 8999}}, "medium"),
        ({"output_config": {"effort": "max"}, "thinking": {"type": "adaptive"}}, "max"),
    ],
)
def test_thinking_is_a_declared_effort(body: dict[str, Any], effort: str | None) -> None:
    conversation = message(**body).asked.conversation
    assert conversation is not None
    assert conversation.reasoning_effort == effort


def test_thinking_that_cannot_be_turned_off_is_told() -> None:
    with pytest.raises(RequestInvalid, match=r"thinking\.type: found 'disabled'"):
        message(efforts=frozenset({"low"}), thinking={"type": "disabled"})


def test_an_answer_without_text_cannot_be_continued() -> None:
    use = {"type": "tool_use", "id": "1", "name": "f", "input": {}}
    for content in ([use], [{"type": "text", "text": "t"}, use], ""):
        with pytest.raises(RequestInvalid, match=r"messages\[0\]\.content: found an answer"):
            message(messages=[{"role": "assistant", "content": content}])


# -------------------------------------------------------------------- parts


def test_a_seal_is_opened_by_its_server_alone() -> None:
    assert unsealed(sealed("r\u00e9sum\u00e9 \u2600")) == "r\u00e9sum\u00e9 \u2600"
    for foreign in ("", "gAAAAB", sealed("x") + "*", sealed("") + "/w==", None, 3):
        assert unsealed(foreign) == ""


@pytest.mark.parametrize(
    "member", ['"b"', "{}", '[{"c": ","}]', '"\\",\\\\"', "12", "true", "null"]
)
def test_only_complete_members_of_a_cut_object_are_kept(member: str) -> None:
    text = f'{{"a": {member}, "z": 1}}'
    ends = text.index(', "z"')
    for cut in range(len(text)):
        expected = {} if cut <= ends else {"a": msgspec.json.decode(member)}
        assert complete_members(text[:cut]) == expected
