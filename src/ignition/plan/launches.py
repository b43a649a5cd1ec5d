"""A program as kernels over named places, before any address is known."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from ignition.ops.kernel import Kernel as OpKernel
from prepared.manifest import Kernel

ALIGNMENT: Final = 64
WEIGHT_PREFIX: Final = "weight:"


class LoweringError(Exception):
    """A recording cannot be expressed on the target: which step, and what was missing."""


@dataclass(frozen=True, slots=True)
class At:
    """A byte offset within something named: scratch, a weight or a persistent operand."""

    name: str
    offset: int = 0


def weight(name: str) -> At:
    """A place within the weight resource."""
    return At(WEIGHT_PREFIX + name)


Argument = At | float | None
"""An address, a number, or a null address."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedLaunch:
    """A kernel, its units, its parameter block, and what is addressed at which offset."""

    kernel: Kernel
    units: int
    block: bytes
    addresses: Mapping[int, At]


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

    def launch(self, kernel: OpKernel, units: int, **arguments: Argument) -> None:
        """Append a launch with an argument for each of the kernel's fields."""
        assert set(arguments) == set(kernel.fields), kernel.symbol
        numbers = {
            name: value
            for name, value in arguments.items()
            if value is not None and not isinstance(value, At)
        }
        addresses = {
            parameter.offset: value
            for parameter in kernel.parameters
            if isinstance(value := arguments[parameter.name], At)
        }
        self.launches.append(
            PlannedLaunch(
                kernel=kernel.declared,
                units=units,
                block=kernel.pack(numbers),
                addresses=addresses,
            )
        )
