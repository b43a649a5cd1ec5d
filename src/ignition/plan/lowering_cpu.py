"""The state of lowering one recording to CPU launches, and the forms that its rows take."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from ignition.ops.kernel import ACTIVATION, COARSE
from ignition.ops.linear import PACKED
from ignition.ops.rms_norm import NORM, NORM_QUANTISE, QUANTISE
from ignition.plan.launches import Argument, At, LaunchList, LoweringError, weight
from ignition.plan.matrices import Matrix
from ignition.preparation.storage import TextExtents
from ignition.record.tape import Extent, Operand, Recording, Step

SHARES: Final = 64  # build/cpu/executor.h
ROW_PADDING: Final = 16  # floats after a row: strides of 4,096 bytes would alias in the L1 cache


@dataclass(frozen=True, slots=True)
class Columns:
    """Float rows in scratch: a first column, and the floats between rows."""

    at: At
    stride: int
    extent: Extent

    def column(self, column: int) -> At:
        """The place of a column in the first row."""
        return At(self.at.name, self.at.offset + 4 * column)


@dataclass(frozen=True, slots=True)
class Quantised:
    """Quantised activations in scratch, of 8 bits or, when fine, of 16."""

    name: str
    columns: int
    extent: Extent
    fine: bool

    @property
    def parts(self) -> list[str]:
        """What is there: the digits in one width, and what goes with them."""
        return [part for part in ACTIVATION if part != ("q" if self.fine else "fine")]

    def coarse(self) -> dict[str, Argument]:
        """The parts of 8-bit activations, for a kernel's fields."""
        assert not self.fine, self.name
        return {part: At(f"{self.name}.{part}") for part in COARSE}

    def arguments(self, prefix: str = "") -> dict[str, Argument]:
        """All parts, for a kernel's fields."""
        return {
            f"{prefix}{part}": At(f"{self.name}.{part}") if part in self.parts else None
            for part in ACTIVATION
        }


PART_NBYTES: Final[Mapping[str, int]] = {"q": 32, "fine": 64, "scale": 4, "sum": 4, "bias": 4}
"""Bytes of each part for one group of one row."""

FINE_READERS: Final = frozenset({"rotate", "store", "sample"})
"""Whoever decides where to look or what to say gets products of fine activations, and so do the
first and the last block: 8 bits there cost three quarters of the divergence that 8 bits cost
everywhere, for a sixth of the products (docs/log.md, 2026-11-30)."""


