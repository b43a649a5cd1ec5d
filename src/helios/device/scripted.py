"""A device that plays back given tokens instead of computing them.

It reads the same staging and writes the same completion records as any other device, by the
contract's bindings, so everything above it is real.  Each request that is admitted takes the
next line of the script; after the last line it starts again.  One that comes back after
preemption goes on where its line was: staging does not say who a slot belongs to, so the
device is told (`request_in`).  A token that the slot's grammar mask forbids could not have been
produced by a real device: the lane fails, and its record names the token.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal

import msgspec

from helios.device.api import Geometry
from helios.device.host_pages import HostPages
from helios.values import PROOF, Clock, HostSlot, PageId, ProgramId, Slot
from prepared.contract import (
    ELEMENT_BYTES,
    ElementType,
    GraphContract,
    ModelContract,
    Operation,
    ValueSource,
)
from prepared.manifest import (
    CompletionField,
    CompletionSlot,
    Delivery,
    ExecutionManifest,
    FinishBits,
    Transport,
)

CODES: Final = {
    ElementType.UINT16: "H",
    ElementType.INT32: "i",
    ElementType.UINT32: "I",
    ElementType.UINT64: "Q",
    ElementType.FLOAT32: "f",
}
FAILED: Final = 1
Values = Mapping[ValueSource, "memoryview[Any]"]  # memoryview takes no parameters in 3.11


def typed(memory: memoryview, element: ElementType) -> memoryview[Any]:
    """Bytes as numbers of a type."""
    return memory.cast("B").cast(CODES[element])  # type: ignore[call-overload, no-any-return]


Cells = tuple["memoryview[Any]", int]
"""A field of a completion record: its numbers, and how many lie between two lanes."""


def cells_of(slot: CompletionSlot, record: memoryview) -> Cells:
    """A field's numbers in a record."""
    size = ELEMENT_BYTES[slot.element]
    end = len(record) - (len(record) - slot.offset) % size
    return typed(record[slot.offset : end], slot.element), slot.row_stride // size


class Line(msgspec.Struct, frozen=True, kw_only=True):
    """What one request's model "generates"."""

    tokens: tuple[int, ...]
    end: Literal["eos", "length"] = "eos"
    delay_ns: int = 0  # a token
    group: int = 1  # tokens that arrive at once, where the program takes so many
    fail_at: int | None = None  # index of the token whose execution fails


@dataclass(slots=True)
class Row:
    """One slot's state."""

    request: Hashable
    line: Line
    played: int  # tokens of the line that were emitted, in earlier slots too
    generation: int
    consumed: int
    limit: int
    eos: tuple[int, ...]
    emitted: int = 0
    finished: int = 0

    def next_token(self) -> int | None:
        """The next token, or None where execution fails."""
        if self.line.fail_at == self.played:
            return None
        if self.played < len(self.line.tokens):
            return self.line.tokens[self.played]
        return self.eos[0] if self.eos else 0

    def emit(self, token: int) -> None:
        """Take a token, and notice the end."""
        self.emitted += 1
        self.played += 1
        if token in self.eos:
            self.finished |= FinishBits.END_OF_SEQUENCE
        over = self.line.end == "length" and self.played == len(self.line.tokens)
        if self.emitted >= self.limit or over:
            self.finished |= FinishBits.OUTPUT_LIMIT


@dataclass(slots=True)
class Pending:
    """A submission that finishes at a time."""

    due_ns: int


