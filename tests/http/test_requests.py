"""Requests good and bad over plain HTTP: statuses, sentences, and what the counters say."""

from __future__ import annotations

import contextlib
import json
import re
from typing import Any

import httpx
import pytest

from tests.http.waiting import wait_for
from tests.serving import RealServer

PATH = "/v1/chat/completions"
QUESTION = [{"role": "user", "content": "Tell me a story about a lighthouse."}]


@pytest.fixture
def http(server: RealServer) -> Any:
    with httpx.Client(base_url=server.origin, timeout=60) as client:
        yield client


def body(**changes: Any) -> dict[str, Any]:
    return {"messages": QUESTION, "max_tokens": 4, "temperature": 0, **changes}


BAD: list[tuple[dict[str, Any], str]] = [
    ({"foo": 1}, "foo: found a field that this server does not know"),
    ({"messages": []}, "messages: found"),
    ({"messages": None}, "messages: found"),
    ({"messages": [{"role": "robot", "content": "x"}]}, "messages[0].role: found"),
    ({"messages": [{"role": "user", "content": "x", "colour": 1}]}, "messages[0].colour: found"),
    ({"messages": [{"role": "user"}]}, "messages[0].content: found nothing"),
    ({"temperature": -0.1}, "temperature: found"),
    ({"temperature": "warm"}, "temperature: found"),
    ({"top_p": 0}, "top_p: found"),
    ({"top_p": 1.5}, "top_p: found"),
    ({"top_k": -1}, "top_k: found"),
    ({"max_tokens": 0}, "max_tokens: found"),
    ({"max_tokens": -5}, "max_tokens: found"),
    ({"max_tokens": 10**30}, "max_tokens: found"),
    ({"max_tokens": 8192}, "max_tokens: found 8192, expected at most"),
    ({"max_completion_tokens": 3}, "max_tokens: found both names"),
    ({"seed": "x"}, "seed: found"),
    ({"n": 17}, "n: found"),
    ({"stream_options": {"include_usage": 1}}, "stream_options.include_usage: found"),
    ({"model": "another"}, "model: found 'another', expected one of ['smollm2-135m']"),
    ({"messages": [{"role": "user", "content": "word " * 9000}]}, "messages: found"),
]


@pytest.mark.parametrize(("changes", "sentence"), BAD, ids=[str(case[0])[:40] for case in BAD])
@pytest.mark.clause("TO-37")
def test_a_bad_request_is_a_400_that_names_the_field(
    http: httpx.Client, changes: dict[str, Any], sentence: str
) -> None:
    answer = http.post(PATH, json=body(**changes))
    assert answer.status_code == 400
    error = answer.json()["error"]
    assert error["message"].startswith(sentence)
    assert error["type"] == "invalid_request_error"
    assert error["message"].startswith(str(error["param"]))


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"null", b'{"messages": ', b"\xff\xfe"])
def test_a_body_that_is_no_json_object_is_a_400(http: httpx.Client, content: bytes) -> None:
    answer = http.post(PATH, content=content)
    assert answer.status_code == 400
    assert answer.json()["error"]["param"] == "body"


def test_fields_about_the_clients_account_change_nothing(http: httpx.Client) -> None:
    plain = http.post(PATH, json=body()).json()
    extra = http.post(PATH, json=body(user="u", store=True, metadata={"a": "b"})).json()
    assert extra["choices"] == plain["choices"]


def test_paths_and_methods_that_do_not_exist_are_told(http: httpx.Client) -> None:
    assert http.get("/v2/nothing").status_code == 404
    assert http.get(PATH).status_code == 405
    assert "/v2/nothing" in http.get("/v2/nothing").json()["error"]["message"]


def test_health_is_good_while_requests_can_be_served(http: httpx.Client) -> None:
    assert http.get("/health").status_code == 200


def metric(http: httpx.Client, name: str) -> float:
    """A sample's value, labels summed."""
    lines = re.findall(rf"^{name}(?:{{[^}}]*}})? (\S+)$", http.get("/metrics").text, re.MULTILINE)
    return sum(map(float, lines))


def test_counters_add_up_when_nothing_runs(http: httpx.Client) -> None:
    http.post(PATH, json=body())
    wait_for(lambda: metric(http, "flare_lanes_active") == 0)
    assert metric(http, "flare_requests_started_total") == metric(
        http, "flare_requests_ended_total"
    )
    wait_for(lambda: metric(http, "flare_permits_held") == 0)
    kept = metric(http, "flare_cache_pages_free") + metric(http, "flare_cache_pages_idle")
    assert kept == metric(http, "flare_cache_pages")


@pytest.mark.clause("TO-45")
def test_metrics_name_no_request(http: httpx.Client) -> None:
    http.post(PATH, json=body(messages=[{"role": "user", "content": "xyzzy plugh"}]))
    text = http.get("/metrics").text
    assert "xyzzy" not in text
    labels = set(re.findall(r"(\w+)=\"", text))
    assert labels <= {"ending", "le", "operation", "status", "stop"}


@pytest.mark.clause("TO-29")
@pytest.mark.parametrize("stream", [True, False])
def test_a_reader_that_leaves_frees_its_lane(http: httpx.Client, *, stream: bool) -> None:
    ended, cancelled = metric(http, "flare_requests_ended_total"), cancelled_count(http)
    wanted = body(max_tokens=4000, stream=stream, temperature=1.5)
    with (
        httpx.Client(base_url=http.base_url, timeout=0.6) as hasty,
        contextlib.suppress(httpx.ReadTimeout),
        hasty.stream("POST", PATH, json=wanted) as answer,
    ):
        assert stream
        next(answer.iter_bytes())
    wait_for(lambda: cancelled_count(http) == cancelled + 1)
    wait_for(lambda: metric(http, "flare_lanes_active") == 0)
    assert metric(http, "flare_requests_ended_total") == ended + 1


def cancelled_count(http: httpx.Client) -> float:
    (found,) = re.findall(
        r'^flare_requests_ended_total{ending="cancelled"} (\S+)$',
        http.get("/metrics").text,
        re.MULTILINE,
    )
    return float(found)


def test_a_stream_is_events_and_a_done(http: httpx.Client) -> None:
    with http.stream("POST", PATH, json=body(stream=True)) as answer:
        assert answer.headers["content-type"].startswith("text/event-stream")
        events = [line for line in answer.iter_lines() if line]
    assert events[-1] == "data: [DONE]"
    chunks = [json.loads(event.removeprefix("data: ")) for event in events[:-1]]
    assert chunks[0]["choices"][0]["delta"] == {"role": "assistant", "content": ""}
    assert [chunk["choices"][0]["finish_reason"] for chunk in chunks][-1] == "length"
    assert len({chunk["id"] for chunk in chunks}) == 1
