"""The official client, unmodified, against the real core."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import openai
import pytest
from openai import OpenAI

MODEL = "smollm2-135m"
QUESTION = [{"role": "user", "content": "Write one sentence about rain."}]


def ask(client: OpenAI, **changes: Any) -> Any:
    wanted = {"model": MODEL, "messages": QUESTION, "max_tokens": 16, "temperature": 0.0}
    return client.chat.completions.create(**{**wanted, **changes})


def streamed(client: OpenAI, **changes: Any) -> tuple[str, str | None, Any]:
    """Joined text, the finish reason, and the usage if it was asked for."""
    text, finish, usage = "", None, None
    for chunk in ask(client, stream=True, **changes):
        usage = chunk.usage or usage
        for choice in chunk.choices:
            assert finish is None
            text += choice.delta.content or ""
            finish = choice.finish_reason
    return text, finish, usage


def test_an_answer_has_its_parts(client: OpenAI) -> None:
    answer = ask(client)
    assert answer.object == "chat.completion"
    assert answer.model == MODEL
    (choice,) = answer.choices
    assert choice.message.role == "assistant"
    assert choice.message.content
    assert choice.finish_reason == "length"
    assert answer.usage.completion_tokens == 16
    assert answer.usage.total_tokens == answer.usage.prompt_tokens + 16


def test_a_stream_is_the_answer_in_pieces(client: OpenAI) -> None:
    whole = ask(client)
    text, finish, usage = streamed(client)
    assert text == whole.choices[0].message.content
    assert finish == "length"
    assert usage is None


@pytest.mark.clause("TO-16")
def test_usage_comes_last_when_it_is_asked_for(client: OpenAI) -> None:
    chunks = list(ask(client, stream=True, stream_options={"include_usage": True}))
    assert chunks[-1].choices == []
    assert chunks[-1].usage.completion_tokens == 16
    assert all(chunk.usage is None for chunk in chunks[:-1])


def test_an_answer_stops_at_the_end_of_its_sequence(client: OpenAI) -> None:
    answer = ask(client, messages=[{"role": "user", "content": "Say hi."}], max_tokens=200)
    assert answer.choices[0].finish_reason == "stop"
    assert "<|im_end|>" not in answer.choices[0].message.content
    assert answer.usage.completion_tokens < 200


def test_a_seed_repeats_an_answer_and_another_changes_it(client: OpenAI) -> None:
    def draw(seed: int) -> str:
        text: str = (
            ask(client, seed=seed, temperature=1.2, max_tokens=24).choices[0].message.content
        )
        return text

    assert draw(5) == draw(5)
    assert len({draw(seed) for seed in range(5)}) > 1


def test_top_k_of_one_is_greedy(client: OpenAI) -> None:
    greedy = ask(client).choices[0].message.content
    narrowed = ask(client, temperature=1.5, extra_body={"top_k": 1})
    assert narrowed.choices[0].message.content == greedy
    narrow = ask(client, temperature=1.5, top_p=1e-6)
    assert narrow.choices[0].message.content == greedy


def test_both_names_of_the_limit_are_known(client: OpenAI) -> None:
    answer = ask(client, max_tokens=openai.NOT_GIVEN, max_completion_tokens=3)
    assert answer.usage.completion_tokens == 3


def test_content_parts_are_joined(client: OpenAI) -> None:
    parts = [
        {"type": "text", "text": "Write one "},
        {"type": "text", "text": "sentence about rain."},
    ]
    assert (
        ask(client, messages=[{"role": "user", "content": parts}]).choices[0].message.content
        == ask(client).choices[0].message.content
    )


def test_sixteen_at_once_each_get_what_they_get_alone(client: OpenAI) -> None:
    prompts = [[{"role": "user", "content": f"Tell me about the number {n}."}] for n in range(16)]

    def alone(messages: list[dict[str, str]]) -> str:
        text: str = ask(client, messages=messages, max_tokens=20).choices[0].message.content
        return text

    def together(number: int) -> str:
        if number % 2:
            return streamed(client, messages=prompts[number], max_tokens=20)[0]
        return alone(prompts[number])

    expected = [alone(messages) for messages in prompts]
    with ThreadPoolExecutor(16) as pool:
        assert list(pool.map(together, range(16))) == expected


def test_models_are_listed(client: OpenAI) -> None:
    assert [model.id for model in client.models.list()] == [MODEL]


def test_errors_are_the_clients_own_kinds(client: OpenAI) -> None:
    with pytest.raises(openai.BadRequestError, match="temperature"):
        ask(client, temperature=9.0)
    with pytest.raises(openai.NotFoundError):
        client.embeddings.create(model=MODEL, input="x")
