"""The page's files, as the server knows them."""

from __future__ import annotations

from importlib.resources import files

from helios.serve.app import PAGE_FILES


def test_every_file_of_the_page_is_served() -> None:
    folder = files("helios.serve") / "page"
    assert sorted(PAGE_FILES) == sorted(file.name for file in folder.iterdir())


def test_the_page_names_each_of_its_modules() -> None:
    page = (files("helios.serve") / "page" / "index.html").read_text()
    for name in PAGE_FILES:
        if name != "index.html":
            assert f'"{name}"' in page, name
