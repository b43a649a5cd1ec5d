"""What observing clients see, through HTTP: TO-01 to TO-18 and the cases U-01 to U-09."""

from __future__ import annotations

from typing import Any

import pytest

from tests.http.answers import Object
from tests.http.scripted import CHAT, QUESTION, Playing, Theatre
from tests.http.stages import ATEM, BOTH, HARMONY, HERMES, KIMI_K3, PLAIN

CALL = '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Paris 🎈"}}\n</tool_call>'
SEEN = {
    "hermes": (HERMES, HERMES.ways(f"<think>\nhm\n</think>\n\nok\n{CALL}")),
    "plain": (PLAIN, PLAIN.ways("ab🎈cd")),
    "xtml": (
        KIMI_K3,
        KIMI_K3.ways("hm<|close|>think<|sep|><|open|>response<|sep|>ok<|close|>response<|sep|>"),
    ),
    "atem": (
        ATEM,
        ATEM.ways(" to=self<|message|>hm<|eom|><|start|>assistant to=user<|message|>ok"),
    ),
    "harmony": (HARMONY, HARMONY.ways("<|channel|>final<|message|>ok")),
}
TIMED = {"return_token_ids": True, "return_token_timestamps": True}
USAGE = {"stream_options": {"include_usage": True}}


def said_ids(playing: Playing, line: int) -> list[int]:
    """The tokens of a line and the end of its sequence."""
    written = playing.stage.lines[line]
    segments: Any = written.get("segments") or [{"text": written["text"]}]
    ids: list[int] = []
    for segment in segments:
        playing.tokenizer.encode_special_tokens = bool(segment.get("plain"))
        ids += playing.tokenizer.encode(segment["text"], add_special_tokens=False).ids
    playing.tokenizer.encode_special_tokens = False
    return [*ids, playing.tokenizer.token_to_id(playing.stage.ends[0])]


def ends_alike(seen: list[int], expected: list[int], ends: set[int]) -> bool:
    """Whether these are the line's tokens and some end of the sequence."""
    return seen[:-1] == expected[:-1] and seen[-1] in ends


@pytest.mark.clause("TO-01", "TO-02", "TO-05")
@pytest.mark.parametrize("name", SEEN)
def test_a_whole_answer_has_every_id_once_u05_u06(play: Theatre, name: str) -> None:
    stage, ways = SEEN[name]
    playing = play(stage)
    for pair in ways:
        answer = playing.ask(pair, tools=BOTH, return_token_ids=True).json()
        (choice,) = answer["choices"]
        assert ends_alike(choice["token_ids"], said_ids(playing, pair), playing.ends)
        assert len(answer["prompt_token_ids"]) == answer["usage"]["prompt_tokens"]
        assert len(choice["token_ids"]) == answer["usage"]["completion_tokens"]
        cached = answer["usage"]["prompt_tokens_details"]["cached_tokens"]
        assert answer["reused_prompt_tokens"] == cached
        assert "performance" not in answer
        assert "token_timestamps_ns" not in choice


@pytest.mark.clause("TO-03", "TO-04", "TO-05", "TO-12", "TO-17")
@pytest.mark.parametrize("name", SEEN)
def test_a_stream_has_one_chunk_an_id_and_nothing_else_in_it_u04(play: Theatre, name: str) -> None:
    stage, ways = SEEN[name]
    playing = play(stage)
    for pair in ways:
        stream = playing.stream(pair, tools=BOTH, return_token_ids=True)
        first, *rest = stream.chunks
        assert first["choices"][0]["delta"] == {"role": "assistant", "content": ""}
        assert first["prompt_token_ids"]
        assert not any("prompt_token_ids" in chunk for chunk in rest)
        observed = [part for part in stream.of(0) if "token_ids" in part]
        assert all(part["delta"] == {} and len(part["token_ids"]) == 1 for part in observed)
        assert all(part["finish_reason"] is None for part in observed)
        ids = [part["token_ids"][0] for part in observed]
        assert ends_alike(ids, said_ids(playing, pair), playing.ends)
        last = stream.chunks[-1]
        assert last["choices"][0]["finish_reason"] in ("stop", "tool_calls")
        assert last["usage"]["completion_tokens"] == len(ids)
        assert (
            last["reused_prompt_tokens"] == last["usage"]["prompt_tokens_details"]["cached_tokens"]
        )
        assert all("usage" not in chunk for chunk in stream.chunks[:-1])
        assert "performance" not in last


def check_times(times: list[int], performance: Object) -> None:
    """Times grow from ingress over enqueueing to the tokens."""
    assert performance["ingress_ns"] <= performance["enqueue_ns"] <= times[0]
    assert times == sorted(times)


@pytest.mark.clause("TO-07", "TO-13", "TO-15")
def test_times_are_aligned_with_ids_and_begin_after_the_enqueueing(play: Theatre) -> None:
    stage, ways = SEEN["hermes"]
    playing = play(stage)
    for pair in ways[:3]:
        answer = playing.ask(pair, tools=BOTH, **TIMED).json()
        (choice,) = answer["choices"]
        assert len(choice["token_timestamps_ns"]) == len(choice["token_ids"])
        check_times(choice["token_timestamps_ns"], answer["performance"])
        stream = playing.stream(pair, tools=BOTH, **TIMED)
        observed = [part for part in stream.of(0) if "token_ids" in part]
        times = [part["token_timestamps_ns"] for part in observed]
        assert all(len(time) == 1 for time in times)
        check_times([time[0] for time in times], stream.chunks[-1]["performance"])
        assert set(stream.chunks[-1]["performance"]) == {
            "ingress_ns",
            "enqueue_ns",
            "reused_prompt_tokens",
        }
        assert all("performance" not in chunk for chunk in stream.chunks[:-1])


