"""A whole worker, its device and its clients, a turn at a time; every turn promises are checked."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, overload

from msgspec.structs import replace

from helios.bootstrap.model import build_worker
from helios.device.api import Geometry
from helios.device.scripted import Line, ScriptedDevice
from helios.frontend.request import PreparedRequest
from helios.mailbox import News, Requests, Round
from helios.rounds import Finish
from helios.serve.gate import Gate
from helios.values import PageId, RequestId
from helios.worker import Worker
from ignition.preparation.storage import TextExtents
from prepared.contract import Operation
from tests.sim.clients import Client, Script
from tests.sim.device import SimDevice, harmed_by
from tests.sim.faults import NONE, Faults
from tests.sim.judges import TOOLS, Judged, answer_of
from tests.worker.world import Clock, MemoryMailbox, scripted_model

MOST_TURNS: Final = 20_000
GAP_NS: Final = 100_000_000
NEEDED: Final = frozenset({Operation.INITIALIZE, Operation.PREFILL, Operation.DECODE})
WELL: Final = frozenset({Finish.END_OF_SEQUENCE, Finish.OUTPUT_LIMIT})


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """Everything that decides what happens."""

    extents: TextExtents
    operations: frozenset[Operation]  # beyond those that every core has
    pages: int
    rows: int
    host_slots: int
    frames: int
    queue_capacity: int
    lines: tuple[Line, ...]
    clients: tuple[Script, ...]
    faults: Faults = NONE


class LinesByRequest(Sequence[Line]):
    """A script in which a request's line is its own, whatever came before it."""

    def __init__(self, lines: Sequence[Line]) -> None:
        self.lines = lines
        self.asked = RequestId(0)

    def __len__(self) -> int:
        return 1

    @overload
    def __getitem__(self, index: int) -> Line: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Line]: ...
    def __getitem__(self, index: int | slice) -> Line | Sequence[Line]:
        """The line of the request that was asked for last."""
        return self.of(self.asked) if isinstance(index, int) else [self.of(self.asked)]

    def of(self, request: RequestId) -> Line:
        """A request's line."""
        return self.lines[request % len(self.lines)]


