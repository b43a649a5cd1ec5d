"""What the reader sets is sent, remembered, and judged before it is sent; and keys."""

from __future__ import annotations

import json

from selenium.webdriver.common.keys import Keys

from tests.browser.reader import Reader, until
from tests.browser.scripted import ScriptedServer, answer

TOOLS = [{"type": "function", "function": {"name": "get_time", "parameters": {}}}]
CHOSEN = {
    "temperature": 0.7,
    "top_p": 0.9,
    "top_k": 40,
    "min_p": 0.05,
    "max_tokens": 64,
    "seed": 7,
}


def test_the_server_decides_where_nothing_is_set(
    play_reader: Reader, scripted: ScriptedServer
) -> None:
    scripted.plan(answer("Yes."))
    play_reader.send("Hello")
    play_reader.growth()
    assert scripted.received[-1] == {
        "model": "scripted-1b",
        "messages": [{"role": "user", "content": "Hello"}],
        "stream": True,
        "return_token_ids": True,
        "return_token_timestamps": True,
    }


def test_what_is_set_is_sent_and_remembered(play_reader: Reader, scripted: ScriptedServer) -> None:
    scripted.plan(answer("Yes."), answer("No."))
    play_reader.click("[popovertarget=settings]")
    for name, value in CHOSEN.items():
        play_reader.one(f"[name={name}]").send_keys(str(value))
    play_reader.one("[name=system]").send_keys("Be brief.")
    play_reader.fill("[name=tools]", json.dumps(TOOLS))
    play_reader.click("[name=times]")
    play_reader.press(Keys.ESCAPE)
    assert not play_reader.sees("#settings")
    assert play_reader.focused() == play_reader.one("[popovertarget=settings]")
    play_reader.open()
    play_reader.send("Hello")
    play_reader.growth()
    sent = dict(scripted.received[-1])
    assert sent.pop("messages") == [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "Hello"},
    ]
    assert sent == {"model": "scripted-1b", "stream": True, **CHOSEN, "tools": TOOLS}
    play_reader.click("[popovertarget=settings]")
    play_reader.click("#settings [type=reset]")
    play_reader.press(Keys.ESCAPE)
    play_reader.open()
    play_reader.send("Hello")
    play_reader.growth()
    assert "temperature" not in scripted.received[-1]
    assert scripted.received[-1]["return_token_ids"] is True


def test_panels_open_and_close_by_keyboard(play_reader: Reader) -> None:
    while play_reader.focused() != play_reader.one("[popovertarget=settings]"):
        play_reader.press(Keys.SHIFT + Keys.TAB)
    play_reader.press(Keys.ENTER)
    assert play_reader.sees("#settings")
    play_reader.press(Keys.TAB)
    assert play_reader.focused() == play_reader.one("[name=temperature]")
    play_reader.press(Keys.ESCAPE)
    assert not play_reader.sees("#settings")
    play_reader.press(Keys.SHIFT + Keys.TAB)
    play_reader.press(Keys.ENTER)
    assert play_reader.sees("#live")
    play_reader.press(Keys.ENTER)
    assert not play_reader.sees("#live")


def test_what_cannot_be_sent_is_shown_instead(
    play_reader: Reader, scripted: ScriptedServer
) -> None:
    scripted.plan(answer("Yes."))
    play_reader.fill("[name=tools]", '{"type": "function"}')
    play_reader.send("Hello")
    assert scripted.received == []
    assert play_reader.focused() == play_reader.one("[name=tools]")
    message = play_reader.one("[name=tools]").get_property("validationMessage")
    assert message == "Expected a JSON list of tools, as OpenAI's API has it."
    play_reader.fill("[name=tools]", "")
    play_reader.fill("[name=temperature]", "3")
    play_reader.press(Keys.ESCAPE)
    play_reader.one("#message").send_keys(Keys.ENTER)
    assert play_reader.focused() == play_reader.one("[name=temperature]")
    assert play_reader.one("#message").get_property("value") == "Hello"
    play_reader.fill("[name=temperature]", "1")
    play_reader.press(Keys.ESCAPE)
    play_reader.one("#message").send_keys(Keys.ENTER)
    play_reader.growth()
    assert scripted.received[-1]["temperature"] == 1


def test_the_page_works_where_nothing_may_be_stored(
    play_reader: Reader, scripted: ScriptedServer
) -> None:
    scripted.plan(answer("Yes."))
    forbidden = play_reader.browser.execute_cdp_cmd(
        "Page.addScriptToEvaluateOnNewDocument",
        {
            "source": "for (const name of ['localStorage', 'sessionStorage'])"
            "Object.defineProperty(window, name, {get() { throw new Error('no') }})"
        },
    )
    try:
        play_reader.open()
        play_reader.fill("[name=seed]", "3")
        play_reader.send("Hello")
        play_reader.growth()
    finally:
        play_reader.tell("Page.removeScriptToEvaluateOnNewDocument", **forbidden)
    assert scripted.received[-1]["seed"] == 3
    assert play_reader.complaints() == []


def test_a_key_is_asked_for_and_used_until_the_tab_is_closed(
    play_reader: Reader, scripted: ScriptedServer
) -> None:
    scripted.plan(answer("Welcome."), answer("Again."))
    scripted.key = "open-sesame"
    play_reader.send("Hello")
    play_reader.growth()
    assert play_reader.text(".problem h3") == "A key is needed"
    assert play_reader.text(".problem p") == "expected a key that this server knows"
    assert play_reader.focused() == play_reader.one("#key")
    below = "return arguments[0].getBoundingClientRect().bottom"
    above = "return document.getElementById('composer').getBoundingClientRect().top"
    key_form = play_reader.one("#key-form")
    assert play_reader.run(below, key_form) <= play_reader.run(above)
    play_reader.press("wrong", Keys.ENTER)
    until(lambda: play_reader.sees("#key-form"), what="the form, again")
    play_reader.press("open-sesame", Keys.ENTER)
    until(lambda: play_reader.answers() == ["Welcome."], what="the answer")
    assert not play_reader.sees("#key-form")
    assert "open-sesame" not in play_reader.run("return document.documentElement.outerHTML")
    play_reader.open()
    play_reader.send("Hello again")
    play_reader.growth()
    assert play_reader.answers() == ["Again."]
    assert play_reader.run("return localStorage.length") == 0


def test_a_locked_server_asks_for_its_key_at_once(
    play_reader: Reader, scripted: ScriptedServer
) -> None:
    scripted.key = "open-sesame"
    play_reader.browser.get(play_reader.origin)
    until(lambda: play_reader.sees("#key-form"), what="the form")
    assert play_reader.text("#welcome-title") == "A key is needed"
    play_reader.press("open-sesame", Keys.ENTER)
    until(lambda: play_reader.text("#model") == "scripted-1b", what="the model's name")
    assert play_reader.text("#welcome-title") == "Ask scripted-1b"
