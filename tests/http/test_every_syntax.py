"""Every syntax through the server: calls, reasoning and content, however the answer was cut."""

from __future__ import annotations

import json

import pytest

from helios.frontend.syntax.events import Arguments, CallOpened, Content, Event, Reasoning
from tests.frontend.syntax.answers import ANSWERS, Answer
from tests.http.answers import Call
from tests.http.scripted import Stage, Theatre
from tests.http.stages import (
    ATEM,
    BOTH,
    CODER,
    DEEPSEEK,
    DSML,
    GEMMA,
    GLM,
    HARMONY,
    HERMES,
    KIMI_K2,
    KIMI_K3,
    LLAMA,
    MINIMAX,
    MISTRAL,
    PYTHONIC,
)

STAGES = (
    ATEM, CODER, DEEPSEEK, DSML, GEMMA, GLM, HARMONY, HERMES, KIMI_K2, KIMI_K3, LLAMA, MINIMAX,
    MISTRAL, PYTHONIC,
)  # fmt: skip


def answer_in(stage: Stage) -> Answer:
    """The written answer of a stage's syntax."""
    found = [answer for answer in ANSWERS if answer.tools == stage.tools]
    return found[0]


def text_in(stage: Stage) -> str:
    """The answer with the stage's own control tokens, up to where generation ends."""
    text = answer_in(stage).text.replace("<bos>", "<｜begin▁of▁sentence｜>")  # noqa: RUF001
    return text.partition("<|call|>")[0]


WAYS = {stage.name: stage.ways(text_in(stage)) for stage in STAGES}


def calls_of(events: tuple[Event, ...]) -> tuple[Call, ...]:
    """The calls among these events."""
    return tuple(
        Call(
            name=event.name,
            arguments="".join(
                more.text
                for more in events
                if isinstance(more, Arguments) and more.index == event.index
            ),
        )
        for event in events
        if isinstance(event, CallOpened)
    )


@pytest.mark.clause("FI-27", "FI-28", "FI-29")
@pytest.mark.parametrize("stage", STAGES, ids=lambda stage: stage.name)
def test_an_answer_is_read_the_same_however_it_is_cut(play: Theatre, stage: Stage) -> None:
    events = answer_in(stage).events
    if stage is HARMONY:
        events = events[:4]  # generation ends at the call
    said = play(stage).alike(WAYS[stage.name], tools=BOTH)
    assert said.calls == calls_of(events)
    assert said.reasoning == "".join(made.text for made in events if isinstance(made, Reasoning))
    assert said.content == "".join(made.text for made in events if isinstance(made, Content))
    assert said.finish == "tool_calls"
    assert all(isinstance(json.loads(call.arguments), dict) for call in said.calls)
    assert len(set(said.ids)) == len(said.calls)
