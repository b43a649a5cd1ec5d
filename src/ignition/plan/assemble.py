"""Planned launches to an execution manifest: addresses become relocations, equal launches one.

All capacities of an operation share their launches, for a launch's size is read from live
counts; a program is then a name, its capacities and a list of indices.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ignition.plan.launches import ALIGNMENT, WEIGHT_PREFIX, At, LaunchList, PlannedLaunch
from ignition.plan.scratch import extent_of, lives_of, place_scratch
from ignition.preparation.contract import Variant
from ignition.preparation.storage import Place, Storage
from prepared.contract import Operation
from prepared.manifest import (
    Buffer,
    BufferRole,
    CodeImage,
    ExecutionManifest,
    Extent3,
    Kernel,
    Launch,
    Program,
    Relocation,
    Target,
)

EXECUTION_ABI = 6
WEIGHTS = "weights"


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """What a manifest says of its target beyond programs."""

    target: Target
    images: tuple[CodeImage, ...]
    thread_scratch_nbytes: int


@dataclass(slots=True)
class Assembly:
    """A manifest being put together."""

    storage: Storage
    weight_offsets: Mapping[str, int]
    buffers: list[Buffer]
    kernels: list[Kernel] = field(default_factory=list)
    launches: list[Launch] = field(default_factory=list)
    known_kernels: dict[str, int] = field(default_factory=dict)
    known_launches: dict[Launch, int] = field(default_factory=dict)

    def kernel(self, kernel: Kernel) -> int:
        """The kernel's index."""
        if kernel.symbol not in self.known_kernels:
            self.known_kernels[kernel.symbol] = len(self.kernels)
            self.kernels.append(kernel)
        return self.known_kernels[kernel.symbol]

    def place(self, at: At, scratch: Mapping[str, int]) -> Place:
        """Buffer and offset of an address."""
        if at.name.startswith(WEIGHT_PREFIX):
            return Place(WEIGHTS, self.weight_offsets[at.name.removeprefix(WEIGHT_PREFIX)], 0)
        if at.name in scratch:
            return Place("scratch", scratch[at.name], 0)
        return self.storage.places[at.name]

    def launch(self, planned: PlannedLaunch, scratch: Mapping[str, int]) -> int:
        """The launch's index; an equal one is reused."""
        index_of = {buffer.name: index for index, buffer in enumerate(self.buffers)}
        relocations = []
        for offset, at in planned.addresses.items():
            place = self.place(at, scratch)
            relocations.append(
                Relocation(
                    offset=offset,
                    buffer=index_of[place.buffer],
                    addend=place.offset + at.offset,
                )
            )
        launch = Launch(
            kernel=self.kernel(planned.kernel),
            grid=Extent3(x=planned.units, y=1, z=1),
            block=Extent3(x=1, y=1, z=1),
            shared_bytes=0,
            parameters=planned.block,
            relocations=tuple(relocations),
        )
        if launch not in self.known_launches:
            self.known_launches[launch] = len(self.launches)
            self.launches.append(launch)
        return self.known_launches[launch]


def scratch_buffer(name: str, role: BufferRole, nbytes: int) -> Buffer:
    """A buffer without a resource."""
    return Buffer(
        name=name, role=role, nbytes=nbytes, alignment=ALIGNMENT, resource=None, resource_offset=0
    )


def weight_buffer(nbytes: int) -> Buffer:
    """The one buffer of weights."""
    return Buffer(
        name=WEIGHTS,
        role=BufferRole.WEIGHT,
        nbytes=nbytes,
        alignment=4096,
        resource=WEIGHTS,
        resource_offset=0,
    )


def assemble(
    machine: Machine,
    storage: Storage,
    lowered: Mapping[Operation, LaunchList],
    variants: Sequence[Variant],
    weight_offsets: Mapping[str, int],
    weight_nbytes: int,
) -> ExecutionManifest:
    """The manifest of one rank."""
    placed, scratch_nbytes = {}, ALIGNMENT
    for operation, launches in lowered.items():
        offsets = place_scratch(launches.scratch, lives_of(launches.launches, launches.scratch))
        placed[operation] = offsets
        scratch_nbytes = max(scratch_nbytes, extent_of(launches.scratch, offsets))
    buffers = [*storage.buffers, scratch_buffer("scratch", BufferRole.SCRATCH, scratch_nbytes)]
    if machine.thread_scratch_nbytes:
        buffers.append(
            scratch_buffer(
                "thread_scratch", BufferRole.THREAD_SCRATCH, machine.thread_scratch_nbytes
            )
        )
    if weight_nbytes:
        buffers.append(weight_buffer(weight_nbytes))
    assembly = Assembly(storage=storage, weight_offsets=weight_offsets, buffers=buffers)
    indices = {
        operation: tuple(
            assembly.launch(planned, placed[operation]) for planned in launches.launches
        )
        for operation, launches in lowered.items()
    }
    return ExecutionManifest(
        execution_abi=EXECUTION_ABI,
        target=machine.target,
        rank=0,
        ranks=1,
        frames=2,
        buffers=tuple(buffers),
        images=machine.images,
        kernels=tuple(assembly.kernels),
        launches=tuple(assembly.launches),
        programs=tuple(program_of(variant, indices[variant.operation]) for variant in variants),
        tuning=(),
        transports=storage.transports,
        completion=storage.completion,
        header=storage.header,
    )


def program_of(variant: Variant, launches: tuple[int, ...]) -> Program:
    """One capacity of an operation."""
    return Program(
        name=variant.name,
        operation=variant.operation,
        batch_capacity=variant.rows,
        token_capacity=variant.row_tokens,
        packed_token_capacity=variant.packed_tokens,
        draft_tokens=variant.draft_tokens,
        launches=launches,
        tuned_buffers=(),
    )
