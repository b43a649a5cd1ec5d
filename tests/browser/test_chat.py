"""A conversation with the real server and a real model."""

from __future__ import annotations

import re
import urllib.request

from selenium.webdriver.common.keys import Keys

from tests.browser.reader import Reader, until

LONG_TASK = "Write a very long story about a lighthouse keeper and the sea."


def permits_held(reader: Reader) -> float:
    """How many requests are inside the server."""
    with urllib.request.urlopen(f"{reader.origin}/metrics") as response:
        found = re.search(r"^\w+_permits_held (\S+)$", response.read().decode(), re.MULTILINE)
    assert found
    return float(found[1])


def test_the_page_says_which_model_answers(reader: Reader) -> None:
    assert reader.text("#model") == "smollm2-135m"
    assert reader.text("#welcome-title") == "Ask smollm2-135m"
    assert reader.browser.title == "smollm2-135m · Helios"


def test_a_typed_message_is_answered_and_the_answer_grows(reader: Reader) -> None:
    reader.send(LONG_TASK)
    states = reader.growth(most_states=5)
    assert len(states) == 5
    for earlier, later in zip(states, states[1:], strict=False):
        assert later.startswith(earlier.rstrip())
    assert reader.text(".question .words") == LONG_TASK
    assert reader.all(".problem") == []
    assert not reader.sees("#welcome")


def test_stop_keeps_what_came_and_the_next_message_is_answered(reader: Reader) -> None:
    reader.send(LONG_TASK)
    begun = reader.wait_for_words()
    reader.click("#stop")
    reader.wait_until_idle()
    (kept,) = reader.answers()
    assert kept.startswith(begun.rstrip())
    assert reader.text(".note") == "Stopped."
    until(lambda: permits_held(reader) == 0, what="the permit, given back")
    reader.send("And then?")
    assert len(reader.growth(most_states=2)) == 2
    reader.press(Keys.ESCAPE)
    reader.wait_until_idle()
    assert len(reader.answers()) == 2
    assert reader.answers()[0] == kept
    assert reader.all(".problem") == []


def test_leaving_the_page_stops_its_answer(reader: Reader) -> None:
    reader.send(LONG_TASK)
    reader.wait_for_words()
    reader.browser.get("about:blank")
    until(lambda: permits_held(reader) == 0, what="the permit, given back", seconds=5)
    reader.browser.back()
    assert reader.wait_for_words()
    assert reader.text(".note") == "Stopped."


def test_a_refused_request_shows_the_servers_sentence(reader: Reader) -> None:
    reader.paste("sea " * 20_000)
    reader.press(Keys.ENTER)
    problem = until(lambda: reader.text(".problem"), what="the error")
    assert "Error 400" in problem
    assert "8192" in problem
    reader.click("#renew")
    reader.send("What is the capital of France?")
    assert reader.growth(most_states=1)


def test_the_keyboard_alone_is_enough(reader: Reader) -> None:
    assert reader.focused() == reader.one("#message")
    reader.press("One line", Keys.SHIFT + Keys.ENTER, Keys.NULL, "and another.")
    assert reader.one("#message").get_property("value") == "One line\nand another."
    reader.press(Keys.ENTER)
    assert reader.text(".question .words") == "One line\nand another."
    reader.wait_for_words()
    reader.press(Keys.ESCAPE)
    reader.wait_until_idle()
    reader.press(LONG_TASK, Keys.ENTER)
    reader.wait_for_words()
    reader.press(Keys.TAB)
    assert reader.focused() == reader.one("#stop")
    reader.press(Keys.ESCAPE)
    reader.wait_until_idle()
    assert reader.focused() == reader.one("#message")
    while reader.focused() != reader.one("#renew"):
        reader.press(Keys.SHIFT + Keys.TAB)
    reader.press(Keys.ENTER)
    assert reader.answers() == []
    assert reader.sees("#welcome")
    assert reader.focused() == reader.one("#message")


def test_no_request_leaves_the_origin_and_the_console_stays_empty(reader: Reader) -> None:
    reader.send("Write a line of Python in a code block.")
    reader.growth(most_states=10)
    requests = reader.requests()
    assert f"{reader.origin}/v1/chat/completions" in requests
    allowed = (f"{reader.origin}/", "data:image/svg+xml,")
    assert [url for url in requests if not url.startswith(allowed)] == []
    assert reader.complaints() == []
