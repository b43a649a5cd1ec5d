"""Where a conversation has images, and their bytes.

Images come inside the request, as data URIs; the server asks nobody for anything (RFC 2397 says
what a data URI is).  Base64 is read as clients write it: with or without padding, in either
alphabet, percent-encoded or not.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final
from urllib.parse import unquote_to_bytes

import msgspec

from helios.values import RequestInvalid

IMAGE_TYPES: Final = ("image", "image_url", "input_image")
DETAILS: Final = (None, "auto", "low", "high")
"""Accepted beside a URL, without effect: a model's own geometry says how large images become."""

MOST_IMAGE_NBYTES: Final = 20 << 20
SHOWN: Final = 40
DATA_URI: Final = re.compile(r"\s*data:([^,]*),", re.IGNORECASE)
BLANKS: Final = b" \t\r\n\f\v"
STANDARD: Final = bytes.maketrans(b"-_", b"+/")


class ImageSource(msgspec.Struct, frozen=True, kw_only=True):
    """A URL of an image, and which field of the request says it."""

    url: object
    at: str


def is_image(part: Mapping[str, Any]) -> bool:
    """Whether a part shows an image; one without a type is what it carries (I-03)."""
    kind = part.get("type")
    return kind in IMAGE_TYPES or (kind is None and "image_url" in part)


def image_sources(messages: Sequence[Mapping[str, Any]]) -> Iterator[ImageSource]:
    """Every image of a conversation, in the order in which it is told."""
    for index, message in enumerate(messages):
        content = message.get("content")
        if not isinstance(content, list | tuple):
            continue
        for place, part in enumerate(content):
            if isinstance(part, Mapping) and is_image(part):
                yield source_of(part, at=f"messages[{index}].content[{place}]")


def source_of(part: Mapping[str, Any], *, at: str) -> ImageSource:
    """The URL of a part: an object with a URL, or the URL itself."""
    carried = [name for name in ("image_url", "image", "url") if part.get(name) is not None]
    strange = sorted(set(part) - {"type", "detail", *carried})
    if len(carried) != 1 or strange:
        found = " and ".join([*carried, *strange]) or "no URL"
        raise RequestInvalid(at, found, expected="an image part with image_url and nothing else")
    name, said = carried[0], part[carried[0]]
    check_detail(part.get("detail"), at=f"{at}.detail")
    if not isinstance(said, Mapping):
        return ImageSource(url=said, at=f"{at}.{name}")
    for field in said:
        if field not in ("url", "detail"):
            raise RequestInvalid(f"{at}.{name}.{field}", "a field", expected="url, and detail")
    check_detail(said.get("detail"), at=f"{at}.{name}.detail")
    return ImageSource(url=said.get("url"), at=f"{at}.{name}.url")


def check_detail(detail: object, *, at: str) -> None:
    """Only OpenAI's words."""
    if detail not in DETAILS:
        raise RequestInvalid(at, repr(detail)[:SHOWN], expected="auto, low or high")


def data_of(source: ImageSource) -> bytes:
    """The bytes that a data URI says, or RequestInvalid naming the field (I-01)."""
    url, at = source.url, source.at
    if not isinstance(url, str):
        found = "nothing" if url is None else type(url).__name__
        raise RequestInvalid(at, found, expected="a data URI")
    head = DATA_URI.match(url)
    if head is None:
        raise RequestInvalid(
            at,
            repr(url[:SHOWN]),
            expected="a data URI (data:image/png;base64,...): the server fetches nothing",
        )
    kind, *parameters = (word.strip().lower() for word in head[1].split(";"))
    if kind and not kind.startswith("image/"):
        raise RequestInvalid(at, f"data of the type {kind[:SHOWN]}", expected="an image/ type")
    try:
        payload = unquote_to_bytes(url[head.end() :])
    except UnicodeEncodeError:
        raise RequestInvalid(at, "characters that are no text", expected="a data URI") from None
    data = decoded(payload, at=at) if "base64" in parameters else payload
    if not data:
        raise RequestInvalid(at, "a data URI without data", expected="an image")
    if len(data) > MOST_IMAGE_NBYTES:
        raise RequestInvalid(
            at, f"an image of {len(data)} bytes", expected=f"at most {MOST_IMAGE_NBYTES} bytes"
        )
    return data


def decoded(payload: bytes, *, at: str) -> bytes:
    """The bytes of base64 in either alphabet; padding counts for nothing."""
    letters = payload.translate(STANDARD, BLANKS).rstrip(b"=")
    try:
        return base64.b64decode(letters + b"=" * (-len(letters) % 4), validate=True)
    except binascii.Error as error:
        raise RequestInvalid(at, f"bad base64 ({error})", expected="base64") from None
