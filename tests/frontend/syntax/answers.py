"""Answers of every public syntax, written out, and what they mean."""

from __future__ import annotations

from typing import NamedTuple

from helios.frontend.syntax.events import (
    Arguments,
    CallClosed,
    CallOpened,
    Content,
    Event,
    Reasoning,
)


class Answer(NamedTuple):
    """One answer as its tokens spell it."""

    tools: str
    reasoning: str
    added: tuple[str, ...]
    special: tuple[str, ...]
    ends: tuple[str, ...]
    text: str
    events: tuple[Event, ...]


ANSWERS: tuple[Answer, ...] = (
    Answer(
        "qwen_coder",
        "think",
        ("<tool_call>", "</tool_call>", "<think>", "</think>"),
        (),
        (),
        (
            "<think>\n"
            "hmm\n"
            "</think>\n"
            "\n"
            "Hi.\n"
            "<tool_call>\n"
            "<function=get_weather>\n"
            "<parameter=city>\n"
            "Pa</parameter> and </tool_call> and <parameter=x> ris\n"
            "</parameter>\n"
            "<parameter=days>\n"
            "3\n"
            "</parameter>\n"
            "</function>\n"
            "</tool_call>\n"
            "<tool_call>\n"
            "<function=get_time>\n"
            "</function>\n"
            "</tool_call>\n"
            "bye"
        ),
        (
            Reasoning(text="hmm"),
            Content(text="Hi."),
            CallOpened(index=0, name="get_weather"),
            Arguments(
                index=0,
                text='{"city": "Pa</parameter> and </tool_call> and <parameter=x> ris", "days": 3}',
            ),
            CallClosed(index=0),
            CallOpened(index=1, name="get_time"),
            Arguments(index=1, text="{}"),
            CallClosed(index=1),
            Content(text="\nbye"),
        ),
    ),
    Answer(
        "qwen_coder",
        "none",
        (),
        (),
        (),
        (
            "Hi.\n"
            "<tool_call>\n"
            "<function=get_weather>\n"
            "<parameter=city>\n"
            "Pa</parameter> and </tool_call> and <parameter=x> ris\n"
            "</parameter>\n"
            "<parameter=days>\n"
            "3\n"
            "</parameter>\n"
            "</function>\n"
            "</tool_call>\n"
            "<tool_call>\n"
            "<function=get_time>\n"
            "</function>\n"
            "</tool_call>\n"
            "bye"
        ),
        (
            Content(text="Hi."),
            CallOpened(index=0, name="get_weather"),
            Arguments(
                index=0,
                text='{"city": "Pa</parameter> and </tool_call> and <parameter=x> ris", "days": 3}',
            ),
            CallClosed(index=0),
            CallOpened(index=1, name="get_time"),
            Arguments(index=1, text="{}"),
            CallClosed(index=1),
            Content(text="\nbye"),
        ),
    ),
    Answer(
        "glm",
        "think",
        (
            "<tool_call>",
            "</tool_call>",
            "<think>",
            "</think>",
            "<arg_key>",
            "</arg_key>",
            "<arg_value>",
            "</arg_value>",
        ),
        (),
        (),
        (
            "<think>a<tool_call>get_time</tool_call>\n"
            "<tool_call>get_weather\n"
            "<arg_key>city</arg_key>\n"
            "<arg_value>Pa</arg_value>ris</arg_value>\n"
            "<arg_key>days</arg_key><arg_value>3</arg_value></tool_call>"
        ),
        (
            Reasoning(text="a"),
            CallOpened(index=0, name="get_time"),
            Arguments(index=0, text="{}"),
            CallClosed(index=0),
            CallOpened(index=1, name="get_weather"),
            Arguments(index=1, text='{"city": "Pa</arg_value>ris", "days": 3}'),
            CallClosed(index=1),
        ),
    ),
    Answer(
        "dsml",
        "think",
        ("｜DSML｜", "<think>", "</think>"),
        ("<bos>",),
        (),
        (
            "<think>a</think>ok<bos>\n"
            "\n"
            "<｜DSML｜tool_calls>\n"
            '<｜DSML｜invoke name="get_weather">\n'
            '<｜DSML｜parameter name="city" string="true">Paris</｜DSML｜parameter>\n'
            '<｜DSML｜parameter name="days" string="false">3</｜DSML｜parameter>\n'
            "</｜DSML｜invoke>\n"
            "</｜DSML｜tool_calls>"
        ),
        (
            Reasoning(text="a"),
            Content(text="ok"),
            CallOpened(index=0, name="get_weather"),
            Arguments(index=0, text='{"city": "Paris", "days": 3}'),
            CallClosed(index=0),
        ),
    ),
    Answer(
        "dsml_v41",
        "none",
        ("｜DSML｜",),
        (),
        (),
        (
            "<｜DSML｜ calls>\n"
            '<｜DSML｜ invoke name="get_weather">\n'
            '<｜DSML｜ parameter name="city" string="true">Paris\n'
            '<｜DSML｜ parameter name="days" string="false">3</｜DSML｜ parameter>\n'
            "</｜DSML｜ invoke>\n"
            "</｜DSML｜ calls>"
        ),
        (
            CallOpened(index=0, name="get_weather"),
            Arguments(index=0, text='{"city": "Paris", "days": 3}'),
            CallClosed(index=0),
        ),
    ),
    Answer(
        "xtml",
        "xtml",
        (),
        ("<|open|>", "<|close|>", "<|sep|>"),
        ("<|end_of_msg|>",),
        (
            "<|open|>think<|sep|>hm<|close|>think<|sep|><|open|>response<|sep|>Hello<|close|>"
            'response<|sep|><|open|>tools<|sep|><|open|>call tool="get_weather" index="1"<|se'
            'p|><|open|>argument key="city" type="string"<|sep|> P &amp;<|close|>argument<|se'
            'p|><|open|>argument key="days" type="number"<|sep|>3<|close|>argument<|sep|><|cl'
            'ose|>call<|sep|><|open|>call tool="get_time" index="2"<|sep|><|open|>json type="'
            'object"<|sep|>{"a": 1}<|close|>json<|sep|><|close|>call<|sep|><|close|>tools<|se'
            "p|><|close|>message<|sep|>"
        ),
        (
            Reasoning(text="hm"),
            Content(text="Hello"),
            CallOpened(index=0, name="get_weather"),
            Arguments(index=0, text='{"city": " P &amp;", "days": 3}'),
            CallClosed(index=0),
            CallOpened(index=1, name="get_time"),
            Arguments(index=1, text='{"a": 1}'),
            CallClosed(index=1),
        ),
    ),
    Answer(
        "atem",
        "recipient",
        (),
        ("<|start|>", "<|message|>", "<|eom|>", "<|eot|>"),
        (),
        (
            ' to=self<|message|>hmm <atem:invoke name="get_time"></atem:invoke><|eom|><|start'
            "|>assistant to=user<|message|>Hello<|eom|><|start|>assistant to=get_weather<|mes"
            "sage|><atem:function_calls>\n"
            '<atem:invoke name="get_weather">\n'
            '<atem:parameter name="city"> Paris</atem:parameter>\n'
            "</atem:invoke>\n"
            "</atem:function_calls><|eom|><|start|>assistant to=get_time.get_time<|message|><"
            "atem:function_calls>\n"
            '<atem:invoke name="get_time">\n'
            "</atem:invoke>\n"
            "</atem:function_calls>"
        ),
        (
            Reasoning(text='hmm <atem:invoke name="get_time"></atem:invoke>'),
            Content(text="Hello"),
            CallOpened(index=0, name="get_weather"),
            Arguments(index=0, text='{"city": " Paris"}'),
            CallClosed(index=0),
            CallOpened(index=1, name="get_time"),
            Arguments(index=1, text="{}"),
            CallClosed(index=1),
        ),
    ),
    Answer(
        "harmony",
        "harmony",
        (),
        (
            "<|start|>",
            "<|message|>",
            "<|end|>",
            "<|call|>",
            "<|return|>",
            "<|channel|>",
            "<|constrain|>",
        ),
        (),
        (
            "<|channel|>analysis<|message|>think<|end|><|start|>assistant<|channel|>commentar"
            'y to=functions.get_weather <|constrain|>json<|message|>{"city":"Paris"}<|call|><'
            "|start|>assistant<|channel|>final<|message|>done"
        ),
        (
            Reasoning(text="think"),
            CallOpened(index=0, name="get_weather"),
            Arguments(index=0, text='{"city": "Paris"}'),
            CallClosed(index=0),
            Content(text="done"),
        ),
    ),
    Answer(
        "hermes",
        "think",
        ("<tool_call>", "</tool_call>"),
        (),
        (),
        (
            "x\n"
            "<tool_call>\n"
            '{"name": "get_weather", "arguments": {"city": "a</tool_call>\\u00e9", "l": [1,{"z'
            '":null}]}}\n'
            "</tool_call>\n"
            '<tool_call>{"name":"get_time"}</tool_call>'
        ),
        (
            Content(text="x"),
            CallOpened(index=0, name="get_weather"),
            Arguments(index=0, text='{"city": "a</tool_call>\\u00e9", "l": [1, {"z": null}]}'),
            CallClosed(index=0),
            CallOpened(index=1, name="get_time"),
            Arguments(index=1, text="{}"),
            CallClosed(index=1),
        ),
    ),
    Answer(
        "llama3_json",
        "none",
        (),
        ("<|python_tag|>",),
        (),
        (
            '<|python_tag|>{"name": "get_weather", "parameters": {"city": "x"}}; {"name": "ge'
            't_time", "parameters": {}}'
        ),
        (
            CallOpened(index=0, name="get_weather"),
            Arguments(index=0, text='{"city": "x"}'),
            CallClosed(index=0),
            CallOpened(index=1, name="get_time"),
            Arguments(index=1, text="{}"),
            CallClosed(index=1),
        ),
    ),
    Answer(
        "llama3_tags",
        "none",
        (),
        (),
        (),
        ('<function=get_weather>{"city":"x"}</function>'),
        (
            CallOpened(index=0, name="get_weather"),
            Arguments(index=0, text='{"city": "x"}'),
            CallClosed(index=0),
        ),
    ),
    Answer(
        "mistral",
        "mistral",
        (),
        ("[TOOL_CALLS]", "[ARGS]", "[THINK]", "[/THINK]"),
        (),
        ('[THINK]a[/THINK]b[TOOL_CALLS]get_weather[ARGS]{"city":"x"}[TOOL_CALLS]get_time[ARGS]{}'),
        (
            Reasoning(text="a"),
            Content(text="b"),
            CallOpened(index=0, name="get_weather"),
            Arguments(index=0, text='{"city": "x"}'),
            CallClosed(index=0),
            CallOpened(index=1, name="get_time"),
            Arguments(index=1, text="{}"),
            CallClosed(index=1),
        ),
    ),
    Answer(
        "mistral_list",
        "none",
        (),
        ("[TOOL_CALLS]",),
        (),
        (
            '[TOOL_CALLS] [{"name":"get_weather","arguments":{"city":"x"}},{"arguments":{"cit'
            'y":"y"},"name":"get_weather"}]'
        ),
        (
            CallOpened(index=0, name="get_weather"),
            Arguments(index=0, text='{"city": "x"}'),
            CallClosed(index=0),
            CallOpened(index=1, name="get_weather"),
            Arguments(index=1, text='{"city": "y"}'),
            CallClosed(index=1),
        ),
    ),
    Answer(
        "phi_functools",
        "none",
        (),
        (),
        (),
        ('functools[{"name":"get_weather","arguments":{"city":"x"}}]'),
        (
            CallOpened(index=0, name="get_weather"),
            Arguments(index=0, text='{"city": "x"}'),
            CallClosed(index=0),
        ),
    ),
    Answer(
        "command",
        "command",
        (),
        ("<|START_ACTION|>", "<|END_ACTION|>"),
        (),
        (
            '<|START_ACTION|>[{"tool_call_id":"0","tool_name":"get_time","parameters":{}},\n'
            '{"tool_call_id":"1","tool_name":"get_weather","parameters":{"city":"z"}}]<|END_A'
            "CTION|>"
        ),
        (
            CallOpened(index=0, name="get_time"),
            Arguments(index=0, text="{}"),
            CallClosed(index=0),
            CallOpened(index=1, name="get_weather"),
            Arguments(index=1, text='{"city": "z"}'),
            CallClosed(index=1),
        ),
    ),
    Answer(
        "kimi_k2",
        "none",
        (),
        (
            "<|tool_calls_section_begin|>",
            "<|tool_call_begin|>",
            "<|tool_call_argument_begin|>",
            "<|tool_call_end|>",
            "<|tool_calls_section_end|>",
        ),
        (),
        (
            "ok<|tool_calls_section_begin|><|tool_call_begin|>functions.get_weather:0<|tool_c"
            'all_argument_begin|>{"city":"x"}<|tool_call_end|><|tool_call_begin|>functions.ge'
            "t_time:1<|tool_call_argument_begin|>{}<|tool_call_end|><|tool_calls_section_end|"
            ">"
        ),
        (
            Content(text="ok"),
            CallOpened(index=0, name="get_weather", call_id="functions.get_weather:0"),
            Arguments(index=0, text='{"city": "x"}'),
            CallClosed(index=0),
            CallOpened(index=1, name="get_time", call_id="functions.get_time:1"),
            Arguments(index=1, text="{}"),
            CallClosed(index=1),
        ),
    ),
    Answer(
        "deepseek_v3",
        "think",
        (
            "<｜tool▁calls▁begin｜>",
            "<｜tool▁call▁begin｜>",
            "<｜tool▁sep｜>",
            "<｜tool▁call▁end｜>",
            "<｜tool▁calls▁end｜>",
        ),
        (),
        (),
        (
            "x<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>get_weather\n"
            "```json\n"
            '{"city":"x"}\n'
            "```<｜tool▁call▁end｜>\n"
            "<｜tool▁call▁begin｜>function<｜tool▁sep｜>get_time\n"
            "```json\n"
            "{}\n"
            "```<｜tool▁call▁end｜><｜tool▁calls▁end｜>"
        ),
        (
            Content(text="x"),
            CallOpened(index=0, name="get_weather"),
            Arguments(index=0, text='{"city": "x"}'),
            CallClosed(index=0),
            CallOpened(index=1, name="get_time"),
            Arguments(index=1, text="{}"),
            CallClosed(index=1),
        ),
    ),
    Answer(
        "deepseek_v31",
        "think",
        ("<｜tool▁calls▁begin｜>",),
        (),
        (),
        (
            'x<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>get_weather<｜tool▁sep｜>{"city":"x"}<｜too'
            "l▁call▁end｜><｜tool▁calls▁end｜>"
        ),
        (
            Content(text="x"),
            CallOpened(index=0, name="get_weather"),
            Arguments(index=0, text='{"city": "x"}'),
            CallClosed(index=0),
        ),
    ),
    Answer(
        "minimax",
        "think",
        (),
        (),
        (),
        (
            "x\n"
            "<minimax:tool_call>\n"
            '<invoke name="get_weather">\n'
            '<parameter name="city">Paris</parameter>\n'
            '<parameter name="days">2</parameter>\n'
            "</invoke>\n"
            "</minimax:tool_call>"
        ),
        (
            Content(text="x"),
            CallOpened(index=0, name="get_weather"),
            Arguments(index=0, text='{"city": "Paris", "days": 2}'),
            CallClosed(index=0),
        ),
    ),
    Answer(
        "gemma",
        "gemma",
        (),
        ("<|tool_call>", "<tool_call|>", '<|"|>', "<|channel>", "<channel|>"),
        (),
        (
            "<|channel>thought\n"
            "hm\n"
            '<channel|>ok<|tool_call>call:get_weather{city:<|"|>Pa"r{is<|"|>,days:3}<tool_cal'
            "l|><|tool_call>call:get_time{}<tool_call|>"
        ),
        (
            Reasoning(text="hm"),
            Content(text="ok"),
            CallOpened(index=0, name="get_weather"),
            Arguments(index=0, text='{"city": "Pa\\"r{is", "days": 3}'),
            CallClosed(index=0),
            CallOpened(index=1, name="get_time"),
            Arguments(index=1, text="{}"),
            CallClosed(index=1),
        ),
    ),
    Answer(
        "pythonic",
        "none",
        (),
        (),
        (),
        ('[get_weather(city="Pa\'r", days=3), get_time()]'),
        (
            CallOpened(index=0, name="get_weather"),
            Arguments(index=0, text='{"city": "Pa\'r", "days": 3}'),
            CallClosed(index=0),
            CallOpened(index=1, name="get_time"),
            Arguments(index=1, text="{}"),
            CallClosed(index=1),
        ),
    ),
    Answer(
        "lfm2",
        "none",
        (),
        ("<|tool_call_start|>", "<|tool_call_end|>"),
        (),
        ('<|tool_call_start|>[get_weather(city="x", o={"a": None})]<|tool_call_end|>ok'),
        (
            CallOpened(index=0, name="get_weather"),
            Arguments(index=0, text='{"city": "x", "o": {"a": null}}'),
            CallClosed(index=0),
            Content(text="ok"),
        ),
    ),
)
"""The events were read and judged by hand; the text is as the publishers' templates write it."""
