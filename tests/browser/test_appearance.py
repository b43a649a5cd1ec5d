"""The page can be read and used in light and dark, wide and narrow, seen and heard."""

from __future__ import annotations

import threading
from dataclasses import dataclass

import pytest
from selenium.webdriver.common.keys import Keys

from tests.browser.reader import Reader, until
from tests.browser.scripted import (
    CALLED,
    DONE,
    Script,
    ScriptedServer,
    answer,
    called,
    came,
    given,
    refusal,
    said,
    thought,
)

LEAST_TEXT_CONTRAST = 4.5
LEAST_EDGE_CONTRAST = 3.0
LEAST_TARGET_PIXELS = 24

TEXTS = """
const opaque = (node) => {
  for (let at = node; at; at = at.parentElement) {
    const colour = getComputedStyle(at).backgroundColor;
    if (!/, 0\\)$|^transparent$/.test(colour)) return colour;
  }
  return "rgb(255, 255, 255)";
};
const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
const found = [];
while (walker.nextNode()) {
  const node = walker.currentNode.parentElement;
  if (walker.currentNode.data.trim() === "" || !node.checkVisibility()) continue;
  if (node.closest(".unseen, script, noscript")) continue;
  const style = getComputedStyle(node);
  found.push([walker.currentNode.data.trim().slice(0, 40), style.color, opaque(node)]);
}
const input = document.getElementById("message");
found.push(["placeholder", getComputedStyle(input, "::placeholder").color, opaque(input)]);
return found;
"""

NAMELESS = """
const name = (e) =>
  e.getAttribute("aria-label") ||
  (e.getAttribute("aria-labelledby") ?? "").split(" ")
    .map((id) => document.getElementById(id)?.textContent ?? "").join("") ||
  [...(e.labels ?? [])].map((label) => label.textContent).join("") ||
  (e.matches("button") ? e.textContent.trim() : "");
return [...document.querySelectorAll("button, input, textarea, form, section, article, canvas")]
  .filter((e) => !name(e)).map((e) => e.outerHTML.slice(0, 80));
"""

WIDTHS = (320, 390, 768, 1056, 1280, 1920)
WIDE = """
const width = document.documentElement.clientWidth;
const found = [...document.querySelectorAll("body *:not(.unseen):not(pre *)")]
  .filter((e) => e.getBoundingClientRect().right > width + 0.5
              || e.getBoundingClientRect().left < -0.5).map((e) => e.outerHTML);
return document.scrollingElement.scrollWidth > width ? [...found, "scrolls"] : found;
"""

STRAY = """
const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
const found = [];
while (walker.nextNode()) {
  const { data, parentElement } = walker.currentNode;
  if (data.trim() && !parentElement.closest("header, main")) found.push(data);
}
return found;
"""


@dataclass(frozen=True, slots=True)
class Colour:
    """An opaque colour, 0 to 1 a channel."""

    red: float
    green: float
    blue: float

    @classmethod
    def of(cls, css: str) -> Colour:
        """From a computed value such as rgb(1, 2, 3)."""
        inside = css[css.index("(") + 1 : css.index(")")].split(",")
        assert len(inside) == 3, f"{css}: expected an opaque colour"
        return cls(*(float(channel) / 255 for channel in inside))

    @property
    def luminance(self) -> float:
        """Relative luminance of WCAG."""
        channels = (
            channel / 12.92 if channel <= 0.04045 else ((channel + 0.055) / 1.055) ** 2.4
            for channel in (self.red, self.green, self.blue)
        )
        return sum(
            weight * channel
            for weight, channel in zip((0.2126, 0.7152, 0.0722), channels, strict=True)
        )


def contrast(one: str, other: str) -> float:
    """Contrast of two computed colours, 1 to 21."""
    low, high = sorted((Colour.of(one).luminance, Colour.of(other).luminance))
    return (high + 0.05) / (low + 0.05)


def fill(reader: Reader, scripted: ScriptedServer) -> threading.Event:
    """A conversation with everything in it; set the event to let its last answer end."""
    arguments = given(0, '{"city": "' + "L" * 90 + '"}')
    calling = Script(steps=[thought("Hm " * 60), called(0, "get"), arguments, came(1, 2), CALLED])
    gate = threading.Event()
    full = Script(status=429, steps=[refusal("full", code=429)], media_type="application/json")
    last = Script(steps=[said("Growing `code`"), gate, DONE])
    long_line = "x = " + "1 + " * 60
    inline = answer(f"Some `inline` words:\n```python\n{long_line}\n```")
    scripted.plan(inline, full, calling, answer("Thanks."), last)
    for question in ("First", "Second", "Third"):
        reader.send(question)
        reader.growth()
    reader.run("document.querySelector('.thought').open = true")
    reader.one(".results textarea").send_keys("21 degrees")
    reader.click(".results button")
    reader.growth()
    reader.click("[popovertarget=live]")
    reader.send("W" * 200)
    reader.wait_for_words()
    return gate


