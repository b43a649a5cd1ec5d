"""The worker's process: open, load, prove, then turn until the front is gone."""

from __future__ import annotations

import socket
from contextlib import closing, suppress

from helios.bootstrap.devices import Occupants, load_device
from helios.bootstrap.model import build_worker, prove
from helios.bootstrap.opening import REFUSALS, Opened, settle_memory
from helios.bootstrap.stages import Stages
from helios.bootstrap.tools import tools_of
from helios.mailbox import MailboxClosed, Ready, Refusal, WorkerMailbox
from helios.values import MonotonicClock
from helios.worker import Worker


def run_process(connection: socket.socket, opened: Opened, stages: Stages) -> int:
    """Be the worker's process; returns the exit status."""
    stages.end("its own imports")
    return run(WorkerMailbox(connection), opened, stages)


def run(mailbox: WorkerMailbox, opened: Opened, stages: Stages) -> int:
    """Serve rounds; returns the exit status.  However it ends, the front learns that it has."""
    with closing(mailbox):
        return serve(mailbox, opened, stages)


def serve(mailbox: WorkerMailbox, opened: Opened, stages: Stages) -> int:
    """Load, then turn until the front is gone."""
    try:
        worker, ready = load(mailbox, opened, stages)
    except REFUSALS as error:
        with suppress(MailboxClosed):  # the front may have given up first
            mailbox.publish(Refusal(f"{opened.options.core}: {error}"))
            mailbox.wait(1.0)
        return 1
    except MailboxClosed:
        return 1
    settle_memory()
    worker.run(ready)
    worker.executor.device.close()
    return 0


def load(mailbox: WorkerMailbox, opened: Opened, stages: Stages) -> tuple[Worker, Ready]:
    """The worker, ready to turn, and what to tell the front."""
    core, limits = opened.core, opened.limits
    contract = core.deployment.contract
    clock, occupants = MonotonicClock(opened.began), Occupants()
    device, geometry = load_device(core, limits, opened.options, occupants, clock)
    stages.end("load device")
    worker = build_worker(
        contract.model,
        device,
        geometry,
        mailbox,
        tools_of(core),
        identity=contract.cache_identity,
        gap_ns=limits.token_gap_ns,
        clock=clock,
    )
    occupants.roster = worker.roster
    stages.end("bind values")
    prove(worker)
    stages.end("first round")
    ready = Ready(
        slots=geometry.slots,
        pages=geometry.pages,
        page_tokens=contract.model.cache.page_tokens,
        snapshots=geometry.snapshots,
        memory=device.memory(),
        image=device.describe(),
        stages=tuple(stages.done),
    )
    return worker, ready
