"""What the page sends, and what it makes of answers that go wrong."""

from __future__ import annotations

import threading

import pytest
from selenium.webdriver.common.keys import Keys

from tests.browser.reader import Reader, until
from tests.browser.scripted import (
    DONE,
    Break,
    Script,
    ScriptedServer,
    answer,
    failed,
    refusal,
    said,
)


def sent(scripted: ScriptedServer) -> list[tuple[str, str]]:
    """The messages of the last request."""
    return [(message["role"], message["content"]) for message in scripted.received[-1]["messages"]]


def test_the_whole_conversation_is_sent(play_reader: Reader, scripted: ScriptedServer) -> None:
    scripted.plan(answer("A star", "."), answer("Eight."))
    play_reader.send("What is the sun?")
    play_reader.growth()
    play_reader.send("How many planets?")
    play_reader.growth()
    assert sent(scripted) == [
        ("user", "What is the sun?"),
        ("assistant", "A star."),
        ("user", "How many planets?"),
    ]
    assert scripted.received[-1]["model"] == "scripted-1b"
    assert scripted.received[-1]["stream"] is True


def test_a_new_chat_forgets_the_old_one(play_reader: Reader, scripted: ScriptedServer) -> None:
    never = threading.Event()
    scripted.plan(Script(steps=[said("An old"), never, DONE]), answer("A new answer."))
    play_reader.send("Old question")
    play_reader.wait_for_words()
    play_reader.click("#renew")
    assert play_reader.answers() == []
    play_reader.send("New question")
    play_reader.growth()
    never.set()
    assert sent(scripted) == [("user", "New question")]
    assert play_reader.answers() == ["A new answer."]
    assert play_reader.all(".note, .problem") == []


def test_an_error_inside_the_stream_keeps_the_text_before_it(
    play_reader: Reader, scripted: ScriptedServer
) -> None:
    scripted.plan(Script(steps=[said("So far"), failed("the model failed", code=500)]))
    play_reader.send("Go on")
    play_reader.growth()
    assert play_reader.answers() == ["So far"]
    assert play_reader.text(".problem h3") == "Error 500"
    assert play_reader.text(".problem p") == "the model failed"


@pytest.mark.parametrize("last", [Break, said(" ended early")], ids=["broken", "without an ending"])
def test_a_lost_connection_keeps_the_text_before_it(
    play_reader: Reader, scripted: ScriptedServer, last: bytes | type[Break]
) -> None:
    gate = threading.Event()
    scripted.plan(Script(steps=[said("So far"), gate, last]))
    play_reader.send("Go on")
    play_reader.wait_for_words()
    gate.set()
    play_reader.growth()
    assert play_reader.answers()[0].startswith("So far")
    assert play_reader.text(".problem h3") == "Connection lost"


def test_a_refusal_without_json_still_says_something(
    play_reader: Reader, scripted: ScriptedServer
) -> None:
    scripted.plan(Script(status=502, steps=[b"<h1>Bad gateway</h1>"], media_type="text/html"))
    play_reader.send("Hello")
    play_reader.growth()
    assert play_reader.text(".problem h3") == "Error 502"
    assert play_reader.text(".problem p") == "The server gave no reason (Bad Gateway)."


def test_a_server_out_of_reach_is_told_and_can_be_asked_again(
    play_reader: Reader, scripted: ScriptedServer
) -> None:
    scripted.plan(answer("Here I am."))
    play_reader.tell("Network.enable")
    network = {"latency": 0, "downloadThroughput": -1, "uploadThroughput": -1}
    play_reader.tell("Network.emulateNetworkConditions", offline=True, **network)
    play_reader.send("Are you there?")
    play_reader.growth()
    assert play_reader.text(".problem h3") == "No connection"
    play_reader.tell("Network.emulateNetworkConditions", offline=False, **network)
    play_reader.click(".problem button")
    until(lambda: play_reader.answers() == ["Here I am."], what="the answer")
    assert play_reader.text(".question .words") == "Are you there?"
    assert play_reader.all(".problem") == []
    assert sent(scripted) == [("user", "Are you there?")]


def test_an_unanswered_question_is_not_sent_again_with_the_next(
    play_reader: Reader, scripted: ScriptedServer
) -> None:
    full = Script(status=429, steps=[refusal("no place", code=429)], media_type="application/json")
    scripted.plan(full, answer("Yes."))
    play_reader.send("First")
    play_reader.growth()
    assert play_reader.text(".problem") == "Error 429no placeTry again"
    play_reader.send("Second")
    play_reader.growth()
    assert sent(scripted) == [("user", "Second")]


def test_an_answer_that_reached_its_limit_says_so(
    play_reader: Reader, scripted: ScriptedServer
) -> None:
    scripted.plan(Script(steps=[said("Too"), said(" long", finish="length"), b"data: [DONE]\n\n"]))
    play_reader.send("Go on")
    play_reader.growth()
    assert play_reader.text(".note") == "The answer reached its length limit."


def test_stopping_before_the_first_word_is_not_an_error(
    play_reader: Reader, scripted: ScriptedServer
) -> None:
    never = threading.Event()
    scripted.plan(Script(steps=[never]))
    play_reader.send("Hello")
    play_reader.press(Keys.ESCAPE)
    play_reader.wait_until_idle()
    never.set()
    assert play_reader.text(".note") == "Stopped."
    assert play_reader.all(".problem") == []


def test_what_is_typed_while_an_answer_comes_is_kept(
    play_reader: Reader, scripted: ScriptedServer
) -> None:
    gate = threading.Event()
    scripted.plan(Script(steps=[said("Wait"), gate, DONE]))
    play_reader.send("First")
    play_reader.wait_for_words()
    play_reader.press("Second", Keys.ENTER)
    assert play_reader.one("#message").get_property("value") == "Second"
    assert len(scripted.received) == 1
    gate.set()
    play_reader.wait_until_idle()


def test_nothing_is_sent_without_words(play_reader: Reader, scripted: ScriptedServer) -> None:
    play_reader.press("  ", Keys.ENTER)
    play_reader.click("#send")
    assert play_reader.all(".message") == []
    assert scripted.received == []
