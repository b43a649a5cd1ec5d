"""Following an answer with the eyes, or with a screen reader."""

from __future__ import annotations

import threading

from tests.browser.reader import Reader, until
from tests.browser.scripted import DONE, Script, ScriptedServer, answer, said

LINES = "".join(f"Line {number} of a long answer.\n" for number in range(60))
DISTANCE = (
    "const page = document.scrollingElement;"
    "return page.scrollHeight - page.clientHeight - page.scrollTop"
)


def test_a_reader_at_the_bottom_follows_the_answer(
    play_reader: Reader, scripted: ScriptedServer
) -> None:
    scripted.plan(answer(LINES, LINES))
    play_reader.send("Go on")
    play_reader.growth()
    assert play_reader.run(DISTANCE) < 2
    assert not play_reader.sees("#latest")


def test_a_reader_further_up_stays_there(play_reader: Reader, scripted: ScriptedServer) -> None:
    gate = threading.Event()
    scripted.plan(Script(steps=[said(LINES), gate, said(LINES), DONE]))
    play_reader.send("Go on")
    play_reader.wait_for_words()
    play_reader.run("scrollTo(0, 200)")
    until(lambda: play_reader.sees("#latest"), what="Latest")
    gate.set()
    play_reader.growth()
    assert play_reader.run("return document.scrollingElement.scrollTop") == 200
    play_reader.click("#latest")
    assert play_reader.run(DISTANCE) < 2
    until(lambda: not play_reader.sees("#latest"), what="Latest, gone")
    assert play_reader.focused() == play_reader.one("#message")


def test_a_screen_reader_hears_sentences_not_tokens(
    play_reader: Reader, scripted: ScriptedServer
) -> None:
    pieces = [f"Word {number}{'.' if number % 10 == 9 else ''} " for number in range(120)]
    scripted.plan(answer(*pieces))
    play_reader.send("Go on")
    play_reader.growth()
    place = play_reader.one("#announcer")
    assert place.get_attribute("aria-live") == "polite"
    heard = play_reader.run("return [...arguments[0].children].map((p) => p.textContent)", place)
    assert " ".join(heard) == "".join(pieces).strip()
    assert 2 <= len(heard) <= 12
    assert all(part.endswith(".") for part in heard)
    assert play_reader.all("[aria-live]") == [place]


def test_a_screen_reader_hears_that_an_answer_was_stopped(
    play_reader: Reader, scripted: ScriptedServer
) -> None:
    never = threading.Event()
    scripted.plan(Script(steps=[said("A beginning"), never]))
    play_reader.send("Go on")
    play_reader.wait_for_words()
    play_reader.click("#stop")
    play_reader.wait_until_idle()
    never.set()
    assert play_reader.text("#announcer p") == "A beginning\nStopped."
