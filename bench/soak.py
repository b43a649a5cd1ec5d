"""A soak: thousands of requests whose clients leave when they like, and then nothing may be held.

A real server of a scripted core with a cache of half the pages that are wanted at once, so that
requests wait, give way and come back; several prefixes are shared.  At idle every lane, permit,
page, row and file descriptor is back, every request has exactly one ending, and the server works
as fast as before.  `scripts/soak [--requests N] [--cancel SHARE]`.
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
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import msgspec
import uvloop

from bench.callers import (
    STATUS_AT,
    Caller,
    Seen,
    both_processes,
    object_of,
    post,
    scripted_server,
    seen,
)
from tests.http.scripted import CHAT, Stage
from tests.http.small import SmallServer

CALLERS: Final = 24
LANES: Final = 12
QUESTION: Final = 100  # times its number, so that no other request has it
PREFIXES: Final = tuple(letter * 500 for letter in "abcde")
SIZES: Final = ("--concurrency", str(LANES), "--context", "4096")
OPTIONS: Final = ("--max-active", str(LANES), "--queue-capacity", str(2 * CALLERS))
WORDS: Final = "one two three four five six seven eight nine ten"
ANSWERS: Final = tuple(f"{number}: {WORDS}. " * (1 + number % 4) for number in range(12))
PHASES: Final = ("before headers", "in the stream", "after the answer")
MEMORY: Final = "800K"  # 88 pages; lanes want 12 private ones each, and five prefixes 8
IDLE_SECONDS: Final = 20.0
MOST_GROWTH_NBYTES: Final = 24 << 20  # after the first tenth
LEAST_KEPT: Final = 0.95
SAMPLE: Final = re.compile(r"^(flare_\w+)(?:\{[^}]*\})? (\S+)$", re.MULTILINE)


class Verdict(msgspec.Struct, frozen=True):
    """A line of the table."""

    what: str
    found: object
    wanted: object
    good: bool


@dataclass(slots=True, kw_only=True)
class Soak:
    """A load, and what was seen of it."""

    server: SmallServer
    requests: int
    cancelled: float  # share of clients that leave
    drawn: random.Random = field(default_factory=lambda: random.Random(5))
    done: int = 0
    told: Counter[str] = field(default_factory=Counter)  # by what became of each request
    wrong: list[bytes] = field(default_factory=list)
    marks: list[tuple[float, dict[str, Seen]]] = field(default_factory=list)  # every tenth

    # ---------------------------------------------------------------- load

    async def load(self) -> None:
        """Every request, by callers that ask again at once."""
        self._mark()
        numbers = iter(range(self.requests))
        await asyncio.gather(*(self._call(numbers) for _ in range(CALLERS)))

    async def _call(self, numbers: Iterator[int]) -> None:
        caller: Caller | None = None
        for number in numbers:
            caller = caller or await Caller.to(self.server.port)
            if not await self._one(caller, number):
                caller = None
            self.done += 1
            if self.done % (self.requests // 10) == 0:
                self._mark()
        if caller is not None:
            caller.leave()

    async def _one(self, caller: Caller, number: int) -> bool:
        """One request; whether its connection can be used again."""
        streams = self.drawn.random() < 0.5
        request = self._request(number, stream=streams)
        if self.drawn.random() >= self.cancelled:
            self._judge(await caller.ask(request), streams=streams)
            return True
        phase = self.drawn.choice(PHASES)
        if phase == PHASES[0]:
            caller.send(request)
            await asyncio.sleep(self.drawn.choice((0, 0.002, 0.01)))
        else:
            await caller.ask(request, enough=1 + number % 4 if phase == PHASES[1] else None)
        caller.leave()
        self.told[f"left {phase}"] += 1
        return False

    def _request(self, number: int, *, stream: bool) -> bytes:
        messages = [
            {"role": "system", "content": self.drawn.choice(PREFIXES)},
            {"role": "user", "content": f"{number:06d}" * QUESTION},
        ]
        return post(CHAT, {"messages": messages, "stream": stream})

    def _judge(self, answer: bytes, *, streams: bool) -> None:
        """A whole answer is one of the script's."""
        status = answer[STATUS_AT].decode()
        self.told[f"answered {status}"] += 1
        if status == "200" and text_of(answer, streams=streams) not in ANSWERS:
            self.wrong.append(answer)

    def _mark(self) -> None:
        pids = both_processes(self.server)
        self.marks.append((time.perf_counter(), {name: seen(pid) for name, pid in pids.items()}))

    # ------------------------------------------------------------- verdicts

    async def metrics(self) -> dict[str, float]:
        """Samples of `/metrics`, labels summed."""
        caller = await Caller.to(self.server.port)
        text = await caller.ask(b"GET /metrics HTTP/1.1\r\nhost: bench\r\n\r\n")
        caller.leave()
        sums: dict[str, float] = {}
        for name, value in SAMPLE.findall(text.decode()):
            sums[name] = sums.get(name, 0.0) + float(value)
        return sums

    async def settled(self, *, descriptors: dict[str, int]) -> list[Verdict]:
        """What is held once nobody asks for anything; waits until it is nothing."""
        deadline = time.monotonic() + IDLE_SECONDS
        while True:
            found = [*held(await self.metrics()), *self._descriptors(descriptors)]
            if all(each.good for each in found) or time.monotonic() > deadline:
                return found
            await asyncio.sleep(0.1)

    def _descriptors(self, before: dict[str, int]) -> list[Verdict]:
        now = {name: seen(pid).descriptors for name, pid in both_processes(self.server).items()}
        return [exactly(f"descriptors of the {name}", now[name], before[name]) for name in before]

    def grown(self) -> list[Verdict]:
        """How much memory each process took after the first tenth."""
        first, last = self.marks[1][1], self.marks[-1][1]
        found = []
        for name in first:
            nbytes = last[name].resident_nbytes - first[name].resident_nbytes
            what, most = f"growth of the {name}, MiB", MOST_GROWTH_NBYTES
            found.append(Verdict(what, round(nbytes / 2**20, 1), most >> 20, nbytes <= most))
        return found

    def kept(self) -> list[Verdict]:
        """How the last tenth compares with the second: by processor time, and by the clock."""
        (began, first), (ended, second) = self.marks[1:3]
        (late, third), (over, last) = self.marks[-2:]
        by_clock = (ended - began) / (over - late)
        by_processor = cpu_between(first, second) / cpu_between(third, last)
        good = by_processor >= LEAST_KEPT or by_clock >= LEAST_KEPT
        share = self.requests / 10
        return [
            Verdict("throughput kept, processor time", round(by_processor, 3), LEAST_KEPT, good),
            Verdict("throughput kept, by the clock", round(by_clock, 3), LEAST_KEPT, good),
            noted("requests/s at first", round(share / (ended - began), 1)),
            noted("requests/s at last", round(share / (over - late), 1)),
        ]