@dataclass(slots=True)
class ScriptedDevice:
    """Plays lines to slots."""

    execution: ExecutionManifest
    model: ModelContract
    geometry: Geometry
    script: Sequence[Line]
    clock: Clock
    sleep: Callable[[float], None]
    request_in: Callable[[Slot], Hashable]  # whose a slot is
    rows: dict[int, Row] = field(default_factory=dict)
    started: int = 0  # lines taken
    _unended: dict[Hashable, Row] = field(default_factory=dict)  # each request's last row
    _graphs: dict[str, GraphContract] = field(init=False)
    _transports: dict[str, Transport] = field(init=False)
    _records: list[dict[CompletionField, Cells]] = field(init=False)  # by frame
    _mask: Transport | None = field(init=False)
    _memory: dict[str, memoryview] = field(default_factory=dict)
    _host: HostPages = field(init=False)
    _pending: list[Pending] = field(default_factory=list)
    _finished: int = 0

    def __post_init__(self) -> None:
        """Allocate what the manifest declares."""
        self._graphs = {graph.name: graph for graph in self.model.graphs}
        self._transports = {transport.name: transport for transport in self.execution.transports}
        self._mask = next(
            (
                self._transports[binding.destination]
                for graph in self.model.graphs
                for binding in graph.values
                if binding.source is ValueSource.GRAMMAR_MASK
                and binding.destination in self._transports
            ),
            None,
        )
        layout = self.execution.completion
        for buffer in self.execution.buffers:
            nbytes = self.geometry.nbytes(buffer, frames=self.execution.frames, threads=0)
            self._memory[buffer.name] = memoryview(bytearray(nbytes))
        self._records = [
            {
                slot.field: cells_of(slot, self.completion(frame))
                for slot in layout.slots
                if slot.element in CODES
            }
            for frame in range(self.execution.frames)
        ]
        self._host = HostPages(self.execution, self.geometry, self.resident)

    @property
    def manifest(self) -> ExecutionManifest:
        """See `Device`."""
        return self.execution

    def staging(self, buffer: str, frame: int) -> memoryview:
        """See `Device`."""
        unit = len(self._memory[buffer]) // self.execution.frames
        return self._memory[buffer][frame * unit : (frame + 1) * unit]

    def resident(self, buffer: str) -> memoryview:
        """See `Device`."""
        return self._memory[buffer]

    def completion(self, frame: int) -> memoryview:
        """See `Device`."""
        return self.staging(self.execution.completion.buffer, frame)

    def save(self, page: PageId, slot: HostSlot) -> bool:
        """See `Device`."""
        self._host.save(page, slot)
        return True

    def load(self, page: PageId, slot: HostSlot) -> bool:
        """See `Device`."""
        self._host.load(page, slot)
        return True

    def memory(self) -> dict[str, int]:
        """See `Device`."""
        return {name: len(view) for name, view in self._memory.items()} | self._host.sizes

    def describe(self) -> str:
        """See `Device`."""
        return f"scripted, {len(self.script)} lines"

    # ---------------------------------------------------------- running

    def submit(self, program: ProgramId, frame: int) -> None:
        """Play a round at once; it finishes when its delays have passed."""
        declared = self.execution.programs[program]
        graph = self._graphs[declared.name]
        values = self.values(graph, frame)
        delay = PLAY[declared.operation](self, values, frame)
        self.identify(program, frame)
        begins = self._pending[-1].due_ns if self._pending else self.clock.now_ns()
        self._pending.append(Pending(max(begins, self.clock.now_ns()) + delay))

    def finished(self) -> int:
        """See `Device`."""
        now = self.clock.now_ns()
        while self._pending and self._pending[0].due_ns <= now:
            self._pending.pop(0)
            self._finished += 1
        return self._finished

    def wait(self, finished: int, *, nanoseconds: int) -> int:
        """See `Device`."""
        while self.finished() <= finished and self._pending and nanoseconds > 0:
            left = self._pending[0].due_ns - self.clock.now_ns()
            pause = min(max(left, 0), nanoseconds)
            self.sleep(pause / 1e9)
            nanoseconds -= max(pause, 1)
        return self._finished

    def close(self) -> None:
        """See `Device`."""

    # ----------------------------------------------------------- values

    def values(self, graph: GraphContract, frame: int) -> Mapping[ValueSource, memoryview[Any]]:
        """The staged values of a program, by source."""
        found = {}
        for binding in graph.values:
            transport = self._transports[binding.destination]
            if transport.element not in CODES or transport.buffer not in self._memory:
                continue
            memory = (
                self.staging(transport.buffer, frame)
                if transport.delivery is Delivery.STAGED
                else self.resident(transport.buffer)
            )
            size = ELEMENT_BYTES[transport.element]
            end = transport.offset + transport.rows * transport.row_stride
            cells = memory[transport.offset : end - end % size]
            found[binding.source] = typed(cells, transport.element)
        return found

    def allows(self, slot: int, token: int, values: Values) -> bool:
        """Whether the slot's grammar mask has the token's bit; a program without masks asks none.

        Those that take several tokens at once have none (`check_proposals`): the host judges.
        """
        if self._mask is None or ValueSource.GRAMMAR_MASK not in values:
            return True
        place = self._mask.offset + slot * self._mask.row_stride + token // 8
        return bool(self.resident(self._mask.buffer)[place] >> token % 8 & 1)

    def put(
        self, name: CompletionField, frame: int, value: int, *, lane: int = 0, place: int = 0
    ) -> None:
        """Set one number of a completion record."""
        cells, step = self._records[frame][name]
        cells[lane * step + place] = value

    def identify(self, program: ProgramId, frame: int) -> None:
        """Copy what identifies the submission."""
        header = self.execution.header
        staging = self.staging(header.buffer, frame)
        start = header.sequence_offset
        sequence = int.from_bytes(staging[start : start + 8], "little")
        self.put(CompletionField.RECORD_SEQUENCE, frame, sequence)
        self.put(CompletionField.RECORD_FRAME, frame, frame)
        self.put(CompletionField.RECORD_PROGRAM, frame, program)

    def record(
        self,
        frame: int,
        lane: int,
        slot: int,
        tokens: Sequence[int] = (),
        *,
        forbidden: int | None = None,
    ) -> None:
        """One lane of a completion record; a forbidden token is named and not emitted."""
        row, drafts = self.rows[slot], max(0, len(tokens) - 1)
        values = {
            CompletionField.LANE_SLOT: slot,
            CompletionField.LANE_GENERATION: row.generation,
            CompletionField.LANE_CONSUMED: row.consumed,
            CompletionField.LANE_EMITTED: len(tokens),
            CompletionField.LANE_OFFERED: drafts,
            CompletionField.LANE_ACCEPTED: drafts,
            CompletionField.LANE_DRAFT_CURSOR: -1,
            CompletionField.LANE_RESERVED: -1,
            CompletionField.LANE_FINISH: row.finished,
        }
        for name, value in values.items():
            self.put(name, frame, value, lane=lane)
        named = tokens if forbidden is None else (forbidden,)
        for place, token in enumerate(named):
            self.put(CompletionField.LANE_TOKENS, frame, token, lane=lane, place=place)

    def close_record(self, frame: int, *, lanes: int, status: int) -> None:
        """The record's own numbers."""
        self.put(CompletionField.RECORD_ROWS, frame, lanes)
        self.put(CompletionField.RECORD_STATUS, frame, status)

    def enter(
        self, slot: int, *, generation: int, consumed: int, limit: int, eos: tuple[int, ...]
    ) -> None:
        """A slot changes hands; a request that was here before goes on with its line."""
        request = self.request_in(Slot(slot))
        earlier = self._unended.get(request)
        if request == PROOF:  # of no script
            line, played = Line(tokens=(0, 0)), 0
        elif earlier is None:
            line, played = self.script[self.started % len(self.script)], 0
            self.started += 1
        else:
            line, played = earlier.line, earlier.played
        self.rows[slot] = self._unended[request] = Row(
            request=request,
            line=line,
            played=played,
            generation=generation,
            consumed=consumed,
            limit=limit,
            eos=eos,
        )

    def advance(self, frame: int, lane: int, slot: int, values: Values, *, most: int) -> int:
        """Emit up to `most` of a lane's next tokens; returns how long they take."""
        row, delay = self.rows[slot], 0
        tokens: list[int] = []
        forbidden = None
        while len(tokens) < min(most, row.line.group) and not row.finished:
            token = row.next_token()
            if token is None and tokens:
                break  # execution fails in the next round
            if token is None:
                row.finished = FinishBits.EXECUTION_FAILED
            elif not tokens and not self.allows(slot, token, values):
                forbidden = token
                row.finished = FinishBits.FORBIDDEN_TOKEN
            else:
                row.emit(token)
                tokens.append(token)
                delay += row.line.delay_ns
        row.consumed += max(0, len(tokens) - 1)
        if row.finished:
            self._unended.pop(row.request, None)
        self.record(frame, lane, slot, tokens, forbidden=forbidden)
        return delay


