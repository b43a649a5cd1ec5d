"""How near a kernel must come to its operation's meaning."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt


@dataclass(frozen=True, slots=True, kw_only=True)
class Within:
    """Largest error relative to the largest magnitude of what was expected."""

    relative: float

    def error(self, found: npt.NDArray[np.float32], expected: npt.NDArray[np.float32]) -> float:
        """The error in that measure; 0 when both are empty."""
        if expected.size == 0:
            return 0.0
        scale = max(float(np.max(np.abs(expected))), 1e-30)
        return float(np.max(np.abs(found.astype(np.float64) - expected.astype(np.float64)))) / scale

    def holds(self, found: npt.NDArray[np.float32], expected: npt.NDArray[np.float32]) -> bool:
        """Whether `found` is near enough."""
        return self.error(found, expected) <= self.relative