class SimWorld:
    """One history as it happens."""

    def __init__(self, history: History) -> None:
        self.history = history
        self.clock, self.mailbox = Clock(), MemoryMailbox()
        self.script = LinesByRequest(history.lines)
        self.gate = Gate(history.queue_capacity + history.extents.lanes)
        self.device = self.made_device()
        self.worker: Worker = build_worker(
            self.device.device.model,
            self.device,
            self.device.device.geometry,
            self.mailbox,
            TOOLS,
            identity=b"made up",
            gap_ns=GAP_NS,
            clock=self.clock,
        )
        self.clients = [Client(script, next_at=0) for script in history.clients]
        self.asked: dict[RequestId, PreparedRequest] = {}
        self.judged: dict[RequestId, Judged] = {}
        self.told: dict[RequestId, list[News]] = {}
        self.left: set[RequestId] = set()
        self.turns = 0
        self._heard = 0
        self._fixed: dict[PageId, bytes] = {}

    def made_device(self) -> SimDevice:
        """The device of this history's core."""
        history = self.history
        model, manifest = scripted_model(history.extents)
        kept = NEEDED | history.operations
        device = ScriptedDevice(
            execution=replace(
                manifest,
                frames=history.frames,
                programs=tuple(p for p in manifest.programs if p.operation in kept),
            ),
            model=model,
            geometry=Geometry(
                slots=history.extents.lanes,
                pages=history.pages,
                snapshots=history.rows,
                host_slots=history.host_slots,
            ),
            script=self.script,
            clock=self.clock,
            sleep=self.clock.sleep,
            request_in=self.request_in,
        )
        return SimDevice(device, history.faults, lambda: self.worker)

    def request_in(self, slot: int) -> RequestId:
        """Whose a slot is; the script is read for it next."""
        self.script.asked = self.worker.roster.request_in(slot)  # type: ignore[arg-type]
        return self.script.asked

    # ------------------------------------------------------------- turning

    def run(self) -> SimWorld:
        """Until every client has read its last answer and the worker rests."""
        while not all(client.over for client in self.clients) or not self.mailbox.idle:
            self.turn()
            assert self.turns < MOST_TURNS, "the world never came to rest"
        self.look_at_the_end()
        return self

    def turn(self) -> None:
        """Clients act, the worker turns, clients read."""
        self.turns += 1
        self.act()
        self.mailbox.idle = False
        self.worker.turn()
        self.look()
        self.read()
        self.worker.rest()

    def act(self) -> None:
        """Clients let go, leave and ask, in one message."""
        coming, going = list[PreparedRequest](), list[RequestId]()
        for client in self.clients:
            client.let_go(self.turns)
            if (gone := client.leave(self.turns)) is not None:
                going.append(gone)
            number = RequestId(len(self.asked) + len(coming) + 1)
            asked = client.ask(self.turns, number, self.gate, self.history.extents.context_tokens)
            if asked is not None:
                coming.append(asked)
                self.judged[number] = client.script.asks[client.place].judged
        self.asked |= {request.id: request for request in coming}
        self.device.requests, self.device.judged = self.asked, self.judged
        self.left.update(going)
        if coming or going:
            self.mailbox.inbox.append(Requests(submit=tuple(coming), cancel=tuple(going)))

    def read(self) -> None:
        """Clients hear what is theirs."""
        by_request = {client.request: client for client in self.clients}
        for message in self.mailbox.outbox[self._heard :]:
            assert isinstance(message, Round)
            for news in message.by_request():
                self.told.setdefault(news.request, []).append(news)
                by_request[news.request].read(news, self.turns)
        self._heard = len(self.mailbox.outbox)

    # ------------------------------------------------------------- promises

    def look(self) -> None:
        """What must hold after every turn."""
        roster = self.worker.roster
        roster.audit()
        assert self.gate.held <= self.gate.permits
        inside = len(self.worker.queue) + len(roster.view().lanes)
        assert len(self.worker.queue) <= self.gate.permits
        assert inside <= self.gate.permits + roster.slots  # ended lanes may still drain
        self.look_at_pages()

    def look_at_pages(self) -> None:
        """Pages of checkpoints never change; those copied back are new."""
        pool = self.worker.roster.cache.pages
        for page in self.device.moved:
            self._fixed.pop(page, None)
        self.device.moved.clear()
        fixed = {
            PageId(page)
            for page in range(pool.total)
            if pool.holders(PageId(page)) > 1 or pool.is_idle(PageId(page))
        }
        now = {page: bytes(self.device.page(page)) for page in fixed}
        for page in fixed & self._fixed.keys():
            assert now[page] == self._fixed[page], f"page {page} of a checkpoint changed"
        self._fixed = now

    def look_at_the_end(self) -> None:
        """Everything was given back, and every request was answered once and rightly."""
        roster = self.worker.roster
        assert not len(self.worker.queue)
        assert not roster.view().lanes
        assert roster.free_slots == roster.slots
        assert roster.outstanding == 0
        assert self.gate.held == 0
        roster.cache.forget_all()
        roster.audit()
        assert roster.cache.pages.free == roster.cache.pages.total
        assert roster.cache.rows.free == roster.cache.rows.total
        order = [b.request for told in self.rounds() for b in told.begun if not b.again]
        assert order == sorted(order), "a younger request came before an older one"
        harmed = set(harmed_by(self.device))
        totals = [told.totals for told in self.rounds()]
        assert all(total.constrained_most_in_flight <= 1 for total in totals)
        for number in self.asked:
            self.look_at_answer(number, harmed)
        for played in self.device.played:
            if played.operation is Operation.PUBLISH_SNAPSHOT:
                assert all(self.finish(number) in WELL for number in played.requests)

    def look_at_answer(self, number: RequestId, harmed: set[RequestId]) -> None:
        """One ending, after the right tokens."""
        whole, end = answer_of(self.script.of(number), self.asked[number], self.judged[number])
        told, finish = self.tokens(number), self.finish(number)
        assert told == whole[: len(told)], f"request {number} was told a wrong token"
        match finish:
            case Finish.CANCELLED:
                assert number in self.left
            case Finish.REJECTED:
                size = self.history.extents.page_tokens
                assert self.asked[number].most_tokens > self.history.pages * size
                assert not told
            case Finish.FAILED:
                copies = "a page could not be brought back from the host"
                harmed_or_copied = number in harmed or self.told[number][-1].problem == copies
                assert harmed_or_copied or (told, finish) == (whole, end)
            case _ if number in harmed and finish is Finish.OUTPUT_LIMIT:
                pass  # a device may stop a lane before its limit
            case _:
                assert (told, finish) == (whole, end), f"request {number} was not served"

    # ------------------------------------------------------------- looking

    def tokens(self, number: RequestId) -> tuple[int, ...]:
        """What a request was told."""
        return tuple(token for news in self.told.get(number, []) for token in news.tokens)

    def finish(self, number: RequestId) -> Finish:
        """Why a request ended; it ended once, and nothing was said of it afterwards."""
        news = self.told.get(number, [])
        assert [part.finish is not None for part in news] == [False] * (len(news) - 1) + [True]
        assert news[-1].finish is not None
        return news[-1].finish

    def rounds(self) -> Iterator[Round]:
        """Every round that the front heard of."""
        return (message for message in self.mailbox.outbox if isinstance(message, Round))

    def answers(self) -> Mapping[RequestId, tuple[Finish, tuple[int, ...]]]:
        """Every request's ending and tokens."""
        return {number: (self.finish(number), self.tokens(number)) for number in self.asked}
