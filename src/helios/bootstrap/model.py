"""A core becomes a worker: programs selected, device loaded, cache backed, one round run.

Everything a model needs is decided and allocated here; afterwards the worker only turns
(OB-05, OB-11).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec
from msgspec.structs import replace

from helios.cache.pages import PagePool, pages_for
from helios.cache.prefix import PrefixTree
from helios.cache.rows import row_pool
from helios.device.api import Device, Geometry
from helios.execute.executor import Executor
from helios.frontend.request import PreparedRequest
from helios.judges import Tools
from helios.mailbox import News, Requests, Round, ToFront, ToWorker
from helios.options import Limits
from helios.rounds import Finish, Sampling
from helios.schedule.roster import Roster
from helios.values import PROOF, Clock, ExecutionFailed, StartRefused
from helios.worker import Mailbox, Worker
from prepared.contract import ModelContract, Operation, ServingContract
from prepared.manifest import BufferRole, ExecutionManifest, Program

NEEDED: Final = (Operation.INITIALIZE, Operation.PREFILL, Operation.DECODE)
"""Operations without which text cannot be served."""

TOGETHER: Final = (Operation.RESTORE, Operation.PUBLISH_SNAPSHOT)
"""Operations that are of no use without one another: a core has both or neither."""

OPTIONAL: Final = (
    *TOGETHER,
    Operation.RESUME,
    Operation.SCORED_PREFILL,
    Operation.MIXED,
)
"""Operations that are used where a core has them."""

PAGES_PER_SNAPSHOT: Final = 8
"""A continuation row keeps one partial page; a cached history of eight pages has at most one."""


def select_programs(
    manifest: ExecutionManifest, *, max_active: int, width: int = 1, widest: int | None = None
) -> ExecutionManifest:
    """The manifest with the programs that `max_active` lanes can use (SM-02).

    Programs that propose are kept where more than one token a round is wanted, `width`, and
    they are no wider than `widest`.

    Raises StartRefused naming the operation for which no program is left.
    """
    kept: list[Program] = []
    if widest is not None:
        manifest = replace(manifest, programs=narrow(manifest.programs, widest))
    has = {program.operation for program in manifest.programs}
    needed = (*NEEDED, *TOGETHER) if has.intersection(TOGETHER) else NEEDED
    proposing = (Operation.SPECULATIVE,) if width > 1 else ()
    for operation in dict.fromkeys((*needed, *(o for o in (*OPTIONAL, *proposing) if o in has))):
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


def narrow(programs: Sequence[Program], widest: int) -> tuple[Program, ...]:
    """Programs without those that propose more tokens a lane than `widest`."""
    return tuple(
        program
        for program in programs
        if program.operation is not Operation.SPECULATIVE or program.token_capacity <= widest
    )


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
    """Slots, and as many pages and continuation rows as the cache's memory holds (SM-03).

    No more pages than all slots could use; one row for `PAGES_PER_SNAPSHOT` of them, and at
    least one, where the core has continuation storage.
    """
    page_nbytes = nbytes_of(manifest, BufferRole.CACHE_PLANE)
    row_nbytes = nbytes_of(manifest, BufferRole.SNAPSHOT)
    longest = pages_for(contract.context_tokens, page_tokens=contract.model.cache.page_tokens)
    pages = longest * limits.max_active
    if page_nbytes:
        together = PAGES_PER_SNAPSHOT * page_nbytes + row_nbytes
        affordable = PAGES_PER_SNAPSHOT * limits.cache_memory // together
        pages = min(pages, affordable, (limits.cache_memory - row_nbytes) // page_nbytes)
    if pages < 1:
        raise StartRefused(
            f"--cache-memory: found {limits.cache_memory} bytes, expected at least "
            f"{page_nbytes + row_nbytes}, one page and its continuation row"
        )
    snapshots = max(1, pages // PAGES_PER_SNAPSHOT) if row_nbytes else 0
    host_slots = limits.host_cache_memory // page_nbytes if page_nbytes else 0
    return Geometry(
        slots=limits.max_active, pages=pages, snapshots=snapshots, host_slots=host_slots
    )


def nbytes_of(manifest: ExecutionManifest, role: BufferRole) -> int:
    """Bytes of one unit in every buffer of a role."""
    return sum(buffer.nbytes for buffer in manifest.buffers if buffer.role is role)


def build_worker(
    model: ModelContract,
    device: Device,
    geometry: Geometry,
    mailbox: Mailbox,
    tools: Tools,
    *,
    identity: bytes,
    gap_ns: int,
    clock: Clock,
) -> Worker:
    """The loop over a loaded device."""
    graphs = {program.name for program in device.manifest.programs}
    selected = replace(model, graphs=tuple(g for g in model.graphs if g.name in graphs))
    cache = PrefixTree(
        PagePool(geometry.pages),
        row_pool(geometry.snapshots),
        page_tokens=model.cache.page_tokens,
        host_slots=geometry.host_slots,
    )
    roster = Roster(
        slots=geometry.slots,
        vocabulary=model.vocabulary.tokens,
        cache=cache,
        operations=frozenset(program.operation for program in device.manifest.programs),
    )
    return Worker(
        mailbox, Executor(selected, device), roster, clock, tools, identity=identity, gap_ns=gap_ns
    )


class SelfTalk(msgspec.Struct):
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
        self.ending = next(
            (news for news in message.by_request() if news.finish is not None), self.ending
        )

    def wait(self, seconds: float | None) -> None:
        """There is nothing to wait for."""


def prove(worker: Worker) -> None:
    """Run one real request of two tokens; a model that cannot is not served."""
    talk = SelfTalk(
        PreparedRequest(
            id=PROOF,
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
    worker.roster.cache.forget_all()
    if talk.ending.finish is not Finish.OUTPUT_LIMIT:
        raise ExecutionFailed(f"the first round failed: {talk.ending.problem}")
