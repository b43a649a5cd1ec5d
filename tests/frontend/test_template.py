"""Templates render what transformers renders, within bounds, and refuse with a field's name."""

from __future__ import annotations

import threading
import time

import pytest

from helios.frontend.messages import Taste, shaped
from helios.frontend.prompt import Conversation, PromptPath
from helios.frontend.template import ChatTemplate
from helios.values import RequestInvalid
from tests.frontend.conversations import (
    TOKENS,
    as_transformers_renders,
    byte_tokenizer,
    conversations,
    user,
)
from tests.frontend.templates import ALL, CHATML, NAMES


@pytest.mark.parametrize("source", ALL.values(), ids=ALL.keys())
@pytest.mark.parametrize("kind", conversations())
def test_the_text_is_what_transformers_renders(source: str, kind: str) -> None:
    conversation = conversations()[kind]
    template = ChatTemplate(source, TOKENS)
    path = PromptPath(template, byte_tokenizer(()))
    messages = shaped(conversation.messages, path.taste)
    generate = conversation.add_generation_prompt is not False
    expected = as_transformers_renders(source, messages, conversation, generate=generate)
    if isinstance(expected, Exception):
        with pytest.raises(RequestInvalid, match="chat template refuses"):
            path.render(conversation)
    else:
        assert path.render(conversation).text == expected


@pytest.mark.parametrize("where", ["content", "reasoning_content"])
def test_a_continued_message_is_cut_where_transformers_cuts_it(where: str) -> None:
    answer = {"role": "assistant", "content": "so far ", "reasoning_content": "thus"}
    if where == "content":
        del answer["reasoning_content"]
    asked = Conversation(messages=[user("q"), answer], continue_final_message=where)
    path = PromptPath(ChatTemplate(CHATML, TOKENS), byte_tokenizer(()))
    messages = shaped(asked.messages, path.taste)
    expected = as_transformers_renders(CHATML, messages, asked, generate=False, continued=where)
    assert path.render(asked).text == expected
    assert str(expected).endswith(answer[where])


@pytest.mark.parametrize(
    "source",
    [
        "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}",
        "{% macro f(n) %}{% if n %}{{ f(n - 1) ~ f(n - 1) }}{% endif %}{% endmacro %}{{ f(60) }}",
        "{% for a in range(99999) %}{% for b in range(99) %}{{ 'x' * 99 }}{% endfor %}{% endfor %}",
        "{{ 'x' * 999999999 }}",
        "{{ messages[0].content * 999999999 }}",
        "{% set n = namespace(x='a') %}{% for i in [0] * 99 %}{% set n.x = n.x * 9 %}{% endfor %}",
        "{{ 9 ** (9 ** 9) }}",
    ],
)
def test_a_rendering_ends_in_bounded_time_and_size(source: str) -> None:
    template = ChatTemplate(source, {}, seconds=0.2)
    began = time.monotonic()
    with pytest.raises(RequestInvalid, match="^messages: found a "):
        template.render([user("x")])
    assert time.monotonic() - began < 3


def test_a_deadline_holds_for_its_own_thread_only() -> None:
    template = ChatTemplate(
        "{% for a in range(messages[0].content) %}{% for b in range(99) %}{% endfor %}"
        "{% endfor %}done",
        {},
        seconds=0.3,
    )
    texts: list[str] = []
    slow = threading.Thread(
        target=lambda: pytest.raises(RequestInvalid, template.render, [user(99999)])
    )
    slow.start()
    texts.append(template.render([user(1)]).text)
    slow.join()
    texts.append(template.render([user(1)]).text)
    assert texts == ["done", "done"]


def test_a_refusal_names_what_to_change() -> None:
    template = ChatTemplate("{% if tools %}{{ raise_exception('no tools') }}{% endif %}x", {})
    with pytest.raises(RequestInvalid, match=r"^tools: .*no tools"):
        template.render([user("x")], tools=[{"type": "function"}])
    template = ChatTemplate("{{ raise_exception('no ' + messages[0].role) }}", {})
    with pytest.raises(RequestInvalid, match=r"^messages: .*no user"):
        template.render([user("x")], tools=[{"type": "function"}])


@pytest.mark.parametrize(
    "source",
    [
        "{{ messages.__class__ }}{{ messages.__class__.mro() }}",
        "{{ messages.append(1) }}",
        "{% set n = namespace(__init__=1) %}",
        "{{ ''.format.__globals__ }}{{ '{0.__class__.__mro__}'.format(messages) }}",
        "{{ dict.__class__.__mro__ }}{{ dict.mro() }}",
        "{{ messages.clear() }}",
    ],
)
def test_a_template_reaches_nothing_but_its_values(source: str) -> None:
    with pytest.raises(RequestInvalid):
        ChatTemplate(source, {}).render([user("x")])


def test_taste_is_found_by_rendering() -> None:
    chatml, parts, names = (Taste.of(ChatTemplate(source, TOKENS)) for source in ALL.values())
    assert not chatml.parts
    assert chatml.texts == {"system", "user", "assistant", "tool"}
    assert parts.parts >= {"system", "user", "assistant"}
    assert not chatml.knows_developer
    assert names.knows_developer
    assert names.arguments_as_text
    assert not parts.arguments_as_text


def test_a_role_that_no_template_knows_is_refused_before_it() -> None:
    taste = Taste.of(ChatTemplate(NAMES, TOKENS))
    with pytest.raises(RequestInvalid, match=r"messages\[0\]\.role: found '<\|im_end\|>'"):
        shaped([{"role": "<|im_end|>", "content": "x"}], taste)
