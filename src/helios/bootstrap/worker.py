"""The worker's process: open, load, prove, then turn until the front is gone."""

from __future__ import annotations

import gc
import signal
import socket
import sys
from contextlib import closing, suppress

from helios.artifact.core_file import open_core
from helios.bootstrap.devices import Occupants, load_device
from helios.bootstrap.model import build_worker, prove
from helios.bootstrap.stages import Stages
from helios.bootstrap.tools import tools_of
from helios.mailbox import MailboxClosed, Ready, Refusal, WorkerMailbox
from helios.options import resolve
from helios.processes import Start
from helios.values import HeliosError, MonotonicClock
from prepared.fields import ContractError
from prepared.trust import read_trust


def run(mailbox: WorkerMailbox, start: Start) -> int:
    """Serve rounds; returns the exit status.  However it ends, the front learns that it has."""
    with closing(mailbox):
        return serve(mailbox, start)


def serve(mailbox: WorkerMailbox, start: Start) -> int:
    """Load, then turn until the front is gone."""
    stages = Stages(start.began)
    stages.end("interpreter and imports")
    try:
        worker, ready = load(mailbox, start, stages)
    except (ContractError, HeliosError, OSError) as error:
        with suppress(MailboxClosed):  # the front may have refused the core first
            mailbox.publish(Refusal(f"{start.options.core}: {error}"))
            mailbox.wait(1.0)
        return 1
    except MailboxClosed:
        return 1
    gc.collect()
    gc.freeze()  # what lives now lives for ever: collections need not look at it again
    worker.run(ready)
    worker.executor.device.close()
    return 0


def load(mailbox: WorkerMailbox, start: Start, stages: Stages):  # type: ignore[no-untyped-def]  # noqa: ANN201
    """The worker, ready to turn, and what to tell the front."""
    options = start.options
    core = open_core(
        options.core, read_trust(options.home / "trust.json"), acceptance=options.accept
    )
    contract = core.deployment.contract
    limits = resolve(contract, options)
    stages.end("open and verify core")
    clock, occupants = MonotonicClock(start.began), Occupants()
    device, geometry = load_device(core, limits, options, occupants, clock)
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


def main() -> int:
    """Entry of the process: descriptor and start record in the arguments."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the front decides when to stop
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    connection = socket.socket(fileno=int(sys.argv[1]))
    start = Start.of(sys.argv[2])
    return run(WorkerMailbox(connection), start)


if __name__ == "__main__":
    sys.exit(main())
