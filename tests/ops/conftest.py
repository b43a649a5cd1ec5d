"""Kernels of every level; one that this machine lacks is skipped by name."""

from __future__ import annotations

import pytest

from helios.device.cpu import processor_features
from ignition.build.cpu import LEVELS, Level
from tests.ops.kernels import Kernels


@pytest.fixture(scope="session", params=LEVELS, ids=lambda level: level.name)
def kernels(request: pytest.FixtureRequest) -> Kernels:
    level: Level = request.param
    missing = sorted(set(level.features) - processor_features())
    if missing:
        pytest.skip(f"level {level.name}: this processor lacks {', '.join(missing)}")
    return Kernels.of(level)
