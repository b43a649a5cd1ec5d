"""What a kernel takes: the parameter block that C and Python lay out alike.

A kernel is declared once, in its operation's folder; the C structure is generated from the
declaration (`build`), and launches are packed by it (`plan`).
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from prepared.manifest import Kernel as Declared
from prepared.manifest import Parameter


class Field(Enum):
    """C type of a parameter; addresses are relocated when a launch is bound."""

    FLOATS = "float *"
    BYTES = "uint8_t *"
    SIGNED_BYTES = "int8_t *"
    HALVES = "uint16_t *"
    SHORTS = "int16_t *"
    INTS = "int32_t *"
    WORDS = "uint32_t *"
    LONGS = "uint64_t *"
    U32 = "uint32_t"
    U64 = "uint64_t"
    F32 = "float"

    @property
    def is_address(self) -> bool:
        """Whether it points into a buffer."""
        return self.value.endswith("*")

    @property
    def nbytes(self) -> int:
        """Size, and alignment."""
        return 4 if self in (Field.U32, Field.F32) else 8


@dataclass(frozen=True, slots=True)
class Kernel:
    """A compiled function's name and parameters, in order."""

    symbol: str
    fields: Mapping[str, Field]
    block: str = ""  # name of the parameter block, when several kernels share one

    @property
    def parameters(self) -> tuple[Parameter, ...]:
        """Where each parameter lies; natural alignment, as in C."""
        placed: list[Parameter] = []
        offset = 0
        for name, field in self.fields.items():
            offset = -(-offset // field.nbytes) * field.nbytes
            placed.append(Parameter(name=name, offset=offset, nbytes=field.nbytes))
            offset += field.nbytes
        return tuple(placed)

    @property
    def nbytes(self) -> int:
        """Size of the block, a multiple of 8."""
        last = self.parameters[-1]
        return -(-(last.offset + last.nbytes) // 8) * 8

    @property
    def declared(self) -> Declared:
        """The kernel as a manifest declares it."""
        return Declared(symbol=self.symbol, parameters=self.parameters, parameter_bytes=self.nbytes)

    def pack(self, values: Mapping[str, float]) -> bytes:
        """The block with its plain values set and every address zero."""
        block = bytearray(self.nbytes)
        for parameter in self.parameters:
            field = self.fields[parameter.name]
            if field.is_address:
                continue
            code = {Field.U32: "<I", Field.U64: "<Q", Field.F32: "<f"}[field]
            struct.pack_into(code, block, parameter.offset, values[parameter.name])
        return bytes(block)

    def structure(self) -> str:
        """The C declaration of the block."""
        lines = []
        for name, field in self.fields.items():
            space = "" if field.is_address else " "
            lines.append(f"  {field.value}{space}{name};")
        return f"struct {self.block or self.symbol}_parameters {{\n" + "\n".join(lines) + "\n};\n"


ACTIVATION: Mapping[str, Field] = {
    "q": Field.SIGNED_BYTES,  # null: 8 bits are not enough
    "fine": Field.SHORTS,  # null: 8 bits are enough
    "scale": Field.FLOATS,
    "sum": Field.FLOATS,
    "bias": Field.INTS,
}
"""The parts of quantised activations (`build/cpu/activation.h`)."""

COARSE: Mapping[str, Field] = {name: field for name, field in ACTIVATION.items() if name != "fine"}
"""The parts when 8 bits are always enough."""
