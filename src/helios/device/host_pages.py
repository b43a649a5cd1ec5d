"""Host memory for pages that have left the device: a bounded pool, one slot a page (AH-08).

For devices whose cache planes the host can address; a copy has ended when the call returns.
"""

from __future__ import annotations

from collections.abc import Callable

from helios.device.api import Geometry
from helios.values import HostSlot, PageId
from prepared.manifest import BufferRole, ExecutionManifest


class HostPages:
    """Every plane's part of each slot."""

    def __init__(
        self,
        manifest: ExecutionManifest,
        geometry: Geometry,
        memory: Callable[[str], memoryview],
    ) -> None:
        self._planes = [
            (memory(buffer.name), memoryview(bytearray(buffer.nbytes * geometry.host_slots)))
            for buffer in manifest.buffers
            if buffer.role is BufferRole.CACHE_PLANE
        ]
        self._units = [
            buffer.nbytes for buffer in manifest.buffers if buffer.role is BufferRole.CACHE_PLANE
        ]

    @property
    def sizes(self) -> dict[str, int]:
        """Bytes of all slots, where there are any."""
        nbytes = sum(len(host) for _, host in self._planes)
        return {"host pages": nbytes} if nbytes else {}

    def save(self, page: PageId, slot: HostSlot) -> None:
        """Copy a page to a slot."""
        for (plane, host), unit in zip(self._planes, self._units, strict=True):
            host[slot * unit : (slot + 1) * unit] = plane[page * unit : (page + 1) * unit]

    def load(self, page: PageId, slot: HostSlot) -> None:
        """Copy a slot back to a page."""
        for (plane, host), unit in zip(self._planes, self._units, strict=True):
            plane[page * unit : (page + 1) * unit] = host[slot * unit : (slot + 1) * unit]
