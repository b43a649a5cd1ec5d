"""OpenVINO GenAI behind as little HTTP as chat completions need: the peer of `bench/table.py`.

Runs in an environment of its own (docs/benchmarks.md).  One thread steps the pipeline; the event
loop tokenises, decodes and writes events.  Knows /health and streamed /v1/chat/completions.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import queue
import threading
from dataclasses import dataclass, field
from typing import Any

import openvino_genai as genai
from aiohttp import web

Delivery = tuple[asyncio.Queue[tuple[list[int], str | None]], tuple[list[int], str | None]]


@dataclass
class Asked:
    """A request on its way to the pipeline."""

    ids: Any
    settings: Any
    news: asyncio.Queue[tuple[list[int], str | None]] = field(default_factory=asyncio.Queue)
    handle: Any = None


class Engine:
    """The pipeline and the thread that steps it."""

    def __init__(self, said: argparse.Namespace, loop: asyncio.AbstractEventLoop) -> None:
        scheduler = genai.SchedulerConfig()
        scheduler.max_num_batched_tokens = 2048
        scheduler.cache_size = 1
        scheduler.enable_prefix_caching = True
        properties = {"INFERENCE_NUM_THREADS": said.threads}
        self.pipe = genai.ContinuousBatchingPipeline(said.model, scheduler, "CPU", properties)
        self.tokenizer = self.pipe.get_tokenizer()
        self.loop = loop
        self.inbox: queue.SimpleQueue[Asked] = queue.SimpleQueue()
        threading.Thread(target=self.turn, daemon=True).start()

    def turn(self) -> None:
        """Step while anything is asked; one hop to the event loop a step."""
        live: list[Asked] = []
        number = 0
        while True:
            while not live or not self.inbox.empty():
                asked = self.inbox.get()
                asked.handle = self.pipe.add_request(number, asked.ids, asked.settings)
                number += 1
                live.append(asked)
            self.pipe.step()
            deliveries: list[Delivery] = []
            for asked in list(live):
                tokens, finish = self.read(asked)
                if tokens or finish:
                    deliveries.append((asked.news, (tokens, finish)))
                if finish:
                    live.remove(asked)
            self.loop.call_soon_threadsafe(deliver, deliveries)

    def read(self, asked: Asked) -> tuple[list[int], str | None]:
        """Tokens of a step, and how the request ended, if it did."""
        tokens: list[int] = []
        while asked.handle.can_read():
            for output in asked.handle.read().values():
                tokens += output.generated_ids
        if asked.handle.get_status() == genai.GenerationStatus.RUNNING:
            return tokens, None
        length = len(tokens) and tokens[-1] != self.tokenizer.get_eos_token_id()
        return tokens, "length" if length else "stop"


def deliver(deliveries: list[Delivery]) -> None:
    """In the event loop: hand out what a step brought."""
    for news, item in deliveries:
        news.put_nowait(item)


def event(choice: dict[str, Any] | None, **more: Any) -> bytes:
    """One server-sent event."""
    chunk = {
        "object": "chat.completion.chunk",
        "choices": [choice] if choice is not None else [],
        **more,
    }
    return b"data: " + json.dumps(chunk).encode() + b"\n\n"


async def complete(request: web.Request) -> web.StreamResponse:
    """A streamed chat completion at temperature 0."""
    engine = request.app["engine"]
    body = await request.json()
    if not body.get("stream") or body.get("temperature") != 0:
        return web.json_response({"error": "this peer only streams at temperature 0"}, status=400)
    text = engine.tokenizer.apply_chat_template(body["messages"], add_generation_prompt=True)
    ids = engine.tokenizer.encode(text, add_special_tokens=False).input_ids
    settings = genai.GenerationConfig()
    settings.max_new_tokens = body["max_tokens"]
    settings.eos_token_id = engine.tokenizer.get_eos_token_id()
    asked = Asked(ids, settings)
    engine.inbox.put(asked)
    response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
    await response.prepare(request)
    finish, count = None, 0
    while finish is None:
        tokens, finish = await asked.news.get()
        count += len(tokens)
        if tokens:
            delta = {"content": engine.tokenizer.decode(tokens)}
            await response.write(event({"index": 0, "delta": delta, "finish_reason": None}))
    await response.write(event({"index": 0, "delta": {}, "finish_reason": finish}))
    usage = {"prompt_tokens": int(ids.shape[1]), "completion_tokens": count}
    await response.write(event(None, usage=usage))
    await response.write(b"data: [DONE]\n\n")
    return response


async def healthy(_request: web.Request) -> web.Response:
    """Ready: the pipeline was loaded before the port was opened."""
    return web.json_response({"status": "ok"})


def main() -> None:
    """Load, then serve."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", required=True)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--threads", type=int, required=True)
    said = parser.parse_args()
    app = web.Application()

    async def load(app: web.Application) -> None:
        app["engine"] = Engine(said, asyncio.get_running_loop())

    app.on_startup.append(load)
    app.add_routes([web.get("/health", healthy), web.post("/v1/chat/completions", complete)])
    web.run_app(app, host="127.0.0.1", port=said.port, print=None, access_log=None)


if __name__ == "__main__":
    main()
