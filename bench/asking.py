"""A client that costs little: it notes when bytes arrive, and reads them when all have come.

Every request has a connection of its own.  Kept connections lose a race now and then: servers
commonly close one that idled for five seconds, and so do clients, so that a request after a long
prompt may be written to a connection that its server just closed.
"""

from __future__ import annotations

import asyncio
import bisect
import json
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any

HEAD_END = b"\r\n\r\n"
LINE_END = b"\r\n"
EVENT_END = b"\n\n"
EVENT = b"data: "
DONE = b"[DONE]"


class Broken(RuntimeError):
    """A server refused a request, or did not answer it to the end."""


@dataclass
class Answer:
    """When an answer's text arrived, and what the server counted."""

    began: float
    arrivals: list[float] = field(default_factory=list)
    tokens: int = 0
    prompt_tokens: int = 0
    ended: float = 0.0

    @property
    def first(self) -> float:
        """Seconds to the first text."""
        return self.arrivals[0] - self.began

    @property
    def gaps(self) -> list[float]:
        """Seconds between texts."""
        return [b - a for a, b in zip(self.arrivals, self.arrivals[1:], strict=False)]


class Connection(asyncio.Protocol):
    """What arrives, with its time, until the server closes."""

    def __init__(self) -> None:
        self.times: list[float] = []
        self.pieces: list[bytes] = []
        self.closed: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def data_received(self, data: bytes) -> None:
        """See asyncio.Protocol."""
        self.times.append(time.monotonic())
        self.pieces.append(data)

    def connection_lost(self, _exc: Exception | None) -> None:
        """See asyncio.Protocol.  A reset leaves an answer without its end, which is told there."""
        if not self.closed.done():
            self.closed.set_result(None)


def request(prompt: str, tokens: int) -> bytes:
    """A streamed chat completion at temperature 0, as it travels."""
    body = json.dumps(
        {
            "messages": [{"role": "user", "content": prompt}],
            "max_tokens": tokens,
            "temperature": 0,
            "stream": True,
            "stream_options": {"include_usage": True},
        }
    ).encode()
    return (
        b"POST /v1/chat/completions HTTP/1.1\r\nhost: bench\r\nconnection: close\r\n"
        b"content-type: application/json\r\ncontent-length: %d\r\n\r\n%b" % (len(body), body)
    )


async def ask(port: int, prompt: str, tokens: int) -> Answer:
    """One streamed answer."""
    began = time.monotonic()
    transport, connection = await asyncio.get_running_loop().create_connection(
        Connection, "127.0.0.1", port
    )
    try:
        transport.write(request(prompt, tokens))
        await connection.closed
    finally:
        transport.abort()
    return read_answer(connection.pieces, connection.times, began=began)


def read_answer(pieces: list[bytes], times: list[float], *, began: float) -> Answer:
    """An answer from the bytes of a connection and the times at which they came."""
    raw = b"".join(pieces)
    ends = list(accumulate(len(piece) for piece in pieces))
    head, found, _ = raw.partition(HEAD_END)
    status = head.split(b" ", 2)[1:2]
    if not found or status != [b"200"]:
        said = raw[:300].decode(errors="replace") or "nothing"
        raise Broken(f"expected an answer with status 200, found: {said}")
    answer, complete = Answer(began), False
    for place, event in events_of(raw, len(head) + len(HEAD_END)):
        complete = complete or event == DONE
        if event != DONE:
            take(json.loads(event), answer, at=times[bisect.bisect_left(ends, place)])
    if not complete or not answer.arrivals:
        raise Broken(f"the answer ended after {len(answer.arrivals)} texts, without its end")
    answer.ended = times[-1]
    return answer


def take(chunk: dict[str, Any], answer: Answer, *, at: float) -> None:
    """Keep what an event says."""
    if "error" in chunk:
        raise Broken(f"an error in the stream: {chunk['error']}")
    if usage := chunk.get("usage"):
        answer.tokens, answer.prompt_tokens = usage["completion_tokens"], usage["prompt_tokens"]
    choice = chunk["choices"][0] if chunk.get("choices") else {}
    # The only token may have no text: then the ending is its event.
    ends = choice.get("finish_reason") and not answer.arrivals
    if choice.get("delta", {}).get("content") or ends:
        answer.arrivals.append(at)


def events_of(raw: bytes, at: int) -> Iterator[tuple[int, bytes]]:
    """Events of a body in chunks, each with the place in the raw bytes where it was complete."""
    text = b""
    while (line := raw.find(LINE_END, at)) >= 0:
        begin = line + len(LINE_END)
        end = begin + int(raw[at:line], 16)
        text += raw[begin:end]
        while (stop := text.find(EVENT_END)) >= 0:
            event, text = text[:stop], text[stop + len(EVENT_END) :]
            if event.startswith(EVENT):
                yield min(end, len(raw)), event[len(EVENT) :]
        at = end + len(LINE_END)
