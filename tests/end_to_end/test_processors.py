"""Where the real core's threads run."""

from __future__ import annotations

import os
import threading

import pytest

from helios.artifact.core_file import open_core
from helios.bootstrap.devices import Occupants, load_device
from helios.options import Options, home_folder, resolve
from helios.values import MonotonicClock
from prepared.trust import read_trust
from tests.end_to_end.model import CORE

pytestmark = pytest.mark.skipif(not CORE.exists(), reason="the core is not prepared: make core")


def executor_threads() -> set[int | None]:
    return {
        thread.native_id for thread in threading.enumerate() if thread.name.startswith("executor-")
    }


def test_threads_run_on_the_processors_that_were_chosen_and_the_others_where_they_did() -> None:
    usable = os.sched_getaffinity(0)
    last = max(usable)
    options = Options(
        core=CORE, home=home_folder(), cache_memory=16 << 20, affinity=str(last), huge_pages="off"
    )
    core = open_core(CORE, read_trust(options.home / "trust.json"), acceptance=None)
    limits = resolve(core.deployment.contract, options)
    before = executor_threads()
    device, _ = load_device(core, limits, options, Occupants(), MonotonicClock(0))
    try:
        (started,) = executor_threads() - before
        assert started is not None
        assert os.sched_getaffinity(started) == {last}
        assert os.sched_getaffinity(0) == usable
        assert device.describe().endswith(f", 1 threads on processors {last}, no huge pages")
    finally:
        device.close()
