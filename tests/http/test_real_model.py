"""The real core over HTTP: documents, log-probabilities, sampling fields, reuse, independence."""

from __future__ import annotations

import json
import math
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest

from tests.serving import RealServer

CHAT = "/v1/chat/completions"
QUESTION = [{"role": "user", "content": "Name a city and how many people live there."}]
PLACE = {
    "type": "object",
    "properties": {
        "city": {"type": "string", "maxLength": 20},
        "people": {"type": "integer", "minimum": 0, "maximum": 99999999},
        "coast": {"type": "boolean"},
    },
    "required": ["city", "people", "coast"],
    "additionalProperties": False,
}
SCHEMA = {"type": "json_schema", "json_schema": {"name": "place", "schema": PLACE}}


@pytest.fixture(scope="module")
def http(server: RealServer) -> Any:
    with httpx.Client(base_url=server.origin, timeout=60) as client:
        yield client


def ask(http: httpx.Client, **changes: Any) -> Any:
    wanted = {"messages": QUESTION, "max_tokens": 12, "temperature": 0}
    answer = http.post(CHAT, json={**wanted, **changes})
    assert answer.status_code == 200, answer.text
    return answer.json()


def text_of(answer: Any) -> str:
    content: str = answer["choices"][0]["message"]["content"]
    return content


@pytest.mark.parametrize("seed", range(4))
def test_a_document_always_parses(http: httpx.Client, seed: int) -> None:
    answer = ask(http, response_format=SCHEMA, max_tokens=512, temperature=1.3, seed=seed)
    assert answer["choices"][0]["finish_reason"] == "stop"
    found = json.loads(text_of(answer))
    assert list(found) == ["city", "people", "coast"]
    assert isinstance(found["people"], int)


@pytest.mark.parametrize(
    ("wish", "allowed"),
    [({"choice": ["Oslo", "Rome"]}, ("Oslo", "Rome")), ({"regex": "[ab]{3}"}, None)],
    ids=["choice", "regex"],
)
def test_other_grammars_hold(http: httpx.Client, wish: Any, allowed: Any) -> None:
    said = text_of(ask(http, structured_outputs=wish, temperature=1.5, seed=3))
    assert said in allowed if allowed else (len(said) == 3 and set(said) <= set("ab"))


def test_log_probabilities_have_openais_shape_u08(http: httpx.Client) -> None:
    (choice,) = ask(http, logprobs=True)["choices"]
    content = choice["logprobs"]["content"]
    assert len(content) == 12
    assert all(part["top_logprobs"] == [] and part["logprob"] <= 0 for part in content)
    spelled = b"".join(bytes(part["bytes"]) for part in content)
    assert spelled.decode().strip() == choice["message"]["content"].strip()


def test_the_greedy_token_is_the_likeliest_alternative(http: httpx.Client) -> None:
    (choice,) = ask(http, logprobs=True, top_logprobs=3)["choices"]
    for part in choice["logprobs"]["content"]:
        tops = part["top_logprobs"]
        assert len(tops) == 3
        assert tops[0]["token"] == part["token"]
        values = [top["logprob"] for top in tops]
        assert values == sorted(values, reverse=True)
        assert sum(math.exp(value) for value in values) <= 1 + 1e-6


def test_a_stream_has_the_same_log_probabilities(http: httpx.Client) -> None:
    whole = ask(http, logprobs=True, top_logprobs=2)["choices"][0]["logprobs"]["content"]
    body = {"messages": QUESTION, "max_tokens": 12, "temperature": 0, "stream": True}
    text = http.post(CHAT, json={**body, "logprobs": True, "top_logprobs": 2}).text
    events = [json.loads(line[6:]) for line in text.split("\n\n") if line[6:7] == "{"]
    parts = [choice["logprobs"] for event in events for choice in event["choices"]]
    assert [found for part in parts if part for found in part["content"]] == whole


def test_an_echo_scores_the_prompt_whatever_is_cached_l03(http: httpx.Client) -> None:
    body = {"prompt": "The capital of France is", "max_tokens": 2, "temperature": 0}
    body |= {"echo": True, "logprobs": 2}
    found = [http.post("/v1/completions", json=body).json() for _ in range(2)]
    first, second = [answer["choices"][0]["logprobs"] for answer in found]
    assert first == second
    prompt = found[0]["usage"]["prompt_tokens"]
    assert len(first["tokens"]) == prompt + 2
    assert first["token_logprobs"][0] is None
    assert all(value <= 0 for value in first["token_logprobs"][1:])
    assert "".join(first["tokens"]) == found[0]["choices"][0]["text"]


def test_a_bias_and_a_penalty_change_what_is_said(http: httpx.Client) -> None:
    plain = ask(http, return_token_ids=True)
    (first, *_) = plain["choices"][0]["token_ids"]
    biased = ask(http, return_token_ids=True, logit_bias={str(first): -100})
    assert biased["choices"][0]["token_ids"][0] != first
    forced = ask(http, return_token_ids=True, logit_bias={"100": 100}, max_tokens=3)
    assert forced["choices"][0]["token_ids"] == [100, 100, 100]
    fresh = ask(http, return_token_ids=True, logit_bias={"100": 15}, frequency_penalty=2)
    assert fresh["choices"][0]["token_ids"] != [100] * 12


def test_a_high_least_probability_is_greedy(http: httpx.Client) -> None:
    greedy = text_of(ask(http))
    assert text_of(ask(http, min_p=1.0, temperature=1.5, seed=1)) == greedy


def test_choices_of_a_seed_repeat_and_differ(http: httpx.Client) -> None:
    def drawn() -> list[str]:
        choices = ask(http, n=3, seed=11, temperature=1.4)["choices"]
        return [choice["message"]["content"] for choice in choices]

    assert drawn() == drawn()
    assert len(set(drawn())) > 1


def test_reuse_is_counted_and_changes_nothing(http: httpx.Client) -> None:
    messages = [{"role": "user", "content": "Count with me: " + "one two three " * 40}]
    first = ask(http, messages=messages, cache_salt="a")
    again = ask(http, messages=messages, cache_salt="a")
    cached = again["usage"]["prompt_tokens_details"]["cached_tokens"]
    assert cached >= 64
    assert first["usage"]["prompt_tokens_details"]["cached_tokens"] == 0
    assert text_of(first) == text_of(again)


def test_a_constrained_neighbour_changes_nothing(http: httpx.Client) -> None:
    alone = text_of(ask(http))
    with ThreadPoolExecutor(6) as pool:
        busy = [
            pool.submit(ask, http, response_format=SCHEMA, max_tokens=256, temperature=1.0, seed=n)
            for n in range(3)
        ]
        beside = [pool.submit(ask, http) for _ in range(3)]
        assert {text_of(work.result()) for work in beside} == {alone}
        assert all(json.loads(text_of(work.result())) for work in busy)
