"""A scripted device that keeps histories: each token it consumes is written into its page.

What is written for a token depends on every token before it and on the request's salt, as read
from the pages themselves; so a lane that reads a wrong page, a wrong continuation row or another's
history writes something else from then on, and what it has is compared with what it should have at
every submission.  Copies are of real bytes.  Whatever no device could do is refused here.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from hashlib import blake2b
from typing import Any, Final

from helios.device.scripted import ScriptedDevice
from helios.execute.completion import CompletionReader
from helios.frontend.request import PreparedRequest
from helios.rounds import LaneRecord
from helios.values import HostSlot, PageId, ProgramId, RequestId, Slot
from helios.worker import Worker
from prepared.contract import Operation, ValueSource
from prepared.manifest import BufferRole, CompletionField, ExecutionManifest, FinishBits
from tests.sim.faults import STALL_NS, Faults
from tests.sim.judges import Judged

TRACE_NBYTES: Final = 8
CONTINUATIONS: Final = "continuations"
ENTERS: Final = frozenset({Operation.INITIALIZE, Operation.RESTORE})
MODELS: Final = frozenset(
    {Operation.PREFILL, Operation.DECODE, Operation.MIXED, Operation.SPECULATIVE}
)
NOWHERE: Final = -1
SPOILED: Final = 0xFFFF_FFFF
ALWAYS: Final = [1] * 64  # programs that only decode sample in every lane
UNTAKEN: Final = b"\xee" * TRACE_NBYTES

Values = Mapping[ValueSource, "memoryview[Any]"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Played:
    """One submission, as the device saw it."""

    operation: Operation
    frame: int
    slots: tuple[int, ...]
    requests: tuple[RequestId, ...]
    failed: tuple[RequestId, ...] = ()  # whose lanes failed, their neighbours not
    harmed: bool = False  # the whole record is wrong


@dataclass(slots=True)
class Lane:
    """What the device knows of a slot."""

    request: PreparedRequest
    generation: int
    consumed: int
    pending: bool = False
    spoiled: bool = False  # a round of it failed: what it computes from then on is worth nothing


class SimDevice:
    """A scripted device with histories, and with faults."""

    def __init__(self, device: ScriptedDevice, faults: Faults, world: Callable[[], Worker]) -> None:
        self.device, self.faults = device, faults
        self.played: list[Played] = []
        self.copies = 0
        self.moved: set[PageId] = set()  # pages that were copied back since somebody looked
        self.requests: dict[RequestId, PreparedRequest] = {}
        self.judged: dict[RequestId, Judged] = {}
        self._world = world
        self._lanes: dict[int, Lane] = {}
        self._generations: dict[int, int] = {}
        self._late: dict[int, int] = {}  # when a submission's fence passes
        self._truth: dict[RequestId, list[int]] = {}
        self._traces: dict[RequestId, list[bytes]] = {}
        plane = next(b for b in self.manifest.buffers if b.role is BufferRole.CACHE_PLANE)
        self._plane, self._page_nbytes = plane.name, plane.nbytes
        self._page_tokens = device.model.cache.page_tokens
        self._row_nbytes = next(
            (b.nbytes for b in self.manifest.buffers if b.name == CONTINUATIONS), 0
        )

    # --------------------------------------------------------- submissions

    def submit(self, program: ProgramId, frame: int) -> None:
        """Play a round, move histories, look at them, then let the record be damaged."""
        declared = self.manifest.programs[program]
        self.device.submit(program, frame)
        graph = next(g for g in self.device.model.graphs if g.name == declared.name)
        values = self.device.values(graph, frame)
        slots = tuple(values[ValueSource.SLOT][: values[ValueSource.LIVE_ROWS][0]])
        record = CompletionReader(self.device, frame).read()
        played = Played(
            operation=declared.operation,
            frame=frame,
            slots=slots,
            requests=tuple(self.request_in(slot).id for slot in slots),
            failed=tuple(
                self.request_in(slot).id
                for slot, lane in zip(slots, record.lanes, strict=True)
                if lane.finish == FinishBits.EXECUTION_FAILED
            ),
        )
        self.look_at(played)
        fed = deque(values.get(ValueSource.PROMPT_TOKENS, ()))
        for lane, slot in enumerate(slots):
            if played.operation in ENTERS:
                self.enter(values, lane, slot)
            state = self._lanes[slot]
            state.spoiled |= len(self.played) + 1 in self.faults.launches
            if values.get(ValueSource.SAMPLING_DECISION, ALWAYS)[lane]:
                self.look_at_mask(played.operation, state, slot, values)
            self.move(played.operation, values, lane, slot, fed)
            self.take_tokens(slot, record.lanes[lane])
            state.spoiled |= state.request.id in played.failed
            if played.operation in MODELS:
                self.check(state, slot)
        self.played.append(played)
        self.damage(played)

    def look_at(self, played: Played) -> None:
        """Frames and slots belong to a submission until it was settled."""
        count = self._world().executor.in_flight - 1  # this one is counted already
        unsettled = self.played[len(self.played) - count :]
        assert played.frame not in {before.frame for before in unsettled}, "a frame in use"
        assert len(set(played.slots)) == len(played.slots), "a slot twice in a round"
        busy = {slot for before in unsettled for slot in before.slots}
        if played.operation in ENTERS:
            assert busy.isdisjoint(played.slots), "a slot changes hands before its fence"
        if any(self.requests[request].barrier for request in played.requests):
            assert busy.isdisjoint(played.slots), "two frames of a lane that the host must follow"

    def look_at_mask(self, operation: Operation, state: Lane, slot: int, values: Values) -> None:
        """A lane that samples has the mask for its next token; who has no grammar, none."""
        if operation not in MODELS:
            return
        rule = self.judged[state.request.id].rule
        emitted = len(self.truth(state)) - len(state.request.prompt)
        tokens = range(self.device.model.vocabulary.tokens)
        expected = frozenset(tokens) if rule is None else rule.may_follow(emitted)
        found = {token for token in tokens if self.device.allows(slot, token, values)}
        assert state.spoiled or found == expected, f"request {state.request.id}: another mask"

    def move(
        self, operation: Operation, values: Values, lane: int, slot: int, fed: deque[int]
    ) -> None:
        """What an operation does to one lane's history."""
        state = self._lanes[slot]
        match operation:
            case Operation.RESTORE:
                self.restore(state, slot, values, lane)
            case Operation.RESUME:
                token = values[ValueSource.COMPLETED_PENDING_TOKEN][lane]
                assert token == self.truth(state)[state.consumed], "another token is pending"
                assert not state.pending
                state.pending = True
            case Operation.PUBLISH_SNAPSHOT:
                self.publish(state, slot, values, lane)
            case Operation.DECODE:
                assert state.pending, "nothing to consume"
                self.consume(state, slot, 1)
            case Operation.SPECULATIVE:
                assert state.pending, "nothing to consume"
                self.consume(state, slot, 1)
                self.propose(state, slot, values[ValueSource.QUERY_LENGTH][lane] - 1)
            case Operation.PREFILL | Operation.MIXED:
                self.feed(state, slot, values, lane, fed)

    def enter(self, values: Values, lane: int, slot: int) -> None:
        """A slot changes hands."""
        generation = values[ValueSource.GENERATION][lane]
        assert generation > self._generations.get(slot, 0), "the same generation again"
        self._generations[slot] = generation
        request = self.request_in(slot)
        consumed = values[ValueSource.CONSUMED_ENDPOINT][lane]
        self._lanes[slot] = Lane(request, generation, consumed)
        self.truth(self._lanes[slot])

    def restore(self, state: Lane, slot: int, values: Values, lane: int) -> None:
        """Leading records of a page come from a row or from another page."""
        row = values[ValueSource.RESTORE_SOURCE][lane]
        page = values[ValueSource.RESTORE_PAGE][lane]
        assert (row == NOWHERE) != (page == NOWHERE), "one source"
        source = self.row(row) if page == NOWHERE else self.page(page)
        tokens = state.consumed % self._page_tokens
        assert tokens, "whole pages are shared, not copied"
        target = self.page(self.writable(slot, state.consumed // self._page_tokens))
        nbytes = tokens * self._page_nbytes // self._page_tokens
        target[:nbytes] = bytes(nbytes) if state.spoiled else bytes(source[:nbytes])
        self.check(state, slot)

    def publish(self, state: Lane, slot: int, values: Values, lane: int) -> None:
        """Leading records of a page are kept in a row."""
        tokens = values[ValueSource.CONSUMED_ENDPOINT][lane]
        assert 0 < tokens <= state.consumed, "nothing was computed there"
        assert tokens % self._page_tokens, "whole pages are shared, not copied"
        target = self.row(values[ValueSource.SNAPSHOT_DESTINATION][lane])
        page = self.page(self.page_of(slot, tokens // self._page_tokens))
        nbytes = tokens % self._page_tokens * self._page_nbytes // self._page_tokens
        target[:nbytes] = bytes(nbytes) if state.spoiled else bytes(page[:nbytes])

    def feed(self, state: Lane, slot: int, values: Values, lane: int, fed: deque[int]) -> None:
        """Prompt tokens, or a pending one in a mixed round (HV-06)."""
        count = values[ValueSource.QUERY_LENGTH][lane]
        tokens = [fed.popleft() for _ in range(count)]
        mixed = values.get(ValueSource.MIXED_PREFILL_ROW)
        if mixed is not None and mixed[0] != lane:
            assert state.pending, "nothing to consume"
            assert count == 1
        else:
            assert not state.pending, "a prompt is fed to a lane that decodes"
            start = state.consumed
            assert tokens == self.truth(state)[start : start + count], "another's prompt"
        self.consume(state, slot, count)

    def take_tokens(self, slot: int, record: LaneRecord) -> None:
        """What was sampled is pending, and follows what is known of the request.

        Where there are several, all but the last were proposed, and consumed at once.
        """
        state, truth = self._lanes[slot], self.truth(self._lanes[slot])
        for place, token in enumerate(record.tokens):
            if place:
                self.consume(state, slot, 1)
            assert state.spoiled or len(truth) == state.consumed, "a token is sampled twice"
            truth.append(token)
            state.pending = True
        assert record.consumed == state.consumed

    # ----------------------------------------------------------- histories

    def request_in(self, slot: int) -> PreparedRequest:
        """Whose a slot is."""
        return self.requests[self._world().roster.request_in(Slot(slot))]

    def truth(self, state: Lane) -> list[int]:
        """Every token of a request so far, as this device gave them."""
        return self._truth.setdefault(state.request.id, list(state.request.prompt))

    def consume(self, state: Lane, slot: int, count: int) -> None:
        """Write tokens after what the pages hold."""
        for position in range(state.consumed, state.consumed + count):
            before = self.cell(slot, position - 1) if position else root_of(state.request)
            self.writable(slot, position // self._page_tokens)
            token = SPOILED if state.spoiled else self.truth(state)[position]
            self.cell(slot, position)[:] = trace(before, token)
        state.consumed += count

    def propose(self, state: Lane, slot: int, count: int) -> None:
        """Rows of proposals hold what nobody may read; those that are taken are written anew."""
        for position in range(state.consumed, state.consumed + count):
            self.writable(slot, position // self._page_tokens)
            self.cell(slot, position)[:] = UNTAKEN

    def check(self, state: Lane, slot: int) -> None:
        """The history as stored is the request's own, at every position."""
        if state.spoiled:
            return
        expected = self._traces.setdefault(state.request.id, [])
        for token in self.truth(state)[len(expected) : state.consumed]:
            expected.append(trace(expected[-1] if expected else root_of(state.request), token))
        for position in range(state.consumed):
            assert self.cell(slot, position) == expected[position], (
                f"request {state.request.id}: position {position} holds another history"
            )

    def writable(self, slot: int, index: int) -> PageId:
        """A page that nobody else holds."""
        page = self.page_of(slot, index)
        assert self._world().roster.cache.pages.holders(page) == 1, "a shared page is written"
        return page

    def page_of(self, slot: int, index: int) -> PageId:
        """An entry of a slot's page table."""
        table = self.device.resident("page_table").cast("B").cast("I")
        width = len(table) // self.device.geometry.slots
        return PageId(table[slot * width + index])

    def page(self, page: int) -> memoryview:
        """A page's bytes."""
        start = page * self._page_nbytes
        return self.device.resident(self._plane)[start : start + self._page_nbytes]

    def row(self, row: int) -> memoryview:
        """A continuation row's bytes."""
        start = row * self._row_nbytes
        return self.device.resident(CONTINUATIONS)[start : start + self._row_nbytes]

    def cell(self, slot: int, position: int) -> memoryview:
        """What is written for a position."""
        index, place = divmod(position, self._page_tokens)
        start = place * self._page_nbytes // self._page_tokens
        return self.page(self.page_of(slot, index))[start : start + TRACE_NBYTES]

    # -------------------------------------------------------------- faults

    def damage(self, played: Played) -> None:
        """What goes wrong with this submission."""
        number = len(self.played)
        harmed = number in self.faults.launches
        if number in self.faults.launches:
            self.device.put(CompletionField.RECORD_STATUS, played.frame, 1)
        if number in self.faults.stalls:
            self._late[number] = self.device.clock.now_ns() + STALL_NS
        for flip in self.faults.flips:
            if flip.submission == number and self.flip(played.frame, flip.byte, flip.bit):
                harmed = True
        self.played[-1] = replace(played, harmed=harmed)

    def flip(self, frame: int, byte: int, bit: int) -> bool:
        """Turn a bit of a record over, unless no reader could ever tell.

        A token that becomes another of the vocabulary is what a device may say: nothing but
        the device knows better.
        """
        record = self.device.completion(frame)
        before = CompletionReader(self.device, frame).read()
        record[byte] ^= 1 << bit
        after = CompletionReader(self.device, frame).read()
        tokens = self.device.model.vocabulary.tokens
        for old, new in zip(before.lanes, after.lanes, strict=False):
            if old.tokens != new.tokens and all(0 <= token < tokens for token in new.tokens):
                record[byte] ^= 1 << bit
                return False
        return before != after

    def save(self, page: PageId, slot: HostSlot) -> bool:
        """See `Device`."""
        self.copies += 1
        return self.copies not in self.faults.copies and self.device.save(page, slot)

    def load(self, page: PageId, slot: HostSlot) -> bool:
        """See `Device`."""
        self.copies += 1
        self.moved.add(page)
        return self.copies not in self.faults.copies and self.device.load(page, slot)

    # ------------------------------------------------------- as it is below

    @property
    def manifest(self) -> ExecutionManifest:
        """See `Device`."""
        return self.device.manifest

    def staging(self, buffer: str, frame: int) -> memoryview:
        """See `Device`."""
        return self.device.staging(buffer, frame)

    def resident(self, buffer: str) -> memoryview:
        """See `Device`."""
        return self.device.resident(buffer)

    def completion(self, frame: int) -> memoryview:
        """See `Device`."""
        return self.device.completion(frame)

    def finished(self) -> int:
        """See `Device`."""
        done, now = self.device.finished(), self.device.clock.now_ns()
        late = [number for number, due in self._late.items() if number <= done and now < due]
        return min([done, *(number - 1 for number in late)])

    def wait(self, finished: int, *, nanoseconds: int) -> int:
        """See `Device`."""
        self.device.wait(finished, nanoseconds=nanoseconds)
        if self.finished() <= finished:
            self.device.sleep(nanoseconds / 1e9)
        return self.finished()

    def memory(self) -> dict[str, int]:
        """See `Device`."""
        return self.device.memory()

    def describe(self) -> str:
        """See `Device`."""
        return self.device.describe()

    def close(self) -> None:
        """See `Device`."""
        self.device.close()


def root_of(request: PreparedRequest) -> bytes:
    """What precedes a history's first token."""
    return blake2b(request.salt.encode(), digest_size=TRACE_NBYTES).digest()


def trace(before: bytes | memoryview, token: int) -> bytes:
    """What is written for a token."""
    return blake2b(bytes(before) + token.to_bytes(4, "little"), digest_size=TRACE_NBYTES).digest()


def harmed_by(device: SimDevice) -> Iterator[RequestId]:
    """Requests in a submission that went wrong, or whose own lane did."""
    for played in device.played:
        yield from played.requests if played.harmed else played.failed
