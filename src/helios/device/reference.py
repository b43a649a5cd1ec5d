"""The reference: every launch is performed by its operation's meaning, slowly and exactly.

The meanings are not ours: whoever prepares cores publishes them under the entry point
`helios.meanings`, and the device calls them with blocks and memory.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from helios.device.api import Geometry, Resources
from helios.device.host_pages import HostPages
from helios.values import HostSlot, PageId, ProgramId, StartRefused
from prepared.manifest import BufferRole, ExecutionManifest, Kernel

GROUP: Final = "helios.meanings"

Perform = Callable[[Kernel, bytes, Mapping[int, tuple[memoryview, int]]], None]
"""Performs a launch: its kernel, its block, and memory and offset of each address in it."""


def find_meanings() -> Perform:
    """What performs launches, from whoever published it."""
    from importlib.metadata import entry_points  # noqa: PLC0415 - slow, and only wanted here

    for point in entry_points(group=GROUP):
        perform: Perform = point.load()
        return perform
    raise StartRefused(
        "the core is prepared for the reference, whose meanings come with Ignition; "
        "install the extra `ignition`"
    )


class ReferenceDevice:
    """One rank in numpy; a submission has finished when `submit` returns."""

    def __init__(
        self,
        manifest: ExecutionManifest,
        geometry: Geometry,
        resources: Resources,
        *,
        perform: Perform,
    ) -> None:
        self._manifest, self._perform = manifest, perform
        self._memory = {
            buffer.name: memoryview(
                bytearray(geometry.nbytes(buffer, frames=manifest.frames, threads=1))
            )
            for buffer in manifest.buffers
        }
        for buffer in manifest.buffers:
            if buffer.role is BufferRole.WEIGHT and buffer.resource is not None:
                resources.weights(buffer.resource, self._memory[buffer.name])
        self._host = HostPages(manifest, geometry, self.resident)
        self._finished = 0

    @property
    def manifest(self) -> ExecutionManifest:
        """See `Device`."""
        return self._manifest

    def staging(self, buffer: str, frame: int) -> memoryview:
        """See `Device`."""
        unit = len(self._memory[buffer]) // self._manifest.frames
        return self._memory[buffer][frame * unit : (frame + 1) * unit]

    def resident(self, buffer: str) -> memoryview:
        """See `Device`."""
        return self._memory[buffer]

    def completion(self, frame: int) -> memoryview:
        """See `Device`."""
        return self.staging(self._manifest.completion.buffer, frame)

    def submit(self, program: ProgramId, frame: int) -> None:
        """See `Device`."""
        manifest = self._manifest
        for index in manifest.programs[program].launches:
            launch = manifest.launches[index]
            addressed = {
                relocation.offset: (self._seen(relocation.buffer, frame), relocation.addend)
                for relocation in launch.relocations
            }
            self._perform(manifest.kernels[launch.kernel], launch.parameters, addressed)
        self._finished += 1

    def _seen(self, index: int, frame: int) -> memoryview:
        """A buffer as launches of a frame see it."""
        buffer = self._manifest.buffers[index]
        if buffer.role in (BufferRole.STAGING, BufferRole.COMPLETION):
            return self.staging(buffer.name, frame)
        return self._memory[buffer.name]

    def finished(self) -> int:
        """See `Device`."""
        return self._finished

    def wait(self, finished: int, *, nanoseconds: int) -> int:
        """See `Device`."""
        del finished, nanoseconds
        return self._finished

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
        sizes = {name: len(view) for name, view in self._memory.items()}
        return {**sizes, **self._host.sizes}

    def describe(self) -> str:
        """See `Device`."""
        return "reference"

    def close(self) -> None:
        """See `Device`."""
