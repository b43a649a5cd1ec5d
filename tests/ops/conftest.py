"""Kernels of every level that this machine runs."""

from __future__ import annotations

import pytest

from ignition.build.cpu import Level
from tests.ops.kernels import Kernels, runnable


@pytest.fixture(scope="session", params=runnable(), ids=lambda level: level.name)
def kernels(request: pytest.FixtureRequest) -> Kernels:
    level: Level = request.param
    return Kernels(level)
