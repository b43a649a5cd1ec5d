"""JSON of the OpenAI API: requests as typed structs, answers and events as bytes.

An unknown field is refused by name.  Fields that OpenAI defines and that change nothing here
are listed in `WITHOUT_EFFECT` and in docs/api.md.
"""

from __future__ import annotations

import re
from typing import Annotated, Any, Final, Literal

import msgspec

from helios.respond.pipeline import Usage
from helios.values import HeliosError, RequestInvalid

WITHOUT_EFFECT: Final = (
    "metadata",
    "parallel_tool_calls",
    "prompt_cache_key",
    "safety_identifier",
    "service_tier",
    "store",
    "user",
)
"""They describe the client or its account, not the answer."""

Temperature = Annotated[float, msgspec.Meta(ge=0.0, le=2.0)]
Probability = Annotated[float, msgspec.Meta(gt=0.0, le=1.0)]
Count = Annotated[int, msgspec.Meta(ge=0, le=1 << 31)]
Positive = Annotated[int, msgspec.Meta(ge=1, le=1 << 31)]
Seed = Annotated[int, msgspec.Meta(ge=-(1 << 63), le=(1 << 63) - 1)]


class TextPart(msgspec.Struct, forbid_unknown_fields=True):
    """A piece of a message's content."""

    type: Literal["text"]
    text: str


class ChatMessage(msgspec.Struct, forbid_unknown_fields=True):
    """One message of a conversation."""

    role: Literal["system", "developer", "user", "assistant"]
    content: str | list[TextPart] | None = None
    name: str | None = None


class StreamOptions(msgspec.Struct, forbid_unknown_fields=True):
    """What a stream says besides the answer."""

    include_usage: bool | None = None


class ChatRequest(msgspec.Struct, forbid_unknown_fields=True):
    """POST /v1/chat/completions."""

    messages: Annotated[list[ChatMessage], msgspec.Meta(min_length=1)]
    model: str | None = None
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    temperature: Temperature | None = None
    top_p: Probability | None = None
    top_k: Count | None = None
    seed: Seed | None = None
    max_tokens: Positive | None = None
    max_completion_tokens: Positive | None = None
    n: Annotated[int, msgspec.Meta(ge=1, le=1)] | None = None


DECODER: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])
CHAT: Final = msgspec.json.Decoder(ChatRequest)
UNKNOWN: Final = re.compile(r"Object contains unknown field `([^`]*)`(?: - at `\$(.*)`)?")
AT: Final = re.compile(r"(.*) - at `\$\.?(.*)`")


def decode_chat(body: bytes) -> ChatRequest:
    """The typed request, or RequestInvalid naming the field."""
    try:
        fields = DECODER.decode(body)
        for name in WITHOUT_EFFECT:
            fields.pop(name, None)
        return CHAT.decode(msgspec.json.encode(fields))
    except msgspec.ValidationError as error:
        raise named(str(error)) from None
    except msgspec.DecodeError as error:
        raise RequestInvalid("body", str(error), expected="a JSON object") from None


def named(sentence: str) -> RequestInvalid:
    """msgspec's sentence, with the field first."""
    if unknown := UNKNOWN.match(sentence):
        where = f"{unknown[2]}." if unknown[2] else ""
        return RequestInvalid(
            f"{where.lstrip('.')}{unknown[1]}",
            "a field that this server does not know",
            expected="fields of the OpenAI API that docs/api.md lists",
        )
    found = AT.match(sentence)
    what, where = (found[1], found[2]) if found else (sentence, "body")
    expected, _, got = what.removeprefix("Expected ").partition(", got ")
    return RequestInvalid(where, got or "another value", expected=expected)


# ----------------------------------------------------------------- answers


def encode(value: object) -> bytes:
    """Compact JSON."""
    return msgspec.json.encode(value)


def usage_of(usage: Usage) -> dict[str, int]:
    """Token counts as clients read them."""
    return {
        "prompt_tokens": usage.prompt_tokens,
        "completion_tokens": usage.completion_tokens,
        "total_tokens": usage.prompt_tokens + usage.completion_tokens,
    }


def error_of(error: HeliosError, *, status: int) -> dict[str, Any]:
    """An error in the API's shape."""
    kind = {400: "invalid_request_error", 404: "not_found_error", 429: "rate_limit_error"}
    return {
        "error": {
            "message": str(error),
            "type": kind.get(status, "server_error"),
            "param": error.field if isinstance(error, RequestInvalid) else None,
            "code": status,
        }
    }


class Envelope:
    """What every object of one answer repeats."""

    def __init__(self, *, number: str, created: int, model: str) -> None:
        self.number, self.created, self.model = number, created, model

    def answer(self, text: str, *, finish: str, usage: Usage) -> bytes:
        """A whole answer."""
        return encode(
            {
                "id": self.number,
                "object": "chat.completion",
                "created": self.created,
                "model": self.model,
                "choices": [
                    {
                        "index": 0,
                        "message": {"role": "assistant", "content": text, "refusal": None},
                        "logprobs": None,
                        "finish_reason": finish,
                    }
                ],
                "usage": usage_of(usage),
            }
        )

    def chunk(
        self, delta: dict[str, str] | None, *, finish: str | None, tail: dict[str, Any]
    ) -> bytes:
        """One event of a stream; without a delta it has no choices."""
        choices = (
            []
            if delta is None
            else [{"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}]
        )
        return event(
            {
                "id": self.number,
                "object": "chat.completion.chunk",
                "created": self.created,
                "model": self.model,
                "choices": choices,
                **tail,
            }
        )


def event(value: object) -> bytes:
    """A server-sent event."""
    return b"data: " + encode(value) + b"\n\n"


DONE: Final = b"data: [DONE]\n\n"