@dataclass(slots=True)
class CpuLowering:
    """One recording being lowered; `launches` and `matrices` are what comes out."""

    recording: Recording
    extents: TextExtents
    capacities: Mapping[Extent, int]
    layouts: Mapping[str, str]  # weight -> layout
    launches: LaunchList = field(default_factory=LaunchList)
    matrices: dict[str, Matrix] = field(default_factory=dict)
    vectors: dict[str, int] = field(default_factory=dict)
    readers: dict[str, list[Step]] = field(default_factory=dict)
    norms: dict[str, Step] = field(default_factory=dict)
    picks: dict[str, Step] = field(default_factory=dict)
    rotations: dict[str, Step] = field(default_factory=dict)
    floats: dict[str, Columns] = field(default_factory=dict)
    quantised: dict[str, Quantised] = field(default_factory=dict)
    done: set[str] = field(default_factory=set)  # outputs of steps that a fusion took
    edges: frozenset[str] = frozenset()  # outputs of the first and the last block's products

    def __post_init__(self) -> None:
        for step in self.recording.steps:
            for operand in step.reads.values():
                self.readers.setdefault(operand.name, []).append(step)
        self.edges = edge_products(self.recording.steps)

    # ------------------------------------------------------------ parts

    def rows(self, extent: Extent) -> At:
        """Where the live count of an extent is."""
        return At("counts", 4 * COUNT_INDEX[extent])

    def reserve_floats(self, name: str, extent: Extent, columns: int) -> Columns:
        """Scratch for float rows."""
        stride = columns + ROW_PADDING
        at = self.launches.reserve(name, 4 * self.capacities[extent] * stride)
        found = Columns(at, stride, extent)
        self.floats[name] = found
        return found

    def reserve_quantised(
        self, name: str, extent: Extent, columns: int, *, fine: bool = False
    ) -> Quantised:
        """Scratch for quantised activations: whole tiles of 16 rows."""
        tiles = -(-self.capacities[extent] // 16)
        found = Quantised(name, columns, extent, fine)
        for part in found.parts:
            self.launches.reserve(
                f"{name}.{part}", tiles * 16 * (columns // 32) * PART_NBYTES[part]
            )
        self.quantised[name] = found
        return found

    def vector(self, operand: Operand) -> At:
        """A float weight that stays as it is."""
        nbytes = 4
        for extent in operand.shape:
            nbytes *= extent
        self.vectors[operand.name] = nbytes
        return weight(operand.name)

    def matrix(self, parts: Sequence[Operand], *, gated: bool = False) -> Matrix:
        """The packed matrix of one or more weights with one layout."""
        if len(parts) > 1 and any(rows_of(part) % 16 for part in parts):
            names = " and ".join(part.name for part in parts)
            raise LoweringError(f"weights {names}: rows not in multiples of 16 cannot be joined")
        found = Matrix(
            parts=tuple(part.name for part in parts),
            layout=self.layouts[parts[0].name],
            rows=sum(rows_of(part) for part in parts),
            columns=columns_of(parts[0]),
            gated=gated,
        )
        known = self.matrices.setdefault(found.name, found)
        if known != found:
            raise LoweringError(f"weight {found.name}: used in two ways, as {known} and {found}")
        return known

    def is_packed(self, operand: Operand) -> bool:
        """Whether products with this weight read 8-bit activations."""
        return self.layouts[operand.name] in PACKED

    # ----------------------------------------------------------- inputs

    def as_quantised(self, operand: Operand) -> Quantised:
        """The operand as 8-bit activations, made when first asked for."""
        if operand.name in self.quantised:
            return self.quantised[operand.name]
        columns = columns_of(operand)
        if columns % 32:
            raise LoweringError(f"{operand.name}: {columns} columns, not a multiple of 32")
        extent, fine = extent_of(operand), self.wants_fine(operand)
        if operand.name in self.norms:
            arguments = self.norm_arguments(self.norms[operand.name])
            out = self.reserve_quantised(operand.name, extent, columns, fine=fine)
            self.launches.launch(NORM_QUANTISE, SHARES, **arguments, **out.arguments())
            return out
        x = self.as_floats(operand)
        out = self.reserve_quantised(operand.name, extent, columns, fine=fine)
        self.launches.launch(
            QUANTISE,
            SHARES,
            x=x.at,
            rows=self.rows(extent),
            columns=columns,
            stride=x.stride,
            **out.arguments(),
        )
        return out

    def wants_fine(self, operand: Operand) -> bool:
        """Whether products of these rows are worth more than 8 bits (`FINE_READERS`)."""
        products = [step for step in self.readers[operand.name] if step.operation == "linear"]
        return any(
            step.writes["out"].name in self.edges
            or any(
                reader.operation in FINE_READERS for reader in self.readers[step.writes["out"].name]
            )
            for step in products
        )

    def as_floats(self, operand: Operand) -> Columns:
        """The operand as float rows, made when first asked for."""
        if operand.name in self.floats:
            return self.floats[operand.name]
        if operand.name not in self.norms:
            raise LoweringError(f"{operand.name}: the CPU target keeps it only as 8-bit numbers")
        arguments = self.norm_arguments(self.norms[operand.name])
        out = self.reserve_floats(operand.name, extent_of(operand), columns_of(operand))
        self.launches.launch(NORM, SHARES, **arguments, out=out.at, out_stride=out.stride)
        return out

    def norm_arguments(self, step: Step) -> dict[str, Argument]:
        """What both norm kernels take."""
        x, picks = step.reads["x"], None
        if x.name in self.picks:
            picks = At(self.picks[x.name].reads["rows"].name)
            x = self.picks[x.name].reads["x"]
        rows = self.as_floats(x)
        return {
            "x": rows.at,
            "picks": picks,
            "rows": self.rows(extent_of(step.writes["out"])),
            "weight": self.vector(step.reads["weight"]),
            "columns": columns_of(x),
            "stride": rows.stride,
            "epsilon": step.attributes["epsilon"],
        }


def edge_products(steps: Sequence[Step]) -> frozenset[str]:
    """Outputs of products before the second attention, or after the last one."""
    attentions = [index for index, step in enumerate(steps) if step.operation == "attend"]
    if not attentions:
        return frozenset()
    first, last = attentions[min(1, len(attentions) - 1)], attentions[-1]
    return frozenset(
        step.writes["out"].name
        for index, step in enumerate(steps)
        if step.operation == "linear" and (index < first or index > last)
    )


def extent_of(operand: Operand) -> Extent:
    """What counts an operand's rows."""
    extent = operand.shape[0]
    assert isinstance(extent, Extent)
    return extent


def rows_of(operand: Operand) -> int:
    """Rows of a weight."""
    return int(operand.shape[0])


def columns_of(operand: Operand) -> int:
    """The innermost extent."""
    return int(operand.shape[-1])


COUNT_INDEX: Final[Mapping[Extent, int]] = {
    Extent.TOKENS: 0,
    Extent.LANES: 1,
    Extent.SAMPLES: 2,
}
"""Where lay_rows leaves each count."""

COUNTS_NBYTES: Final = 64
