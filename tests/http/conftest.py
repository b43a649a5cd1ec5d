"""One real server for every test that does not stop it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from openai import OpenAI

from tests.http.scripted import Theatre, theatre
from tests.http.scripted_server import LINES, ScriptedServer, scripted_server
from tests.http.small import SmallServer
from tests.serving import RealServer


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """One worker runs all of these, so that there is one server."""
    for item in items:
        if item.path.is_relative_to(Path(__file__).parent):
            item.add_marker(pytest.mark.xdist_group("http"))


@pytest.fixture(scope="session")
def server() -> Iterator[RealServer]:
    server = RealServer("--max-active", "16", "--queue-capacity", "8", "--cache-memory", "512M")
    server.wait_until_ready()
    yield server
    server.stop()


@pytest.fixture(scope="session")
def client(server: RealServer) -> Iterator[OpenAI]:
    with OpenAI(base_url=f"{server.origin}/v1", api_key="none", max_retries=0) as client:
        yield client


@pytest.fixture(scope="session")
def small_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the small core is."""
    return tmp_path_factory.mktemp("small")


@pytest.fixture(scope="session")
def small(small_folder: Path) -> Iterator[SmallServer]:
    """A server of a scripted core, open to everybody."""
    server = SmallServer(small_folder, "--max-active", "4", "--queue-capacity", "60")
    yield server
    assert server.stop() == 0


@pytest.fixture(scope="session")
def locked(small_folder: Path) -> Iterator[SmallServer]:
    """A server with keys, which pages of one other origin may use."""
    server = SmallServer(
        small_folder,
        *("--cors-origin", "https://page.example", "--max-active", "4"),
        variables={"HELIOS_API_KEYS": "first-key, second-key"},
    )
    yield server
    assert server.stop() == 0


@pytest.fixture(scope="session")
def scripted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ScriptedServer]:
    with scripted_server(tmp_path_factory.mktemp("scripted"), LINES) as server:
        yield server


@pytest.fixture(scope="session")
def play(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Theatre]:
    """Servers of scripted stages, each started when it is first wanted."""
    yield from theatre(tmp_path_factory.mktemp("scripted"))
