"""The real core on the real device, driven a submission at a time."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from msgspec.structs import replace

from helios.artifact.core_file import OpenCore, open_core
from helios.bootstrap.devices import Occupants, load_device
from helios.bootstrap.front import load_frontend
from helios.cache.content import Key
from helios.cache.pages import PagePool
from helios.cache.prefix import PrefixTree
from helios.cache.rows import row_pool
from helios.device.api import Geometry
from helios.device.cpu import CpuDevice
from helios.execute.executor import Executor
from helios.frontend.prepare import Frontend
from helios.frontend.request import PreparedRequest
from helios.options import Options, home_folder, resolve
from helios.rounds import Sampling
from helios.schedule.lanes import Plan, Share
from helios.schedule.queue import Waiting
from helios.schedule.roster import Roster
from helios.values import MonotonicClock, RequestId, Slot
from prepared.contract import Operation
from prepared.trust import read_trust
from tests.execute.by_hand import Told, told

BUILD = Path(__file__).parents[2] / "build"
CORE = BUILD / "smollm2-135m.core"
GGUF = BUILD / "weights" / "SmolLM2-135M-Instruct.Q4_1.gguf"
GREEDY = Sampling(
    seed=0,
    temperature=0.0,
    top_p=1.0,
    top_k=0,
    min_p=0.0,
    repetition_penalty=1.0,
    presence_penalty=0.0,
    frequency_penalty=0.0,
)
Floats = npt.NDArray[np.float32]


@dataclass
class Model:
    """A loaded core."""

    core: OpenCore
    device: CpuDevice
    executor: Executor
    frontend: Frontend
    slots: int
    pages: int
    geometry: Geometry
    _number: int = 0

    @property
    def page_tokens(self) -> int:
        return self.core.deployment.contract.model.cache.page_tokens

    def roster(self) -> Roster:
        """A fresh roster over the loaded device."""
        cache = PrefixTree(
            PagePool(self.pages), row_pool(self.geometry.snapshots), page_tokens=self.page_tokens
        )
        return Roster(
            slots=self.slots,
            vocabulary=self.vocabulary,
            cache=cache,
            operations=frozenset(program.operation for program in self.executor.programs),
        )

    @property
    def vocabulary(self) -> int:
        return self.core.deployment.contract.model.vocabulary.tokens

    def logits(self, operation: Operation, rows: int) -> Floats:
        """What the last submission of an operation sampled from."""
        manifest = self.device.manifest
        program = next(p for p in manifest.programs if p.operation is operation)
        for index in program.launches:
            launch = manifest.launches[index]
            kernel = manifest.kernels[launch.kernel]
            if kernel.symbol != "sample":
                continue
            places = {p.name: p.offset for p in kernel.parameters}
            stride = int.from_bytes(launch.parameters[places["stride"] :][:4], "little")
            (at,) = (r for r in launch.relocations if r.offset == places["logits"])
            memory = self.device.resident(manifest.buffers[at.buffer].name)
            cells = np.frombuffer(memory, np.float32, rows * stride, at.addend)
            return cells.reshape(rows, stride)[:, : self.vocabulary].copy()
        raise AssertionError("nothing samples")

    def run(self, roster: Roster, plan: Plan, mask: bytes | None = None) -> Told:
        """Submit a round and settle it; a mask is every lane's."""
        submission = roster.commit(plan, 0)
        if mask is not None:
            lanes = tuple(replace(lane, mask=mask) for lane in submission.lanes)
            submission = replace(submission, lanes=lanes)
        self.executor.submit(submission)
        while not (finished := list(self.executor.finished())):
            self.executor.wait(nanoseconds=10**9)
        roster.settle(finished[0])
        return told(submission.lanes, finished[0])

    def round(
        self,
        roster: Roster,
        operation: Operation,
        shares: Sequence[Share],
        *,
        mask: bytes | None = None,
    ) -> Told:
        """A round with the smallest program that holds it."""
        tokens = sum(share.tokens for share in shares)
        program = min(
            (
                p
                for p in self.executor.programs
                if p.operation is operation and p.rows >= len(shares) and p.packed_tokens >= tokens
            ),
            key=lambda p: p.packed_tokens,
        )
        return self.run(roster, Plan(program=program, shares=tuple(shares)), mask)

    def admit(self, roster: Roster, prompts: Sequence[Sequence[int]], **changes: Any) -> list[Slot]:
        """Give prompts slots."""
        slots = []
        for prompt in prompts:
            self._number += 1
            request = PreparedRequest(
                id=RequestId(self._number),
                prompt=tuple(prompt),
                sampling=changes.get("sampling", GREEDY),
                output_limit=changes.get("limit", 4096),
                minimum_output=0,
                eos_ids=changes.get("eos", ()),
                logit_bias=changes.get("logit_bias", ()),
                logprobs=changes.get("logprobs"),
            )
            roster.admit(Waiting(arrival=self._number, request=request, key=Key(identity=b"")))
            slots.append(roster.view().lanes[-1].slot)
        self.round(
            roster,
            Operation.INITIALIZE,
            [Share(slot=slot, tokens=0, samples=False) for slot in slots],
        )
        return slots

    def generate(
        self, prompts: Sequence[Sequence[int]], most: int, **changes: Any
    ) -> list[list[int]]:
        """Tokens of prompts that run together."""
        roster = self.roster()
        slots = self.admit(roster, prompts, **changes)
        shares = [
            Share(slot=slot, tokens=len(prompt), samples=True)
            for slot, prompt in zip(slots, prompts, strict=True)
        ]
        first = self.round(roster, Operation.PREFILL, shares)
        out = [[lane.tokens[0]] for lane in first.lanes]
        for _ in range(most - 1):
            shares = [Share(slot=slot, tokens=1, samples=True) for slot in slots]
            for tokens, lane in zip(
                out, self.round(roster, Operation.DECODE, shares).lanes, strict=True
            ):
                tokens += lane.tokens
        return out

    def greedy(self, prompt: Sequence[int], *, most: int, eos: Sequence[int]) -> list[int]:
        """A greedy answer, up to and without its end."""
        tokens = self.generate([prompt], most)[0]
        ends = [place for place, token in enumerate(tokens) if token in eos]
        return tokens[: ends[0]] if ends else tokens


def open_model(path: Path, *, threads: int | None = None) -> Model:
    """Open and load a core as the server does."""
    options = Options(core=path, home=home_folder(), cache_memory=1 << 30, threads=threads)
    core = open_core(path, read_trust(options.home / "trust.json"), acceptance=None)
    contract = core.deployment.contract
    limits = resolve(contract, options)
    device, geometry = load_device(core, limits, options, Occupants(), MonotonicClock(0))
    assert isinstance(device, CpuDevice)
    return Model(
        core=core,
        device=device,
        executor=Executor(contract.model, device),
        frontend=load_frontend(core, limits),
        slots=geometry.slots,
        pages=geometry.pages,
        geometry=geometry,
    )


os.environ.setdefault("HF_HUB_OFFLINE", "1")