def text_of(answer: bytes, *, streams: bool) -> str:
    """The answer's content."""
    if not streams:
        return str(json.loads(object_of(answer))["choices"][0]["message"]["content"])
    lines = re.findall(rb"data: (\{.*\})", answer)
    deltas = [json.loads(line)["choices"][0]["delta"] for line in lines]
    return "".join(delta.get("content") or "" for delta in deltas)


def cpu_between(before: dict[str, Seen], after: dict[str, Seen]) -> float:
    """Processor seconds of all processes."""
    return sum(after[name].cpu_seconds - before[name].cpu_seconds for name in before)


def exactly(what: str, found: float, wanted: float) -> Verdict:
    """Two numbers that must be the same."""
    return Verdict(what, found, wanted, found == wanted)


def noted(what: str, found: object) -> Verdict:
    """A figure that nobody judges."""
    return Verdict(what, found, "", good=True)


def held(now: dict[str, float]) -> list[Verdict]:
    """What `/metrics` says is held, and that every request has ended once."""
    ends = ("finished", "cancelled", "failed")
    ended = sum(now[f"flare_requests_{name}_total"] for name in ends)
    return [
        exactly("lanes active", now["flare_lanes_active"], 0),
        exactly("requests waiting", now["flare_requests_waiting"], 0),
        exactly("permits held", now["flare_permits_held"], 0),
        exactly(
            "pages free and idle",
            now["flare_cache_pages_free"] + now["flare_cache_pages_idle"],
            now["flare_cache_pages"],
        ),
        exactly(
            "rows free and idle",
            now["flare_snapshot_rows_free"] + now["flare_snapshot_rows_idle"],
            now["flare_snapshot_rows"],
        ),
        exactly("requests ended", ended, now["flare_requests_started_total"]),
        exactly("requests failed", now["flare_requests_failed_total"], 0),
    ]


async def soaked(
    server: SmallServer, *, requests: int, cancelled: float, timed: bool
) -> list[Verdict]:
    """Load a server, and judge what is left of it."""
    soak = Soak(server=server, requests=requests, cancelled=cancelled)
    await soak.metrics()  # whatever is opened once is open
    await soak.settled(descriptors={})
    before = {name: seen(pid).descriptors for name, pid in both_processes(server).items()}
    await soak.load()
    found = await soak.settled(descriptors=before)
    now = await soak.metrics()
    return [
        *found,
        *soak.grown(),
        exactly("wrong answers", len(soak.wrong), 0),
        *(soak.kept() if timed else ()),
        *(noted(name, count) for name, count in sorted(soak.told.items())),
        noted("preemptions", now["flare_preemptions_total"]),
        noted("evictions", now["flare_prefix_evictions_total"]),
        noted("prompt tokens reused", now["flare_prefix_reused_tokens_total"]),
    ]


def soak(
    folder: Path, *, requests: int, cancelled: float = 0.2, memory: str = MEMORY, timed: bool = True
) -> list[Verdict]:
    """Soak a server of its own, from its start to its end."""
    lines = [{"text": text} for text in ANSWERS]
    options = (*OPTIONS, "--cache-memory", memory)
    stage = Stage("small", "hermes", options=options, sizes=SIZES, lines=list(lines))
    server = scripted_server(stage, folder)
    try:
        work = soaked(server, requests=requests, cancelled=cancelled, timed=timed)
        found = uvloop.run(work)
    finally:
        status = server.stop()
    return [*found, exactly("exit status", status, 0)]


def table(found: Sequence[Verdict]) -> str:
    """Verdicts to read."""
    rows = [
        f"{'' if each.good else 'LEAK':5}{each.what:<38}{each.found!s:>12}  {each.wanted!s:>10}"
        for each in found
    ]
    return "\n".join([f"{'':5}{'':<38}{'found':>12}  {'wanted':>10}", *rows])


def main(arguments: Sequence[str] | None = None) -> int:
    """Soak, print; 1 on any leak."""
    parser = argparse.ArgumentParser(prog="scripts/soak", description=__doc__)
    parser.add_argument("--requests", type=int, default=10_000)
    parser.add_argument("--cancel", type=float, default=0.2, help="share of clients that leave")
    parser.add_argument("--cache-memory", default=MEMORY, help="as helios serve takes it")
    said = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        found = soak(
            Path(folder),
            requests=said.requests,
            cancelled=said.cancel,
            memory=said.cache_memory,
        )
    print(table(found))
    return int(not all(each.good for each in found))


if __name__ == "__main__":
    sys.exit(main())
