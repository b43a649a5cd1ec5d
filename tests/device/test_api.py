"""Sizes of device memory: each buffer is counted in the unit of its role."""

from __future__ import annotations

import pytest

from helios.device.api import Geometry
from prepared.manifest import Buffer, BufferRole

UNITS = {
    BufferRole.WEIGHT: 1,
    BufferRole.CACHE_PLANE: 11,
    BufferRole.STATE: 5,
    BufferRole.SNAPSHOT: 3,
    BufferRole.SCRATCH: 1,
    BufferRole.STAGING: 2,
    BufferRole.COMPLETION: 2,
    BufferRole.TUNED: 1,
    BufferRole.THREAD_SCRATCH: 7,
}


@pytest.mark.clause("SM-03")
@pytest.mark.parametrize("role", BufferRole, ids=lambda role: role.name)
def test_a_buffer_has_as_many_units_as_its_role_counts(role: BufferRole) -> None:
    buffer = Buffer(
        name="any", role=role, nbytes=100, alignment=64, resource=None, resource_offset=0
    )
    geometry = Geometry(slots=5, pages=11, snapshots=3)
    assert geometry.nbytes(buffer, frames=2, threads=7) == 100 * UNITS[role]
