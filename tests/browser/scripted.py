"""A server of the real page whose answers are written by the test.

It does what a healthy server cannot be made to do: fail inside a stream, break the connection,
cut events anywhere, wait until the test says so.
"""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from helios.serve.app import page_routes

START_SECONDS = 10
GATE_SECONDS = 20


class Break:
    """Close the connection without an ending."""


Step = bytes | threading.Event | type[Break]
"""Send bytes, wait for the test, or break the connection."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Script:
    """One answer."""

    steps: Sequence[Step] = ()
    status: int = 200
    media_type: str = "text/event-stream; charset=utf-8"


def event(delta: dict[str, Any], *, finish: str | None = None, **more: object) -> bytes:
    """An event with one delta, and what else is said of it."""
    chunk = {"choices": [{"index": 0, "delta": delta, "finish_reason": finish, **more}]}
    return b"data: " + json.dumps(chunk, ensure_ascii=False).encode() + b"\n\n"


def said(text: str, *, finish: str | None = None) -> bytes:
    """The event of a piece of an answer."""
    return event({"content": text}, finish=finish)


def thought(text: str) -> bytes:
    """The event of a piece of reasoning."""
    return event({"reasoning_content": text})


def called(index: int, name: str) -> bytes:
    """The event of a call that begins."""
    function = {"name": name, "arguments": ""}
    call = {"index": index, "id": f"call-{index}", "type": "function", "function": function}
    return event({"tool_calls": [call]})


def given(index: int, text: str) -> bytes:
    """The event of a piece of a call's arguments."""
    return event({"tool_calls": [{"index": index, "function": {"arguments": text}}]})


def came(*times_ms: float) -> bytes:
    """Events of tokens that came at these times, numbered from 100."""
    return b"".join(
        event({}, token_ids=[100 + at], token_timestamps_ns=[int(ms * 1e6)])
        for at, ms in enumerate(times_ms)
    )


def measured(*, enqueued_ms: float, prompt: int, reused: int) -> bytes:
    """The last event of an observed answer."""
    seen = {
        "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}],
        "performance": {"enqueue_ns": int(enqueued_ms * 1e6)},
        "usage": {"prompt_tokens": prompt},
        "reused_prompt_tokens": reused,
    }
    return b"data: " + json.dumps(seen).encode() + b"\n\n"


END = b"data: [DONE]\n\n"
DONE = said("", finish="stop") + END
CALLED = event({}, finish="tool_calls") + END


def failed(message: str, *, code: int) -> bytes:
    """The event of an error inside a stream."""
    return b"data: " + refusal(message, code=code) + b"\n\n"


def refusal(message: str, *, code: int) -> bytes:
    """An error as a body."""
    error = {"message": message, "type": "server_error", "param": None, "code": code}
    return json.dumps({"error": error}).encode()


def answer(*texts: str) -> Script:
    """A whole answer in these pieces."""
    return Script(steps=[*(said(text) for text in texts), DONE])


@dataclass(slots=True)
class ScriptedServer:
    """Serves the page; plays one script a request, in order."""

    origin: str = ""
    scripts: list[Script] = field(default_factory=list)
    received: list[dict[str, Any]] = field(default_factory=list)
    key: str | None = None
    """What a request must bring, if something."""
    counts: str = ""
    looks: int = 0
    """How often counts were asked for."""

    def plan(self, *scripts: Script) -> None:
        """Answer the next requests so, and forget earlier ones."""
        self.scripts[:] = scripts
        self.received.clear()
        self.key, self.counts, self.looks = None, "", 0

    def _locked(self, request: Request) -> Response | None:
        if self.key is None or request.headers.get("authorization") == f"Bearer {self.key}":
            return None
        body = refusal("expected a key that this server knows", code=401)
        return Response(body, status_code=401, media_type="application/json")

    async def chat(self, request: Request) -> Response:
        """Play a script."""
        if locked := self._locked(request):
            return locked
        self.received.append(await request.json())
        script = self.scripts.pop(0)
        return StreamingResponse(
            played(script.steps), status_code=script.status, media_type=script.media_type
        )

    async def models(self, request: Request) -> Response:
        """One model."""
        if locked := self._locked(request):
            return locked
        model = {"id": "scripted-1b", "object": "model", "context_tokens": 4096}
        return JSONResponse({"object": "list", "data": [model]})

    async def metrics(self, _request: Request) -> Response:
        """The counts that the test wrote."""
        self.looks += 1
        return Response(self.counts, media_type="text/plain")

    def app(self) -> Starlette:
        """The application."""
        return Starlette(
            routes=[
                Route("/v1/chat/completions", self.chat, methods=["POST"]),
                Route("/v1/models", self.models),
                Route("/metrics", self.metrics),
                *page_routes(),
            ]
        )


async def played(steps: Sequence[Step]) -> AsyncIterator[bytes]:
    """The bytes of a script, in time."""
    for step in steps:
        if isinstance(step, bytes):
            yield step
            await asyncio.sleep(0.02)  # so that the browser sees them apart
        elif isinstance(step, threading.Event):
            await asyncio.to_thread(step.wait, GATE_SECONDS)
        else:
            raise ConnectionAbortedError


class ServerThread:
    """Runs an application in a thread of this process."""

    def __init__(self, app: Starlette) -> None:
        config = uvicorn.Config(app, port=0, log_level=100, lifespan="off", ws="none")
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._server.run, daemon=True)

    def start(self) -> str:
        """Start it; returns its origin."""
        self._thread.start()
        deadline = time.monotonic() + START_SECONDS
        while not self._server.started:
            assert time.monotonic() < deadline, "the scripted server did not start"
            time.sleep(0.01)
        port = self._server.servers[0].sockets[0].getsockname()[1]
        return f"http://127.0.0.1:{port}"

    def stop(self) -> None:
        """Stop it."""
        self._server.should_exit = True
        self._server.force_exit = True
        self._thread.join(START_SECONDS)
