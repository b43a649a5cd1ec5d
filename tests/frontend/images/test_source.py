"""Where images come from: every form of data URI, nothing from outside, refusals by field."""

from __future__ import annotations

import base64
from collections.abc import Callable
from typing import Any
from urllib.parse import quote_from_bytes

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from helios.frontend.images.source import (
    MOST_IMAGE_NBYTES,
    data_of,
    image_sources,
)
from helios.values import RequestInvalid
from tests.frontend.images.pictures import source

DATA = bytes(range(256)) + b"\xfb\xff\xbf"
TEXT = base64.b64encode(DATA).decode()
SAFE = base64.urlsafe_b64encode(DATA).decode()

FORMS: list[str] = [
    f"data:image/png;base64,{TEXT}",
    f"DATA:IMAGE/PNG;BASE64,{TEXT}",
    f"data:;base64,{TEXT}",
    f"data:image/png;charset=utf-8;base64,{TEXT}",
    f"data:image/svg;name=a.png; base64,{TEXT}",
    f" data:image/png;base64, {TEXT}\n",
    f"data:image/png;base64,{SAFE}",
    f"data:image/png;base64,{TEXT.replace('+', '%2B').replace('/', '%2F')}",
    f"data:image/png;base64,{TEXT[:60]}\r\n{TEXT[60:]}",
    f"data:image/png,{quote_from_bytes(DATA)}",
    f"data:,{quote_from_bytes(DATA, safe='')}",
]


@pytest.mark.parametrize("url", FORMS, ids=range(len(FORMS)))
def test_a_data_uri_gives_its_bytes_in_every_form(url: str) -> None:
    assert data_of(source(url)) == DATA


@pytest.mark.parametrize("length", range(1, 9))
@pytest.mark.parametrize("padding", ["", "=", "==", "===", "%3D"])
def test_padding_counts_for_nothing(length: int, padding: str) -> None:
    data = DATA[:length]
    letters = base64.b64encode(data).decode().rstrip("=")
    assert data_of(source(f"data:image/png;base64,{letters}{padding}")) == data


REFUSED: list[tuple[object, str]] = [
    (None, "at: found nothing, expected a data URI"),
    (7, "at: found int, expected a data URI"),
    (
        "",
        "at: found '', expected a data URI (data:image/png;base64,...): the server fetches nothing",
    ),
    ("https://example.org/a.png", "at: found 'https://example.org/a.png', expected a data URI ("),
    ("file:///etc/passwd", "at: found 'file:///etc/passwd', expected a data URI ("),
    ("data:image/png;base64", "at: found 'data:image/png;base64', expected a data URI ("),
    (TEXT, f"at: found '{TEXT[:40]}', expected a data URI ("),
    ("data:text/html;base64,AAAA", "at: found data of the type text/html, expected an image/ type"),
    ("data:image/png;base64,A", "at: found bad base64 ("),
    ("data:image/png;base64,AA@A", "at: found bad base64 ("),
    ("data:image/png;base64,AA==AA==", "at: found bad base64 ("),
    ("data:image/png;base64,AA\u00e4A", "at: found bad base64 ("),
    ("data:image/png;base64,", "at: found a data URI without data, expected an image"),
    ("data:image/png,", "at: found a data URI without data, expected an image"),
    ("data:image/png,\ud800", "at: found characters that are no text, expected a data URI"),
]


@pytest.mark.parametrize(("url", "sentence"), REFUSED, ids=range(len(REFUSED)))
def test_what_is_no_data_uri_of_an_image_is_refused_and_never_fetched(
    url: object, sentence: str
) -> None:
    with pytest.raises(RequestInvalid) as refusal:
        data_of(source(url))
    assert str(refusal.value).startswith(sentence)
    assert refusal.value.field == "at"


def test_bytes_are_bounded() -> None:
    size = MOST_IMAGE_NBYTES // 3 * 3
    url = "data:image/png;base64," + "A" * (size // 3 * 4)
    assert len(data_of(source(url))) == size
    with pytest.raises(RequestInvalid, match="expected at most 20971520 bytes"):
        data_of(source(url + "AAAAAAAA"))


@given(
    st.binary(min_size=1, max_size=64),
    st.sampled_from([base64.b64encode, base64.urlsafe_b64encode]),
)
@settings(max_examples=60, deadline=None)
def test_any_bytes_come_back(data: bytes, encode: Callable[[bytes], bytes]) -> None:
    assert data_of(source(f"data:image/png;base64,{encode(data).decode()}")) == data


@given(st.text(max_size=40))
@settings(max_examples=100, deadline=None)
def test_any_text_is_bytes_or_a_refusal(words: str) -> None:
    for head in ("", "data:", "data:image/png,", "data:image/png;base64,"):
        try:
            assert data_of(source(head + words))
        except RequestInvalid as refusal:
            assert refusal.field == "at"  # noqa: PT017 - both outcomes are right


# ------------------------------------------------------------------- parts


def content(*parts: Any) -> list[dict[str, Any]]:
    return [{"role": "system", "content": "x"}, {"role": "user", "content": list(parts)}]


PARTS: list[tuple[dict[str, Any], str]] = [
    ({"type": "image_url", "image_url": {"url": "u"}}, ".image_url.url"),
    ({"type": "image_url", "image_url": {"url": "u", "detail": "low"}}, ".image_url.url"),
    ({"type": "image_url", "image_url": "u"}, ".image_url"),
    ({"type": "input_image", "image_url": "u", "detail": "auto"}, ".image_url"),
    ({"type": "image", "image": "u"}, ".image"),
    ({"type": "image", "url": "u"}, ".url"),
    ({"image_url": {"url": "u"}}, ".image_url.url"),
]


@pytest.mark.parametrize(("part", "field"), PARTS, ids=range(len(PARTS)))
def test_an_image_part_says_its_url_under_any_of_its_names(
    part: dict[str, Any], field: str
) -> None:
    (found,) = image_sources(content({"type": "text", "text": "x"}, part))
    assert (found.url, found.at) == ("u", "messages[1].content[1]" + field)


def test_images_come_in_the_order_in_which_they_are_told() -> None:
    messages: list[dict[str, Any]] = [
        {"role": "user", "content": [PARTS[0][0], {"type": "text", "text": "x"}, PARTS[2][0]]},
        {"role": "assistant", "content": "x"},
        {"role": "tool", "content": [PARTS[4][0]]},
    ]
    assert [found.at for found in image_sources(messages)] == [
        "messages[0].content[0].image_url.url",
        "messages[0].content[2].image_url",
        "messages[2].content[0].image",
    ]


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"type": "image_url"}, "messages[1].content[0]: found no URL, expected an image part"),
    (
        {"type": "image_url", "image_url": "u", "image": "v"},
        "messages[1].content[0]: found image_url and image, expected",
    ),
    (
        {"type": "image_url", "image_url": "u", "text": "x"},
        "messages[1].content[0]: found image_url and text, expected",
    ),
    (
        {"type": "image_url", "image_url": {"url": "u", "size": 3}},
        "messages[1].content[0].image_url.size: found a field, expected url, and detail",
    ),
    (
        {"type": "image_url", "image_url": {"url": "u", "detail": "huge"}},
        "messages[1].content[0].image_url.detail: found 'huge', expected auto, low or high",
    ),
]


@pytest.mark.parametrize(("part", "sentence"), WRONG, ids=range(len(WRONG)))
def test_an_image_part_that_is_not_clear_is_refused(part: dict[str, Any], sentence: str) -> None:
    with pytest.raises(RequestInvalid) as refusal:
        list(image_sources(content(part)))
    assert str(refusal.value).startswith(sentence)
