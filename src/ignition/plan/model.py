"""What a plan comes to, whatever the target."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ignition.plan.matrices import WeightPlan
from ignition.preparation.programs import Recipe
from ignition.preparation.storage import TextExtents
from prepared.manifest import ExecutionManifest


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedModel:
    """Everything that is decided before a byte of weights is written."""

    extents: TextExtents
    manifest: ExecutionManifest
    weights: WeightPlan


Plan = Callable[[Recipe, TextExtents], PlannedModel]
"""A target's way from a recipe to launches."""
