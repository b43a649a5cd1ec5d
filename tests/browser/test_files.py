"""The page's files, as the server knows them."""

from __future__ import annotations

import gzip
from importlib.resources import files

import pytest
from starlette.applications import Starlette
from starlette.testclient import TestClient

from helios.serve.app import PAGE_FILES, page_routes
from tests.browser.reader import Reader

MOST_NBYTES = 40_000
"""Of the whole page, as it travels."""


def test_every_file_of_the_page_is_served() -> None:
    folder = files("helios.serve") / "page"
    assert sorted(PAGE_FILES) == sorted(file.name for file in folder.iterdir())


def test_the_page_names_each_of_its_modules() -> None:
    page = (files("helios.serve") / "page" / "index.html").read_text()
    for name in PAGE_FILES:
        if name != "index.html":
            assert f'"{name}"' in page, name


def test_each_module_has_one_concern_and_the_page_is_small() -> None:
    folder = files("helios.serve") / "page"
    contents = {name: (folder / name).read_bytes() for name in PAGE_FILES}
    scripts = [text for name, text in contents.items() if name.endswith(".js")]
    assert max(text.count(b"\n") for text in scripts) < 300
    assert sum(len(gzip.compress(text)) for text in contents.values()) < MOST_NBYTES


@pytest.mark.parametrize("accepted", ["gzip, br", "identity"])
def test_the_page_travels_compressed_for_whoever_takes_that(accepted: str) -> None:
    client = TestClient(Starlette(routes=page_routes()))
    response = client.get("/page.js", headers={"accept-encoding": accepted})
    assert response.text == (files("helios.serve") / "page" / "page.js").read_text()
    assert response.headers.get("content-encoding") == ("gzip" if "gzip" in accepted else None)


def test_text_cannot_become_markup_even_by_mistake(play_reader: Reader) -> None:
    attempt = (
        "try { document.body.insertAdjacentHTML('beforeend', '<b>x</b>'); return 'written' }"
        "catch (error) { return error.name }"
    )
    assert play_reader.run(attempt) == "TypeError"
