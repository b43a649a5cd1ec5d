"""A real server whose model says what a script says, a token at a time."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest
from selenium.webdriver import Chrome
from selenium.webdriver.common.keys import Keys

from tests.browser.conftest import fresh
from tests.browser.reader import Reader, until
from tests.serving import RealServer

Play = Callable[..., Reader]

PARAMETERS = {"type": "object", "properties": {"city": {"type": "string"}}}
TOOL = {"type": "function", "function": {"name": "weather", "parameters": PARAMETERS}}
CALL = '<tool_call>\n{"name": "weather", "arguments": {"city": "Rome"}}\n</tool_call>'


@pytest.fixture
def play(browser: Chrome, stage: Path) -> Iterator[Play]:
    """A person at the page of a server that plays these lines."""
    servers = []

    def start(*lines: Mapping[str, object]) -> Reader:
        script = stage / "script.jsonl"
        script.write_text("\n".join(json.dumps(line) for line in lines))
        options = ("--script", str(script), "--cache-memory", "16M")
        server = RealServer(*options, core=stage / "stage.core", home=stage)
        servers.append(server)
        server.wait_until_ready()
        return fresh(Reader(browser, server.origin))

    yield start
    for server in servers:
        server.stop()


def test_a_model_thinks_calls_and_goes_on(play: Play) -> None:
    thinking = f"<think>\nLook it up.\n</think>\n\nOne moment.\n{CALL}"
    reader = play(
        {"text": thinking, "delay_ms": 4},
        {"text": "<think>\nWarm.\n</think>\n\nIt is warm in Rome.", "delay_ms": 4},
    )
    reader.fill("[name=tools]", json.dumps([TOOL]))
    reader.fill("[name=temperature]", "0")
    reader.send("How is Rome?")
    reader.wait_until_idle()
    assert reader.text(".thoughts").strip() == "Look it up."
    assert reader.answers() == ["One moment."]
    assert reader.text(".call code") == '{\n  "city": "Rome"\n}'
    reader.one(".results textarea").send_keys("21 degrees", Keys.TAB, Keys.ENTER)
    until(lambda: reader.answers()[1:] == ["It is warm in Rome."], what="the answer")
    reader.wait_until_idle()
    assert [text.split(" ")[1] for text in reader.text(".times-text").split("\n")] == ["tokens"] * 2
    assert " in the prompt, " in reader.text(".times-text")
    assert reader.all(".problem") == []
    assert reader.complaints() == []


def test_stop_and_the_panel_agree_with_the_server(play: Play) -> None:
    reader = play({"text": "the weather is fine. " * 400, "delay_ms": 10})
    reader.click("[popovertarget=live]")
    reader.send("Go on")
    reader.wait_for_words()
    until(lambda: reader.text("[data-count=lanes]").startswith("1 of "), what="a busy lane")
    until(lambda: float(reader.text("[data-count=speed]")) > 10, what="the speed")
    reader.press(Keys.ESCAPE)
    reader.wait_until_idle()
    assert reader.text(".note") == "Stopped."
    assert "ms each" in reader.text(".times-text")
    until(lambda: reader.text("[data-count=lanes]").startswith("0 of "), what="a free lane")
    assert [url for url in reader.requests() if not url.startswith((reader.origin, "data:"))] == []
