"""How long each part of starting up took; the parts cover the whole."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from helios.mailbox import Stage


@dataclass(slots=True)
class Stages:
    """Consecutive stages since `began`, which another process may have measured."""

    began: int  # time.monotonic_ns()
    done: list[Stage] = field(default_factory=list)

    def __post_init__(self) -> None:
        """The first stage starts with the process that was asked to start."""
        self._last = self.began

    _last: int = field(init=False)

    def end(self, name: str) -> None:
        """The stage that just ended."""
        now = time.monotonic_ns()
        self.done.append(Stage(name, (now - self._last) / 1e9))
        self._last = now

    @property
    def seconds(self) -> float:
        """Since the beginning."""
        return (self._last - self.began) / 1e9


def described(stages: tuple[Stage, ...] | list[Stage]) -> str:
    """Stages on one line."""
    return ", ".join(f"{stage.name} {stage.seconds:.3f}" for stage in stages)
