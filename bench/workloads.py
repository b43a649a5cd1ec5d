"""What servers are asked: streams, long prompts, cached prompts, and prompts amid streams."""

from __future__ import annotations

import asyncio
import random
import statistics
from collections.abc import Awaitable, Callable, Sequence
from functools import partial

import msgspec

from bench.asking import Answer, Broken, ask
from bench.rows import CACHED, MIXED, PREFILL, STREAMS, TEMPLATE_TOKENS

WORDS = ("river", "stone", "lamp", "window", "garden", "bread", "winter", "song", "road", "light")
CACHED_TOKENS, NEW_TOKENS, LONG_TOKENS = 480, 20, 4000
MIXED_STREAMS = 8
MIXED_BEGIN_SECONDS = 0.5


class Sizes(msgspec.Struct, frozen=True, kw_only=True):
    """How much is asked; every row is measured whatever it is."""

    decode_tokens: int = 128
    mixed_tokens: int = 192
    mixed_prompts: int = 2
    repeats: int = 3  # of the rows that take a second
    prompt_part: int = 1  # prompts are so much shorter than their rows say


QUICK = Sizes(decode_tokens=32, mixed_tokens=48, mixed_prompts=1, repeats=1, prompt_part=8)


class Ask(msgspec.Struct, frozen=True, kw_only=True):
    """A workload, and the figures that it gives."""

    figures: tuple[str, ...]
    run: Callable[[int, Sizes, int], Awaitable[tuple[float, ...]]]  # port, sizes, seed
    brief: bool = False  # asked several times


def words(count: int, seed: int) -> str:
    """A prompt that no cache has seen; a word is a token."""
    draw = random.Random(seed)
    return " ".join(draw.choice(WORDS) for _ in range(count))


def story(seed: int) -> str:
    """A prompt with a long answer."""
    return f"Tell a very long story about the {words(3, seed)}."


def together(answers: Sequence[Answer]) -> float:
    """Total tokens a second from the last first token on, until the first answer ends.

    Where answers did not overlap, all their tokens in all their time.
    """
    start = max(answer.arrivals[0] for answer in answers)
    end = min(answer.arrivals[-1] for answer in answers)
    if start >= end:
        start = min(answer.arrivals[0] for answer in answers)
        end = max(answer.arrivals[-1] for answer in answers)
    emitted = sum(
        answer.tokens * sum(start < at <= end for at in answer.arrivals) / len(answer.arrivals)
        for answer in answers
    )
    if not emitted:
        raise Broken(f"{len(answers)} answers came in one piece each: nothing to measure")
    return emitted / (end - start)


async def streams(count: int, port: int, sizes: Sizes, seed: int) -> tuple[float, ...]:
    """Total tokens a second of streams that decode together."""
    asked = (ask(port, story(seed + lane), sizes.decode_tokens) for lane in range(count))
    return (together(await asyncio.gather(*asked)),)


async def prefill(tokens: int, port: int, sizes: Sizes, seed: int) -> tuple[float, ...]:
    """Milliseconds to the first token of a prompt of so many tokens."""
    tokens //= sizes.prompt_part
    answer = await ask(port, words(tokens - TEMPLATE_TOKENS, seed), 2)
    if abs(answer.prompt_tokens - tokens) > 0.05 * tokens:
        raise Broken(f"the prompt has {answer.prompt_tokens} tokens, expected about {tokens}")
    return (1e3 * answer.first,)


async def cached(port: int, _sizes: Sizes, seed: int) -> tuple[float, ...]:
    """Milliseconds to the first token when all but 20 tokens of a prompt were asked before."""
    known = words(CACHED_TOKENS - TEMPLATE_TOKENS, seed)
    await ask(port, known, 2)
    answer = await ask(port, f"{known} {words(NEW_TOKENS, seed + 1)}", 2)
    return (1e3 * answer.first,)


async def mixed(port: int, sizes: Sizes, seed: int) -> tuple[float, ...]:
    """Gaps between tokens of streams while long prompts arrive, and all tokens a second.

    Every server is given the same work, and its throughput counts prompts as well: short gaps
    cannot be bought by letting prompts wait.
    """
    decoding = [
        asyncio.create_task(ask(port, story(seed + lane), sizes.mixed_tokens))
        for lane in range(MIXED_STREAMS)
    ]
    await asyncio.sleep(MIXED_BEGIN_SECONDS)
    long = LONG_TOKENS // sizes.prompt_part - TEMPLATE_TOKENS
    prompts = [
        await ask(port, words(long, seed + 50 + number), 2) for number in range(sizes.mixed_prompts)
    ]
    answers = await asyncio.gather(*decoding)
    gaps = sorted(gap for answer in answers for gap in answer.gaps)
    every = [*answers, *prompts]
    span = max(one.ended for one in every) - min(one.began for one in every)
    total = sum(one.tokens for one in every) + sum(one.prompt_tokens for one in prompts)
    p99 = gaps[int(0.99 * (len(gaps) - 1))]
    return 1e3 * p99, total / span, 1e3 * statistics.median(gaps)


ASKS = (
    Ask(figures=(STREAMS[1],), run=partial(streams, 1), brief=True),
    *(Ask(figures=(STREAMS[count],), run=partial(streams, count)) for count in (4, 8, 16)),
    Ask(figures=(PREFILL[512],), run=partial(prefill, 512), brief=True),
    Ask(figures=(PREFILL[4000],), run=partial(prefill, 4000)),
    Ask(figures=(CACHED,), run=cached, brief=True),
    Ask(figures=MIXED, run=mixed),
)
