"""Stops through HTTP: strings and tokens, in every place and cut (SS-01 to SS-11, P-01 to P-12)."""

from __future__ import annotations

from typing import Any

import pytest

from tests.http.scripted import CHAT, COMPLETIONS, QUESTION, Theatre
from tests.http.stages import BOTH, HERMES, PLAIN, TEXT

ALPHABET = PLAIN.ways("abc DEFGHIJ and the rest")


@pytest.mark.clause("SS-05", "SS-06", "SS-11")
@pytest.mark.parametrize(
    ("stop", "content"),
    [
        ("DEFGHIJ", "abc "),
        (["DEFGHIJ"], "abc "),
        (["zzz", "FGH"], "abc DE"),
        (["IJ", "FGH"], "abc DE"),
        (["EFGHIJ", "FG"], "abc DE"),
        (["DEFX", "FGHIJ a"], "abc DE"),
        ("a", ""),
        ("t", "abc DEFGHIJ and "),
    ],
)
def test_the_first_stop_to_be_complete_ends_the_answer_p01(
    play: Theatre, stop: Any, content: str
) -> None:
    said = play(PLAIN).alike(ALPHABET, stop=stop)
    assert (said.content, said.finish) == (content, "stop")


UNMATCHED = PLAIN.ways("abc DEF")
LIMITED = PLAIN.ways("abc DEF", end="length")


@pytest.mark.clause("SS-07")
def test_an_unmatched_beginning_is_shown_at_the_end(play: Theatre) -> None:
    playing = play(PLAIN)
    assert playing.alike(UNMATCHED, stop="DEFGHIJ").content == "abc DEF"
    limited = playing.alike(LIMITED, stop="DEFGHIJ")
    assert (limited.content, limited.finish) == ("abc DEF", "length")


PICTURES = PLAIN.ways("ab🎈cd한글ef")


@pytest.mark.clause("SS-06")
@pytest.mark.parametrize(("stop", "content"), [("🎈", "ab"), ("글", "ab🎈cd한"), ("d한", "ab🎈c")])
def test_stops_are_found_across_split_characters(play: Theatre, stop: str, content: str) -> None:
    assert play(PLAIN).alike(PICTURES, stop=stop).content == content


def test_split_characters_come_whole_and_the_stream_goes_on_p07_p09(play: Theatre) -> None:
    playing = play(PLAIN)
    assert playing.alike(PICTURES).content == "ab🎈cd한글ef"
    for pair in PICTURES:
        parts = playing.stream(pair).of(0)
        assert not any("\ufffd" in (part["delta"].get("content") or "") for part in parts)


THOUGHT = {
    stage.name: (stage, stage.ways("<think>\nhm STOP more\n</think>\n\nok"))
    for stage in (HERMES, TEXT)
}


@pytest.mark.clause("SS-04")
@pytest.mark.parametrize("name", THOUGHT)
@pytest.mark.parametrize(
    ("stop", "reasoning"), [("STOP", "hm "), ("m ST", "h"), ("</think>", "hm STOP more")]
)
def test_a_stop_counts_in_reasoning_and_in_its_markers_p04(
    play: Theatre, name: str, stop: str, reasoning: str
) -> None:
    stage, ways = THOUGHT[name]
    said = play(stage).alike(ways, stop=stop)
    assert (said.reasoning.rstrip("\n"), said.content, said.finish) == (reasoning, "", "stop")


CALL = '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Paris"}}\n</tool_call>'
CALLED = HERMES.ways(f"ok\n{CALL}\nThat STOP was it")


@pytest.mark.clause("SS-04", "SS-11")
def test_a_stop_counts_in_calls_and_behind_them(play: Theatre) -> None:
    playing = play(HERMES)
    before = playing.alike(CALLED, tools=BOTH, stop="<tool_call>")
    assert (before.content.rstrip("\n"), before.calls) == ("ok", ())
    inside = playing.alike(CALLED, tools=BOTH, stop="aris")
    assert inside.calls[0].arguments == '{"city": "P'
    behind = playing.alike(CALLED, tools=BOTH, stop="STOP")
    assert behind.calls[0].arguments == '{"city": "Paris"}'
    assert {before.finish, inside.finish, behind.finish} == {"stop"}


WHOLE = PLAIN.ways("the weather in Paris is fine")


@pytest.mark.clause("SS-10")
def test_the_token_that_crosses_a_stop_counts_and_is_observed_p05(play: Theatre) -> None:
    playing = play(PLAIN)
    (ids,) = [playing.tokenizer.encode("the weather in Paris is fine").ids]
    texts = [playing.tokenizer.decode(ids[: n + 1]) for n in range(len(ids))]
    crossing = next(n for n, text in enumerate(texts) if "ather" in text) + 1
    for pair in WHOLE[:3]:
        answer = playing.ask(pair, stop="ather", return_token_ids=True).json()
        assert answer["choices"][0]["token_ids"] == ids[:crossing]
        assert answer["choices"][0]["message"]["content"] == "the we"
        assert answer["usage"]["completion_tokens"] == crossing


