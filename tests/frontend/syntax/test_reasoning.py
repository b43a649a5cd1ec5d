"""Reasoning, envelopes and frames: where an answer begins, and what ends its parts."""

from __future__ import annotations

import pytest

from helios.frontend.syntax.events import Content, Reasoning
from helios.frontend.syntax.opening import Opening, Place
from helios.frontend.syntax.pieces import Piece
from tests.frontend.syntax.bench import Bench, call, spelled

MARKS = ("<think>", "</think>", "<tool_call>", "</tool_call>")
ASSISTANT = "<|im_start|>assistant\n"
HEADER = Opening(place=Place.HEADER)
INVOKE = '<atem:function_calls>\n<atem:invoke name="{}">\n</atem:invoke>\n</atem:function_calls>'


@pytest.fixture(scope="module")
def chat() -> Bench:
    return Bench("qwen_coder", "think", added=MARKS, special=["<|im_start|>"], ends=["<|im_end|>"])


@pytest.fixture(scope="module")
def frames() -> Bench:
    return Bench("atem", "recipient", special=["<|start|>", "<|message|>", "<|eom|>", "<|eot|>"])


@pytest.mark.clause("FI-08")
def test_a_second_close_token_is_dropped_and_its_spelling_kept(chat: Bench) -> None:
    opened = Opening(place=Place.REASONING)
    assert chat.read("hm</think>\n\na</think>b", opened=opened) == [
        Reasoning("hm"),
        Content("ab"),
    ]
    close = Piece(chat.ids["</think>"], "</think>")
    pieces = [*spelled("hm </think>"), close, *spelled("a</think>b")]
    assert chat.play(pieces, opened=opened) == [Reasoning("hm </think>"), Content("a</think>b")]


def test_a_literal_opener_in_the_answer_is_content() -> None:
    text = "<think>\nhm\n</think>\n\nuse <think> twice"
    expected = [Reasoning("hm"), Content("use <think> twice")]
    assert Bench("none", "think").read(text) == expected


@pytest.mark.clause("FI-10", "FI-11")
@pytest.mark.parametrize(
    ("prompt", "opening"),
    [
        (
            "<|im_start|>user\n</think><|im_end|>\n" + ASSISTANT + "<think>",
            Opening(place=Place.REASONING),
        ),
        (ASSISTANT + "<think>x</think>y<|im_end|>\n" + ASSISTANT, Opening()),
        (ASSISTANT + "<think>x<|im_end|>\n" + ASSISTANT, Opening()),
        (ASSISTANT + "<think>\n\n</think>\n\n", Opening(reasoned=True)),
        (ASSISTANT + "<think>\nso", Opening(place=Place.REASONING, fresh=False)),
        (ASSISTANT + "<think>a</think>b", Opening(reasoned=True, fresh=False)),
        (ASSISTANT + "<think>a</think><tool_response>1<|im_end|>\n", Opening()),
        (ASSISTANT + "a</think><tool_response>1<|im_end|><think>", Opening(place=Place.REASONING)),
        ("<|im_start|>user\n<think>", Opening()),
    ],
)
def test_only_the_open_envelope_opens_reasoning(chat: Bench, prompt: str, opening: Opening) -> None:
    assert chat.syntax.opening(prompt) == opening


def test_a_truncated_reasoning_is_all_reasoning(chat: Bench) -> None:
    opened = Opening(place=Place.REASONING)
    assert chat.read("so it goes", opened=opened, truncated=True) == [Reasoning("so it goes")]


def test_a_machine_says_whether_it_thinks(chat: Bench) -> None:
    machine = chat.syntax.machine(tools={}, opened=Opening(place=Place.REASONING))
    thinking = []
    for piece in chat.characters("ab</think>c</think>d"):
        machine.feed(piece)
        thinking.append(machine.thinking)
    assert thinking == [True, True, False, False, False, False]


@pytest.mark.clause("FI-04")
def test_an_envelope_of_control_tokens_leaves_no_trace() -> None:
    controls = ["<|open|>", "<|close|>", "<|sep|>"]
    bench = Bench("xtml", "xtml", special=controls, ends=["<|end_of_msg|>"])
    prompt = '<|open|>message role="assistant"<|sep|><|open|>response<|sep|>'
    opened = bench.syntax.opening(prompt)
    assert bench.read("Hello<|close|>message<|sep|>", opened=opened) == [Content("Hello")]
    written = spelled("<|close|>message<|sep|>")
    assert bench.play(written, opened=opened) == [Content("<|close|>message<|sep|>")]


@pytest.mark.clause("FI-15", "FI-16", "FI-22", "FI-25")
def test_recipients_send_bodies(frames: Bench) -> None:
    text = " to=self<|message|>hm<|eom|><|start|>assistant to=commentary<|message|>a<|eom|>"
    assert frames.read(text + "<|start|>assistant to=user<|message|>b", opened=HEADER) == [
        Reasoning("hm"),
        Content("ab"),
    ]


@pytest.mark.clause("FI-17", "FI-20", "FI-21")
@pytest.mark.parametrize(
    ("recipient", "invoked", "called"),
    [
        ("get_time", "get_time", "get_time"),
        ("tool", "get_time", "get_time"),
        ("get_time.get_time", "get_time", "get_time"),
        ("get_weather", "get_time", None),
        ("tool", "other", None),
        ("x.get_time", "get_time", None),
    ],
)
def test_a_recipient_calls_what_it_names(
    frames: Bench, recipient: str, invoked: str, called: str | None
) -> None:
    events = frames.read(
        f" to={recipient}<|message|>{INVOKE.format(invoked)}<|eom|>", opened=HEADER
    )
    assert events == ([] if called is None else call(0, called, "{}"))


@pytest.mark.clause("FI-19")
def test_a_frame_carries_one_invocation(frames: Bench) -> None:
    twice = INVOKE.format("get_time") * 2
    assert frames.read(f" to=tool<|message|>{twice}<|eom|>", opened=HEADER) == call(
        0, "get_time", "{}"
    )


@pytest.mark.clause("FI-24")
def test_header_controls_count_only_as_tokens(frames: Bench) -> None:
    opened = frames.syntax.opening("<|start|>assistant to=user<|message|>")
    text = "a<|eom|><|start|>assistant to=self<|message|>b"
    assert frames.play(spelled(text), opened=opened) == [Content(text)]


@pytest.mark.parametrize("end", range(1, len("<atem:function_calls>")))
def test_half_an_opener_is_dropped_in_a_tool_frame_only(frames: Bench, end: int) -> None:
    half = "<atem:function_calls>"[:end]
    assert frames.read(f" to=get_time<|message|>{half}", opened=HEADER) == []
    assert frames.read(f" to=user<|message|>{half}", opened=HEADER) == [Content(half)]


def test_a_body_can_be_left_by_a_bare_header(frames: Bench) -> None:
    text = " to=self<|message|>hm to=get_time<|message|>" + INVOKE.format("get_time")
    assert frames.read(text, opened=HEADER) == [Reasoning("hm"), *call(0, "get_time", "{}")]


@pytest.mark.parametrize(
    ("prompt", "events"),
    [
        ("<|start|>assistant", [Content("abc")]),
        ("<|start|>assistant to=self<|message|>so", [Reasoning("abc")]),
        ("<|start|>assistant to=user<|message|>", [Content("abc")]),
    ],
)
def test_continuation_starts_inside_the_prepared_body(
    frames: Bench, prompt: str, events: list[object]
) -> None:
    assert frames.read("abc", opened=frames.syntax.opening(prompt)) == events
