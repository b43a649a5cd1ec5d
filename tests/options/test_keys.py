"""API keys: where they come from, and that errors never say them."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from helios.keys import Keys, read_keys
from helios.values import StartRefused

VISIBLE = st.text(
    st.characters(min_codepoint=33, max_codepoint=126, exclude_characters=","), min_size=1
)


def written(folder: Path, text: str) -> Path:
    path = folder / "keys"
    path.write_text(text)
    return path


def test_without_keys_there_are_none() -> None:
    assert not read_keys(None, {})


@given(keys=st.sets(VISIBLE, min_size=1, max_size=4), given=st.binary(max_size=20))
def test_a_key_opens_and_nothing_else(keys: set[str], given: bytes) -> None:
    made = Keys(keys)
    assert all(made.opens(key.encode()) for key in keys)
    assert made.opens(given) == (given in {key.encode() for key in keys})


def test_each_place_is_read(tmp_path: Path) -> None:
    file = written(tmp_path, "# for the team\none\n\n  two  \n")
    for found in (
        read_keys(file, {}),
        read_keys(None, {"HELIOS_API_KEYS": "one, two"}),
        read_keys(file, {"HELIOS_API_KEYS": "two,one"}),
    ):
        assert (len(found), found.opens(b"one"), found.opens(b"two")) == (2, True, True)
        assert not found.opens(b"# for the team")
    assert read_keys(None, {"HELIOS_API_KEY": "one"}).opens(b"one")


@pytest.mark.parametrize(
    ("text", "variables", "sentence"),
    [
        ("", {}, "found no key, expected at least one"),
        ("# nothing\n", {}, "found no key"),
        (None, {"HELIOS_API_KEY": ""}, "HELIOS_API_KEY: found no key"),
        ("fine\nsecret with blanks", {}, "key 2: found what a header cannot hold"),
        ("s\u00e9cret", {}, "key 1: found what a header cannot hold"),
        (None, {"HELIOS_API_KEY": "secret,b"}, "HELIOS_API_KEY: key 1: found"),
        ("secret", {"HELIOS_API_KEY": "other"}, "API keys: found different ones in --api-key-file"),
        (None, {"HELIOS_API_KEY": "a", "HELIOS_API_KEYS": "a,b"}, "API keys: found different"),
    ],
)
def test_keys_that_cannot_be_are_refused_without_being_said(
    tmp_path: Path, text: str | None, variables: dict[str, str], sentence: str
) -> None:
    with pytest.raises(StartRefused) as refusal:
        read_keys(None if text is None else written(tmp_path, text), variables)
    assert sentence in str(refusal.value)
    assert "secret" not in str(refusal.value).replace(str(tmp_path), "")
