"""The person in front of the page: what can be done to it, and what can be seen of it."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from selenium.webdriver import Chrome
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.remote.webelement import WebElement

PATIENCE_SECONDS = 30

Found = TypeVar("Found")


def until(look: Callable[[], Found], *, what: str, seconds: float = PATIENCE_SECONDS) -> Found:
    """What `look` finds, as soon as it finds something."""
    deadline = time.monotonic() + seconds
    while True:
        found = look()
        if found:
            return found
        assert time.monotonic() < deadline, f"{what}: not seen within {seconds:g} seconds"
        time.sleep(0.02)


@dataclass(frozen=True, slots=True)
class Reader:
    """One person at one page."""

    browser: Chrome
    origin: str

    # ------------------------------------------------------------- doing

    def open(self) -> None:
        """Open the page and wait for the model's name."""
        self.browser.get(self.origin)
        until(lambda: self.text("#model"), what="the model's name")

    def press(self, *keys: str) -> None:
        """Press keys, wherever the focus is."""
        self.focused().send_keys(*keys)

    def send(self, message: str) -> None:
        """Type a message and send it."""
        self.one("#message").send_keys(message, Keys.ENTER)

    def paste(self, message: str) -> None:
        """Put a long message into the input at once."""
        self.run("document.getElementById('message').value = arguments[0]", message)

    def fill(self, selector: str, text: str) -> None:
        """Replace what is in a field, as typing or pasting does."""
        self.run(
            "const [field, text] = arguments; field.value = text;"
            "field.dispatchEvent(new Event('input', {bubbles: true}));",
            self.one(selector),
            text,
        )

    def click(self, selector: str) -> None:
        """Click an element."""
        self.one(selector).click()

    def run(self, script: str, *arguments: object) -> Any:  # noqa: ANN401
        """Run JavaScript in the page."""
        return self.browser.execute_script(script, *arguments)

    def tell(self, command: str, **parameters: object) -> None:
        """Tell the browser something of its own protocol."""
        self.browser.execute_cdp_cmd(command, parameters)

    def prefer(self, **features: str) -> None:
        """Prefer a colour scheme, or less motion."""
        named = [
            {"name": f"prefers-{name.replace('_', '-')}", "value": value}
            for name, value in features.items()
        ]
        self.tell("Emulation.setEmulatedMedia", features=named)

    def resize(self, width: int, height: int) -> None:
        """Look through a window of this size, in CSS pixels."""
        self.tell(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=False,
        )

    # ------------------------------------------------------------ seeing

    def all(self, selector: str) -> list[WebElement]:
        """The elements that match."""
        return self.browser.find_elements(By.CSS_SELECTOR, selector)

    def one(self, selector: str) -> WebElement:
        """The only element that matches."""
        (found,) = self.all(selector)
        return found

    def text(self, selector: str) -> str:
        """The text of all elements that match, as it is in the document."""
        found: str = self.run(
            "return [...document.querySelectorAll(arguments[0])]"
            ".map((e) => e.textContent).join('\\n')",
            selector,
        )
        return found

    def sees(self, selector: str) -> bool:
        """Whether the only element that matches is visible."""
        return self.one(selector).is_displayed()

    def focused(self) -> WebElement:
        """What has the focus."""
        return self.browser.switch_to.active_element

    def answers(self) -> list[str]:
        """The words of each answer."""
        found: list[str] = self.run(
            "return [...document.querySelectorAll('.answer')]"
            ".map((e) => e.querySelector('.words')?.textContent ?? '')"
        )
        return found

    def growth(self, *, most_states: int | None = None) -> list[str]:
        """Each different state of the last answer until it ends, or only so many."""
        states: list[str] = []
        deadline = time.monotonic() + PATIENCE_SECONDS
        while True:
            busy, text = self.run(
                "const last = [...document.querySelectorAll('.answer')].at(-1);"
                "return [last.getAttribute('aria-busy'),"
                "        last.querySelector('.words')?.textContent ?? '']"
            )
            if text and (not states or states[-1] != text):
                states.append(text)
            if busy == "false" or len(states) == most_states:
                return states
            assert time.monotonic() < deadline, f"the answer did not end: {text!r}"

    def wait_until_idle(self) -> None:
        """Wait until no answer is coming."""
        until(lambda: self.sees("#send"), what="Send")

    def wait_for_words(self) -> str:
        """Wait until the last answer has begun."""
        return until(lambda: (self.answers() or [""])[-1], what="the first words")

    # ----------------------------------------------------------- records

    def requests(self) -> list[str]:
        """The address of every request since the last look."""
        return [
            message["params"]["request"]["url"]
            for message in self._protocol()
            if message["method"] == "Network.requestWillBeSent"
        ]

    def complaints(self) -> list[str]:
        """What the console says: errors, warnings, violations of the page's policy."""
        return [entry["message"] for entry in self.browser.get_log("browser")]  # type: ignore[no-untyped-call]

    def _protocol(self) -> list[dict[str, Any]]:
        entries = self.browser.get_log("performance")  # type: ignore[no-untyped-call]
        return [json.loads(entry["message"])["message"] for entry in entries]
