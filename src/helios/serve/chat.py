"""POST /v1/chat/completions, streamed and not.

The trip of a request on this side: decode, permit, prepare in a thread, submit, then news
into text until the ending.  A reader that goes away cancels the request; after the headers of
a stream, an error is one event and no [DONE] (TO-42).
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import AsyncIterator, Awaitable
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import Any

from starlette.types import Message, Receive, Scope, Send

from helios.frontend.prepare import Asked, Frontend
from helios.respond.pipeline import FINISH_REASON, OutputPipeline
from helios.serve.front import Conversation, Front
from helios.serve.wire import (
    DONE,
    ChatRequest,
    Envelope,
    decode_chat,
    encode,
    error_of,
    event,
    usage_of,
)
from helios.values import STATUS, HeliosError, RequestInvalid

MOST_BODY_NBYTES = 32 << 20
RETRY_SECONDS = b"1"


@dataclass(frozen=True, slots=True, kw_only=True)
class Chat:
    """The route; an ASGI application."""

    front: Front
    frontend: Frontend
    preparers: Executor  # frontend_workers threads
    model: str
    names: frozenset[str]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        del scope
        try:
            request = decode_chat(await read_body(receive))
            with self.front.gate.permit():
                await self.answer(request, receive, send)
        except HeliosError as error:
            await self.refuse(error, send)

    async def refuse(self, error: HeliosError, send: Send) -> None:
        """An error before any of the answer was sent."""
        status = STATUS[type(error)]
        self.front.metrics.refused.labels(str(status)).inc()
        extra = [(b"retry-after", RETRY_SECONDS)] if status == 429 else []  # noqa: PLR2004
        await send_json(send, error_of(error, status=status), status=status, extra=extra)

    async def answer(self, request: ChatRequest, receive: Receive, send: Send) -> None:
        """Prepare, submit, and send what comes."""
        if request.model is not None and request.model not in self.names:
            raise RequestInvalid(
                "model", repr(request.model), expected=f"one of {sorted(self.names)}"
            )
        prepared = await asyncio.get_running_loop().run_in_executor(
            self.preparers,
            self.frontend.prepare,
            self.front.next_id(),
            messages_of(request),
            asked_of(request),
        )
        pipeline = OutputPipeline(
            self.frontend.tokenizer.stream(),
            self.frontend.eos_ids,
            prompt_tokens=len(prepared.prompt),
        )
        envelope = Envelope(
            number=f"chatcmpl-{secrets.token_hex(12)}", created=int(time.time()), model=self.model
        )
        async with self.front.converse(prepared) as conversation:
            work = (
                self.stream(request, conversation, pipeline, envelope, send)
                if request.stream
                else self.whole(conversation, pipeline, envelope, send)
            )
            await unless_gone(work, receive)

    async def whole(
        self,
        conversation: Conversation,
        pipeline: OutputPipeline,
        envelope: Envelope,
        send: Send,
    ) -> None:
        """One JSON object at the end."""
        pieces: list[str] = []
        finish = "stop"
        async for news in conversation.rounds():
            pieces.append(pipeline.feed(news.tokens))
            if news.finish is not None:
                finish = FINISH_REASON[news.finish]
        pieces.append(pipeline.close())
        body = envelope.answer("".join(pieces), finish=finish, usage=pipeline.usage())
        await send_bytes(send, body, status=200)

    async def stream(
        self,
        request: ChatRequest,
        conversation: Conversation,
        pipeline: OutputPipeline,
        envelope: Envelope,
        send: Send,
    ) -> None:
        """Events as the tokens come."""
        await send({"type": "http.response.start", "status": 200, "headers": EVENT_HEADERS})
        asked_usage = bool(request.stream_options and request.stream_options.include_usage)
        try:
            async for piece in events(conversation, pipeline, envelope, asked_usage=asked_usage):
                await send_piece(send, piece)
        except HeliosError as error:
            await send_piece(send, event(error_of(error, status=STATUS[type(error)])))
        await send({"type": "http.response.body", "body": b"", "more_body": False})


async def events(
    conversation: Conversation, pipeline: OutputPipeline, envelope: Envelope, *, asked_usage: bool
) -> AsyncIterator[bytes]:
    """The answer as server-sent events (TO-16)."""
    tail: dict[str, Any] = {"usage": None} if asked_usage else {}
    yield envelope.chunk({"role": "assistant", "content": ""}, finish=None, tail=tail)
    async for news in conversation.rounds():
        text = pipeline.feed(news.tokens)
        if news.finish is not None:
            text += pipeline.close()
        if text:
            yield envelope.chunk({"content": text}, finish=None, tail=tail)
        if news.finish is not None:
            yield envelope.chunk({}, finish=FINISH_REASON[news.finish], tail=tail)
    if asked_usage:
        yield envelope.chunk(None, finish=None, tail={"usage": usage_of(pipeline.usage())})
    yield DONE


def messages_of(request: ChatRequest) -> list[dict[str, Any]]:
    """Messages as templates take them: text content in one piece."""
    messages = []
    for index, message in enumerate(request.messages):
        content = message.content
        if isinstance(content, list):
            content = "".join(part.text for part in content)
        if content is None:
            raise RequestInvalid(f"messages[{index}].content", "nothing", expected="text")
        role = "system" if message.role == "developer" else message.role
        messages.append({"role": role, "content": content})
    return messages


def asked_of(request: ChatRequest) -> Asked:
    """What the client set."""
    if None not in (request.max_tokens, request.max_completion_tokens):
        raise RequestInvalid(
            "max_tokens", "both names of the limit", expected="max_tokens or max_completion_tokens"
        )
    return Asked(
        temperature=request.temperature,
        top_p=request.top_p,
        top_k=request.top_k,
        seed=request.seed,
        output_limit=request.max_completion_tokens or request.max_tokens,
    )


# -------------------------------------------------------------------- ASGI

EVENT_HEADERS = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-cache"),
    (b"x-accel-buffering", b"no"),
]


async def read_body(receive: Receive) -> bytes:
    """The whole body, bounded."""
    body = bytearray()
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise RequestInvalid("body", "a closed connection", expected="the whole body")
        body += message.get("body", b"")
        if len(body) > MOST_BODY_NBYTES:
            raise RequestInvalid(
                "body", f"over {MOST_BODY_NBYTES} bytes", expected="a smaller body"
            )
        if not message.get("more_body", False):
            return bytes(body)


async def unless_gone(work: Awaitable[None], receive: Receive) -> None:
    """Do the work; a reader that goes away ends it."""
    task = asyncio.ensure_future(work)
    gone = asyncio.ensure_future(wait_until_gone(receive))
    try:
        await asyncio.wait({task, gone}, return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            task.result()
    finally:
        for pending in (task, gone):
            pending.cancel()
        await asyncio.gather(task, gone, return_exceptions=True)


async def wait_until_gone(receive: Receive) -> None:
    """Return when the client has closed the connection."""
    message: Message = {"type": ""}
    while message["type"] != "http.disconnect":
        message = await receive()


async def send_piece(send: Send, body: bytes) -> None:
    """A part of a streamed body."""
    await send({"type": "http.response.body", "body": body, "more_body": True})


async def send_bytes(
    send: Send, body: bytes, *, status: int, extra: list[tuple[bytes, bytes]] | None = None
) -> None:
    """A whole JSON response."""
    headers = [(b"content-type", b"application/json"), *(extra or [])]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


async def send_json(
    send: Send, value: object, *, status: int, extra: list[tuple[bytes, bytes]] | None = None
) -> None:
    """A whole JSON response from a value."""
    await send_bytes(send, encode(value), status=status, extra=extra)
