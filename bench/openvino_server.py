"""OpenVINO GenAI behind as little HTTP as chat completions need: the peer of `bench/table.py`.

Runs in an environment of its own (docs/benchmarks.md).  The event loop itself steps the pipeline:
a step keeps Python's lock from its begin to its end, so that a thread of its own would leave the
loop no time to write.  Knows /health and streamed /v1/chat/completions.
"""

from __future__ import annotations

import argparse
import asyncio
import json
from dataclasses import dataclass, field
from typing import Any

import openvino_genai as genai
from aiohttp import web

PASSES = 4  # of the event loop between two steps: what came is written, who asks is let in


@dataclass
class Asked:
    """A request on its way to the pipeline."""

    ids: Any
    settings: Any
    news: asyncio.Queue[tuple[list[int], str | None]] = field(default_factory=asyncio.Queue)
    handle: Any = None


class Engine:
    """The pipeline and the task that steps it."""

    def __init__(self, said: argparse.Namespace) -> None:
        scheduler = genai.SchedulerConfig()
        scheduler.max_num_batched_tokens = 2048
        scheduler.cache_size = 1
        scheduler.enable_prefix_caching = True
        properties = {"INFERENCE_NUM_THREADS": said.threads}
        self.pipe = genai.ContinuousBatchingPipeline(said.model, scheduler, "CPU", properties)
        self.tokenizer = self.pipe.get_tokenizer()
        self.inbox: asyncio.Queue[Asked] = asyncio.Queue()
        self.task = asyncio.create_task(self.turn())

    async def turn(self) -> None:
        """Step while anything is asked."""
        live: list[Asked] = []
        number = 0
        while True:
            while not live or not self.inbox.empty():
                asked = await self.inbox.get()
                asked.handle = self.pipe.add_request(number, asked.ids, asked.settings)
                number += 1
                live.append(asked)
            self.pipe.step()
            for asked in list(live):
                tokens, finish = self.read(asked)
                if tokens or finish:
                    asked.news.put_nowait((tokens, finish))
                if finish:
                    live.remove(asked)
            for _ in range(PASSES):
                await asyncio.sleep(0)

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
    engine.inbox.put_nowait(asked)
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
        app["engine"] = Engine(said)

    app.on_startup.append(load)
    app.add_routes([web.get("/health", healthy), web.post("/v1/chat/completions", complete)])
    web.run_app(app, host="127.0.0.1", port=said.port, print=None, access_log=None)


if __name__ == "__main__":
    main()
