"""Whether the worker is alive: it answers, and what it gave to the device comes back.

A busy worker answers between rounds, so load alone never makes it look dead; a frozen one
answers nothing, and a device that hangs leaves its oldest submission running.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from helios.values import Clock

PING_SECONDS: Final = 1.0
SILENCE_NS: Final = 10_000_000_000
"""A worker that has said nothing for so long, or whose oldest submission has run so long, is
dead; the longest round of a large model takes a small part of it."""


@dataclass(slots=True)
class Liveness:
    """What was last heard of a worker."""

    clock: Clock
    silence_ns: int = SILENCE_NS
    _heard_ns: int = 0
    _running_ns: int = 0

    def __post_init__(self) -> None:
        """Silence is counted from now."""
        self.heard()

    def heard(self) -> None:
        """It said something."""
        self._heard_ns = self.clock.now_ns()

    def answered(self, running_ns: int) -> None:
        """It answered a ping; its oldest submission has been running for so long."""
        self._running_ns = running_ns
        self.heard()

    @property
    def problem(self) -> str | None:
        """Why it counts as dead, if it does."""
        silent = self.clock.now_ns() - self._heard_ns
        if silent > self.silence_ns:
            return f"the model's worker has been silent for {silent / 1e9:.0f} s"
        if self._running_ns > self.silence_ns:
            return f"a submission has been running for {self._running_ns / 1e9:.0f} s"
        return None
