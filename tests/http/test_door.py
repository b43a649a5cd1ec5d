"""Who may use a server: keys, origins, ids and the access log, over HTTP."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.http.small import CHAT, QUESTION, SmallServer

KEY = {"authorization": "Bearer second-key"}
ORIGIN = {"origin": "https://page.example"}
GUARDED = ["/v1/models", "/v1/models/acme/small", "/metrics", "/version", "/no/such/path"]
OPEN = ["/", "/page.js", "/page.css", "/health", "/ready", "/openapi.json"]


@pytest.fixture
def http(locked: SmallServer) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=locked.origin, timeout=30) as client:
        yield client


# -------------------------------------------------------------------- keys


@pytest.mark.parametrize("path", GUARDED)
def test_without_a_key_nothing_is_told_not_even_what_exists(http: httpx.Client, path: str) -> None:
    answer = http.get(path)
    assert answer.status_code == 401
    assert answer.headers["www-authenticate"] == "Bearer"
    assert answer.json()["error"]["type"] == "authentication_error"
    assert http.get(path, headers=KEY).status_code in (200, 404)


@pytest.mark.parametrize("path", OPEN)
def test_the_page_and_whether_the_server_is_there_need_no_key(
    http: httpx.Client, path: str
) -> None:
    assert http.get(path).status_code == 200


@pytest.mark.parametrize(
    "headers",
    [
        {"authorization": "Bearer first-key"},
        {"authorization": "bearer  second-key"},
        {"x-api-key": "first-key"},
        {"x-api-key": "second-key", "authorization": "Basic xyz"},
    ],
)
def test_each_key_opens_in_either_header(http: httpx.Client, headers: dict[str, str]) -> None:
    assert http.post(CHAT, json={"messages": QUESTION}, headers=headers).status_code == 200


@pytest.mark.parametrize(
    "headers",
    [
        {"authorization": "Bearer"},
        {"authorization": "Bearer first-ke"},
        {"authorization": "Bearer first-key2"},
        {"authorization": "first-key"},
        {"authorization": "Basic first-key"},
        {"authorization": "Bearer wrong", "x-api-key": "first-key"},
        {"x-api-key": "first-key, second-key"},
        {"x-api-key": ""},
        {"cookie": "key=first-key"},
    ],
)
def test_anything_else_does_not(http: httpx.Client, headers: dict[str, str]) -> None:
    assert http.post(CHAT, json={"messages": QUESTION}, headers=headers).status_code == 401
    assert http.get("/v1/models?api_key=first-key", headers=headers).status_code == 401


def test_under_anthropics_path_a_refusal_has_anthropics_shape(http: httpx.Client) -> None:
    for path in ("/v1/messages", "/v1/messages/count_tokens"):
        told = http.post(path, json={}).json()
        assert told["type"] == "error"
        assert told["error"]["type"] == "authentication_error"
    assert "type" not in http.post("/v1/messagesx", json={}).json()


def test_no_process_is_told_the_keys_and_no_log_has_them(
    http: httpx.Client, locked: SmallServer
) -> None:
    http.get("/v1/models", headers={**KEY, "x-request-id": "keys-1"})
    http.get("/v1/models", headers={"authorization": "Bearer guess", "x-request-id": "keys-2"})
    locked.entry("keys-2")
    log = locked.log.read_text()
    assert not any(word in log for word in ("first-key", "second-key", "guess"))
    front = Path(f"/proc/{locked.process.pid}")
    (worker,) = (front / f"task/{locked.process.pid}/children").read_text().split()
    for process in (front, Path(f"/proc/{worker}")):
        assert b"-key" not in process.joinpath("cmdline").read_bytes().replace(b"api_key", b"")
    assert b"first-key" not in Path(f"/proc/{worker}/environ").read_bytes()


# -------------------------------------------------------------------- CORS


def test_a_page_of_the_named_origin_may_ask_and_read(http: httpx.Client) -> None:
    asks = {**ORIGIN, "access-control-request-method": "POST"}
    preflight = http.options(CHAT, headers=asks)  # without a key: browsers send none here
    assert preflight.status_code == 204
    assert preflight.headers["access-control-allow-origin"] == ORIGIN["origin"]
    assert "POST" in preflight.headers["access-control-allow-methods"]
    assert "authorization" in preflight.headers["access-control-allow-headers"]
    answer = http.post(CHAT, json={"messages": QUESTION}, headers={**ORIGIN, **KEY})
    refused = http.post(CHAT, json={}, headers=ORIGIN)
    for told in (answer, refused):
        assert told.headers["access-control-allow-origin"] == ORIGIN["origin"]
        assert "x-request-id" in told.headers["access-control-expose-headers"]
        assert told.headers["vary"] == "origin"
    assert (answer.status_code, refused.status_code) == (200, 401)


@pytest.mark.parametrize("origin", ["https://other.example", "https://page.example.evil", "null"])
def test_a_page_of_another_origin_may_not(http: httpx.Client, origin: str) -> None:
    asks = {"origin": origin, "access-control-request-method": "POST"}
    preflight = http.options(CHAT, headers=asks)
    assert preflight.status_code == 403
    answer = http.get("/v1/models", headers={"origin": origin, **KEY})
    for told in (preflight, answer):
        assert not [name for name in told.headers if name.startswith("access-control")]


def test_by_default_no_page_of_another_origin_may(small: SmallServer) -> None:
    asks = {**ORIGIN, "access-control-request-method": "POST"}
    with httpx.Client(base_url=small.origin) as open_http:
        assert open_http.options(CHAT, headers=asks).status_code == 403
        answer = open_http.get("/v1/models", headers=ORIGIN)
    assert answer.status_code == 200
    assert not {"access-control-allow-origin", "vary"} & set(answer.headers)


# ------------------------------------------------------------ ids and log


def test_a_clients_id_comes_back_and_is_logged_with_counts_and_no_contents(
    http: httpx.Client, locked: SmallServer
) -> None:
    for stream in (False, True):
        sent = {"messages": [{"role": "user", "content": "xyzzy"}], "stream": stream}
        wanted = f"trace:{stream}/1"
        answer = http.post(f"{CHAT}?plugh=1", json=sent, headers={**KEY, "x-request-id": wanted})
        assert answer.headers["x-request-id"] == wanted
        entry = locked.entry(wanted)
        assert (entry["method"], entry["path"], entry["status"]) == ("POST", CHAT, 200)
        assert entry["prompt_tokens"] > 10
        assert entry["completion_tokens"] > 5
        assert 0 < entry["milliseconds"] < 30_000
    log = locked.log.read_text()
    assert "xyzzy" not in log
    assert "plugh" not in log


@pytest.mark.parametrize("bad", ["", "a b", "x" * 129, "a\tb", '"', "a;b"])
def test_an_id_that_is_none_is_replaced(http: httpx.Client, bad: str) -> None:
    given = http.get("/health", headers={"x-request-id": bad}).headers["x-request-id"]
    assert given.startswith("req_")
    assert http.get("/health").headers["x-request-id"] != given


def test_every_answer_has_an_id(http: httpx.Client) -> None:
    for path in (*OPEN, *GUARDED):
        assert http.get(path).headers["x-request-id"].startswith("req_")
    assert http.delete(CHAT, headers=KEY).headers["x-request-id"].startswith("req_")


def test_a_log_that_is_not_wanted_is_not_written(small_folder: Path) -> None:
    server = SmallServer(small_folder, "--access-log", "off")
    try:
        httpx.get(f"{server.origin}/health")
    finally:
        assert server.stop() == 0
    assert server.log.read_text() == ""


def test_the_openapi_document_says_what_needs_a_key(http: httpx.Client) -> None:
    paths = http.get("/openapi.json").json()["paths"]
    for path in OPEN:
        assert json.dumps(paths[path]["get"]["security"]) == "[{}]"
    assert {"bearer": []} in paths["/v1/models"]["get"]["security"]
