"""Constrained output: envelopes, both spellings of markers, and masks that can be walked."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator

import pytest
from msgspec.structs import replace

from helios.frontend.grammar.constraint import Constraint
from helios.frontend.grammar.envelope import Opened
from helios.frontend.grammar.matcher import GrammarTokenizer, Impossible, LateGrammars
from helios.values import StartRefused
from prepared.contract import Marker, ReasoningSyntax, ToolSyntax
from tests.frontend.grammars import (
    ADDED,
    ATEM,
    CHANNELS,
    DSML,
    GLM,
    HARMONY,
    HERMES,
    NAMED,
    PYTHON,
    QWEN,
    RECIPIENTS,
    TOOLS,
    XTML,
    XTML_THINK,
    World,
    think,
)

POINT = {
    "type": "object",
    "properties": {"y": {"type": "integer"}, "x": {"type": "string"}},
    "required": ["y", "x"],
    "additionalProperties": False,
}
SCHEMA = {"type": "json_schema", "json_schema": {"name": "point", "schema": POINT, "strict": True}}
Made = Callable[..., World]


@pytest.fixture
def made() -> Iterator[Made]:
    """Worlds that end with the test."""
    worlds: list[World] = []

    def make(*data: object, **options: object) -> World:
        worlds.append(World(*data, **options))  # type: ignore[arg-type]
        return worlds[-1]

    yield make
    for world in worlds:
        world.close()


# ------------------------------------------------------------- documents


def test_declared_order_of_members_is_the_only_one(made: Made) -> None:
    world = made()
    assert world.takes(world.matcher(response_format=SCHEMA), '{"y": 1, "x": "a"}') is None
    assert world.takes(world.matcher(response_format=SCHEMA), '{"x": "a", "y": 1}') is not None


def test_white_space_between_parts_is_bounded(made: Made) -> None:
    world = made()
    pretty = '{\n    "y": 1,\n    "x": "a"\n}'
    assert world.takes(world.matcher(response_format=SCHEMA), pretty) is None
    for endless in (" " * 33, "\n\n", "\t" * 33):
        refused = world.takes(world.matcher(response_format=SCHEMA), "{" + endless + '"y": 1')
        assert refused is not None


def test_after_the_document_only_an_end_may_follow(made: Made) -> None:
    world = made()
    matcher = world.matcher(response_format=SCHEMA)
    assert world.takes(matcher, '{"y": 1, "x": "a"') is None
    assert world.end not in world.allowed(matcher)
    assert world.takes(matcher, "}") is None
    assert matcher.finished
    assert world.allowed(matcher) == {world.end}
    assert matcher.advance(world.end) is None


def test_an_impossible_token_is_told_and_nothing_else_breaks(made: Made) -> None:
    world = made()
    matcher, other = (world.matcher(response_format=SCHEMA) for _ in range(2))
    found = matcher.advance(world.ids["<think>"])
    assert isinstance(found, Impossible)
    assert found.why.startswith(f"token {world.ids['<think>']}: ")
    rows = world.worker.fill([matcher, other]).result().rows
    assert isinstance(rows[0], Impossible)
    assert isinstance(rows[1], bytes)


@pytest.mark.parametrize("seed", range(6))
def test_every_walk_under_masks_is_a_document_of_the_schema(made: Made, seed: int) -> None:
    world = made()
    text = world.walk(world.matcher(response_format=SCHEMA), seed)
    if text is not None:
        document = json.loads(text)
        assert list(document) == ["y", "x"]
        assert type(document["y"]) is int
        assert type(document["x"]) is str


@pytest.mark.parametrize(
    ("asked", "good", "bad"),
    [
        ({"json": {"type": "integer"}}, "12", '"a"'),
        ({"regex": "^[a-c]{2}/d$"}, "ab/d", "abc"),
        ({"choice": ["yes", "no\n"]}, "no\n", "nope"),
        ({"grammar": 'start: "a" num\nnum: /[0-9]+/'}, "a12", "b"),
    ],
)
def test_structured_outputs_take_what_they_describe(
    made: Made, asked: dict[str, object], good: str, bad: str
) -> None:
    world = made()
    matcher = world.matcher(structured_outputs=asked)
    assert world.takes(matcher, good) is None
    assert matcher.satisfied
    assert world.takes(world.matcher(structured_outputs=asked), bad) is not None


def test_an_object_is_any_object(made: Made) -> None:
    world = made()
    matcher = world.matcher(response_format={"type": "json_object"})
    assert world.takes(matcher, '{"a": [1, {"b": null}]}') is None
    assert matcher.satisfied


# ------------------------------------------------------------- reasoning


@pytest.mark.clause("FI-29")
@pytest.mark.parametrize("special", [False, True])
@pytest.mark.parametrize("by_id", [False, True])
def test_reasoning_is_free_up_to_the_token_that_ends_it(
    made: Made, special: bool, by_id: bool
) -> None:
    world = made(None, think(), special=special)
    if by_id:
        ids = world.ids
        syntax = replace(
            think(),
            open=Marker(text="<think>", token_id=ids["<think>"]),
            close=Marker(text="</think>", token_id=ids["</think>"]),
        )
        world = made(None, syntax, special=special)
    matcher = world.matcher(Opened.REASONING, response_format=SCHEMA)
    assert world.takes(matcher, "any {text} \n with <tool_call> and é ") is None
    for token in world.spelled("</think>"):
        assert token in world.allowed(matcher)
        assert matcher.advance(token) is None
    assert world.takes(matcher, "{ is still reasoning") is None
    assert world.end not in world.allowed(matcher)
    assert world.takes(matcher, '</think>\n\n{"y": 1, "x": "a"}') is None
    assert matcher.finished


def test_reasoning_may_be_left_out_unless_the_prompt_opened_it(made: Made) -> None:
    world = made(None, think())
    document = '{"y": 1, "x": "a"}'
    takes = world.takes
    assert takes(world.matcher(response_format=SCHEMA), document) is None
    assert takes(world.matcher(response_format=SCHEMA), "<think>a</think>" + document) is None
    over = world.matcher(Opened.ANSWER, response_format=SCHEMA)
    assert takes(over, "<think>") == "<think>"
    assert takes(over, document) is None


@pytest.mark.clause("FI-07")
def test_a_marker_that_is_no_token_ends_reasoning_as_text(made: Made) -> None:
    world = made(None, think(), added=())
    matcher = world.matcher(Opened.REASONING, response_format=SCHEMA)
    assert world.takes(matcher, 'a </thin </think>{"y": 1, "x": "a"}') is None
    assert matcher.finished


@pytest.mark.clause("FI-09")
def test_delimiters_inside_a_document_are_text_and_never_their_tokens(made: Made) -> None:
    world = made(None, think())
    matcher = world.matcher(Opened.ANSWER, response_format=SCHEMA)
    assert world.takes(matcher, '{"y": 1, "x": "') is None
    assert world.ids["</think>"] not in world.allowed(matcher)
    for token in world.spelled('</think>"}'):
        assert matcher.advance(token) is None
    assert matcher.finished


def test_xtml_frames_stand_around_the_document(made: Made) -> None:
    world = made(XTML, XTML_THINK)
    whole = (
        'hm<|close|>think<|sep|><|open|>response<|sep|>{"y": 1, "x": "a"}<|close|>response<|sep|>'
    )
    matcher = world.matcher(Opened.REASONING, response_format=SCHEMA)
    assert world.takes(matcher, whole) is None
    assert matcher.satisfied
    called = world.matcher(Opened.REASONING, response_format=SCHEMA, tools=TOOLS)
    call = (
        "<|open|>response<|sep|><|close|>response<|sep|><|open|>tools<|sep|>"
        '<|open|>call tool="get_weather"<|sep|>'
        '<|open|>argument key="city" type="string"<|sep|>Paris<|close|>argument<|sep|>'
        '<|open|>argument key="days" type="number"<|sep|>3<|close|>argument<|sep|>'
        "<|close|>call<|sep|><|close|>tools<|sep|>"
    )
    assert world.takes(called, "hm<|close|>think<|sep|>" + call) is None
    assert called.satisfied


@pytest.mark.clause("FI-26")
def test_recipient_frames_constrain_the_user_answer_and_allow_registered_tools(
    made: Made,
) -> None:
    world = made(ATEM, RECIPIENTS)
    thought = " to=self<|message|>free<|eom|><|start|>assistant"
    asked = {"response_format": SCHEMA, "tools": TOOLS}
    answered = world.matcher(**asked)
    assert world.takes(answered, thought + ' to=user<|message|>{"y": 1, "x": "a"}') is None
    assert answered.finished
    called = world.matcher(**asked)
    call = (
        " to=get_weather<|message|><atem:function_calls>\n"
        '<atem:invoke name="get_weather">\n<atem:parameter name="city"> Paris</atem:parameter>\n'
        "</atem:invoke>\n</atem:function_calls>"
    )
    assert world.takes(called, thought + call) is None
    assert called.satisfied
    again = "<|eom|><|start|>assistant to=get_time<|message|><atem:function_calls>\n"
    assert world.takes(called, again) is None
    assert world.takes(world.matcher(**asked), " to=other") is not None
    assert world.takes(world.matcher(**asked), " to=user<|message|>free") == "free"


def test_channels_constrain_the_final_answer(made: Made) -> None:
    world = made(HARMONY, CHANNELS)
    thought = "<|channel|>analysis<|message|>free<|eom|><|start|>assistant"
    asked = {"response_format": SCHEMA, "tools": TOOLS}
    answered = world.matcher(**asked)
    final = '<|channel|>final<|message|>{"y": 1, "x": "a"}'
    assert world.takes(answered, thought + final) is None
    assert answered.satisfied
    called = world.matcher(**asked)
    call = (
        '<|channel|>commentary to=functions.get_weather <|constrain|>json<|message|>{"city": "a"}'
    )
    assert world.takes(called, thought + call) is None
    assert called.satisfied


# ------------------------------------------------------------- calls

SPOKEN: list[tuple[ToolSyntax, str, str]] = [
    (
        HERMES,
        '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Paris", "days": 3}}\n'
        '</tool_call>\n<tool_call>\n{"name": "get_time", "arguments": {}}\n</tool_call>',
        '<tool_call>\n{"name": "other"',
    ),
    (
        NAMED,
        '[TOOL_CALLS]get_weather[ARGS]{"city": "Paris"}[TOOL_CALLS]get_time[ARGS]{}',
        '[TOOL_CALLS]get_weather[ARGS]{"days"',
    ),
    (
        QWEN,
        "<tool_call>\n<function=get_weather>\n<parameter=city>\n"
        "</parameter>\n</tool\n</parameter>\n<parameter=days>\n3\n</parameter>\n</function>\n"
        "</tool_call>\n<tool_call>\n<function=get_time>\n</function>\n</tool_call>",
        "<tool_call>\n<function=get_weather>\n</function>",
    ),
    (
        GLM,
        "<tool_call>get_weather\n<arg_key>city</arg_key>\n<arg_value>Paris</arg_value>\n"
        "<arg_key>unit</arg_key><arg_value>kelvin</arg_value></tool_call>"
        "<tool_call>get_time</tool_call>",
        "<tool_call>get_weather<arg_key>days",
    ),
    (
        DSML,
        '<｜DSML｜tool_calls>\n<｜DSML｜invoke name="get_weather">\n'
        '<｜DSML｜parameter name="city" string="true"></b> "Paris"</｜DSML｜parameter>\n'
        '<｜DSML｜parameter name="days" string="false">3</｜DSML｜parameter>\n</｜DSML｜invoke>\n'
        '<｜DSML｜invoke name="get_time">\n</｜DSML｜invoke>\n</｜DSML｜tool_calls>',
        '<｜DSML｜tool_calls>\n<｜DSML｜invoke name="get_weather">\n'
        '<｜DSML｜parameter name="city" string="false"',
    ),
    (
        PYTHON,
        '[get_weather(city="Paris", unit="kelvin"), get_time()]',
        "[get_weather()]",
    ),
]  # fmt: skip


@pytest.mark.parametrize("choice", ["required", "auto"])
@pytest.mark.parametrize(("syntax", "good", "bad"), SPOKEN)
def test_calls_are_made_in_the_models_own_syntax(
    made: Made, syntax: ToolSyntax, good: str, bad: str, choice: str
) -> None:
    world = made(syntax)
    asked: dict[str, object] = {"tools": TOOLS, "tool_choice": choice}
    if choice == "auto":
        asked["response_format"] = SCHEMA
    matcher = world.matcher(**asked)
    assert world.takes(matcher, good) is None
    assert matcher.satisfied
    assert world.takes(world.matcher(**asked), bad) is not None
    if choice == "required":
        assert world.end not in world.allowed(world.matcher(**asked))
        assert world.takes(world.matcher(**asked), "text") is not None


@pytest.mark.parametrize(("syntax", "good", "bad"), SPOKEN)
def test_a_named_choice_allows_no_other_tool(
    made: Made, syntax: ToolSyntax, good: str, bad: str
) -> None:
    world = made(syntax)
    choice = {"type": "function", "function": {"name": "get_time"}}
    matcher = world.matcher(tools=TOOLS, tool_choice=choice)
    assert world.takes(matcher, good) is not None


def test_one_call_only_where_parallel_calls_are_off(made: Made) -> None:
    world = made(HERMES)
    matcher = world.matcher(tools=TOOLS, tool_choice="required", parallel_tool_calls=False)
    call = '<tool_call>{"name": "get_time", "arguments": {}}</tool_call>'
    assert world.takes(matcher, call) is None
    assert world.allowed(matcher) == {world.end}


@pytest.mark.clause("FI-06")
def test_the_opener_of_calls_ends_reasoning_where_it_is_declared(made: Made) -> None:
    terminal = Marker(text="<tool_call>", token_id=None)
    world = made(QWEN, think(terminal=terminal))
    matcher = world.matcher(Opened.REASONING, tools=TOOLS, tool_choice="required")
    call = "<tool_call>\n<function=get_time>\n</function>\n</tool_call>"
    assert world.takes(matcher, "hm" + call) is None
    assert matcher.satisfied
    closed = world.matcher(Opened.REASONING, tools=TOOLS, tool_choice="required")
    assert world.takes(closed, "hm</think>\n\n" + call) is None
    assert closed.satisfied


WALKED: list[tuple[ToolSyntax, str]] = [
    (
        QWEN,
        r"(<tool_call>\s*(<function=get_(weather|time)>(?s:.)*</function>\s*)+</tool_call>\s*)+",
    ),
    (GLM, r"(\s*<tool_call>\s*get_(weather|time)\s*(?s:.)*</tool_call>)+"),
    (HERMES, r"(\s*<tool_call>\s*\{(?s:.)*\}\s*</tool_call>)+"),
    (PYTHON, r"\s*\[get_(?s:.)*\)\]"),
]


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(("syntax", "shape"), WALKED)
def test_every_walk_of_a_required_call_has_the_syntax_of_one(
    made: Made, syntax: ToolSyntax, shape: str, seed: int
) -> None:
    world = made(syntax)
    text = world.walk(world.matcher(tools=TOOLS, tool_choice="required"), seed)
    if text is not None:
        assert re.fullmatch(shape, text), text


@pytest.mark.parametrize("reasoning", [think(), XTML_THINK])
def test_masks_have_the_contracts_width_and_never_allow_padding(
    made: Made, reasoning: ReasoningSyntax
) -> None:
    world = made(None, reasoning)
    matcher = world.matcher(Opened.REASONING, response_format=SCHEMA)
    size = world.tokenizer.get_vocab_size()
    assert max(world.allowed(matcher)) < size
    assert len(ADDED) + 1 == len(world.ids)


def test_a_tokenizer_that_grammars_cannot_use_fails_only_who_wants_one() -> None:
    def make() -> GrammarTokenizer:
        raise StartRefused("tokenizer: found what grammars cannot use")

    made = LateGrammars(make).compile(Constraint(grammar="start: /a/")).result()
    assert made == Impossible(why="tokenizer: found what grammars cannot use")
