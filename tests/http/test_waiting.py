"""What waits for a client does so for a while only: heads, bodies, and the log's reader."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
import uvicorn
from starlette.types import Message, Receive, Scope, Send

from helios.serve.bodies import Bodies
from helios.serve.connections import Connection
from helios.serve.guard import Door, Guard
from helios.serve.journal import Entry, Journal
from helios.values import STATUS, BodyTooSlow, HeliosError, IngressFull

SECONDS = 0.3
LATE = 10.0


class Hasty(Connection):
    """Connections that wait shortly."""

    head_seconds = SECONDS


async def reading(scope: Scope, receive: Receive, send: Send) -> None:
    """Reads a body as routes do, and says its length."""
    try:
        told, status = b"%d" % len(await Bodies(seconds=SECONDS).read(receive)), 200
    except HeliosError as error:
        told, status = str(error).encode(), STATUS[type(error)]
    headers = [(b"content-length", b"%d" % len(told))]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": told})


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    """A real listener."""
    config = uvicorn.Config(
        reading, port=0, http=Hasty, ws="none", lifespan="off", log_level=50, timeout_keep_alive=1
    )
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    deadline = time.monotonic() + LATE
    while not server.started:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    yield server.servers[0].sockets[0].getsockname()[1]
    server.should_exit = server.force_exit = True
    thread.join(LATE)


def talk(port: int, *pieces: bytes) -> bytes:
    """Send pieces with pauses; what comes until the server closes the connection."""
    told = b""
    with socket.create_connection(("127.0.0.1", port), timeout=LATE) as connection:
        for piece in pieces:
            connection.sendall(piece)
            time.sleep(SECONDS / 4)
        while piece := connection.recv(1 << 16):
            told += piece
    return told


@pytest.mark.parametrize("pieces", [(), (b"GET / HT",), (b"G", b"E", b"T", b" ", b"/", b" ")])
def test_a_head_that_does_not_come_is_not_waited_for(port: int, pieces: tuple[bytes, ...]) -> None:
    began = time.monotonic()
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):
        assert talk(port, *pieces) == b""
    assert time.monotonic() - began < LATE / 2


def test_bytes_between_requests_keep_no_connection_open(port: int) -> None:
    whole = b"GET / HTTP/1.1\r\nhost: x\r\n\r\n"
    assert talk(port, whole, b"\r\n").count(b"HTTP/1.1 200") == 1


def test_a_body_that_does_not_come_is_a_408(port: int) -> None:
    head = b"POST / HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: 9\r\n\r\n"
    told = talk(port, head, b"{", b"}")
    assert told.startswith(b"HTTP/1.1 408")
    assert b"body: found 2 bytes and no end in 0.3 seconds, expected the whole body" in told
    assert talk(port, head, b"123456789").endswith(b"\r\n\r\n9")


def test_bodies_together_are_bounded_and_are_given_back() -> None:
    async def check() -> None:
        bodies = Bodies(seconds=SECONDS, most=1000)
        first, waits = body_of([b"a" * 600, None])
        reader = asyncio.ensure_future(bodies.read(first))
        await waits.wait()
        assert bodies.nbytes == 600
        second, _ = body_of([b"b" * 300, b"c" * 300])
        with pytest.raises(IngressFull):
            await bodies.read(second)
        assert bodies.nbytes == 600
        with pytest.raises(BodyTooSlow):
            await reader
        assert bodies.nbytes == 0
        third, _ = body_of([b"b" * 300, b"c" * 300])
        assert await bodies.read(third) == b"b" * 300 + b"c" * 300

    asyncio.run(check())


def body_of(pieces: list[bytes | None]) -> tuple[Receive, asyncio.Event]:
    """A body in pieces; None never comes, and is told."""
    left = list(pieces)
    waits = asyncio.Event()

    async def receive() -> Message:
        piece = left.pop(0)
        if piece is None:
            waits.set()
            await asyncio.Event().wait()
        return {"type": "http.request", "body": piece, "more_body": bool(left)}

    return receive, waits


# --------------------------------------------------------------------- log


def entry(number: int) -> Entry:
    return Entry(
        time=1.5, method="GET", path="/x", status=200, milliseconds=1.0, request_id=f"n{number}"
    )


def test_a_log_that_nobody_reads_stops_nobody_and_says_what_is_missing() -> None:
    reader, writer = os.pipe()
    journal = Journal(writer)
    began = time.monotonic()
    for number in range(20_000):
        journal.add(entry(number))
    assert time.monotonic() - began < LATE / 2
    dropped = journal.dropped
    assert dropped > 0
    with ThreadPoolExecutor(1) as others:
        reading_all = others.submit(read_all, reader)
        time.sleep(0.5)
        journal.add(entry(20_000))
        journal.close()
        os.close(writer)
        found = reading_all.result(LATE)
    lines = [json.loads(line) for line in found.splitlines()]
    assert sum("request_id" in line for line in lines) + dropped == 20_001
    assert sum(line.get("dropped", 0) for line in lines) == dropped
    numbers = [int(line["request_id"][1:]) for line in lines if "request_id" in line]
    assert numbers == sorted(numbers)


def read_all(reader: int) -> bytes:
    """Everything, until the writer closes."""
    found = b""
    while piece := os.read(reader, 1 << 20):
        found += piece
    os.close(reader)
    return found


def test_the_layer_costs_next_to_nothing() -> None:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    reader, writer = os.pipe()
    threading.Thread(target=read_all, args=(reader,)).start()
    journal = Journal(writer)
    guard = Guard(app, Door(), journal=journal)
    headers = [(b"host", b"x"), (b"accept", b"*/*"), (b"content-type", b"application/json")]
    scope = {"type": "http", "method": "POST", "path": "/v1/chat/completions", "headers": headers}

    async def send(_message: Message) -> None:
        pass

    async def receive() -> Message:
        return {"type": "http.disconnect"}

    async def spent(layer: object) -> float:
        best = 1.0
        for _ in range(20):
            began = time.perf_counter()
            for _ in range(100):
                await layer(dict(scope), receive, send)  # type: ignore[operator]
            best = min(best, (time.perf_counter() - began) / 100)
        return best

    async def measure() -> float:
        return await spent(guard) - await spent(app)

    seconds = asyncio.run(measure())
    journal.close()
    os.close(writer)
    print(f"{seconds * 1e6:.1f} microseconds a request")
    assert seconds < 50e-6  # about 8 alone on a machine
