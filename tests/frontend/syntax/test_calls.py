"""Calls that other servers get wrong: closers inside values, missing and doubled ones, endings."""

from __future__ import annotations

import pytest

from helios.frontend.syntax.events import Arguments, CallOpened, Content, Reasoning
from helios.frontend.syntax.opening import Opening, Place
from tests.frontend.syntax.bench import TOOLS, Bench, call

THINKING = Opening(place=Place.REASONING)
OPEN = "<tool_call>\n<function=get_weather>\n<parameter=city>\n"
CLOSE = "\n</parameter>\n</function>\n</tool_call>"


@pytest.fixture(scope="module", params=[True, False], ids=["tokens", "text"])
def coder(request: pytest.FixtureRequest) -> Bench:
    marks = ("<tool_call>", "</tool_call>", "<think>", "</think>") if request.param else ()
    return Bench("qwen_coder", "think", added=marks, special=["<|im_start|>"], ends=["<|im_end|>"])


@pytest.mark.parametrize(
    "value",
    [
        "a</parameter>b",
        "a</parameter>\n and </tool_call> and <parameter=x> too",
        "a\n<parameter=x>\nb",
        "a</function>b",
        "</tool_call>",
        "<tool_call>",
        "\n\n",
        "",
        "{}",
        '"quoted" \\ back',
    ],
)
def test_literal_closers_stay_in_the_value(coder: Bench, value: str) -> None:
    assert coder.read(OPEN + value + CLOSE) == call(0, "get_weather", {"city": value})


@pytest.mark.parametrize(
    "text",
    [
        "Paris\n<parameter=days>\n3\n</function>\n</tool_call>",
        "Paris\n</parameter>\n</parameter>\n<parameter=days>\n3\n</parameter></function></tool_call>",
        "Paris</parameter><parameter=days>3</parameter></function></tool_call></tool_call>",
        "Paris\n</parameter>\n<parameter=days>\n3\n</parameter>\n</function>",
        "Paris\n</parameter>\n<parameter=days>\n3\n</parameter>\n",
    ],
)
def test_missing_and_doubled_closers_change_nothing(coder: Bench, text: str) -> None:
    assert coder.read(OPEN + text) == call(0, "get_weather", {"city": "Paris", "days": 3})


def test_a_function_without_its_wrapper_is_a_call(coder: Bench) -> None:
    text = "<function=get_weather>\n<parameter=city>\nParis\n</parameter>\n</function> and more"
    expected = [*call(0, "get_weather", {"city": "Paris"}), Content(" and more")]
    assert coder.read(text) == expected


def test_a_repeated_key_counts_once(coder: Bench) -> None:
    text = (
        OPEN + "Paris\n</parameter>\n<parameter=days>\n3\n</parameter>\n<parameter=days>\n4" + CLOSE
    )
    events = coder.read(text)
    assert isinstance(events[0], CallOpened)


@pytest.mark.parametrize("end", range(1, len("<tool_call>\n<function=get")))
def test_a_cut_opener_is_never_content(coder: Bench, end: int) -> None:
    pieces = coder.characters("ok\n<tool_call>\n<function=get")[: 3 + end]
    assert coder.play(pieces, truncated=True) == [Content("ok")]


def test_a_near_miss_is_content(coder: Bench) -> None:
    text = "ok\n<tool_call>\n<func"
    assert coder.read(text) == [Content(text)]
    assert coder.read("<tool_call> is a tag") == [Content("<tool_call> is a tag")]


def test_a_value_that_never_ends_leaves_the_call_open(coder: Bench) -> None:
    expected = [CallOpened(0, "get_weather"), Arguments(0, '{"city": "Par')]
    assert coder.read(OPEN + "Par") == expected
    assert coder.read(OPEN + "Par\n</para", truncated=True) == expected


@pytest.mark.clause("FI-06")
def test_an_opener_ends_reasoning(coder: Bench) -> None:
    text = "hm\n<tool_call>\n<function=get_time>\n</function>\n</tool_call>"
    assert coder.read(text, opened=THINKING) == [Reasoning("hm"), *call(0, "get_time", "{}")]


@pytest.mark.clause("FI-09")
def test_a_document_keeps_its_delimiters(coder: Bench) -> None:
    document = '{"a": "' + OPEN + "x" + CLOSE + ' <think></think>"}'
    events = coder.read("hm</think>" + document, opened=THINKING, opaque=True)
    assert events == [Reasoning("hm"), Content(document)]


def test_names_without_a_registered_tool_call_only_between_markers() -> None:
    assert Bench("llama3_json").read('{"name": "Bob", "parameters": {}}') == [
        Content('{"name": "Bob", "parameters": {}}')
    ]
    assert Bench("pythonic").read("[f(x=1)]") == [Content("[f(x=1)]")]
    assert Bench("hermes").read('<tool_call>{"name": "f"}</tool_call>') == call(0, "f", "{}")


def test_spoilt_arguments_never_close() -> None:
    text = (
        '<tool_call>{"name":"f","arguments":{"a":x}}</tool_call><tool_call>{"name":"g"}</tool_call>'
    )
    assert Bench("hermes", added=["<tool_call>", "</tool_call>"]).read(text) == [
        CallOpened(0, "f"),
        Arguments(0, '{"a": '),
        *call(1, "g", "{}"),
    ]


def test_control_tokens_never_reach_content() -> None:
    bench = Bench("dsml", "think", added=["｜DSML｜"], special=["<bos>"])  # noqa: RUF001
    assert bench.read("a<bos>b") == [Content("ab")]


@pytest.mark.parametrize(
    ("schema", "text", "json_text"),
    [
        ({"type": "string"}, "null", '"null"'),
        ({"type": ["string", "null"]}, "null", "null"),
        ({"type": ["string", "null"]}, "nullable", '"nullable"'),
        ({"anyOf": [{"type": "string"}, {"type": "integer"}]}, "007", '"007"'),
        ({"$ref": "#/$defs/count"}, "12", "12"),
        ({"$ref": "#/$defs/loop"}, "12", '"12"'),
        ({"type": "boolean"}, "False", "false"),
        ({"type": "array"}, '["markdown", True]', '["markdown", true]'),
        ({"type": "number"}, "1e999", '"1e999"'),
        ({"type": "number"}, "NaN", '"NaN"'),
        ({"type": "number"}, "3.0", "3.0"),
        ({"type": "integer"}, "1_000", '"1_000"'),
        ({"type": "integer"}, "None", "null"),
        ({"enum": [1, 2]}, "2", "2"),
        ({}, "12", '"12"'),
        (True, "12", '"12"'),
        ({"type": "object"}, '{"a": 1.0}', '{"a": 1.0}'),
    ],
)
def test_the_schema_types_values(schema: object, text: str, json_text: str) -> None:
    definitions = {"count": {"type": "integer"}, "loop": {"$ref": "#/$defs/loop"}}
    tools = {"f": {"$defs": definitions, "properties": {"p": schema}}}
    answer = f"<tool_call>\n<function=f>\n<parameter=p>\n{text}{CLOSE}"
    assert Bench("qwen_coder").read(answer, tools=tools) == call(0, "f", f'{{"p": {json_text}}}')


def test_an_answer_in_json_streams_although_calls_are_json_too() -> None:
    bench = Bench("llama3_json")
    machine = bench.syntax.machine(tools=TOOLS, opened=bench.syntax.opening(()))
    events = [
        event
        for piece in bench.characters('{"items": ["' + "x" * 500)
        for event in machine.feed(piece)
    ]
    assert sum(isinstance(event, Content) for event in events) > 200
