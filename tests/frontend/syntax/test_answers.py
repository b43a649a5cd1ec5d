"""Every public syntax, read whole, by characters, and cut at every place."""

from __future__ import annotations

import pytest

from helios.frontend.syntax.events import Arguments, CallClosed, CallOpened, Content
from tests.frontend.syntax.answers import ANSWERS, Answer
from tests.frontend.syntax.bench import Bench, check_calls, grouped, spelled

NAMES = [f"{answer.tools}-{answer.reasoning}-{at}" for at, answer in enumerate(ANSWERS)]


def bench_of(answer: Answer) -> Bench:
    return Bench(
        answer.tools,
        answer.reasoning,
        added=answer.added,
        special=answer.special,
        ends=answer.ends,
    )


@pytest.mark.clause("FI-02", "FI-03", "FI-05", "FI-28")
@pytest.mark.parametrize("answer", ANSWERS, ids=NAMES)
def test_an_answer_means_the_same_at_every_split(answer: Answer) -> None:
    bench = bench_of(answer)
    pieces = bench.characters(answer.text)
    expected = list(answer.events)
    assert bench.play(pieces) == expected
    for cut in range(len(pieces)):
        assert bench.play(grouped(pieces, cuts=frozenset([cut]))) == expected
    for width in (2, 3, 7):
        cuts = frozenset(range(0, len(pieces), width))
        assert bench.play(grouped(pieces, cuts=cuts)) == expected


@pytest.mark.parametrize("answer", ANSWERS, ids=NAMES)
def test_a_cut_off_answer_is_a_beginning_of_the_whole_one(answer: Answer) -> None:
    bench = bench_of(answer)
    pieces = bench.characters(answer.text)
    whole = "".join(event.text for event in answer.events if isinstance(event, Arguments))
    for end in range(len(pieces)):
        events = bench.play(pieces[:end], truncated=True)
        check_calls(events)
        begun = "".join(event.text for event in events if isinstance(event, Arguments))
        assert whole.startswith(begun)
        opened = sum(isinstance(event, CallOpened) for event in events)
        closed = sum(isinstance(event, CallClosed) for event in events)
        assert opened - closed in (0, 1)


@pytest.mark.parametrize("answer", ANSWERS, ids=NAMES)
def test_without_tools_nothing_is_called(answer: Answer) -> None:
    events = bench_of(answer).read(answer.text, tools={})
    assert not any(isinstance(event, CallOpened) for event in events)


TOKENS_ONLY = ("glm", "hermes", "deepseek_v3", "gemma", "lfm2", "kimi_k2")
"""Syntaxes all of whose openers are tokens in these answers."""


@pytest.mark.clause("FI-07")
@pytest.mark.parametrize("answer", [a for a in ANSWERS if a.tools in TOKENS_ONLY])
def test_markers_spelled_by_other_tokens_are_text(answer: Answer) -> None:
    bench = bench_of(answer)
    text = answer.text.removeprefix("<think>").removeprefix("<|channel>thought\n")
    assert bench.play(spelled(text)) == [Content(text)]


@pytest.mark.parametrize("tools", ["qwen_coder", "minimax", "hermes", "pythonic", "llama3_json"])
def test_a_long_string_streams_before_it_ends(tools: str) -> None:
    text = 'x"y\\ é\n' * 600
    written = {
        "qwen_coder": f"<tool_call>\n<function=f>\n<parameter=p>\n{text}",
        "minimax": f'<minimax:tool_call><invoke name="f"><parameter name="p">{text}',
        "hermes": '<tool_call>{"name": "f", "arguments": {"p": "' + "x" * 4000,
        "pythonic": '[f(p="' + "x" * 4000,
        "llama3_json": '{"name": "f", "parameters": {"p": "' + "x" * 4000,
    }[tools]
    bench = Bench(tools)
    machine = bench.syntax.machine(
        tools={"f": {"properties": {"p": {"type": "string"}}}}, opened=bench.syntax.opening("")
    )
    events = [event for piece in bench.characters(written) for event in machine.feed(piece)]
    deltas = [event.text for event in events if isinstance(event, Arguments)]
    assert len(deltas) > 100
    assert len("".join(deltas)) > 4000
