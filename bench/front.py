"""The front's throughput: what HTTP, preparing, parsing and writing cost beside a free model.

A real server of a scripted core; this process asks, over raw connections that read as little as
they can.  Requests a second at one output token each, and tokens a second of many streams, each
with the processor time that front and worker took: that does not depend on what else the machine
does, as the rates do.  `python -m bench.front --out FILE`.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import re
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Final

import uvloop

from bench.callers import (
    EVENT,
    STATUS_AT,
    Caller,
    both_processes,
    object_of,
    post,
    scripted_server,
    seen,
)
from bench.machine import described
from tests.http.scripted import CHAT, COMPLETIONS, Stage, tokenizer_of
from tests.http.small import SmallServer

PROMPT_TOKENS: Final = 32
CALLERS: Final = 32
STREAMS: Final = 64
STREAM_TOKENS: Final = 400
PACE_MS: Final = 30
TAGS: Final = ("<think>", "</think>", "<tool_call>", "</tool_call>")
SIZES: Final = ("--concurrency", str(STREAMS), "--context", "4096")
WORD: Final = re.compile("\u0120?[a-z]{2,}")  # as byte tokenizers write it: a space, letters
OPTIONS: Final = ("--max-active", str(STREAMS), "--queue-capacity", "64", "--cache-memory", "256M")
TARGETS: Final = {"requests_per_second": 600, "tokens_per_second": 50_000}

Figures = dict[str, float]


def stage(*, delay_ms: float = 0) -> Stage:
    """Lines of one-token words; tools and reasoning are declared, as they are for most models."""
    drawn = random.Random(3)
    made = Stage("small", "hermes", "think", added=TAGS, sizes=SIZES, options=OPTIONS)
    known = tokenizer_of(made).get_vocab()
    words = sorted(number for word, number in known.items() if WORD.fullmatch(word))
    for _ in range(16):
        made.line(
            tokens=[drawn.choice(words) for _ in range(STREAM_TOKENS)],
            end="length",
            delay_ms=delay_ms,
        )
    return made


def chat(letters: int, number: int, *, max_tokens: int = 1, **more: object) -> bytes:
    """A chat request whose question has so many letters; no other request has them."""
    text = f"{number:0{letters}d}"
    messages = [{"role": "user", "content": text}]
    return post(CHAT, {"messages": messages, "max_tokens": max_tokens, **more})


def completion(letters: int, number: int) -> bytes:
    """A completion of so many letters."""
    return post(COMPLETIONS, {"prompt": f"{number:0{letters}d}", "max_tokens": 1})


async def letters_for(caller: Caller, ask: Callable[[int, int], bytes]) -> int:
    """How long a question makes a prompt of PROMPT_TOKENS; digits are a token each."""
    answer = await caller.ask(ask(8, 1))
    used = json.loads(object_of(answer))["usage"]["prompt_tokens"]
    return 8 + PROMPT_TOKENS - int(used)


async def measured(server: SmallServer, work: Callable[[], Awaitable[int]]) -> tuple[int, Figures]:
    """What the work counts, with its seconds and each process's."""
    pids = both_processes(server)
    before = {name: seen(pid) for name, pid in pids.items()}
    began = time.perf_counter()
    count = await work()
    spent = {"wall": time.perf_counter() - began}
    for name, pid in pids.items():
        spent[name] = seen(pid).cpu_seconds - before[name].cpu_seconds
    return count, spent


def per(count: int, spent: Figures, unit: str) -> Figures:
    """The rate, and microseconds of each process."""
    return {
        f"{unit}s": count,
        f"{unit}s_per_second": round(count / spent["wall"], 1),
        f"front_us_per_{unit}": round(1e6 * spent["front"] / count, 1),
        f"worker_us_per_{unit}": round(1e6 * spent["worker"] / count, 1),
    }


async def short_requests(
    server: SmallServer, *, ask: Callable[[int, int], bytes], requests: int
) -> Figures:
    """Short prompts with one output token, from callers that ask again at once."""
    callers = [await Caller.to(server.port) for _ in range(CALLERS)]
    letters = await letters_for(callers[0], ask)

    async def keep_asking(caller: Caller, numbers: range) -> int:
        for number in numbers:
            answer = await caller.ask(ask(letters, number))
            assert answer[STATUS_AT] == b"200", answer
        return len(numbers)

    async def all_of_them() -> int:
        shares = [range(number, requests, CALLERS) for number in range(CALLERS)]
        pairs = zip(callers, shares, strict=True)
        return sum(await asyncio.gather(*(keep_asking(*pair) for pair in pairs)))

    await keep_asking(callers[0], range(50))  # warm
    count, spent = await measured(server, all_of_them)
    for caller in callers:
        caller.leave()
    return per(count, spent, "request")


async def streams(server: SmallServer, *, rounds: int) -> Figures:
    """Streams side by side, an event a token."""
    callers = [await Caller.to(server.port) for _ in range(STREAMS)]

    async def keep_reading(caller: Caller, first: int, count: int) -> int:
        events = 0
        for number in range(first, first + count):
            answer = await caller.ask(chat(16, number, stream=True, max_tokens=STREAM_TOKENS))
            events += answer.count(EVENT) - 3  # the role, the ending, [DONE]
        return events

    async def all_of_them() -> int:
        work = (keep_reading(caller, 1000 * at, rounds) for at, caller in enumerate(callers))
        return sum(await asyncio.gather(*work))

    await keep_reading(callers[0], 1, 2)  # warm
    events, spent = await measured(server, all_of_them)
    for caller in callers:
        caller.leave()
    tokens = STREAMS * rounds * STREAM_TOKENS
    return {**per(tokens, spent, "token"), "events_per_token": round(events / tokens, 3)}


def served(work: Callable[[SmallServer], Awaitable[Figures]], *, delay_ms: float = 0) -> Figures:
    """The work's figures on a server of its own."""
    with tempfile.TemporaryDirectory() as folder:
        server = scripted_server(stage(delay_ms=delay_ms), Path(folder))
        try:
            return uvloop.run(work(server))
        finally:
            server.stop()


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, help="a JSON file for the results")
    parser.add_argument("--requests", type=int, default=3000)
    parser.add_argument("--rounds", type=int, default=6, help="answers a stream")
    parser.add_argument("--only", choices=sorted(KINDS), nargs="*", default=sorted(KINDS))
    said = parser.parse_args(arguments)
    found = {name: KINDS[name](said) for name in said.only}
    text = json.dumps({"machine": described(), "targets": TARGETS, **found}, indent=2)
    print(text)
    if said.out is not None:
        said.out.write_text(text + "\n")
    return 0


KINDS: Final[dict[str, Callable[[argparse.Namespace], Figures]]] = {
    "chat": lambda said: served(partial(short_requests, ask=chat, requests=said.requests)),
    "completions": lambda said: served(
        partial(short_requests, ask=completion, requests=said.requests)
    ),
    "streams": lambda said: served(partial(streams, rounds=said.rounds)),
    "paced streams": lambda said: served(
        partial(streams, rounds=max(1, said.rounds // 4)), delay_ms=PACE_MS
    ),
}
"""What is measured, by name; at the pace nothing is behind, so every token is an event."""


if __name__ == "__main__":
    sys.exit(main())
