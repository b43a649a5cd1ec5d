"""JSON in and out: typed requests decoded with errors that name the field, errors, events.

An unknown field is refused by name.  Fields that OpenAI defines and that change nothing here
are listed in `WITHOUT_EFFECT` and in docs/api.md.
"""

from __future__ import annotations

import re
import secrets
from typing import Annotated, Any, Final, TypeVar

import msgspec

from helios.values import HeliosError, RequestInvalid

WITHOUT_EFFECT: Final = (
    "metadata",
    "prompt_cache_key",
    "safety_identifier",
    "service_tier",
    "store",
    "user",
)
"""They describe the client or its account, not the answer."""

Temperature = Annotated[float, msgspec.Meta(ge=0.0, le=2.0)]
Probability = Annotated[float, msgspec.Meta(gt=0.0, le=1.0)]
Least = Annotated[float, msgspec.Meta(ge=0.0, le=1.0)]
Penalty = Annotated[float, msgspec.Meta(ge=-2.0, le=2.0)]
Repetition = Annotated[float, msgspec.Meta(gt=0.0, le=10.0)]
Bias = Annotated[float, msgspec.Meta(ge=-100.0, le=100.0)]
Count = Annotated[int, msgspec.Meta(ge=0, le=1 << 31)]
Positive = Annotated[int, msgspec.Meta(ge=1, le=1 << 31)]
Seed = Annotated[int, msgspec.Meta(ge=-(1 << 63), le=(1 << 63) - 1)]
Choices = Annotated[int, msgspec.Meta(ge=1, le=16)]
Alternatives = Annotated[int, msgspec.Meta(ge=0, le=20)]
Salt = Annotated[str, msgspec.Meta(min_length=1, max_length=1024)]

Body = TypeVar("Body")
FIELDS: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])
UNKNOWN: Final = re.compile(r"Object contains unknown field `([^`]*)`(?: - at `\$(.*)`)?")
AT: Final = re.compile(r"(.*) - at `\$\.?(.*)`")


def decode(
    body: bytes, decoder: msgspec.json.Decoder[Body], *, ignored: tuple[str, ...] = WITHOUT_EFFECT
) -> Body:
    """The typed request, or RequestInvalid naming the field."""
    try:
        fields = FIELDS.decode(body)
        for name in ignored:
            fields.pop(name, None)
        return decoder.decode(msgspec.json.encode(fields))
    except msgspec.ValidationError as error:
        raise named(str(error)) from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise RequestInvalid("body", str(error), expected="a JSON object") from None


def named(sentence: str) -> RequestInvalid:
    """msgspec's sentence, with the field first."""
    if unknown := UNKNOWN.match(sentence):
        where = f"{unknown[2]}." if unknown[2] else ""
        return RequestInvalid(
            f"{where.lstrip('.')}{unknown[1]}",
            "a field that this server does not know",
            expected="fields that docs/api.md lists",
        )
    found = AT.match(sentence)
    what, where = (found[1], found[2]) if found else (sentence, "body")
    expected, _, got = what.removeprefix("Expected ").partition(", got ")
    return RequestInvalid(where, got or "another value", expected=expected)


def encode(value: object) -> bytes:
    """Compact JSON."""
    return msgspec.json.encode(value)


KINDS: Final = {
    400: "invalid_request_error",
    401: "authentication_error",
    404: "not_found_error",
    408: "invalid_request_error",
    413: "invalid_request_error",
    415: "invalid_request_error",
    429: "rate_limit_error",
}
"""What OpenAI calls an error of a status; the others are the server's."""


def error_of(error: HeliosError, *, status: int) -> dict[str, Any]:
    """An error in OpenAI's shape."""
    return {
        "error": {
            "message": str(error),
            "type": KINDS.get(status, "server_error"),
            "param": error.field if isinstance(error, RequestInvalid) else None,
            "code": status,
        }
    }


def new_call_id() -> str:
    """An id for a call whose syntax has none."""
    return f"call_{secrets.token_hex(12)}"


def event(value: object) -> bytes:
    """A server-sent event."""
    return b"data: " + encode(value) + b"\n\n"


def typed_event(value: dict[str, Any]) -> bytes:
    """A server-sent event under the name of its type."""
    return b"event: " + str(value["type"]).encode() + b"\ndata: " + encode(value) + b"\n\n"


DONE: Final = b"data: [DONE]\n\n"