def play_initialize(device: ScriptedDevice, values: Values, frame: int) -> int:
    """Slots take their limits and the script's next lines."""
    lanes = values[ValueSource.LIVE_ROWS][0]
    width = len(values[ValueSource.EOS_IDS]) // len(values[ValueSource.SLOT])
    for lane in range(lanes):
        slot = values[ValueSource.SLOT][lane]
        ids = values[ValueSource.EOS_IDS][lane * width : (lane + 1) * width]
        device.enter(
            slot,
            generation=values[ValueSource.GENERATION][lane],
            consumed=values[ValueSource.CONSUMED_ENDPOINT][lane],
            limit=values[ValueSource.OUTPUT_LIMIT][lane],
            eos=tuple(token for token in ids if token >= 0),
        )
        device.record(frame, lane, slot)
    device.close_record(frame, lanes=lanes, status=0)
    return 0


def play_prefill(device: ScriptedDevice, values: Values, frame: int) -> int:
    """Prompts are consumed; lanes that sample emit their first token."""
    lanes, longest = values[ValueSource.LIVE_ROWS][0], 0
    for lane in range(lanes):
        slot = values[ValueSource.SLOT][lane]
        device.rows[slot].consumed += values[ValueSource.QUERY_LENGTH][lane]
        samples = int(values[ValueSource.SAMPLING_DECISION][lane])
        longest = max(longest, device.advance(frame, lane, slot, values, most=samples))
    device.close_record(frame, lanes=lanes, status=0)
    return longest


