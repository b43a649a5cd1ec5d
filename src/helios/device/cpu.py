"""The CPU: kernels and executor from the core, replayed by native threads.

A program bound to a frame is an array of launches in memory; submitting it is one native
call, and waiting for it releases the interpreter lock.
"""

from __future__ import annotations

import ctypes
import fcntl
import mmap
import os
import struct
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

from helios.device.api import Geometry, Resources
from helios.device.host_pages import HostPages
from helios.values import HostSlot, PageId, ProgramId, StartRefused
from prepared.manifest import BufferRole, CodeImage, ExecutionManifest, Launch

HUGE_NBYTES: Final = 2 << 20
SPINS: Final = 4_000  # about 0.1 ms where a pause takes 30 ns; longer ones keep others waiting
LAUNCH_ALIGNMENT: Final = 64
READ_IN_STREAMS: Final = frozenset({BufferRole.WEIGHT, BufferRole.CACHE_PLANE})
"""What is worth huge pages; the rest would take more memory than it touches."""
COUNT_MASK: Final = 0xFFFFFFFF


def processor_features(cpuinfo: Path = Path("/proc/cpuinfo")) -> frozenset[str]:
    """Instructions that this machine offers, as Linux names them."""
    for line in cpuinfo.read_text().splitlines():
        if line.startswith("flags"):
            return frozenset(line.partition(":")[2].split())
    return frozenset()


def choose_image(images: tuple[CodeImage, ...], features: frozenset[str]) -> CodeImage:
    """The first image whose instructions the machine has; the best come first."""
    for image in images:
        if features.issuperset(image.features):
            return image
    needed = " or ".join(", ".join(image.features) for image in images)
    raise StartRefused(f"this processor runs none of the core's kernels; it would need {needed}")


