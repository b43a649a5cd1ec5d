"""The host's work for a round: what planning, packing, handing over and settling cost.

A whole worker on the scripted device, without HTTP, decodes with all its lanes.  Each round costs
what its turn of the loop costs, news encoded for the front, less what the scripted device plays:
a real one does that elsewhere.  Processor time: what other programs of the machine do does not
count.  `python -m bench.host_time --out FILE`.
"""

from __future__ import annotations

import argparse
import gc
import json
import platform
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median, quantiles
from typing import Any, Final

import msgspec

from helios.bootstrap.model import build_worker
from helios.cache.prefix import PrefixTree
from helios.device.api import Geometry
from helios.device.scripted import Line, ScriptedDevice
from helios.frontend.request import PreparedRequest
from helios.mailbox import Requests, Round, ToFront, ToWorker
from helios.rounds import Sampling
from helios.values import Clock, ProgramId, RequestId
from helios.worker import Worker
from tests.worker.world import NO_TOOLS, scripted_model, text_extents

LANES: Final = (1, 16, 64, 256)
PROMPT_TOKENS: Final = 32
CONTEXT_TOKENS: Final = 4096
PAGE_TOKENS: Final = 64
PLAIN: Final = Sampling(
    seed=0,
    temperature=0.0,
    top_p=1.0,
    top_k=0,
    min_p=0.0,
    repetition_penalty=1.0,
    presence_penalty=0.0,
    frequency_penalty=0.0,
)


class ProcessorClock:
    """This thread's time on a processor."""

    def now_ns(self) -> int:
        """See `helios.values.Clock`."""
        return time.thread_time_ns()


class TimedDevice(ScriptedDevice):
    """A scripted device that knows what its playing costs."""

    played_ns = 0

    def submit(self, program: ProgramId, frame: int) -> None:
        """See `Device`."""
        began = time.thread_time_ns()
        super().submit(program, frame)
        TimedDevice.played_ns += time.thread_time_ns() - began


class EncodingMailbox:
    """Messages are encoded as for a socket, and dropped."""

    def __init__(self) -> None:
        self.inbox: list[ToWorker] = []
        self.told: Round | None = None
        self._encoder = msgspec.msgpack.Encoder()

    def drain(self) -> list[ToWorker]:
        """See `helios.worker.Mailbox`."""
        taken, self.inbox = self.inbox, []
        return taken

    def publish(self, message: ToFront) -> None:
        """See `helios.worker.Mailbox`."""
        self._encoder.encode(message)
        self.told = message if isinstance(message, Round) else None

    def wait(self, seconds: float | None) -> None:
        """Nothing else comes."""


def worker_of(lanes: int, clock: Clock) -> tuple[Worker, EncodingMailbox]:
    """A worker with so many slots, and pages for all."""
    extents = text_extents(
        lanes=lanes,
        prefill_tokens=512,
        context_tokens=CONTEXT_TOKENS,
        page_tokens=PAGE_TOKENS,
    )
    model, manifest = scripted_model(extents)
    geometry = Geometry(slots=lanes, pages=lanes * extents.row_pages, snapshots=lanes)
    device = TimedDevice(
        execution=manifest,
        model=model,
        geometry=geometry,
        script=(Line(tokens=tuple(range(10, 90)) * 60, end="length"),),
        clock=clock,
        sleep=time.sleep,
        request_in=lambda slot: worker.roster.request_in(slot),
    )
    mailbox = EncodingMailbox()
    worker = build_worker(
        model,
        device,
        geometry,
        mailbox,
        NO_TOOLS,
        identity=b"host time",
        gap_ns=100_000_000,
        clock=clock,
    )
    return worker, mailbox


def request(number: int, *, output_limit: int) -> PreparedRequest:
    """A request whose prompt nobody else has."""
    return PreparedRequest(
        id=RequestId(1 + number),  # zero is the proof that the model runs
        prompt=(3 + number % 90, 3 + number // 90, *range(10, 8 + PROMPT_TOKENS)),
        sampling=PLAIN,
        output_limit=output_limit,
        minimum_output=0,
        eos_ids=(2,),
    )


def decode_rounds(lanes: int, *, rounds: int) -> dict[str, float]:
    """Microseconds of decode rounds with all lanes, once they all decode."""
    clock = ProcessorClock()
    worker, mailbox = worker_of(lanes, clock)
    limit = CONTEXT_TOKENS - PROMPT_TOKENS
    mailbox.inbox.append(
        Requests(submit=tuple(request(n, output_limit=limit) for n in range(lanes)))
    )
    while not settled(mailbox.told, lanes):
        worker.turn()
    gc.collect()
    gc.freeze()
    whole: list[float] = []
    handing: list[float] = []
    while len(whole) < rounds // 2:
        TimedDevice.played_ns, began = 0, time.thread_time_ns()
        worker.turn()
        spent = time.thread_time_ns() - began - TimedDevice.played_ns
        assert mailbox.told is not None
        assert settled(mailbox.told, lanes)
        steps = mailbox.told.steps
        handed = sum(step.host_ns for step in steps) - TimedDevice.played_ns
        whole.append(spent / len(steps) / 1000)
        handing.append(handed / len(steps) / 1000)
    return {
        "lanes": lanes,
        "rounds": 2 * len(whole),
        "median_us": round(median(whole), 1),
        "p99_us": round(quantiles(whole, n=100)[98], 1),
        "plan_pack_submit_us": round(median(handing), 1),
    }


def settled(told: Round | None, lanes: int) -> bool:
    """Whether a turn's rounds were decode rounds with every lane."""
    steps = told.steps if told is not None else ()
    return bool(steps) and all((s.operation, s.lanes) == ("decode", lanes) for s in steps)


def caching_cost(requests: int) -> dict[str, float]:
    """What matching and publishing cost of all host time when nothing is ever found again."""
    worker, mailbox = worker_of(16, ProcessorClock())
    spent = [0]
    for name in ("match", "prepare", "complete"):  # for the rest of this process
        setattr(PrefixTree, name, timed(getattr(PrefixTree, name), spent))
    TimedDevice.played_ns, began = 0, time.thread_time_ns()
    left = [request(number, output_limit=64) for number in range(requests)]
    while left or worker.roster.free_slots < worker.roster.slots:
        if left:
            mailbox.inbox.append(Requests(submit=(left.pop(),)))
        worker.turn()
    whole = time.thread_time_ns() - began - TimedDevice.played_ns
    return {"percent_of_host_time": round(100 * spent[0] / whole, 2), "requests": requests}


def timed(function: Any, spent: list[int]) -> Any:
    """The function, with its time added up."""

    def timing(*arguments: Any, **named: Any) -> Any:
        began = time.thread_time_ns()
        try:
            return function(*arguments, **named)
        finally:
            spent[0] += time.thread_time_ns() - began

    return timing


def machine() -> dict[str, str]:
    """Where this was measured."""
    model = platform.processor()
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            model = line.split(":", 1)[1].strip()
    return {"processor": model, "system": platform.platform(), "python": platform.python_version()}


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, help="a JSON file for the results")
    parser.add_argument("--rounds", type=int, default=600)
    parser.add_argument("--lanes", type=int, nargs="*", default=list(LANES))
    options = parser.parse_args(arguments)
    found = {
        "machine": machine(),
        "decode": [decode_rounds(lanes, rounds=options.rounds) for lanes in options.lanes],
        "caching": caching_cost(200),
    }
    text = json.dumps(found, indent=2)
    print(text)
    if options.out is not None:
        options.out.write_text(text + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
