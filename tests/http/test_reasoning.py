"""Where reasoning begins and ends, through HTTP: the cases R-01 to R-12 and U-09."""

from __future__ import annotations

from typing import Any

import pytest

from tests.http.scripted import QUESTION, Theatre
from tests.http.stages import ATEM, BOTH, CODER, HERMES, KIMI_K3, TEXT

OPENED = {"chat_template_kwargs": {"enable_thinking": True}}
TWICE = [
    {"text": "<think>\nhm\n</think>\n\none "},
    {"text": "</think>"},
    {"text": "two "},
    {"text": "</think>", "plain": True},
    {"text": " three"},
]
CLOSED_TWICE = [HERMES.pair(segments=TWICE, group=group) for group in (1, 3, 64)]


@pytest.mark.clause("FI-07", "FI-08")
def test_reasoning_ends_once_and_spelled_markers_stay_r01(play: Theatre) -> None:
    said = play(HERMES).alike(CLOSED_TWICE)
    assert (said.reasoning, said.content) == ("hm", "one two </think> three")
    assert said.finish == "stop"


LITERAL = TEXT.ways("<think>\nhm\n</think>\n\nsay <think> and </think> twice")


def test_a_literal_opener_in_the_answer_is_content_r03(play: Theatre) -> None:
    said = play(TEXT).alike(LITERAL)
    assert (said.reasoning, said.content) == ("hm", "say <think> and </think> twice")


GOES_ON = {stage.name: (stage, stage.ways("still\n</think>\n\nyes")) for stage in (HERMES, TEXT)}
EARLIER = [
    *QUESTION,
    {"role": "assistant", "content": "<think>\nx\n</think>\n\nfine", "reasoning": "x"},
    {"role": "user", "content": "</think> really?"},
]


@pytest.mark.clause("FI-10")
@pytest.mark.parametrize("messages", [QUESTION, EARLIER], ids=["first", "later"])
@pytest.mark.parametrize("name", GOES_ON)
def test_a_prompt_that_opens_reasoning_begins_in_it_r05_r06(
    play: Theatre, name: str, messages: Any
) -> None:
    stage, ways = GOES_ON[name]
    said = play(stage).alike(ways[::2], messages=messages, **OPENED)
    assert (said.reasoning, said.content) == ("still", "yes")


CUT = {
    "hermes": (HERMES, HERMES.ways("<think>\nso it is", end="length"), "so it is"),
    "text": (TEXT, TEXT.ways("<think>\nso it is", end="length"), "so it is"),
    "xtml": (KIMI_K3, KIMI_K3.ways("so it is", end="length"), "so it is"),
    "atem": (
        ATEM,
        ATEM.ways(' to=self<|message|>so <atem:invoke name="get_time">', end="length"),
        'so <atem:invoke name="get_time">',
    ),
}


@pytest.mark.parametrize("name", CUT)
def test_reasoning_that_is_cut_is_all_reasoning_r11(play: Theatre, name: str) -> None:
    stage, ways, text = CUT[name]
    playing = play(stage)
    said = playing.alike(ways[::2], tools=BOTH)
    assert (said.reasoning, said.content, said.calls) == (text, "", ())
    assert said.finish == "length"
    assert playing.ask(ways[0]).json()["choices"][0]["message"]["content"] is None


IMPLIED = CODER.ways("<think>\nhm\n<tool_call>\n<function=get_time>\n</function>\n</tool_call>")


@pytest.mark.clause("FI-06")
def test_a_call_ends_reasoning_r12(play: Theatre) -> None:
    said = play(CODER).alike(IMPLIED, tools=BOTH)
    assert said.reasoning == "hm"
    assert [call.name for call in said.calls] == ["get_time"]
    assert said.content == ""


SPELLED = HERMES.pair(segments=[{"text": "<think>\nhm\n</think>\n\nso "}, {"text": "it is ok"}])
QUOTING = HERMES.pair(
    segments=[{"text": "<think>\nhm\n</think>\n\nso "}, {"text": "<think>", "plain": True}]
)


def test_a_literal_marker_counts_as_no_reasoning_u09(play: Theatre) -> None:
    playing = play(HERMES)
    usages = [playing.both(pair).usage for pair in (SPELLED, QUOTING)]
    counts = [usage["completion_tokens_details"]["reasoning_tokens"] for usage in usages if usage]
    assert counts[0] == counts[1] > 0
