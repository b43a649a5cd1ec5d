"""Waiting for what a server says of itself a moment after it answered."""

from __future__ import annotations

import time
from collections.abc import Callable

PATIENCE_SECONDS = 20


def wait_for(condition: Callable[[], bool]) -> None:
    """Wait until it holds."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)
