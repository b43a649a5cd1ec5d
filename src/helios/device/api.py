"""What a device does for the runtime; one implementation a kind of machine.

Always: memory is allocated by `load` and freed by `close`; between them nothing is allocated,
compiled or captured (OB-11).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import msgspec

from helios.values import HostSlot, PageId, ProgramId
from prepared.manifest import Buffer, BufferRole, ExecutionManifest

ReadExecutable = Callable[[str], bytes]
ReadWeights = Callable[[str, memoryview], None]


class Geometry(msgspec.Struct, frozen=True, kw_only=True):
    """Counts that are chosen at load: they size the buffers that the manifest counts by unit."""

    slots: int
    pages: int
    snapshots: int
    host_slots: int = 0  # pages that fit the host tier

    def nbytes(self, buffer: Buffer, *, frames: int, threads: int) -> int:
        """Bytes of a whole buffer."""
        match buffer.role:
            case BufferRole.CACHE_PLANE:
                return buffer.nbytes * self.pages
            case BufferRole.STATE:
                return buffer.nbytes * self.slots
            case BufferRole.SNAPSHOT:
                return buffer.nbytes * self.snapshots
            case BufferRole.STAGING | BufferRole.COMPLETION:
                return buffer.nbytes * frames
            case BufferRole.THREAD_SCRATCH:
                return buffer.nbytes * threads
            case BufferRole.WEIGHT | BufferRole.SCRATCH | BufferRole.TUNED:
                return buffer.nbytes


class Resources(msgspec.Struct, frozen=True, kw_only=True):
    """How a device reads what the core holds; bytes are checked before they arrive."""

    executable: ReadExecutable
    weights: ReadWeights


class Device(Protocol):
    """Memory, programs and fences of one rank."""

    @property
    def manifest(self) -> ExecutionManifest:
        """What it executes."""

    def staging(self, buffer: str, frame: int) -> memoryview:
        """Host-written bytes of one frame."""

    def resident(self, buffer: str) -> memoryview:
        """Host-written bytes that stay: all rows of a STATE buffer."""

    def completion(self, frame: int) -> memoryview:
        """The completion record of one frame; meaningful once its submission has finished."""

    def submit(self, program: ProgramId, frame: int) -> None:
        """Start a program over a frame's staging; submissions finish in order."""

    def finished(self) -> int:
        """Submissions finished so far."""

    def wait(self, finished: int, *, nanoseconds: int) -> int:
        """Wait until more than `finished` submissions are finished, or for so long."""

    def save(self, page: PageId, slot: HostSlot) -> bool:
        """Copy a page to a slot of the host tier; whether it went well."""

    def load(self, page: PageId, slot: HostSlot) -> bool:
        """Copy a slot of the host tier to a page; whether it went well."""

    def memory(self) -> dict[str, int]:
        """Bytes of each buffer, as allocated."""

    def describe(self) -> str:
        """What runs the programs, for people."""

    def close(self) -> None:
        """Free everything; nothing may be in flight."""
