"""A browser, the page in it, and the two servers behind it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from selenium import webdriver

from tests.browser.reader import Reader
from tests.browser.scripted import ScriptedServer, ServerThread
from tests.browser.stage import make_core
from tests.serving import RealServer

CHROMIUM = Path("/usr/bin/chromium")
CHROMEDRIVER = Path("/usr/bin/chromedriver")
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
FORGET = """
const kept = localStorage.length + sessionStorage.length;
localStorage.clear();
sessionStorage.clear();
return kept;
"""
WIDTH, HEIGHT = 1280, 860


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """One worker runs all of these, so that there is one browser and one server."""
    for item in items:
        if item.path.is_relative_to(Path(__file__).parent):
            item.add_marker(pytest.mark.xdist_group("browser"))


@pytest.fixture(scope="session")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[webdriver.Chrome]:
    """Chromium with a profile of its own."""
    for program in (CHROMIUM, CHROMEDRIVER):
        if not program.exists():
            pytest.fail(
                f"{program} is missing: run `apt-get install chromium chromium-driver`",
                pytrace=False,
            )
    options = webdriver.ChromeOptions()
    options.binary_location = str(CHROMIUM)
    for flag in (*FLAGS, f"--user-data-dir={tmp_path_factory.mktemp('profile')}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    service = webdriver.ChromeService(str(CHROMEDRIVER))
    driver = webdriver.Chrome(options=options, service=service)
    try:
        yield driver
    finally:
        driver.quit()


@pytest.fixture(scope="session")
def real_server() -> Iterator[RealServer]:
    """The server with the small core."""
    server = RealServer("--max-active", "4", "--cache-memory", "256M")
    try:
        server.wait_until_ready()
        yield server
    finally:
        server.stop()


@pytest.fixture(scope="session")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a core that says what a script says."""
    folder = tmp_path_factory.mktemp("stage")
    make_core(folder)
    return folder


@pytest.fixture(scope="session")
def running_script() -> Iterator[ScriptedServer]:
    """The scripted server, once for all tests."""
    server = ScriptedServer()
    thread = ServerThread(server.app())
    server.origin = thread.start()
    try:
        yield server
    finally:
        thread.stop()


@pytest.fixture
def scripted(running_script: ScriptedServer) -> ScriptedServer:
    """The scripted server, with nothing planned."""
    running_script.plan()
    return running_script


@pytest.fixture
def reader(browser: webdriver.Chrome, real_server: RealServer) -> Reader:
    """A person at the real server's page."""
    return fresh(Reader(browser, real_server.origin))


@pytest.fixture
def play_reader(browser: webdriver.Chrome, scripted: ScriptedServer) -> Reader:
    """A person at the scripted server's page."""
    return fresh(Reader(browser, scripted.origin))


def fresh(reader: Reader) -> Reader:
    """Open the page as if for the first time."""
    reader.browser.get("about:blank")
    reader.prefer(color_scheme="light", reduced_motion="no-preference")
    reader.resize(WIDTH, HEIGHT)
    reader.requests()
    reader.complaints()
    reader.open()
    if reader.run(FORGET):
        reader.open()
    return reader
