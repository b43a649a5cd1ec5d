"""The OpenAPI document agrees with the routes, and no request that it allows is a 500."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from starlette.routing import Route

from tests.http.drawn import request_of
from tests.http.routes import some_routes
from tests.http.small import CHAT, QUESTION, SmallServer

DRAWING = settings(
    max_examples=int(os.environ.get("DRAWN_REQUESTS", "12")),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)


@pytest.fixture(scope="module")
def http(small: SmallServer) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=small.origin, timeout=60) as client:
        yield client


@pytest.fixture(scope="module")
def document(http: httpx.Client) -> dict[str, Any]:
    found: dict[str, Any] = http.get("/openapi.json").json()
    return found


def test_every_route_is_in_the_document_and_every_path_of_it_exists(
    document: dict[str, Any],
) -> None:
    routes = some_routes()
    assert all(isinstance(route, Route) for route in routes)
    existing = {
        (method.lower(), route.path.replace(":path}", "}"))
        for route in routes
        for method in (route.methods or ())
        if method != "HEAD"
    }
    described = {(method, path) for path, told in document["paths"].items() for method in told}
    assert described == existing


def test_every_reference_leads_somewhere(document: dict[str, Any]) -> None:
    schemas = document["components"]["schemas"]
    text = json.dumps(document)
    named = {part.split('"')[0] for part in text.split("#/components/schemas/")[1:]}
    assert named <= set(schemas)
    assert {"ChatRequest", "CompletionRequest", "TokenizeRequest", "Error"} <= set(schemas)


def posts(document: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Paths that take a body, with the body's schema."""
    schemas = document["components"]["schemas"]
    found = {}
    for path, told in document["paths"].items():
        if "post" in told:
            body = told["post"]["requestBody"]["content"]["application/json"]["schema"]
            found[path] = schemas[body["$ref"].rpartition("/")[2]]
    return found


def whole(answer: httpx.Response) -> None:
    """An answer is one that a client can read."""
    told = answer.text
    assert answer.status_code in (200, 400, 404, 413), told
    if answer.status_code != 200:
        error = json.loads(told)["error"]
        assert set(error) >= {"message", "type"}
        assert "found" in error["message"]


@given(data=st.data())
@DRAWING
def test_no_request_is_a_500(
    http: httpx.Client, document: dict[str, Any], data: st.DataObject
) -> None:
    schemas = document["components"]["schemas"]
    for path, schema in sorted(posts(document).items()):
        body = data.draw(request_of(schema, schemas), label=path)
        assume(isinstance(body, dict))
        sent = json.dumps(limited(body, schema), allow_nan=True).encode("utf-8", "surrogatepass")
        whole(http.post(path, content=sent))


def limited(body: object, schema: dict[str, Any]) -> object:
    """The same, with an end: nothing here needs thousands of tokens."""
    assert isinstance(body, dict)
    if "max_tokens" in schema["properties"] and not {"max_tokens", "max_completion_tokens"} & set(
        body
    ):
        return {**body, "max_tokens": 4}
    return body


@given(
    body=st.binary(max_size=40)
    | st.sampled_from([b"[" * 5000, b'{"messages":' * 3000, b'{"a":1e999}', b'{"n":-}', b"\xff"])
)
@DRAWING
def test_no_bytes_are_a_500(http: httpx.Client, document: dict[str, Any], body: bytes) -> None:
    for path in posts(document):
        answer = http.post(path, content=body)
        assert answer.status_code == 400
        assert answer.json()["error"]["type"] == "invalid_request_error"


def test_afterwards_the_server_serves_as_before(http: httpx.Client) -> None:
    assert http.post(CHAT, json={"messages": QUESTION}).status_code == 200
    assert http.get("/health").status_code == 200
