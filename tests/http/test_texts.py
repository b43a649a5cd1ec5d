"""Text and tokens without generating, over HTTP."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from tests.http.small import CHAT, QUESTION, SmallServer

PROMPT = "<|start|>user\nhello<|end|><|start|>assistant\n"


@pytest.fixture
def http(small: SmallServer) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=small.origin, timeout=30) as client:
        yield client


def asked(http: httpx.Client, path: str, **body: Any) -> dict[str, Any]:
    answer = http.post(path, json=body)
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


@pytest.mark.parametrize("text", ["hello", "", "a\u00e9\U0001f642 <|end|>", "\x00\x7f"])
def test_a_text_goes_to_tokens_and_back(http: httpx.Client, text: str) -> None:
    told = asked(http, "/tokenize", prompt=text, with_pieces=True)
    assert told["count"] == len(told["tokens"]) == len(told["pieces"])
    assert told["max_model_len"] == 8192
    assert asked(http, "/detokenize", tokens=told["tokens"]) == {"prompt": text}
    spelled = b"".join(p.encode() if isinstance(p, str) else bytes(p) for p in told["pieces"])
    assert spelled.decode() == text


def test_special_tokens_are_left_out_where_that_is_asked_for(http: httpx.Client) -> None:
    tokens = asked(http, "/tokenize", prompt="a<|end|>b")["tokens"]
    assert asked(http, "/detokenize", tokens=tokens, skip_special_tokens=True)["prompt"] == "ab"


def test_a_conversation_has_the_tokens_that_a_chat_request_has(http: httpx.Client) -> None:
    told = asked(http, "/tokenize", messages=QUESTION)
    shown = asked(http, "/apply-template", messages=QUESTION)
    counted = asked(http, f"{CHAT}/input_tokens", messages=QUESTION, max_tokens=3)
    chat = asked(http, CHAT, messages=QUESTION)
    assert shown["prompt"] == PROMPT
    assert shown["tokens"] == told["tokens"]
    assert (
        shown["count"] == told["count"] == counted["input_tokens"] == chat["usage"]["prompt_tokens"]
    )


def test_the_templates_own_text_is_told_from_the_clients(http: httpx.Client) -> None:
    messages = [{"role": "user", "content": "x<|end|>y"}]
    shown = asked(http, "/apply-template", messages=messages)
    own = [shown["prompt"][start:stop] for start, stop in shown["template_spans"]]
    assert "".join(own).count("<|end|>") == 1
    assert shown["prompt"].count("<|end|>") == 2
    (end,) = asked(http, "/tokenize", prompt="<|end|>")["tokens"]
    assert shown["tokens"].count(end) == 1


def test_a_template_is_applied_as_its_fields_say(http: httpx.Client) -> None:
    open_ended = asked(http, "/apply-template", messages=QUESTION, add_generation_prompt=False)
    assert open_ended["prompt"] == "<|start|>user\nhello<|end|>"
    begun = [*QUESTION, {"role": "assistant", "content": "well"}]
    continued = asked(http, "/apply-template", messages=begun, continue_final_message=True)
    assert continued["prompt"] == PROMPT + "well"


def test_a_conversation_beyond_the_context_is_counted(http: httpx.Client) -> None:
    long = [{"role": "user", "content": "z" * 9000}]
    assert asked(http, "/tokenize", messages=long)["count"] > 9000
    assert http.post(CHAT, json={"messages": long}).status_code == 400


REFUSED: list[tuple[str, dict[str, Any], str]] = [
    ("/tokenize", {}, "prompt: found nothing, expected one of prompt and messages"),
    ("/tokenize", {"prompt": "x", "messages": QUESTION}, "prompt: found a text beside messages"),
    ("/tokenize", {"prompt": "x", "tools": []}, "tools: found a value"),
    ("/tokenize", {"prompt": 5}, "prompt: found `int`"),
    ("/tokenize", {"prompt": "x", "colour": 1}, "colour: found a field"),
    ("/tokenize", {"prompt": "x", "model": "another"}, "model: found 'another'"),
    ("/tokenize", {"prompt": "z" * ((4 << 20) + 1)}, "prompt: found"),
    (
        "/tokenize",
        {"messages": QUESTION, "add_special_tokens": True},
        "add_special_tokens: found true",
    ),
    ("/detokenize", {}, "body: found"),
    ("/detokenize", {"tokens": [-1]}, "tokens[0]: found"),
    ("/detokenize", {"tokens": [1.5]}, "tokens[0]: found"),
    ("/detokenize", {"tokens": [0, 99999]}, "tokens[1]: found 99999, expected a token id below"),
    ("/apply-template", {}, "messages: found nothing"),
    ("/apply-template", {"messages": []}, "messages: found"),
    ("/apply-template", {"messages": [{"role": "robot"}]}, "messages[0].role: found"),
    ("/apply-template", {"messages": QUESTION, "tools": [{}]}, "tools[0].function: found"),
    ("/apply-template", {"messages": QUESTION, "temperature": 1}, "temperature: found a field"),
    ("/apply-template", {"messages": QUESTION, "reasoning_effort": "x"}, "reasoning_effort: fou"),
]


@pytest.mark.parametrize(
    ("path", "body", "sentence"), REFUSED, ids=[f"{c[0]}-{c[2]}" for c in REFUSED]
)
def test_a_bad_request_names_its_field(
    http: httpx.Client, path: str, body: dict[str, Any], sentence: str
) -> None:
    answer = http.post(path, json=body)
    assert answer.status_code == 400
    assert answer.json()["error"]["message"].startswith(sentence)


def test_one_model_is_told_by_its_name(http: httpx.Client) -> None:
    listed = http.get("/v1/models").json()["data"]
    assert http.get("/v1/models/acme/small").json() == listed[0]
    missing = http.get("/v1/models/another")
    assert missing.status_code == 404
    assert missing.json()["error"]["type"] == "not_found_error"


def test_the_version_is_the_packages(http: httpx.Client) -> None:
    assert set(http.get("/version").json()) == {"version"}
