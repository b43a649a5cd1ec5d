"""Calls that other servers get wrong, through HTTP: the cases T-01 to T-28 and F-01 to F-04."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.http.answers import Call
from tests.http.scripted import CHAT, QUESTION, Theatre
from tests.http.stages import (
    ATEM,
    BOTH,
    CODER,
    DSML,
    GLM,
    HERMES,
    KIMI_K2,
    KIMI_K3,
    TEXT,
    TIME,
    WEATHER,
    tool,
)

OPEN = "<tool_call>\n<function=get_weather>\n<parameter=city>\n"
CLOSE = "\n</parameter>\n</function>\n</tool_call>"
LONG = "word and </b> " * 90
NOTHING = Call(name="get_time", arguments="{}")


def weather(city: str) -> Call:
    """A call about a city."""
    return Call(name="get_weather", arguments=json.dumps({"city": city}, ensure_ascii=False))


ZERO_GLM = GLM.ways("<tool_call>get_time</tool_call>")
ZERO_CODER = CODER.ways("<tool_call>\n<function=get_time>\n</function>\n</tool_call>")
ZERO_HERMES = HERMES.ways('<tool_call>\n{"name": "get_time", "arguments": {}}\n</tool_call>')


@pytest.mark.parametrize(
    ("stage", "ways"),
    [(GLM, ZERO_GLM), (CODER, ZERO_CODER), (HERMES, ZERO_HERMES)],
    ids=["glm", "coder", "hermes"],
)
def test_a_call_without_arguments_has_an_empty_object_t01(
    play: Theatre, stage: Any, ways: tuple[int, ...]
) -> None:
    said = play(stage).alike(ways, tools=BOTH)
    assert said.calls == (NOTHING,)
    assert (said.content, said.finish) == ("", "tool_calls")


CUT_GLM = [GLM.pair("<tool_call>get"[:end], end="length") for end in range(11, 15)]


@pytest.mark.parametrize("pair", CUT_GLM)
def test_the_beginning_of_a_call_is_never_shown_t01(play: Theatre, pair: int) -> None:
    said = play(GLM).both(pair, tools=BOTH)
    assert (said.content, said.calls, said.finish) == ("", (), "length")


TOGETHER = CODER.pair(OPEN + "Paris" + CLOSE, group=64)


def test_a_call_that_comes_at_once_is_whole_t03_t04(play: Theatre) -> None:
    assert play(CODER).both(TOGETHER, tools=BOTH).calls == (weather("Paris"),)


LONG_CODER = CODER.pair(OPEN + LONG + CLOSE, group=8, delay_ms=0.2)
LONG_GLM = GLM.pair(
    f"<tool_call>get_weather<arg_key>city</arg_key><arg_value>{LONG}</arg_value></tool_call>",
    group=8,
    delay_ms=0.2,
)


@pytest.mark.parametrize(
    ("stage", "pair"), [(CODER, LONG_CODER), (GLM, LONG_GLM)], ids=["coder", "glm"]
)
def test_a_long_string_streams_in_many_deltas_t05(play: Theatre, stage: Any, pair: int) -> None:
    playing = play(stage)
    assert playing.both(pair, tools=BOTH).calls == (weather(LONG),)
    chunks = playing.stream(pair, tools=BOTH).of(0)
    deltas = [part["delta"]["tool_calls"] for part in chunks if "tool_calls" in part["delta"]]
    assert len(deltas) > 20


CLOSERS = [
    "a</parameter>b",
    "a</parameter>\n and </tool_call> and <parameter=x> too",
    "a</function>b",
    "<tool_call>",
]
CLOSER_WAYS = [(value, CODER.ways(OPEN + value + CLOSE)) for value in CLOSERS]


@pytest.mark.parametrize(("value", "ways"), CLOSER_WAYS, ids=CLOSERS)
def test_closers_inside_a_value_are_data_t06(
    play: Theatre, value: str, ways: tuple[int, ...]
) -> None:
    said = play(CODER).alike(ways, tools=BOTH)
    assert said.calls == (weather(value),)
    assert said.content == ""


TYPED = CODER.ways(
    "<tool_call>\n<function=scrape>\n<parameter=formats>\n"
    '["markdown"]\n</parameter>\n<parameter=main>\nTrue\n</parameter>\n</function>\n</tool_call>'
)
SCRAPE = tool("scrape", formats={"type": "array"}, main={"type": "boolean"})


def test_values_have_the_types_of_their_schemas_t08(play: Theatre) -> None:
    (call,) = play(CODER).alike(TYPED, tools=[SCRAPE]).calls
    assert json.loads(call.arguments) == {"formats": ["markdown"], "main": True}


DOUBLED = CODER.ways(
    OPEN + "Paris\n</parameter>\n</parameter>\n</function>\n</tool_call>\nAnd then?"
)


def test_doubled_closers_and_text_behind_a_call_lose_nothing_t09_t10(play: Theatre) -> None:
    said = play(CODER).alike(DOUBLED, tools=[tool("get_weather", city={}, must={})])
    assert said.calls == (weather("Paris"),)
    assert "And then?" in said.content
    assert said.finish == "tool_calls"


PARALLEL = HERMES.ways(
    '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Paris"}}\n</tool_call>\n'
    '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Oslo"}}\n</tool_call>'
)


def test_parallel_calls_have_indices_and_ids_of_their_own_t12(play: Theatre) -> None:
    said = play(HERMES).alike(PARALLEL, tools=BOTH)
    assert said.calls == (weather("Paris"), weather("Oslo"))
    assert len(set(said.ids)) == 2


def test_one_call_is_enough_where_calls_may_not_be_parallel(play: Theatre) -> None:
    said = play(HERMES).alike(PARALLEL[:3], tools=BOTH, parallel_tool_calls=False)
    assert said.calls == (weather("Paris"),)
    assert said.finish == "tool_calls"


NATIVE = {
    "coder": (CODER, CODER.ways(OPEN + "Paris" + CLOSE)),
    "glm": (
        GLM,
        GLM.ways(
            "<tool_call>get_weather<arg_key>city</arg_key><arg_value>Paris</arg_value></tool_call>"
        ),
    ),
    "hermes": (
        HERMES,
        HERMES.ways(
            '<tool_call>\n{"name":"get_weather","arguments":{"city":"Paris"}}\n</tool_call>'
        ),
    ),
}
NAMED = {"type": "function", "function": {"name": "get_weather"}}


@pytest.mark.parametrize("choice", ["required", NAMED], ids=["required", "named"])
@pytest.mark.parametrize("name", NATIVE)
def test_a_demanded_call_has_its_own_form_t13_f04(play: Theatre, name: str, choice: object) -> None:
    stage, ways = NATIVE[name]
    said = play(stage).alike(ways, tools=BOTH, tool_choice=choice)
    assert said.calls == (weather("Paris"),)
    assert said.finish == "tool_calls"


STRAY = DSML.ways(
    "ok<｜begin▁of▁sentence｜>\n\n<｜DSML｜tool_calls>\n"  # noqa: RUF001
    '<｜DSML｜invoke name="get_weather">\n<｜DSML｜parameter name="city" string="true">Paris'  # noqa: RUF001
    "</｜DSML｜parameter>\n</｜DSML｜invoke>\n</｜DSML｜tool_calls>"  # noqa: RUF001
)


def test_a_stray_control_token_and_a_cut_opener_leave_no_trace_t15_t16(play: Theatre) -> None:
    said = play(DSML).alike(STRAY, tools=BOTH)
    assert said.content == "ok"
    assert said.calls == (weather("Paris"),)


CLOSED = KIMI_K3.ways("<|close|>think<|sep|><|open|>response<|sep|>Hello<|close|>message<|sep|>")


def test_closing_the_message_is_no_content_t18_t19(play: Theatre) -> None:
    said = play(KIMI_K3).alike(CLOSED, tools=BOTH)
    assert (said.content, said.calls, said.finish) == ("Hello", (), "stop")


BLOCK = "<atem:function_calls>"
FRAGMENTS = [ATEM.pair(f" to=get_time<|message|>{BLOCK[:end]}") for end in range(1, len(BLOCK), 4)]
QUOTED = ATEM.ways(f" to=user<|message|>so {BLOCK[:9]}")


@pytest.mark.parametrize("pair", FRAGMENTS)
def test_a_fragment_in_a_tool_frame_is_dropped_t20(play: Theatre, pair: int) -> None:
    said = play(ATEM).both(pair, tools=BOTH)
    assert (said.content, said.reasoning, said.calls) == ("", "", ())


def test_the_same_fragment_is_content_in_the_answer_t20(play: Theatre) -> None:
    assert play(ATEM).alike(QUOTED, tools=BOTH).content == f"so {BLOCK[:9]}"


FIRST = ATEM.ways(
    " to=get_time<|message|><atem:function_calls>\n"
    '<atem:invoke name="get_time">\n</atem:invoke>\n</atem:function_calls>'
)


def test_a_tool_frame_may_come_first_t23(play: Theatre) -> None:
    said = play(ATEM).alike(FIRST, tools=BOTH)
    assert (said.calls, said.finish) == ((NOTHING,), "tool_calls")


NO_CALL = HERMES.pair("I would rather not.")


def test_a_demanded_call_that_does_not_come_is_an_error_t25(play: Theatre) -> None:
    answer = play(HERMES).ask(NO_CALL, tools=BOTH, tool_choice="required")
    assert answer.status_code == 500  # the grammar forbids it: a real device cannot say it
    assert play(HERMES).both(NO_CALL, tools=BOTH).finish == "stop"


SPOILT = HERMES.ways(
    '<tool_call>\n{"name": "get_weather", "arguments": {"city": oops}}\n</tool_call>'
)
UNCLOSED = CODER.ways("<tool_call>\n<function=get_weather>\n<parameter=city>\nPar")


@pytest.mark.parametrize(
    ("stage", "ways"), [(HERMES, SPOILT), (CODER, UNCLOSED)], ids=["spoilt", "unclosed"]
)
def test_a_call_that_is_no_json_is_never_a_finished_one_t27(
    play: Theatre, stage: Any, ways: tuple[int, ...]
) -> None:
    said = play(stage).alike(ways, tools=BOTH)
    assert said.finish == "length"
    assert said.calls[0].arguments.startswith('{"city": ')


CUT = CODER.ways(OPEN + "Paris\n</parameter>\n", end="length")


def test_a_call_cut_behind_a_value_keeps_the_value_t28_f01(play: Theatre) -> None:
    said = play(CODER).alike(CUT, tools=BOTH)
    assert said.finish == "length"
    assert said.calls[0].arguments in ('{"city": "Paris"', '{"city": "Paris')
    assert said.content == ""


LIMITED = {
    "coder": (CODER, CODER.ways(OPEN + "Paris and Oslo" + CLOSE)),
    "hermes": (
        HERMES,
        HERMES.ways(
            '<tool_call>\n{"name":"get_weather","arguments":{"city":"Paris"}}\n</tool_call>'
        ),
    ),
    "text": (
        TEXT,
        TEXT.ways('<tool_call>\n{"name":"get_weather","arguments":{"city":"Paris"}}\n</tool_call>'),
    ),
}


@pytest.mark.parametrize("limit", [1, 4, 9, 14, 18])
@pytest.mark.parametrize("name", LIMITED)
def test_a_limit_inside_a_call_is_told_as_length_f01(play: Theatre, name: str, limit: int) -> None:
    stage, ways = LIMITED[name]
    for pair in ways[::2]:
        said = play(stage).both(pair, tools=BOTH, max_tokens=limit)
        assert said.finish == "length"
        assert said.content == ""
        for call in said.calls:
            assert call.name == "get_weather"
            assert '{"city": "Paris and Oslo"}'.startswith(call.arguments.rstrip('"}'))


PLAIN_END = HERMES.ways("It is fine.")


def test_an_end_is_told_once_and_by_the_last_chunk_f03(play: Theatre) -> None:
    said = play(HERMES).alike(PLAIN_END, tools=BOTH)
    assert (said.content, said.finish) == ("It is fine.", "stop")


KIMI = KIMI_K2.ways(
    "<|tool_calls_section_begin|><|tool_call_begin|>functions.get_weather:3"
    '<|tool_call_argument_begin|>{"city":"Oslo"}<|tool_call_end|><|tool_calls_section_end|>'
)


def test_an_id_that_the_model_writes_comes_back_as_it_is_c04(play: Theatre) -> None:
    playing = play(KIMI_K2)
    said = playing.alike(KIMI, tools=BOTH)
    assert said.ids == ("functions.get_weather:3",)
    call = {"id": said.ids[0], "type": "function", "function": vars_of(said.calls[0])}
    history = [
        *QUESTION,
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": said.ids[0], "content": "fine"},
    ]
    answer = playing.ask(KIMI[0], messages=history, tools=BOTH, return_token_ids=True).json()
    prompt = playing.tokenizer.decode(answer["prompt_token_ids"], skip_special_tokens=False)
    assert "[functions.get_weather:3=get_weather:" in prompt


def vars_of(call: Call) -> dict[str, str]:
    """A call as history has it."""
    return {"name": call.name, "arguments": call.arguments}


NO_TOOLS = HERMES.ways('<tool_call>\n{"name":"get_time","arguments":{}}\n</tool_call>')


def test_markup_without_tools_is_content(play: Theatre) -> None:
    playing = play(HERMES)
    for changes in ({}, {"tools": [TIME, WEATHER], "tool_choice": "none"}):
        said = playing.alike(NO_TOOLS[:2], **changes)
        assert said.content == '<tool_call>\n{"name":"get_time","arguments":{}}\n</tool_call>'
        assert (said.calls, said.finish) == ((), "stop")


def test_an_unknown_path_of_a_tool_is_a_sentence(play: Theatre) -> None:
    answer = play(HERMES).post(CHAT, messages=QUESTION, tools=[{"type": "function"}])
    assert answer.status_code == 400
    assert answer.json()["error"]["param"].startswith("tools[0]")