def play_scored_prefill(device: ScriptedDevice, values: Values, frame: int) -> int:
    """A script has no log-probabilities: the round fails."""
    lanes = values[ValueSource.LIVE_ROWS][0]
    for lane in range(lanes):
        slot = values[ValueSource.SLOT][lane]
        device.rows[slot].consumed += values[ValueSource.QUERY_LENGTH][lane]
        device.record(frame, lane, slot)
    device.close_record(frame, lanes=lanes, status=FAILED)
    return 0


def play_decode(device: ScriptedDevice, values: Values, frame: int) -> int:
    """Every lane consumes its pending token and emits the next, or its next group."""
    lanes, longest = values[ValueSource.LIVE_ROWS][0], 0
    ceilings = values.get(ValueSource.QUERY_LENGTH)
    for lane in range(lanes):
        slot = values[ValueSource.SLOT][lane]
        device.rows[slot].consumed += 1
        most = 1 if ceilings is None else int(ceilings[lane])
        longest = max(longest, device.advance(frame, lane, slot, values, most=most))
    device.close_record(frame, lanes=lanes, status=0)
    return longest


def play_standing(device: ScriptedDevice, values: Values, frame: int) -> int:
    """Lanes stay where they are: a snapshot is kept, or a pending token comes from the host."""
    lanes = values[ValueSource.LIVE_ROWS][0]
    for lane in range(lanes):
        device.record(frame, lane, values[ValueSource.SLOT][lane])
    device.close_record(frame, lanes=lanes, status=0)
    return 0


PLAY: Final[Mapping[Operation, Callable[[ScriptedDevice, Values, int], int]]] = {
    Operation.INITIALIZE: play_initialize,
    Operation.RESTORE: play_initialize,  # from the endpoint that admission says
    Operation.PREFILL: play_prefill,
    Operation.RESUME: play_standing,
    Operation.SCORED_PREFILL: play_scored_prefill,
    Operation.DECODE: play_decode,
    Operation.SPECULATIVE: play_decode,
    Operation.MIXED: play_prefill,  # lanes that decode have one row, and sample
    Operation.PUBLISH_SNAPSHOT: play_standing,
}
"""What each operation does to the slots; returns how long it takes, in nanoseconds."""
