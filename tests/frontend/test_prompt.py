"""A conversation's prompt: what may be asked of it, and where it stays a prefix."""

from __future__ import annotations

from typing import Any

import pytest

from helios.frontend.prompt import Conversation, PromptPath
from helios.frontend.template import ChatTemplate
from helios.values import RequestInvalid
from prepared.contract import EffortLevel, MessageRole, PrefixBoundaryRule
from tests.frontend.conversations import TOKENS, byte_tokenizer, call, markers_in, result, user
from tests.frontend.templates import CHATML

EFFORTS = (
    EffortLevel(effort="none", variable="enable_thinking", value="false"),
    EffortLevel(effort="high", variable="enable_thinking", value="true"),
)
RULES = tuple(
    PrefixBoundaryRule(role=role, needs_generation_prompt=False)
    for role in (MessageRole.SYSTEM, MessageRole.USER, MessageRole.TOOL)
)


def path(source: str = CHATML, **declared: Any) -> PromptPath:
    """Of a template, with what a contract declares."""
    return PromptPath(ChatTemplate(source, TOKENS), byte_tokenizer(markers_in(source)), **declared)


def answer(**fields: Any) -> dict[str, Any]:
    """An assistant's message."""
    return {"role": "assistant", **fields}


# ------------------------------------------------------------ continuation


def test_a_continued_message_and_a_new_one_exclude_each_other() -> None:
    asked = Conversation(
        messages=[user("q"), answer(content="so")],
        continue_final_message=True,
        add_generation_prompt=True,
    )
    with pytest.raises(RequestInvalid, match="^continue_final_message: .*add_generation_prompt"):
        path().render(asked)


@pytest.mark.parametrize(
    ("message", "asked"),
    [
        (user("q"), True),
        (answer(tool_calls=[call({})]), True),
        (answer(content="x"), "reasoning"),
        (answer(content="x"), "elsewhere"),
    ],
)
def test_only_what_is_there_can_be_continued(message: dict[str, Any], asked: bool | str) -> None:
    with pytest.raises(RequestInvalid) as refusal:
        path().render(Conversation(messages=[message], continue_final_message=asked))
    assert refusal.value.field == "continue_final_message"


def test_what_a_template_does_not_write_cannot_be_continued() -> None:
    hides = path("{{ 'content reasoning_content' and messages[0].content }}")
    asked = Conversation(
        messages=[user("q"), answer(content="x")], continue_final_message="content"
    )
    with pytest.raises(RequestInvalid, match="does not write"):
        hides.render(asked)


def test_continued_reasoning_ends_inside_of_it() -> None:
    asked = Conversation(
        messages=[user("q"), answer(content="", reasoning="because")],
        continue_final_message="reasoning",
    )
    assert path().render(asked).text.endswith("<|im_start|>assistant\n<think>\nbecause")


# --------------------------------------------------------------- variables


@pytest.mark.parametrize(
    "name", ["messages", "tools", "add_generation_prompt", "bos_token", "raise_exception", "range"]
)
def test_a_client_cannot_set_what_the_server_sets(name: str) -> None:
    asked = Conversation(messages=[user("q")], template_variables={name: 1})
    with pytest.raises(RequestInvalid, match=f"^chat_template_kwargs.{name}: "):
        path().render(asked)


def test_unknown_variables_reach_the_template() -> None:
    asked = Conversation(messages=[user("q")], template_variables={"anything": "<s>"})
    prompt = path("{{ bos_token }}{{ anything }}").prompt(asked)
    assert prompt.text.text == "<s><s>"
    assert prompt.text.template_spans == ((0, 3),)
    assert prompt.tokens[1:] == tuple(byte_tokenizer(()).encode("<s>"))


def test_an_effort_sets_the_variable_that_the_contract_declares() -> None:
    declared = path(efforts=EFFORTS)
    silent = declared.render(Conversation(messages=[user("q")], reasoning_effort="none"))
    thinking = declared.render(Conversation(messages=[user("q")], reasoning_effort="high"))
    assert silent.text.endswith("</think>\n\n")
    assert thinking.text.endswith("assistant\n")


def test_an_effort_that_is_not_declared_is_refused_with_those_that_are() -> None:
    asked = Conversation(messages=[user("q")], reasoning_effort="max")
    with pytest.raises(RequestInvalid, match="^reasoning_effort: found 'max', expected none, high"):
        path(efforts=EFFORTS).render(asked)
    with pytest.raises(RequestInvalid, match="^reasoning_effort: .*declares no efforts"):
        path().render(asked)


def test_an_effort_and_a_variable_must_agree() -> None:
    def asked(value: bool) -> Conversation:
        return Conversation(
            messages=[user("q")],
            reasoning_effort="none",
            template_variables={"enable_thinking": value},
        )

    declared = path(efforts=EFFORTS)
    assert declared.render(asked(False)).text.endswith("</think>\n\n")
    with pytest.raises(RequestInvalid, match="^chat_template_kwargs.enable_thinking: "):
        declared.render(asked(True))


# -------------------------------------------------------------- boundaries


@pytest.mark.clause("FI-12")
def test_boundaries_are_where_the_next_turns_prompt_still_begins_so() -> None:
    declared = path(boundaries=RULES)
    messages = [
        {"role": "system", "content": "s"},
        user("one"),
        answer(content="two", tool_calls=[call({"city": "x"})]),
        result("three"),
    ]
    asked = Conversation(messages=messages)
    prompt = declared.prompt(asked)
    found = declared.prefix_boundaries(asked, prompt)
    assert len(found) == 3
    longer = declared.prompt(
        Conversation(messages=[*messages, answer(content="four"), user("five")])
    )
    for tokens in found:
        assert longer.tokens[:tokens] == prompt.tokens[:tokens]


@pytest.mark.clause("FI-12")
def test_without_rules_there_are_no_boundaries() -> None:
    asked = Conversation(messages=[user("one")])
    assert path().prefix_boundaries(asked, path().prompt(asked)) == ()


@pytest.mark.clause("FI-12")
def test_a_place_that_the_next_turn_writes_anew_is_no_boundary() -> None:
    """This template writes how many messages there are, after the first of them."""
    source = (
        "{% for m in messages %}<{{ m.role }}>{{ m.content }}"
        "{% if loop.first %}</s>{% else %}{{ messages | length }}{% endif %}{% endfor %}"
    )
    declared = path(source, boundaries=RULES)
    asked = Conversation(messages=[user("one"), answer(content="two"), user("three")])
    prompt = declared.prompt(asked)
    first = declared.prompt(Conversation(messages=[user("one")]))
    assert declared.prefix_boundaries(asked, prompt) == (len(first.tokens),)


@pytest.mark.clause("FI-12")
def test_a_rule_may_include_the_assistants_opening() -> None:
    rule = PrefixBoundaryRule(role=MessageRole.USER, needs_generation_prompt=True)
    declared = path(boundaries=(rule,))
    asked = Conversation(messages=[user("one")])
    prompt = declared.prompt(asked)
    assert declared.prefix_boundaries(asked, prompt) == (len(prompt.tokens),)
