"""What servers are asked: streams, long prompts, cached prompts, and prompts amid streams."""

from __future__ import annotations

import asyncio
import json
import random
import statistics
import time
from dataclasses import dataclass, field

import httpx

from bench.served import Server

STREAMS = (1, 4, 8, 16)
WORDS = ("river", "stone", "lamp", "window", "garden", "bread", "winter", "song", "road", "light")
TEMPLATE_TOKENS = 32
MIXED_STREAMS = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """How much is asked; every row is measured whatever it is."""

    decode_tokens: int = 128
    mixed_tokens: int = 192
    mixed_prompts: int = 2


QUICK = Sizes(decode_tokens=32, mixed_tokens=48, mixed_prompts=1)


@dataclass
class Answer:
    """When an answer's text arrived."""

    began: float
    arrivals: list[float] = field(default_factory=list)
    tokens: int = 0

    @property
    def first(self) -> float:
        """Seconds to the first text."""
        return self.arrivals[0] - self.began

    @property
    def gaps(self) -> list[float]:
        """Seconds between texts."""
        return [b - a for a, b in zip(self.arrivals, self.arrivals[1:], strict=False)]


async def ask(client: httpx.AsyncClient, prompt: str, tokens: int) -> Answer:
    """One streamed answer at temperature 0."""
    body = {
        "messages": [{"role": "user", "content": prompt}],
        "max_tokens": tokens,
        "temperature": 0,
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    answer = Answer(time.monotonic())
    async with client.stream("POST", "/v1/chat/completions", json=body) as response:
        response.raise_for_status()
        async for line in response.aiter_lines():
            if not line.startswith("data: {"):
                continue
            chunk = json.loads(line[6:])
            if chunk.get("usage"):
                answer.tokens = chunk["usage"]["completion_tokens"]
            choice = chunk["choices"][0] if chunk["choices"] else {}
            # The only token may have no text: then the ending is its event.
            ends = choice.get("finish_reason") and not answer.arrivals
            if choice.get("delta", {}).get("content") or ends:
                answer.arrivals.append(time.monotonic())
    return answer


def words(count: int, seed: int) -> str:
    """A prompt that no cache has seen; a word is a token."""
    draw = random.Random(seed)
    return " ".join(draw.choice(WORDS) for _ in range(count))


def story(seed: int) -> str:
    """A prompt with a long answer."""
    return f"Tell a very long story about the {words(3, seed)}."


async def streams(
    client: httpx.AsyncClient, server: Server, sizes: Sizes, *, count: int, seed: int
) -> None:
    """Total tokens a second of streams that decode together, from the last first token on."""
    answers = await asyncio.gather(
        *(ask(client, story(seed + lane), sizes.decode_tokens) for lane in range(count))
    )
    start = max(answer.arrivals[0] for answer in answers)
    end = max(answer.arrivals[-1] for answer in answers)
    emitted = sum(
        answer.tokens * sum(at > start for at in answer.arrivals) / len(answer.arrivals)
        for answer in answers
    )
    server.note(f"decode, {count} streams, tokens/s", emitted / (end - start))


async def prefill(client: httpx.AsyncClient, server: Server, tokens: int, seed: int) -> None:
    """Time to the first token of a prompt of so many tokens."""
    answer = await ask(client, words(tokens - TEMPLATE_TOKENS, seed), 2)
    server.note(f"first token, {tokens} tokens, ms", 1e3 * answer.first)


async def cached(client: httpx.AsyncClient, server: Server, seed: int) -> None:
    """Time to the first token when all but 20 tokens of a prompt were asked before."""
    known = words(480 - TEMPLATE_TOKENS, seed)
    await ask(client, known, 2)
    answer = await ask(client, f"{known} {words(20, seed + 1)}", 2)
    server.note("first token, 480 cached + 20, ms", 1e3 * answer.first)


async def mixed(client: httpx.AsyncClient, server: Server, sizes: Sizes, *, seed: int) -> None:
    """Gaps between tokens of streams while long prompts arrive."""
    decoding = [
        asyncio.create_task(ask(client, story(seed + lane), sizes.mixed_tokens))
        for lane in range(MIXED_STREAMS)
    ]
    await asyncio.sleep(0.5)
    for number in range(sizes.mixed_prompts):
        await ask(client, words(4000 - TEMPLATE_TOKENS, seed + 100 + number), 2)
    answers = await asyncio.gather(*decoding)
    gaps = sorted(gap for answer in answers for gap in answer.gaps)
    server.note("mixed, p99 gap, ms", 1e3 * gaps[int(0.99 * (len(gaps) - 1))])
    span = max(a.arrivals[-1] for a in answers) - min(a.arrivals[0] for a in answers)
    server.note("mixed, tokens/s", sum(answer.tokens for answer in answers) / span)
    server.note("mixed, median gap, ms", 1e3 * statistics.median(gaps))


async def measure(server: Server, number: int, sizes: Sizes) -> None:
    """One round of every workload."""
    base = f"http://127.0.0.1:{server.port}"
    async with httpx.AsyncClient(base_url=base, timeout=600) as client:
        await ask(client, "Hello", 4)
        for count in STREAMS:
            await streams(client, server, sizes, count=count, seed=10_000 * number + 100 * count)
        for tokens in (512, 4000):
            await prefill(client, server, tokens, 10_000 * number + tokens)
        await cached(client, server, 10_000 * number + 7000)
        await mixed(client, server, sizes, seed=10_000 * number + 8000)
    server.note("resident after load, MB", server.resident() / 1e6)
