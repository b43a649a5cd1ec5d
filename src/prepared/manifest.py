"""The execution manifest: what runs on one rank, over which buffers.

Every class mirrors the message of the same name in `proto/prepared/wire/manifest.proto`;
the reference page is `docs/execution-manifest.md`.
"""

from enum import IntEnum, IntFlag
from typing import Annotated

from prepared.contract import ElementType, Operation
from prepared.fields import Alignment, Count, Name, Shape, Within


class Target(IntEnum):
    """What kind of device runs the programs."""

    CPU = 1
    CUDA = 2
    REFERENCE = 3
    SCRIPTED = 4


class BufferRole(IntEnum):
    """What a buffer is for, and so what its size is counted in."""

    WEIGHT = 1
    CACHE_PLANE = 2
    STATE = 3
    SNAPSHOT = 4
    SCRATCH = 5
    STAGING = 6
    COMPLETION = 7
    TUNED = 8
    THREAD_SCRATCH = 9


class Delivery(IntEnum):
    """How a host value reaches its destination."""

    STAGED = 1
    RESIDENT = 2


class CompletionField(IntEnum):
    """What a completion record says, once a record or once a lane."""

    RECORD_SEQUENCE = 1
    RECORD_FRAME = 2
    RECORD_PROGRAM = 3
    RECORD_STATUS = 4
    RECORD_ROWS = 5
    LANE_SLOT = 10
    LANE_GENERATION = 11
    LANE_CONSUMED = 12
    LANE_EMITTED = 13
    LANE_TOKENS = 14
    LANE_OFFERED = 15
    LANE_ACCEPTED = 16
    LANE_DRAFT_CURSOR = 17
    LANE_RESERVED = 18
    LANE_FINISH = 19
    LANE_LOGPROB = 20
    LANE_TOP_IDS = 21
    LANE_TOP_LOGPROBS = 22
    TOKEN_LOGPROB = 30
    TOKEN_TOP_IDS = 31
    TOKEN_TOP_LOGPROBS = 32

    @property
    def per_lane(self) -> bool:
        """Whether each lane has one."""
        return CompletionField.LANE_SLOT <= self < CompletionField.TOKEN_LOGPROB

    @property
    def per_token(self) -> bool:
        """Whether each packed token of a scored prefill has one."""
        return self >= CompletionField.TOKEN_LOGPROB


class FinishBits(IntFlag):
    """Why the device ended a lane (LANE_FINISH)."""

    END_OF_SEQUENCE = 1
    OUTPUT_LIMIT = 2
    NOTHING_ALLOWED = 4
    FORBIDDEN_TOKEN = 8
    EXECUTION_FAILED = 16


class Buffer(Shape, frozen=True, kw_only=True):
    """Device memory; `nbytes` counts one unit of its role."""

    name: Name
    role: BufferRole
    nbytes: Count
    alignment: Alignment
    resource: Name | None
    resource_offset: int


class CodeImage(Shape, frozen=True, kw_only=True):
    """Compiled kernels for one kind of machine."""

    name: Name
    resource: Name
    features: tuple[Name, ...]


class Parameter(Shape, frozen=True, kw_only=True):
    """One parameter of a kernel."""

    name: Name
    offset: int
    nbytes: Annotated[int, Within(1, 128)]


class Kernel(Shape, frozen=True, kw_only=True):
    """A compiled function and the shape of its parameters."""

    symbol: Name
    parameters: tuple[Parameter, ...]
    parameter_bytes: Count


class Relocation(Shape, frozen=True, kw_only=True):
    """An address to be written into a launch's parameters."""

    offset: int
    buffer: int
    addend: int


class Extent3(Shape, frozen=True, kw_only=True):
    """Three counts, each at least one."""

    x: Count
    y: Count
    z: Count


class Launch(Shape, frozen=True, kw_only=True):
    """A kernel over fixed operands."""

    kernel: int
    grid: Extent3
    block: Extent3
    shared_bytes: int
    parameters: bytes
    relocations: tuple[Relocation, ...]


class Program(Shape, frozen=True, kw_only=True):
    """Launches in order, with the capacities they were recorded for."""

    name: Name
    operation: Operation
    batch_capacity: Count
    token_capacity: Count
    packed_token_capacity: Count
    draft_tokens: int
    launches: tuple[int, ...]
    tuned_buffers: tuple[Name, ...]


class Transport(Shape, frozen=True, kw_only=True):
    """A place that host values may be sent to."""

    name: Name
    buffer: Name
    delivery: Delivery
    offset: int
    element: ElementType
    rows: Count
    row_elements: Count
    row_stride: Count


class CompletionSlot(Shape, frozen=True, kw_only=True):
    """Where one field of a completion record lies."""

    field: CompletionField
    offset: int
    element: ElementType
    row_elements: Count
    row_stride: int


class CompletionLayout(Shape, frozen=True, kw_only=True):
    """The completion record of every program."""

    buffer: Name
    rows: Count
    slots: tuple[CompletionSlot, ...]
    token_rows: int


class SubmissionHeader(Shape, frozen=True, kw_only=True):
    """Where the transport writes what identifies a submission (HV-17)."""

    buffer: Name
    sequence_offset: int
    frame_offset: int
    program_offset: int


class ExecutionManifest(Shape, frozen=True, kw_only=True):
    """Everything one rank executes."""

    execution_abi: int
    target: Target
    rank: int
    ranks: Count
    frames: Annotated[int, Within(2, 2)]
    buffers: tuple[Buffer, ...]
    images: tuple[CodeImage, ...]
    kernels: tuple[Kernel, ...]
    launches: tuple[Launch, ...]
    programs: tuple[Program, ...]
    tuning: tuple[Program, ...]
    transports: tuple[Transport, ...]
    completion: CompletionLayout
    header: SubmissionHeader