@pytest.mark.clause("TO-21", "TO-23", "TO-05")
def test_a_stop_token_is_observed_and_not_shown(play: Theatre) -> None:
    playing = play(PLAIN)
    ids = playing.tokenizer.encode("the weather in Paris is fine").ids
    shown = playing.tokenizer.decode(ids[:3])
    for changes in (
        {"stop_token_ids": [ids[3]]},
        {"stop_token_sequences": [ids[3:6]]},
        {"stop_token_sequences": [[ids[3], 0], ids[3:5], ids[3:9]]},
    ):
        said = playing.alike(WHOLE[:3], **changes)
        assert (said.content, said.finish) == (shown, "stop")
        seen = playing.ask(WHOLE[0], return_token_ids=True, **changes).json()
        taken = len((changes.get("stop_token_sequences") or [[0]])[-1]) if len(changes) else 0
        found = seen["choices"][0]["token_ids"]
        assert found == ids[: len(found)]
        assert 3 < len(found) <= 3 + max(taken, 3)
        assert seen["usage"]["completion_tokens"] == len(found)


def test_a_pending_stop_sequence_is_shown_at_the_end(play: Theatre) -> None:
    playing = play(PLAIN)
    ids = playing.tokenizer.encode("abc DEF").ids
    for pairs in (UNMATCHED, LIMITED):
        said = playing.alike(pairs[:3], stop_token_sequences=[[*ids[-2:], 7, 7]])
        assert said.content == "abc DEF"


SCHEMA = {"type": "json_schema", "json_schema": {"name": "x", "schema": {"type": "object"}}}
REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"stop": ""}, "stop"),
    ({"stop": ["a", "b", "c", "d", "e"]}, "stop"),
    ({"stop": ["a", ""]}, "stop[1]"),
    ({"stop": "x" * 4097}, "stop"),
    ({"stop": ["é" * 1025, "é" * 1024]}, "stop"),
    ({"stop": 7}, "stop"),
    ({"stop": [7]}, "stop[0]"),
    ({"stop": {"a": 1}}, "stop"),
    ({"stop": "a", "stop_token_ids": [1]}, "stop_token_ids"),
    ({"stop": "a", "stop_token_sequences": [[1]]}, "stop_token_sequences"),
    ({"stop": "a", "response_format": SCHEMA}, "stop"),
    ({"stop": "a", "structured_outputs": {"regex": "a+"}}, "stop"),
    ({"stop_token_ids": 1}, "stop_token_ids"),
    ({"stop_token_ids": [-1]}, "stop_token_ids[0]"),
    ({"stop_token_ids": [10**6]}, "stop_token_ids[0]"),
    ({"stop_token_ids": [True]}, "stop_token_ids[0]"),
    ({"stop_token_sequences": [[]]}, "stop_token_sequences[0]"),
    ({"stop_token_sequences": [[1]] * 17}, "stop_token_sequences"),
    ({"stop_token_sequences": [[1] * 65]}, "stop_token_sequences[0]"),
]


@pytest.mark.clause("SS-01", "SS-03", "TO-22")
@pytest.mark.parametrize(("changes", "field"), REFUSED, ids=[str(case[0])[:30] for case in REFUSED])
def test_stops_that_cannot_be_are_refused_p06(
    play: Theatre, changes: dict[str, Any], field: str
) -> None:
    for path, body in ((CHAT, {"messages": QUESTION}), (COMPLETIONS, {"prompt": "a"})):
        answer = play(PLAIN).post(path, **body, **changes)
        assert answer.status_code == 400
        assert answer.json()["error"]["param"] == field


LARGEST = PLAIN.pair("abc DEF")


@pytest.mark.clause("SS-01", "SS-02")
@pytest.mark.parametrize(
    "changes",
    [
        {"stop": None},
        {"stop": []},
        {"stop": ["x" * 1024] * 4},
        {"stop": ["é" * 512, "y" * 1024, "z" * 1024, "w" * 1024]},
        {"stop": [], "stop_token_ids": [9]},
        {"stop_token_ids": None, "stop_token_sequences": []},
        {"stop_token_sequences": [[n] * 64 for n in range(240, 256)]},
    ],
    ids=lambda changes: str(changes)[:24],
)
def test_stops_that_may_be_change_nothing_where_they_do_not_match(
    play: Theatre, changes: dict[str, Any]
) -> None:
    assert play(PLAIN).both(LARGEST, **changes).content == "abc DEF"


@pytest.mark.parametrize("stop", ["DEF", "bc"])
def test_completions_stop_alike_p12(play: Theatre, stop: str) -> None:
    playing = play(PLAIN)
    for pair in ALPHABET:
        playing.seek(pair)
        answer = playing.post(COMPLETIONS, prompt="a", max_tokens=64, stop=stop).json()
        (choice,) = answer["choices"]
        assert choice["text"] == "abc DEFGHIJ and the rest".partition(stop)[0]
        assert choice["finish_reason"] == "stop"
