"""One real server for every test that does not stop it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from openai import OpenAI

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
