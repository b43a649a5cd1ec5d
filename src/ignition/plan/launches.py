"""A program as kernels over named places, before any address is known."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from ignition.ops.kernel import Kernel

ALIGNMENT: Final = 64


class LoweringError(Exception):
    """A recording cannot be expressed on the target: which step, and what was missing."""


@dataclass(frozen=True, slots=True)
class At:
    """A byte offset within something named: scratch, a weight or a persistent operand."""

    name: str
    offset: int = 0


Argument = At | float | None
"""An address, a number, or a null address."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedLaunch:
    """A kernel, its units, and an argument for each of its fields."""

    kernel: Kernel
    units: int
    arguments: Mapping[str, Argument]

    def __post_init__(self) -> None:
        """Every field has an argument."""
        assert set(self.arguments) == set(self.kernel.fields), self.kernel.symbol

    def places(self) -> Iterable[At]:
        """The addresses it takes."""
        return (value for value in self.arguments.values() if isinstance(value, At))


@dataclass(slots=True)
class LaunchList:
    """Launches being collected, and the scratch they were promised."""

    launches: list[PlannedLaunch] = field(default_factory=list)
    scratch: dict[str, int] = field(default_factory=dict)

    def reserve(self, name: str, nbytes: int) -> At:
        """Scratch of so many bytes."""
        assert self.scratch.get(name, nbytes) == nbytes, name
        self.scratch[name] = nbytes
        return At(name)

    def launch(self, kernel: Kernel, units: int, **arguments: Argument) -> None:
        """Append a launch."""
        self.launches.append(PlannedLaunch(kernel=kernel, units=units, arguments=arguments))