@pytest.mark.clause("TO-16", "TO-17")
@pytest.mark.parametrize("observed", [{}, {"return_token_ids": True}, TIMED], ids=str)
def test_usage_that_is_asked_for_comes_alone_and_last_u02(
    play: Theatre, observed: dict[str, bool]
) -> None:
    stage, ways = SEEN["hermes"]
    stream = play(stage).stream(ways[0], tools=BOTH, **observed, **USAGE)
    assert stream.done
    assert stream.chunks[-1]["choices"] == []
    assert stream.chunks[-1]["usage"]["completion_tokens"] > 10
    assert all(chunk["usage"] is None for chunk in stream.chunks[:-1])
    if observed:
        assert "reused_prompt_tokens" in stream.chunks[-2]


@pytest.mark.clause("TO-11", "TO-18")
@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"stream_options": {}},
        {"stream_options": None},
        {"stream_options": {"include_usage": None}},
        {"stream_options": {"include_usage": False}},
        {"return_token_ids": None, "return_token_timestamps": None},
        {"return_token_ids": False, "return_token_timestamps": False},
    ],
    ids=str,
)
def test_who_observes_nothing_sees_nothing_u01(play: Theatre, changes: dict[str, Any]) -> None:
    stage, ways = SEEN["plain"]
    stream = play(stage).stream(ways[0], **changes)
    assert stream.done
    for chunk in stream.chunks:
        assert "usage" not in chunk
        assert set(chunk) == {"id", "object", "created", "model", "choices"}
        assert len(chunk["choices"]) == 1
        assert "token_ids" not in chunk["choices"][0]


@pytest.mark.clause("TO-07", "TO-18")
@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"return_token_timestamps": True}, "return_token_timestamps"),
        (
            {"return_token_timestamps": True, "return_token_ids": False},
            "return_token_timestamps",
        ),
        ({"return_token_ids": 1}, "return_token_ids"),
        ({"return_token_ids": "true"}, "return_token_ids"),
        ({"return_token_ids": True, "return_token_timestamps": 1}, "return_token_timestamps"),
        ({"stream_options": {"include_usage": "yes"}}, "stream_options.include_usage"),
        ({"stream_options": {"include_usage": 0}}, "stream_options.include_usage"),
        ({"logprobs": True}, "logprobs"),
        ({"logprobs": True, "top_logprobs": 2}, "logprobs"),
        ({"top_logprobs": 2}, "top_logprobs"),
    ],
    ids=str,
)
def test_wrong_wishes_are_named(play: Theatre, changes: dict[str, Any], field: str) -> None:
    for stream in (False, True):
        answer = play(PLAIN).post(CHAT, messages=QUESTION, stream=stream, **changes)
        assert answer.status_code == 400
        assert answer.json()["error"]["param"] == field


@pytest.mark.clause("TO-12")
def test_a_prompt_that_was_computed_before_is_reused(play: Theatre) -> None:
    stage, ways = SEEN["plain"]
    playing = play(stage)
    messages = [{"role": "user", "content": "x y z " * 60}]
    first = playing.ask(ways[0], messages=messages, return_token_ids=True).json()
    again = playing.ask(ways[1], messages=messages, return_token_ids=True).json()
    assert first["reused_prompt_tokens"] < 64
    assert again["reused_prompt_tokens"] == again["usage"]["prompt_tokens"] - 1
    salted = playing.ask(ways[2], messages=messages, return_token_ids=True, cache_salt="s").json()
    assert salted["reused_prompt_tokens"] == 0


SEVERAL = [PLAIN.line(f"answer {number}", group=1 + number) for number in range(6)]


@pytest.mark.clause("TO-03")
def test_every_choice_has_a_line_of_its_own(play: Theatre) -> None:
    playing = play(PLAIN)
    answer = playing.ask(SEVERAL[0], n=3, return_token_ids=True).json()
    assert {choice["message"]["content"] for choice in answer["choices"]} == {
        "answer 0",
        "answer 1",
        "answer 2",
    }
    assert [choice["index"] for choice in answer["choices"]] == [0, 1, 2]
    counts = sum(len(choice["token_ids"]) for choice in answer["choices"])
    assert answer["usage"]["completion_tokens"] == counts
    stream = playing.stream(SEVERAL[3], n=3, return_token_ids=True, **USAGE)
    said = {stream.said(choice).content for choice in range(3)}
    assert said == {"answer 3", "answer 4", "answer 5"}
    ids = [part for choice in range(3) for part in stream.of(choice) if "token_ids" in part]
    assert stream.chunks[-1]["usage"]["completion_tokens"] == len(ids)
    assert [n for n, chunk in enumerate(stream.chunks) if "prompt_token_ids" in chunk] == [0]
