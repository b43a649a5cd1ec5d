"""Endings that are no answers, through HTTP: errors, readers that leave, limits (L-01 to L-07)."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest

from tests.http.scripted import CHAT, COMPLETIONS, QUESTION, Playing, Stage, Theatre
from tests.http.stages import PLAIN, THINK
from tests.http.waiting import wait_for

SMALL = Stage(
    "small",
    tools="hermes",
    reasoning="think",
    added=THINK,
    options=("--max-active", "2", "--queue-capacity", "1", "--cache-memory", "256K"),
    defaults={"max_tokens": 600},
)
FAILS_FIRST = SMALL.pair("the weather", fail_at=0)
FAILS_LATER = [
    SMALL.pair("the weather in Paris is fine", fail_at=3, group=group) for group in (1, 2, 64)
]
SHORT = SMALL.pair("short")
ENDLESS = [SMALL.line("a " * 900, delay_ms=20) for _ in range(3)]
AFTER = SMALL.pair("after")


@pytest.mark.clause("TO-41")
def test_a_failure_before_any_token_is_a_500(play: Theatre) -> None:
    for stream in (False, True):
        answer = play(SMALL).ask(FAILS_FIRST + stream, stream=stream)
        assert answer.status_code == 500
        assert answer.json()["error"]["type"] == "server_error"


@pytest.mark.clause("TO-42")
@pytest.mark.parametrize("pair", FAILS_LATER)
def test_a_failure_inside_a_stream_is_one_error_event_l06_l07(play: Theatre, pair: int) -> None:
    playing = play(SMALL)
    assert playing.ask(pair).status_code == 500
    stream = playing.stream(pair + 1)
    assert not stream.done
    assert stream.error is not None
    assert stream.error["code"] == 500
    assert all(part["finish_reason"] is None for part in stream.of(0))


@pytest.mark.clause("TO-40")
def test_a_failure_harms_nobody_else(play: Theatre) -> None:
    playing = play(SMALL)
    assert playing.both(SHORT).content == "short"
    assert playing.http.get("/health").status_code == 200


@contextlib.contextmanager
def begun(playing: Playing, line: int, **changes: Any) -> Iterator[httpx.Response]:
    """A stream that has begun."""
    playing.seek(line)
    body = {"messages": QUESTION, "stream": True, **playing.stage.defaults, **changes}
    with playing.http.stream("POST", CHAT, json=body) as answer:
        pieces = answer.iter_bytes()  # kept: a stream whose iterator is gone is closed
        next(pieces)
        playing.used(1, status=answer.status_code)
        yield answer


@pytest.mark.clause("TO-29")
def test_a_reader_that_leaves_frees_its_slot_and_has_used_its_line_l01(play: Theatre) -> None:
    playing = play(SMALL)
    with begun(playing, ENDLESS[0]):
        assert playing.metric("flare_lanes_active") == 1
    wait_for(lambda: playing.metric("flare_lanes_active") == 0)
    wait_for(lambda: playing.metric("flare_permits_held") == 0)
    playing.seek(AFTER)
    assert playing.both(AFTER).content == "after"


@pytest.mark.clause("TO-26", "TO-37")
def test_more_requests_than_may_be_inside_are_told_to_come_again(play: Theatre) -> None:
    playing = play(SMALL)
    playing.seek(ENDLESS[0])
    body = {"messages": QUESTION, "stream": True, "max_tokens": 600}
    with ThreadPoolExecutor(1) as pool, contextlib.ExitStack() as stack:
        reading = []
        for _ in range(2):
            answer = stack.enter_context(playing.http.stream("POST", CHAT, json=body))
            reading.append(answer.iter_bytes())
            next(reading[-1])
            playing.used(1, status=200)
        short = {**body, "stream": False, "max_tokens": 1}
        waiting = pool.submit(playing.http.post, CHAT, json=short)
        wait_for(lambda: playing.metric("flare_permits_held") == len(reading) + 1)
        refused = playing.post(CHAT, messages=QUESTION)
        assert refused.status_code == 429
        assert int(refused.headers["retry-after"]) >= 1
        assert refused.json()["error"]["type"] == "rate_limit_error"
    playing.used(1, status=waiting.result(10).status_code)
    wait_for(lambda: playing.metric("flare_permits_held") == 0)
    assert playing.both(AFTER).content == "after"


@pytest.mark.clause("TO-38", "TO-40", "TO-42")
def test_what_can_never_fit_is_a_503_and_uses_no_line(play: Theatre) -> None:
    playing = play(SMALL)
    playing.seek(AFTER)
    long = [{"role": "user", "content": "word " * 1200}]
    for stream in (False, True):
        answer = playing.post(CHAT, messages=long, stream=stream, max_tokens=1)
        assert answer.status_code == 503, answer.text
        assert answer.json()["error"]["code"] == 503
    assert playing.both(AFTER).content == "after"


@pytest.mark.parametrize(
    "changes",
    [
        {"temperature": 9},
        {"messages": []},
        {"max_tokens": 10**6},
        {"continue_final_message": True, "add_generation_prompt": True},
        {"response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": 3}}},
        {"tools": [{}]},
        {"reasoning_effort": "colossal"},
        {"model": "other"},
    ],
    ids=str,
)
def test_a_refused_request_uses_no_line(play: Theatre, changes: dict[str, Any]) -> None:
    playing = play(SMALL)
    playing.seek(AFTER)
    for stream in (False, True):
        answer = playing.post(CHAT, **{"messages": QUESTION, "stream": stream, **changes})
        assert answer.status_code == 400, answer.text
    assert playing.both(AFTER).content == "after"


PICTURE = "iVBORw0KGgo="
PARTS: list[Any] = [
    {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PICTURE}"}},
    {"type": "image_url", "image_url": {"url": "data:image/png;base64,!!!"}},
    {"type": "image_url", "image_url": {"url": f"data:image/png,{PICTURE}"}},
    {"type": "image_url", "image_url": {"url": "http://127.0.0.1:9/x.png"}},
    {"image_url": {"url": f"data:image/png;base64,{PICTURE}"}},
    {"type": "hologram", "text": "x"},
]


@pytest.mark.parametrize("part", PARTS, ids=lambda part: json.dumps(part)[:50])
def test_a_picture_for_a_model_without_eyes_is_told_i01_i03(play: Theatre, part: Any) -> None:
    content = [{"type": "text", "text": "look"}, part]
    answer = play(PLAIN).post(CHAT, messages=[{"role": "user", "content": content}])
    assert answer.status_code == 400
    assert answer.json()["error"]["message"].startswith("messages[0].content[1]")


CONTINUED = PLAIN.ways(" is fine")


def test_a_continuation_says_only_what_is_new_c01_c02(play: Theatre) -> None:
    playing = play(PLAIN)
    messages = [*QUESTION, {"role": "assistant", "content": "The weather"}]
    said = playing.alike(CONTINUED[:3], messages=messages, continue_final_message=True)
    assert (said.content, said.finish) == (" is fine", "stop")
    answer = playing.ask(
        CONTINUED[3], messages=messages, continue_final_message=True, return_token_ids=True
    ).json()
    assert playing.tokenizer.decode(answer["prompt_token_ids"]).endswith("The weather")


REASONED = SMALL.pair("so\n</think>\n\nyes")


@pytest.mark.parametrize("name", ["reasoning", "reasoning_content"])
def test_reasoning_in_history_has_two_names_and_can_be_continued_c05_c02(
    play: Theatre, name: str
) -> None:
    playing = play(SMALL)
    messages = [*QUESTION, {"role": "assistant", "content": None, name: "Let me see, "}]
    said = playing.both(REASONED, messages=messages, continue_final_message=name)
    assert (said.reasoning, said.content) == ("so", "yes")


COMPLETED = PLAIN.ways("<tool_call> is text")


def test_completions_know_no_markup_and_echo_on_demand(play: Theatre) -> None:
    playing = play(PLAIN)
    for pair in COMPLETED:
        playing.seek(pair)
        whole = playing.post(COMPLETIONS, prompt="a b", max_tokens=64, echo=True).json()
        assert whole["choices"][0]["text"] == "a b<tool_call> is text"
        text = playing.post(COMPLETIONS, prompt="a b", max_tokens=64, stream=True).text
        events = [json.loads(line[6:]) for line in text.split("\n\n") if line[6:7] == "{"]
        assert "".join(e["choices"][0]["text"] for e in events) == "<tool_call> is text"
        assert text.endswith("data: [DONE]\n\n")
