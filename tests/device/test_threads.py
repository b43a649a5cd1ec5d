"""The native executor with kernels of ours: who does what, who waits, who rests, when it ends."""

from __future__ import annotations

import ctypes
import random
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from helios.device.cpu import SPINS, Library, Memory
from ignition.build.cpu import LEVELS, compiled
from ignition.build.kernels import CPU_KERNELS
from tests.ops.kernels import CACHE

Chunk = Callable[[int, int, int], None]  # thread, begin, end
KERNEL = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_uint32, ctypes.c_uint32, ctypes.c_void_p)
UNITS, THREADS = 64, 2
SECOND = 10**9


@pytest.fixture(scope="module")
def library() -> Library:
    """The executor, built for any processor."""
    return Library(compiled(LEVELS[-1], CPU_KERNELS, cache=CACHE), "threads")


class Rig:
    """An executor, and one program whose launches call Python."""

    def __init__(self, library: Library, *, launches: int) -> None:
        self.library = library
        self.executor = Memory(library.size("executor"))
        library.native.executor_open(self.executor.address, THREADS, SPINS)
        self.chunks: list[tuple[int, int, int, int]] = []  # launch, thread, begin, end
        self.chunk: Chunk = lambda thread, begin, end: None
        nbytes = library.size("launch")
        self._kernels = [KERNEL(self._call(index)) for index in range(launches)]
        self._launches = Memory(nbytes * launches)
        for index, kernel in enumerate(self._kernels):
            library.native.launch_open(
                self._launches.address + index * nbytes,
                ctypes.cast(kernel, ctypes.c_void_p).value,
                None,
                UNITS,
                THREADS,
            )
        self._instance = Memory(library.size("instance"))
        library.native.instance_open(self._instance.address, self._launches.address, launches)
        enter = library.native.executor_thread
        self.threads = [
            threading.Thread(target=enter, args=(self.executor.address, index, None), daemon=True)
            for index in range(THREADS)
        ]

    def _call(self, launch: int) -> Callable[[int, int, int, int], None]:
        def call(_parameters: int, begin: int, end: int, thread: int) -> None:
            index = ctypes.c_uint32.from_address(thread).value
            self.chunk(index, begin, end)
            self.chunks.append((launch, index, begin, end))

        return call

    def submit(self) -> None:
        self.library.quick.executor_submit(self.executor.address, self._instance.address)

    def wait(self, finished: int, nanoseconds: int = 10 * SECOND) -> int:
        deadline = time.monotonic_ns() + nanoseconds
        now = 0
        while now <= finished and time.monotonic_ns() < deadline:
            now = self.library.native.executor_wait(self.executor.address, finished, nanoseconds)
        return now

    def stop(self) -> float:
        """Seconds until no thread is left."""
        began = time.monotonic()
        self.library.native.executor_stop(self.executor.address)
        for thread in self.threads:
            thread.join(10)
        assert not any(thread.is_alive() for thread in self.threads)
        return time.monotonic() - began


@contextmanager
def rig(library: Library, *, launches: int) -> Iterator[Rig]:
    """A rig whose threads run, and end."""
    made = Rig(library, launches=launches)
    for thread in made.threads:
        thread.start()
    try:
        yield made
    finally:
        made.stop()


def assert_done_once_and_in_order(made: Rig, *, launches: int, runs: int = 1) -> None:
    """Every unit of every launch once a run; a launch begins when the one before has ended."""
    size = len(made.chunks) // runs
    assert len(made.chunks) == size * runs
    for run in range(runs):
        chunks = made.chunks[run * size : (run + 1) * size]
        assert [chunk[0] for chunk in chunks] == sorted(chunk[0] for chunk in chunks)
        units = sorted((launch, unit) for launch, _, b, e in chunks for unit in range(b, e))
        assert units == [(launch, unit) for launch in range(launches) for unit in range(UNITS)]


def test_neither_running_nor_waiting_holds_the_interpreters_lock(library: Library) -> None:
    with rig(library, launches=3) as made:
        made.submit()
        assert made.wait(0) == 1  # the kernels need the lock, and had it
        assert_done_once_and_in_order(made, launches=3)


def test_while_a_thread_is_stopped_in_a_chunk_the_others_do_the_rest_and_wait(
    library: Library,
) -> None:
    goes_on, others_done = threading.Event(), threading.Event()

    def chunk(thread: int, begin: int, end: int) -> None:
        if begin == 0 and not goes_on.is_set():
            assert goes_on.wait(10)
        elif end == UNITS:
            others_done.set()

    with rig(library, launches=2) as made:
        made.chunk = chunk
        made.submit()
        assert others_done.wait(10)
        assert made.wait(0, SECOND // 50) == 0
        assert {launch for launch, *_ in made.chunks} <= {0}
        goes_on.set()
        assert made.wait(0) == 1
        assert_done_once_and_in_order(made, launches=2)


def test_a_thread_that_is_kept_from_running_leaves_the_work_to_the_others(
    library: Library,
) -> None:
    def chunk(thread: int, begin: int, end: int) -> None:
        if thread == 1:
            time.sleep(0.003)  # as if something else had its processor

    with rig(library, launches=60) as made:
        made.chunk = chunk
        made.submit()
        assert made.wait(0) == 1
        assert_done_once_and_in_order(made, launches=60)
        assert sum(thread == 1 for _, thread, *_ in made.chunks) < 30  # one a launch, if it stayed


def test_one_thread_stays_when_all_are_kept_from_running(library: Library) -> None:
    with rig(library, launches=4) as made:
        made.chunk = lambda thread, begin, end: time.sleep(0.002)
        made.submit()
        assert made.wait(0) == 1
        assert_done_once_and_in_order(made, launches=4)


def test_no_chunk_is_lost_or_done_twice_however_late_a_thread_is(library: Library) -> None:
    chance, runs = random.Random(7), 150

    def chunk(thread: int, begin: int, end: int) -> None:
        if chance.random() < 0.02:
            time.sleep(chance.choice((0.0002, 0.0015)))

    with rig(library, launches=3) as made:
        made.chunk = chunk
        for run in range(runs):  # two in flight, as frames are
            made.submit()
            assert made.wait(run - 1) >= run
        assert made.wait(runs - 1) == runs
        assert_done_once_and_in_order(made, launches=3, runs=runs)


def test_no_thread_is_left_soon_after_the_executor_is_stopped(library: Library) -> None:
    made = Rig(library, launches=1)
    for thread in made.threads:
        thread.start()
    made.submit()
    assert made.wait(0) == 1
    time.sleep(0.01)  # they sleep by now
    assert made.stop() < 1
    assert not any(thread.is_alive() for thread in made.threads)