class Memory:
    """Anonymous memory at a fixed address, in huge pages or not at all in them.

    A mapped file could have none, and decoding would be slower: so weights are copied here.
    """

    def __init__(self, nbytes: int, *, huge_pages: bool = False) -> None:
        self.map = mmap.mmap(-1, nbytes + HUGE_NBYTES, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        base = ctypes.addressof(ctypes.c_char.from_buffer(self.map))
        start = -base % HUGE_NBYTES
        self.address = base + start
        self.view = memoryview(self.map)[start : start + nbytes]
        if huge_pages:
            self.map.madvise(mmap.MADV_HUGEPAGE)
        else:
            with suppress(OSError):  # a kernel without huge pages knows no such advice
                self.map.madvise(mmap.MADV_NOHUGEPAGE)


class Library:
    """The executor and kernels of one image, loaded from sealed memory."""

    def __init__(self, data: bytes, name: str) -> None:
        descriptor = os.memfd_create(name, os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        os.write(descriptor, data)
        seals = fcntl.F_SEAL_SEAL | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_WRITE
        fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, seals)
        # The loader knows libraries by path, so that the number may not be given again.
        self.native = ctypes.CDLL(f"/proc/self/fd/{descriptor}")
        pointer, word, long = ctypes.c_void_p, ctypes.c_uint32, ctypes.c_int64
        signatures: Mapping[str, tuple[type | None, tuple[type, ...]]] = {
            "executor_open": (None, (pointer, word, word)),
            "executor_thread": (None, (pointer, word, pointer)),
            "executor_submit": (None, (pointer, pointer)),
            "executor_completed": (word, (pointer,)),
            "executor_wait": (word, (pointer, word, long)),
            "executor_stop": (None, (pointer,)),
            "instance_open": (None, (pointer, pointer, word)),
            "launch_open": (None, (pointer, pointer, pointer, word, word)),
        }
        for symbol, (result, arguments) in signatures.items():
            function = getattr(self.native, symbol)
            function.restype, function.argtypes = result, arguments
        # Short calls keep the interpreter lock: handing it over costs more than they take.
        self.quick = ctypes.PyDLL(None, handle=self.native._handle)  # noqa: SLF001
        for symbol in ("executor_submit", "executor_completed"):
            function = getattr(self.quick, symbol)
            function.restype, function.argtypes = signatures[symbol]

    def size(self, name: str) -> int:
        """A structure's size, as the library says it."""
        return ctypes.c_uint64.in_dll(self.native, f"{name}_nbytes").value

    def kernel(self, symbol: str) -> int:
        """A kernel's address."""
        try:
            function = getattr(self.native, symbol)
        except AttributeError:
            raise StartRefused(
                f"the core's kernels lack {symbol!r}: prepare the core again"
            ) from None
        address = ctypes.cast(function, ctypes.c_void_p).value
        assert address is not None
        return address


@dataclass(frozen=True, slots=True)
class Bound:
    """A program bound to a frame: its instance, and the memory that must outlive it."""

    address: int
    memory: Memory


class CpuDevice:
    """One rank on this machine's processors."""

    def __init__(
        self,
        manifest: ExecutionManifest,
        geometry: Geometry,
        resources: Resources,
        *,
        threads: int,
        processors: Sequence[int],
        huge_pages: bool,
        features: frozenset[str] | None = None,
    ) -> None:
        self._manifest = manifest
        self.image = choose_image(
            manifest.images, processor_features() if features is None else features
        )
        self.library = Library(resources.executable(self.image.resource), self.image.name)
        self._threads, self._processors, self._huge_pages = threads, processors, huge_pages
        self.sizes = {
            buffer.name: geometry.nbytes(buffer, frames=manifest.frames, threads=threads)
            for buffer in manifest.buffers
        }
        self._memory = {
            buffer.name: Memory(
                self.sizes[buffer.name], huge_pages=huge_pages and buffer.role in READ_IN_STREAMS
            )
            for buffer in manifest.buffers
        }
        for buffer in manifest.buffers:
            if buffer.role is BufferRole.WEIGHT:
                assert buffer.resource is not None
                resources.weights(buffer.resource, self._memory[buffer.name].view)
        self._host = HostPages(manifest, geometry, self.resident)
        self._units = {buffer.name: buffer.nbytes for buffer in manifest.buffers}
        bind = cache(self._bind)  # capacities of an operation share their launches
        self._programs = [
            [bind(program.launches, frame) for program in manifest.programs]
            for frame in range(manifest.frames)
        ]
        self._finished = 0
        self._executor = self._start()

    @property
    def manifest(self) -> ExecutionManifest:
        """See `Device`."""
        return self._manifest

    def _address(self, buffer: int, frame: int) -> int:
        """Where a buffer begins for launches of a frame."""
        declared = self._manifest.buffers[buffer]
        address = self._memory[declared.name].address
        if declared.role in (BufferRole.STAGING, BufferRole.COMPLETION):
            address += frame * declared.nbytes
        return address

    def _bind(self, launches: tuple[int, ...], frame: int) -> Bound:
        """Lay out a program's launches and parameters for one frame."""
        library, manifest = self.library, self._manifest
        launch_nbytes, header = library.size("launch"), LAUNCH_ALIGNMENT
        blocks = [manifest.launches[index] for index in launches]
        parameters = header + launch_nbytes * len(blocks)
        total = parameters + sum(-(-len(block.parameters) // 8) * 8 for block in blocks)
        memory = Memory(total)
        for index, launch in enumerate(blocks):
            kernel = manifest.kernels[launch.kernel]
            self._write_parameters(memory, parameters, launch, frame)
            library.native.launch_open(
                memory.address + header + index * launch_nbytes,
                library.kernel(kernel.symbol),
                memory.address + parameters,
                launch.grid.x,
                self._threads,
            )
            parameters += -(-len(launch.parameters) // 8) * 8
        library.native.instance_open(memory.address, memory.address + header, len(blocks))
        return Bound(memory.address, memory)

    def _write_parameters(self, memory: Memory, offset: int, launch: Launch, frame: int) -> None:
        """Copy a parameter block and set its addresses."""
        view = memory.view
        view[offset : offset + len(launch.parameters)] = launch.parameters
        for relocation in launch.relocations:
            address = self._address(relocation.buffer, frame) + relocation.addend
            struct.pack_into("<Q", view, offset + relocation.offset, address)

    def _start(self) -> Memory:
        """Start the executor's threads; each enters native code and stays."""
        executor = Memory(self.library.size("executor"))
        self.library.native.executor_open(executor.address, self._threads, SPINS)
        scratch, unit = 0, 0
        for buffer in self._manifest.buffers:
            if buffer.role is BufferRole.THREAD_SCRATCH:
                scratch, unit = self._memory[buffer.name].address, buffer.nbytes

        def enter(index: int) -> None:
            # The frame holds `self`, and so all memory, for as long as native code runs.
            self.library.native.executor_thread(executor.address, index, scratch + index * unit)

        self._workers = [
            threading.Thread(target=enter, args=(index,), name=f"executor-{index}", daemon=True)
            for index in range(self._threads)
        ]
        usable = os.sched_getaffinity(0)
        os.sched_setaffinity(0, self._processors)  # threads begin as the one that starts them
        try:
            for worker in self._workers:
                worker.start()
        finally:
            os.sched_setaffinity(0, usable)
        return executor

    def staging(self, buffer: str, frame: int) -> memoryview:
        """See `Device`."""
        unit = self._units[buffer]
        return self._memory[buffer].view[frame * unit : (frame + 1) * unit]

    def resident(self, buffer: str) -> memoryview:
        """See `Device`."""
        return self._memory[buffer].view

    def completion(self, frame: int) -> memoryview:
        """See `Device`."""
        return self.staging(self._manifest.completion.buffer, frame)

    def submit(self, program: ProgramId, frame: int) -> None:
        """See `Device`."""
        self.library.quick.executor_submit(
            self._executor.address, self._programs[frame][program].address
        )

    def finished(self) -> int:
        """See `Device`."""
        # The native count has 32 bits, and wraps within months.
        now = int(self.library.quick.executor_completed(self._executor.address))
        self._finished += (now - self._finished) & COUNT_MASK
        return self._finished

    def wait(self, finished: int, *, nanoseconds: int) -> int:
        """See `Device`."""
        self.library.native.executor_wait(
            self._executor.address, finished & COUNT_MASK, nanoseconds
        )
        return self.finished()

    def save(self, page: PageId, slot: HostSlot) -> bool:
        """See `Device`."""
        self._host.save(page, slot)
        return True

    def load(self, page: PageId, slot: HostSlot) -> bool:
        """See `Device`."""
        self._host.load(page, slot)
        return True

    def memory(self) -> dict[str, int]:
        """See `Device`."""
        return {**self.sizes, **self._host.sizes}

    def describe(self) -> str:
        """See `Device`."""
        places = ",".join(map(str, self._processors))
        pages = "huge pages" if self._huge_pages else "no huge pages"
        return f"{self.image.name}, {self._threads} threads on processors {places}, {pages}"

    def close(self) -> None:
        """See `Device`."""
        self.library.native.executor_stop(self._executor.address)
        for worker in self._workers:
            worker.join()
