"""The OpenAPI document: every route in one table, and schemas of what clients may send.

Schemas come from the typed requests themselves, so the document says what the decoder does.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

import msgspec

from helios.serve.asks import ChatRequest, CompletionRequest
from helios.serve.message_asks import IGNORED as MESSAGES_IGNORE
from helios.serve.message_asks import Counted, MessageRequest
from helios.serve.response_asks import IGNORED as RESPONSES_IGNORE
from helios.serve.response_asks import ResponseRequest
from helios.serve.texts import ApplyTemplateRequest, DetokenizeRequest, TokenizeRequest
from helios.serve.wire import WITHOUT_EFFECT

JSON: Final = "application/json"
EVENTS: Final = "text/event-stream"
TEXT: Final = "text/plain"


class Described(NamedTuple):
    """A route as the document has it."""

    method: str
    path: str
    summary: str
    request: type[msgspec.Struct] | None = None
    answers: tuple[str, ...] = (JSON,)  # media types
    ignored: tuple[str, ...] = ()  # fields that are accepted and change nothing
    needs_key: bool = True


ROUTES: Final = (
    Described(
        "POST",
        "/v1/chat/completions",
        "Chat, streamed and not",
        ChatRequest,
        (JSON, EVENTS),
        WITHOUT_EFFECT,
    ),
    Described(
        "POST",
        "/v1/chat/completions/input_tokens",
        "How many tokens a chat request's prompt has",
        ChatRequest,
        ignored=WITHOUT_EFFECT,
    ),
    Described(
        "POST",
        "/v1/completions",
        "Completion of texts and tokens",
        CompletionRequest,
        (JSON, EVENTS),
        WITHOUT_EFFECT,
    ),
    Described(
        "POST",
        "/v1/responses",
        "Responses, streamed and not",
        ResponseRequest,
        (JSON, EVENTS),
        RESPONSES_IGNORE,
    ),
    Described(
        "POST",
        "/v1/messages",
        "Messages, streamed and not",
        MessageRequest,
        (JSON, EVENTS),
        MESSAGES_IGNORE,
    ),
    Described(
        "POST",
        "/v1/messages/count_tokens",
        "How many tokens a prompt has",
        Counted,
        ignored=MESSAGES_IGNORE,
    ),
    Described("GET", "/v1/models", "The served model and its aliases"),
    Described("GET", "/v1/models/{name}", "One model"),
    Described("POST", "/tokenize", "Tokens of a text or a conversation", TokenizeRequest),
    Described("POST", "/detokenize", "Text of tokens", DetokenizeRequest),
    Described(
        "POST", "/apply-template", "A conversation as the model is given it", ApplyTemplateRequest
    ),
    Described("GET", "/version", "The server's version"),
    Described("GET", "/metrics", "Prometheus metrics", answers=(TEXT,)),
    Described("GET", "/health", "Whether requests can be served", needs_key=False),
    Described("GET", "/ready", "Whether requests are accepted", needs_key=False),
    Described("GET", "/openapi.json", "This document", needs_key=False),
)

ERROR: Final = {
    "type": "object",
    "required": ["error"],
    "properties": {
        "error": {
            "type": "object",
            "required": ["message", "type", "param", "code"],
            "properties": {
                "message": {"type": "string"},
                "type": {"type": "string"},
                "param": {"type": ["string", "null"]},
                "code": {"type": "integer"},
            },
        }
    },
}


def open_paths() -> frozenset[str]:
    """Paths of the table that need no key."""
    return frozenset(route.path for route in ROUTES if not route.needs_key)


def document(*, version: str, pages: Mapping[str, str]) -> dict[str, Any]:
    """The document; `pages` are paths of fixed files with their media types."""
    files = (
        Described("GET", path, "The page", answers=(kind.partition(";")[0],), needs_key=False)
        for path, kind in pages.items()
    )
    requests = {route.request: route.ignored for route in ROUTES if route.request is not None}
    paths: dict[str, dict[str, Any]] = {}
    for route in (*ROUTES, *files):
        paths.setdefault(route.path, {})[route.method.lower()] = operation(route)
    return {
        "openapi": "3.1.0",
        "info": {"title": "Helios", "version": version},
        "paths": paths,
        "components": {
            "schemas": {**schemas(requests), "Error": ERROR},
            "securitySchemes": {
                "bearer": {"type": "http", "scheme": "bearer"},
                "key": {"type": "apiKey", "in": "header", "name": "x-api-key"},
            },
        },
    }


def operation(route: Described) -> dict[str, Any]:
    """One method of one path."""
    made: dict[str, Any] = {
        "summary": route.summary,
        "responses": {
            "200": {"description": "Done", "content": {kind: {} for kind in route.answers}},
            "default": {"description": "An error", "content": {JSON: {"schema": ref("Error")}}},
        },
        "security": [{"bearer": []}, {"key": []}, {}] if route.needs_key else [{}],
    }
    if "{name}" in route.path:
        made["parameters"] = [
            {"name": "name", "in": "path", "required": True, "schema": {"type": "string"}}
        ]
    if route.request is not None:
        made["requestBody"] = {
            "required": True,
            "content": {JSON: {"schema": ref(route.request.__name__)}},
        }
    return made


def schemas(requests: Mapping[type[msgspec.Struct], Iterable[str]]) -> dict[str, Any]:
    """Schemas of requests, with the fields that change nothing."""
    _, found = msgspec.json.schema_components(
        tuple(requests), ref_template="#/components/schemas/{name}"
    )
    for request, ignored in requests.items():
        for name in ignored:
            found[request.__name__]["properties"][name] = {"description": "Changes nothing here"}
    return found


def ref(name: str) -> dict[str, str]:
    """A reference to a schema."""
    return {"$ref": f"#/components/schemas/{name}"}