def test_every_text_has_enough_contrast(play_reader: Reader, scripted: ScriptedServer) -> None:
    def texts() -> list[list[str]]:
        found = []
        for scheme in ("light", "dark"):
            play_reader.prefer(color_scheme=scheme)
            found += play_reader.run(TEXTS)
        return found

    seen = texts()
    gate = fill(play_reader, scripted)
    seen += texts()
    gate.set()
    play_reader.wait_until_idle()
    play_reader.click("[popovertarget=settings]")
    seen += texts()
    assert len(seen) >= 100
    poor = [
        (text, round(contrast(colour, ground), 2))
        for text, colour, ground in seen
        if contrast(colour, ground) < LEAST_TEXT_CONTRAST
    ]
    assert poor == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_input_has_an_edge_and_focus_has_a_ring(play_reader: Reader, scheme: str) -> None:
    play_reader.prefer(color_scheme=scheme)
    style = "return getComputedStyle(document.querySelector(arguments[0]))[arguments[1]]"
    ground = play_reader.run(style, "body", "backgroundColor")
    ring = play_reader.run(style, ".field", "outlineColor")
    assert play_reader.run(style, ".field", "outlineStyle") == "solid"
    assert contrast(ring, ground) >= LEAST_EDGE_CONTRAST
    play_reader.press(Keys.TAB)
    assert play_reader.focused() == play_reader.one("#send")
    assert play_reader.run(style, "#send", "outlineStyle") == "solid"
    assert contrast(play_reader.run(style, "#send", "outlineColor"), ground) >= LEAST_EDGE_CONTRAST
    assert contrast(play_reader.run(style, ".field", "borderTopColor"), ground) >= (
        LEAST_EDGE_CONTRAST
    )


def test_light_and_dark_are_two_looks(play_reader: Reader) -> None:
    ground = "return getComputedStyle(document.body).backgroundColor"
    light = Colour.of(play_reader.run(ground))
    play_reader.prefer(color_scheme="dark")
    dark = Colour.of(play_reader.run(ground))
    assert light.luminance > 0.8
    assert dark.luminance < 0.05


def test_nothing_is_wider_than_the_window(play_reader: Reader, scripted: ScriptedServer) -> None:
    gate = fill(play_reader, scripted)
    wide = {}
    for width in WIDTHS:
        play_reader.resize(width, 640)
        wide[width] = play_reader.run(WIDE)
    gate.set()
    play_reader.wait_until_idle()
    play_reader.click("[popovertarget=settings]")
    for width in WIDTHS:
        play_reader.resize(width, 640)
        wide[width] += play_reader.run(WIDE)
    assert wide == {width: [] for width in WIDTHS}


def test_everything_that_is_used_has_a_name_and_a_place(
    play_reader: Reader, scripted: ScriptedServer
) -> None:
    gate = fill(play_reader, scripted)
    assert play_reader.run(NAMELESS) == []
    assert play_reader.run(STRAY) == []
    gate.set()
    for landmark in ("header", "main", "h1", "title"):
        assert len(play_reader.all(landmark)) == 1, landmark
    assert play_reader.one("html").get_attribute("lang") == "en"
    levels = play_reader.run(
        "return [...document.querySelectorAll('h1,h2,h3')].map((h) => Number(h.tagName[1]))"
    )
    assert all(later - earlier <= 1 for earlier, later in zip(levels, levels[1:], strict=False))
    ids = play_reader.run("return [...document.querySelectorAll('[id]')].map((e) => e.id)")
    assert len(ids) == len(set(ids))


def test_targets_are_large_enough(play_reader: Reader, scripted: ScriptedServer) -> None:
    gate = fill(play_reader, scripted)
    gate.set()
    play_reader.wait_until_idle()
    small = [
        (button.text, button.size)
        for button in play_reader.all("button, input, textarea, summary, canvas")
        if button.is_displayed() and min(button.size.values()) < LEAST_TARGET_PIXELS
    ]
    assert small == []


def test_nothing_moves_for_a_reader_who_wants_less_motion(
    play_reader: Reader, scripted: ScriptedServer
) -> None:
    moving = "return document.getAnimations().length"
    gate = fill(play_reader, scripted)
    assert play_reader.run(moving) == 1
    play_reader.prefer(reduced_motion="reduce")
    assert play_reader.run(moving) == 0
    gate.set()


def test_a_long_line_of_code_scrolls_by_keyboard(
    play_reader: Reader, scripted: ScriptedServer
) -> None:
    scripted.plan(answer("```\n" + "x" * 500 + "\n```"))
    play_reader.send("Show me")
    play_reader.growth()
    while play_reader.focused() != play_reader.one("pre"):
        play_reader.press(Keys.SHIFT + Keys.TAB)
    play_reader.press(Keys.ARROW_RIGHT)
    left = "return document.querySelector('pre').scrollLeft"
    until(lambda: play_reader.run(left) > 0, what="the end of the line")


def test_the_input_grows_with_its_text(play_reader: Reader) -> None:
    height = "return document.getElementById('message').offsetHeight"
    one_line = play_reader.run(height)
    play_reader.press(*["line", Keys.SHIFT + Keys.ENTER, Keys.NULL] * 3)
    assert play_reader.run(height) > 2.5 * one_line
