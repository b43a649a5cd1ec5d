"""Thoughts, calls and their results, as the reader meets them."""

from __future__ import annotations

import threading

from selenium.webdriver.common.keys import Keys

from tests.browser.reader import Reader, until
from tests.browser.scripted import (
    CALLED,
    DONE,
    Script,
    ScriptedServer,
    Step,
    answer,
    called,
    given,
    said,
    thought,
)

HOSTILE = '<img src=x onerror="alert(1)"></details><script>alert(2)</script>'
PRETTY = 'return import("/pretty.js").then(({ pretty }) => pretty(arguments[0]));'
WRITTEN = {
    '{"a":1,"b":[true,"x, {y}: \\" z"]}': (
        '{\n  "a": 1,\n  "b": [\n    true,\n    "x, {y}: \\" z"\n  ]\n}'
    ),
    '{"a": {}, "b": [ ]}': '{\n  "a": {},\n  "b": []\n}',
    '{"a": "half of': '{\n  "a": "half of',
    '{"a": "a quote \\': '{\n  "a": "a quote \\',
    '{"a":': '{\n  "a":',
    '{"a": 1,': '{\n  "a": 1,',
    "": "",
    "]]]": "\n]\n]\n]",
}
OPEN = "return document.querySelector('.thought').open"
CALLING = Script(
    steps=[said("Let me see."), called(0, "get_weather"), given(0, '{"city":"Rome"}'), CALLED]
)


def test_thoughts_are_open_while_they_come_and_fold_when_the_answer_begins(
    play_reader: Reader, scripted: ScriptedServer
) -> None:
    first, second = threading.Event(), threading.Event()
    thoughts = (thought("Rome is "), thought("in Italy."))
    steps: list[Step] = [*thoughts, first, said("It is"), second, DONE]
    scripted.plan(Script(steps=steps))
    play_reader.send("Where is Rome?")
    until(lambda: play_reader.text(".thoughts") == "Rome is in Italy.", what="the thoughts")
    assert play_reader.run(OPEN)
    assert play_reader.text(".thought summary") == "Thinking"
    assert play_reader.sees(".thoughts")
    first.set()
    play_reader.wait_for_words()
    assert not play_reader.run(OPEN)
    assert play_reader.text(".thought summary").startswith("Thought for ")
    second.set()
    play_reader.growth()
    assert play_reader.answers() == ["It is"]
    assert play_reader.text("#announcer p").startswith("Thinking.")
    assert "Italy" not in play_reader.text("#announcer p")


def test_thoughts_that_the_reader_closed_and_opened_stay_so(
    play_reader: Reader, scripted: ScriptedServer
) -> None:
    gate = threading.Event()
    scripted.plan(Script(steps=[thought("Hm."), gate, said("Yes."), DONE]))
    play_reader.send("Is it?")
    until(lambda: play_reader.all(".thought"), what="the thoughts")
    play_reader.click(".thought summary")
    play_reader.click(".thought summary")
    gate.set()
    play_reader.growth()
    assert play_reader.run(OPEN)


def test_thoughts_and_calls_never_become_markup(
    play_reader: Reader, scripted: ScriptedServer
) -> None:
    steps = [thought(HOSTILE), called(0, HOSTILE), given(0, HOSTILE), CALLED]
    scripted.plan(Script(steps=steps))
    play_reader.send("Go on")
    play_reader.growth()
    assert play_reader.text(".thoughts") == HOSTILE
    assert play_reader.text(".tool") == HOSTILE
    assert play_reader.text(".results label") == f"Result of {HOSTILE}"
    assert play_reader.all("main img, main script") == []
    assert play_reader.complaints() == []


def test_arguments_are_pretty_before_they_are_whole(play_reader: Reader) -> None:
    assert {text: play_reader.run(PRETTY, text) for text in WRITTEN} == WRITTEN


def test_thousands_of_brackets_stay_small(play_reader: Reader) -> None:
    assert play_reader.run(PRETTY.replace("arguments[0])", "'['.repeat(9000)).length")) < 400_000


def test_calls_are_shown_as_they_come_and_results_let_the_model_go_on(
    play_reader: Reader, scripted: ScriptedServer
) -> None:
    gate = threading.Event()
    calling = Script(
        steps=[
            thought("Look it up."),
            called(0, "get_weather"),
            given(0, '{"city": "Ro'),
            gate,
            given(0, 'me"}'),
            called(1, "get_time"),
            given(1, "{}"),
            CALLED,
        ]
    )
    scripted.plan(calling, answer("Fine, at noon."))
    play_reader.send("How is Rome?")
    until(lambda: play_reader.text(".call code") == '{\n  "city": "Ro', what="half a call")
    assert play_reader.all(".results") == []
    gate.set()
    play_reader.growth()
    assert play_reader.text(".tool") == "get_weather\nget_time"
    assert play_reader.text("#announcer p").endswith("Calls get_weather, get_time.")
    weather, time = play_reader.all(".results textarea")
    weather.send_keys("21 degrees", Keys.TAB, "noon", Keys.TAB, Keys.ENTER)
    until(lambda: play_reader.answers()[-1] == "Fine, at noon.", what="the answer")
    assert time.get_property("readOnly")
    assert [article.text for article in play_reader.all(".question .words")] == ["How is Rome?"]
    function = {"name": "get_weather", "arguments": '{"city": "Rome"}'}
    clock = {"name": "get_time", "arguments": "{}"}
    assert scripted.received[-1]["messages"] == [
        {"role": "user", "content": "How is Rome?"},
        {
            "role": "assistant",
            "content": "",
            "reasoning_content": "Look it up.",
            "tool_calls": [
                {"id": "call-0", "type": "function", "function": function},
                {"id": "call-1", "type": "function", "function": clock},
            ],
        },
        {"role": "tool", "tool_call_id": "call-0", "content": "21 degrees"},
        {"role": "tool", "tool_call_id": "call-1", "content": "noon"},
    ]


def test_a_call_without_a_result_is_left_out(play_reader: Reader, scripted: ScriptedServer) -> None:
    scripted.plan(CALLING, answer("Never mind."))
    play_reader.send("How is Rome?")
    play_reader.growth()
    play_reader.send("Forget it.")
    play_reader.growth()
    assert scripted.received[-1]["messages"] == [
        {"role": "user", "content": "How is Rome?"},
        {"role": "assistant", "content": "Let me see."},
        {"role": "user", "content": "Forget it."},
    ]
    assert not play_reader.sees(".results")


def test_an_answer_can_be_asked_for_again(play_reader: Reader, scripted: ScriptedServer) -> None:
    scripted.plan(answer("Poor."), answer("Better."))
    play_reader.send("Write a word.")
    play_reader.growth()
    regenerate, _ = play_reader.all(".actions button")
    regenerate.click()
    until(lambda: play_reader.answers() == ["Better."], what="the other answer")
    assert len(scripted.received[-1]["messages"]) == 1


def test_the_last_question_can_be_edited(play_reader: Reader, scripted: ScriptedServer) -> None:
    scripted.plan(answer("One."), answer("Two."), answer("Three."))
    for question in ("First", "Second"):
        play_reader.send(question)
        play_reader.growth()
    assert [e.is_displayed() for e in play_reader.all(".actions")] == [False, True]
    play_reader.all(".actions button")[-1].click()
    assert play_reader.focused() == play_reader.one("#message")
    play_reader.press(" thought", Keys.ENTER)
    until(lambda: play_reader.answers() == ["One.", "Three."], what="the other answer")
    assert scripted.received[-1]["messages"][-1] == {"role": "user", "content": "Second thought"}
