"""A core becomes a worker: programs selected, device loaded, cache backed, one round run.

Everything a model needs is decided and allocated here; afterwards the worker only turns
(OB-05, OB-11).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from msgspec.structs import replace

from helios.artifact.core_file import OpenCore
from helios.artifact.weights import read_weights
from helios.cache.pages import PagePool, pages_for
from helios.device.api import Device, Geometry, Resources
from helios.device.cpu import CpuDevice
from helios.device.reference import ReferenceDevice, find_meanings
from helios.execute.executor import Executor
from helios.frontend.request import PreparedRequest
from helios.mailbox import News, Requests, Round, ToFront, ToWorker
from helios.options import Limits
from helios.rounds import Finish, Sampling
from helios.schedule.roster import Roster
from helios.values import ExecutionFailed, RequestId, StartRefused
from helios.worker import Mailbox, Worker
from prepared.contract import ModelContract, Operation, ServingContract
from prepared.manifest import BufferRole, ExecutionManifest, Program, Target

NEEDED: Final = (Operation.INITIALIZE, Operation.PREFILL, Operation.DECODE)
"""Operations without which text cannot be served."""


def select_programs(manifest: ExecutionManifest, *, max_active: int) -> ExecutionManifest:
    """The manifest with the programs that `max_active` lanes can use (SM-02).

    Raises StartRefused naming the operation for which no program is left.
    """
    kept: list[Program] = []
    for operation in NEEDED:
        programs = sorted(
            (program for program in manifest.programs if program.operation is operation),
            key=lambda program: program.batch_capacity,
        )
        if not programs:
            raise StartRefused(f"the core has no {operation.name} program: prepare it again")
        if operation is Operation.DECODE:
            programs = up_to(programs, rows=max_active)
        kept += programs
    return replace(manifest, programs=tuple(kept))


def up_to(programs: Sequence[Program], *, rows: int) -> list[Program]:
    """Programs below `rows` lanes, and the smallest that holds them all."""
    enough = [program for program in programs if program.batch_capacity >= rows]
    if not enough:
        raise StartRefused(
            f"--max-active: found {rows}, expected at most "
            f"{max(program.batch_capacity for program in programs)}, the largest DECODE program"
        )
    return [program for program in programs if program.batch_capacity < rows] + enough[:1]


def choose_geometry(
    contract: ServingContract, manifest: ExecutionManifest, limits: Limits
) -> Geometry:
    """Slots, and as many pages as the cache's memory holds and all slots could use (SM-03)."""
    page_nbytes = sum(
        buffer.nbytes for buffer in manifest.buffers if buffer.role is BufferRole.CACHE_PLANE
    )
    longest = pages_for(contract.context_tokens, page_tokens=contract.model.cache.page_tokens)
    pages = longest * limits.max_active
    if page_nbytes:
        pages = min(pages, limits.cache_memory // page_nbytes)
    if pages < 1:
        raise StartRefused(
            f"--cache-memory: found {limits.cache_memory} bytes, expected at least "
            f"{page_nbytes}, one page"
        )
    return Geometry(slots=limits.max_active, pages=pages, snapshots=0)


def load_device(core: OpenCore, limits: Limits) -> tuple[Device, Geometry]:
    """The device of rank 0, with its resources read and its programs bound."""
    deployment = core.deployment
    if len(deployment.manifests) != 1:
        raise StartRefused(
            f"the core has {len(deployment.manifests)} ranks; this runtime serves one"
        )
    manifest = select_programs(deployment.manifests[0], max_active=limits.max_active)
    geometry = choose_geometry(deployment.contract, manifest, limits)
    resources = Resources(
        executable=core.executable,
        weights=partial(read_weights, core, threads=limits.threads),
    )
    match manifest.target:
        case Target.CPU:
            return CpuDevice(manifest, geometry, resources, threads=limits.threads), geometry
        case Target.REFERENCE:
            perform = find_meanings()
            return ReferenceDevice(manifest, geometry, resources, perform=perform), geometry
        case Target.CUDA | Target.SCRIPTED:
            raise StartRefused(
                f"the core is prepared for {manifest.target.name}; this runtime has no such device"
            )


def build_worker(
    model: ModelContract, device: Device, geometry: Geometry, mailbox: Mailbox
) -> Worker:
    """The loop over a loaded device."""
    graphs = {program.name for program in device.manifest.programs}
    selected = replace(model, graphs=tuple(g for g in model.graphs if g.name in graphs))
    roster = Roster(
        slots=geometry.slots,
        vocabulary=model.vocabulary.tokens,
        page_tokens=model.cache.page_tokens,
        pool=PagePool(geometry.pages),
    )
    return Worker(mailbox, Executor(selected, device), roster)


@dataclass(slots=True)
class SelfTalk:
    """A mailbox with one request in it, for the round that proves the model runs."""

    request: PreparedRequest
    sent: bool = False
    ending: News | None = None

    def drain(self) -> list[ToWorker]:
        """The request, once."""
        messages: list[ToWorker] = [] if self.sent else [Requests(submit=(self.request,))]
        self.sent = True
        return messages

    def publish(self, message: ToFront) -> None:
        """Keep the ending."""
        assert isinstance(message, Round)
        self.ending = next((news for news in message.news if news.finish is not None), self.ending)

    def wait(self, seconds: float | None) -> None:
        """There is nothing to wait for."""


def prove(worker: Worker) -> None:
    """Run one real request of two tokens; a model that cannot is not served."""
    talk = SelfTalk(
        PreparedRequest(
            id=RequestId(0),
            prompt=(0,),
            sampling=Sampling(
                seed=0,
                temperature=0.0,
                top_p=1.0,
                top_k=0,
                min_p=0.0,
                repetition_penalty=1.0,
                presence_penalty=0.0,
                frequency_penalty=0.0,
            ),
            output_limit=2,
            minimum_output=0,
            eos_ids=(),
        )
    )
    mailbox, worker.mailbox = worker.mailbox, talk
    while talk.ending is None:
        worker.turn()
        worker.rest()
    worker.mailbox = mailbox
    if talk.ending.finish is not Finish.OUTPUT_LIMIT:
        raise ExecutionFailed(f"the first round failed: {talk.ending.problem}")
