"""Clients that send nothing, half of it, or too much: told clearly, and nobody else disturbed."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack

import httpx
import pytest

from tests.http.small import ANSWER, CHAT, QUESTION, SmallServer
from tests.http.waiting import wait_for

IDLE = 1000
SECONDS = 20


@pytest.fixture
def http(small: SmallServer) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=small.origin, timeout=30) as client:
        yield client


def connect(server: SmallServer, first: bytes = b"") -> socket.socket:
    """A connection on which these bytes were sent."""
    made = socket.create_connection(("127.0.0.1", server.port), timeout=SECONDS)
    made.sendall(first)
    return made


def answered(connection: socket.socket) -> bytes:
    """What comes until the server closes, or the answer's head."""
    told = b""
    while b"\r\n\r\n" not in told and (piece := connection.recv(1 << 16)):
        told += piece
    return told


def serves(http: httpx.Client) -> None:
    """Somebody else's request goes well."""
    answer = http.post(CHAT, json={"messages": QUESTION}).json()
    assert answer["choices"][0]["message"]["content"] == ANSWER


@pytest.mark.parametrize(
    "first",
    [b"", b"POST /v1/chat", b"POST /v1/chat/completions HTTP/1.1\r\ncontent-length: 100\r\n\r\n{"],
    ids=["nothing", "half a line", "half a body"],
)
def test_a_thousand_clients_that_do_not_go_on_disturb_nobody(
    http: httpx.Client, small: SmallServer, first: bytes
) -> None:
    with ExitStack() as stack:
        for _ in range(IDLE):
            stack.enter_context(connect(small, first))
        for _ in range(3):
            serves(http)
        wait_for(lambda: "flare_permits_held 0.0" in http.get("/metrics").text)
    serves(http)


def test_headers_without_an_end_are_a_431(http: httpx.Client, small: SmallServer) -> None:
    with connect(small, b"GET /health HTTP/1.1\r\nx-much: ") as connection:
        try:
            for _ in range(64):
                connection.sendall(b"a" * (64 << 10))
        except (ConnectionResetError, BrokenPipeError):
            pass
        else:
            pytest.fail("the server went on reading")
    with connect(small, b"GET /health HTTP/1.1\r\nx-much: " + b"a" * (70 << 10)) as connection:
        told = answered(connection)
    assert told.startswith(b"HTTP/1.1 431 ")
    serves(http)


@pytest.mark.parametrize(
    "sent",
    [
        b"\x00\x01\x02\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\r\n\r\n",
        b"GET\r\n\r\n",
        b"a b c\r\n\r\n",
    ],
    ids=["zeros", "TLS", "no path", "no method"],
)
def test_what_is_no_http_is_a_400(http: httpx.Client, small: SmallServer, sent: bytes) -> None:
    with connect(small, sent) as connection:
        assert answered(connection).startswith(b"HTTP/1.1 400 ")
    serves(http)


def test_a_body_that_says_it_is_too_large_is_a_413_at_once(
    http: httpx.Client, small: SmallServer
) -> None:
    head = b"POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-length: %d\r\n\r\n"
    for length in ((32 << 20) + 1, 10**18, 10**40):
        with connect(small, head % length) as connection:
            told = answered(connection)
        assert told.split()[1] in (b"413", b"400")  # llhttp refuses numbers beyond 64 bits
    serves(http)


def test_a_body_that_grows_too_large_is_a_413(http: httpx.Client) -> None:
    pieces = (b" " * (1 << 20) for _ in range(34))
    answer = http.post(CHAT, content=pieces)
    assert answer.status_code == 413
    assert answer.json()["error"]["param"] == "body"
    serves(http)


@pytest.mark.parametrize(
    ("headers", "param"),
    [
        ({"content-type": "text/plain"}, "content-type"),
        ({"content-type": "multipart/form-data; boundary=x"}, "content-type"),
        ({"content-type": "application/xml"}, "content-type"),
        ({"content-encoding": "gzip"}, "content-encoding"),
    ],
)
def test_a_body_that_says_it_is_no_json_is_a_415(
    http: httpx.Client, headers: dict[str, str], param: str
) -> None:
    answer = http.post(CHAT, content=b"{}", headers=headers)
    assert answer.status_code == 415
    assert answer.json()["error"]["message"].startswith(f"{param}: found")


@pytest.mark.parametrize(
    "kind",
    [
        "application/json",
        "Application/JSON; charset=utf-8",
        "application/vnd.api+json",
        "application/x-www-form-urlencoded",
    ],
)
def test_json_by_any_of_its_names_is_read(http: httpx.Client, kind: str) -> None:
    sent = b'{"messages": [{"role": "user", "content": "hello"}]}'
    assert http.post(CHAT, content=sent, headers={"content-type": kind}).status_code == 200


def test_a_client_that_sends_a_byte_at_a_time_is_served(small: SmallServer) -> None:
    body = b'{"messages": [{"role": "user", "content": "hello"}]}'
    head = b"POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-length: %d\r\n\r\n"
    with connect(small) as connection:
        for byte in head % len(body) + body:
            connection.sendall(bytes((byte,)))
            time.sleep(0.001)
        assert answered(connection).startswith(b"HTTP/1.1 200 ")
