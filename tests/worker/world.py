"""A whole worker in a made-up world: scripted device, made-up clock, mailbox in memory.

Nothing here is real time or real chance, so one history gives one outcome.  The contract and
the manifest are made by Ignition's own declarations, without a model.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final, NoReturn, cast

from msgspec.structs import replace

from helios.bootstrap.model import build_worker
from helios.device.api import Geometry
from helios.device.scripted import Line, ScriptedDevice
from helios.execute.completion import CompletionReader
from helios.frontend.grammar.matcher import LateGrammars
from helios.frontend.request import PreparedRequest
from helios.judges import Tools
from helios.mailbox import News, Requests, Round, ToFront, ToWorker
from helios.rounds import Finish
from helios.values import HostSlot, PageId, ProgramId, RequestId, Slot
from helios.worker import Worker
from ignition.plan.assemble import Machine, assemble
from ignition.plan.launches import LaunchList
from ignition.preparation.contract import cache_of, graph_of, states_of, vocabularies_of
from ignition.preparation.programs import variants_of
from ignition.preparation.storage import TextExtents, text_storage
from prepared.contract import ElementType, ModelContract, Operation, ValueSource
from prepared.manifest import ExecutionManifest, Target
from tests.treaty.frontends import text_frontend

VOCABULARY: Final = 100


def none_here() -> NoReturn:
    """Requests of these worlds have neither grammars nor stops."""
    raise AssertionError("no request wants a tokenizer")


NO_TOOLS: Final = Tools(grammars=LateGrammars(none_here), make_decoder=none_here)
MOST_TURNS: Final = 20_000


def text_extents(
    *,
    lanes: int = 4,
    prefill_tokens: int = 16,
    context_tokens: int = 64,
    page_tokens: int = 4,
    speculative_tokens: int = 1,
) -> TextExtents:
    """Sizes of a text model whose histories are next to nothing."""
    return TextExtents(
        lanes=lanes,
        prefill_tokens=prefill_tokens,
        context_tokens=context_tokens,
        page_tokens=page_tokens,
        vocabulary=VOCABULARY,
        layers=1,
        key_heads=1,
        width=16,
        history=ElementType.FLOAT32,
        speculative_tokens=speculative_tokens,
    )


def scripted_model(extents: TextExtents) -> tuple[ModelContract, ExecutionManifest]:
    """The contract and the manifest of a model that launches nothing."""
    storage, variants = text_storage(extents), variants_of(extents)
    vocabulary, input_vocabulary = vocabularies_of(extents.vocabulary)
    model = ModelContract(
        version=3,
        vocabulary=vocabulary,
        input_vocabulary=input_vocabulary,
        vision=None,
        cache=cache_of(storage),
        states=states_of(),
        graphs=tuple(graph_of(variant) for variant in variants),
        frontend=text_frontend(),
        engram_tables=(),
    )
    manifest = assemble(
        Machine(target=Target.SCRIPTED, images=(), thread_scratch_nbytes=0),
        storage,
        {variant.operation: LaunchList() for variant in variants},
        variants,
        {},
        0,
    )
    return model, manifest


# ----------------------------------------------------------------- made up


class Clock:
    """Time that passes only when somebody sleeps."""

    def __init__(self) -> None:
        self.now = 0

    def now_ns(self) -> int:
        """See `helios.values.Clock`."""
        return self.now

    def sleep(self, seconds: float) -> None:
        """Time passes."""
        self.now += max(1, round(seconds * 1e9))


@dataclass(slots=True)
class MemoryMailbox:
    """The worker's end of a mailbox whose other end is a list."""

    inbox: list[ToWorker] = field(default_factory=list)
    outbox: list[ToFront] = field(default_factory=list)
    idle: bool = False

    def drain(self) -> list[ToWorker]:
        """See `helios.worker.Mailbox`."""
        taken, self.inbox = self.inbox, []
        return taken

    def publish(self, message: ToFront) -> None:
        """See `helios.worker.Mailbox`."""
        self.outbox.append(message)

    def wait(self, seconds: float | None) -> None:
        """Nothing comes before the next turn, and the worker has nothing to do."""
        assert seconds is None
        self.idle = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Played:
    """One submission, as the device saw it."""

    operation: Operation
    requests: tuple[RequestId, ...]
    status: int


class WatchedDevice:
    """A scripted device, with what it was made to do written down."""

    def __init__(self, device: ScriptedDevice) -> None:
        self.device = device
        self.played: list[Played] = []

    def submit(self, program: ProgramId, frame: int) -> None:
        """See `Device`."""
        device = self.device
        device.submit(program, frame)
        declared = device.execution.programs[program]
        graph = next(graph for graph in device.model.graphs if graph.name == declared.name)
        values = device.values(graph, frame)
        slots = values[ValueSource.SLOT][: values[ValueSource.LIVE_ROWS][0]]
        self.played.append(
            Played(
                operation=declared.operation,
                requests=tuple(cast(RequestId, device.request_in(Slot(slot))) for slot in slots),
                status=CompletionReader(device, frame).read().status,
            )
        )

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
        return self.device.finished()

    def wait(self, finished: int, *, nanoseconds: int) -> int:
        """See `Device`."""
        return self.device.wait(finished, nanoseconds=nanoseconds)

    def save(self, page: PageId, slot: HostSlot) -> bool:
        """See `Device`."""
        return self.device.save(page, slot)

    def load(self, page: PageId, slot: HostSlot) -> bool:
        """See `Device`."""
        return self.device.load(page, slot)

    def memory(self) -> dict[str, int]:
        """See `Device`."""
        return self.device.memory()

    def describe(self) -> str:
        """See `Device`."""
        return self.device.describe()

    def close(self) -> None:
        """See `Device`."""
        self.device.close()


# ------------------------------------------------------------------- world


class World:
    """A worker, and what it told its front."""

    def __init__(
        self,
        *script: Line,
        extents: TextExtents | None = None,
        pages: int = 64,
        frames: int = 2,
    ) -> None:
        extents = extents or text_extents()
        model, manifest = scripted_model(extents)
        self.clock, self.mailbox, self.pages = Clock(), MemoryMailbox(), pages
        geometry = Geometry(slots=extents.lanes, pages=pages, snapshots=max(1, pages // 8))
        device = ScriptedDevice(
            execution=replace(manifest, frames=frames),
            model=model,
            geometry=geometry,
            script=script,
            clock=self.clock,
            sleep=self.clock.sleep,
            request_in=lambda slot: self.worker.roster.request_in(slot),
        )
        self.device = WatchedDevice(device)
        self.worker: Worker = build_worker(
            model,
            self.device,
            geometry,
            self.mailbox,
            NO_TOOLS,
            identity=b"made up",
            gap_ns=100_000_000,
            clock=self.clock,
        )
        self.asked: dict[RequestId, PreparedRequest] = {}

    def submit(self, *requests: PreparedRequest) -> None:
        """Requests come, in one message."""
        self.asked |= {request.id: request for request in requests}
        self.mailbox.inbox.append(Requests(submit=requests))

    def cancel(self, *numbers: int) -> None:
        """Clients leave, in one message."""
        self.mailbox.inbox.append(Requests(cancel=tuple(RequestId(number) for number in numbers)))

    def turn(self) -> None:
        """One turn of the loop, and the wait after it."""
        self.mailbox.idle = False
        self.worker.turn()
        self.worker.roster.audit()
        self.worker.rest()

    def run(self, events: Mapping[int, Callable[[World], None]] | None = None) -> None:
        """Turn until there is nothing left to do; events happen before the turn they name."""
        left = dict(events or {})
        for number in range(MOST_TURNS):
            if event := left.pop(number, None):
                event(self)
            self.turn()
            if self.mailbox.idle and not self.mailbox.inbox and not left:
                return
        raise AssertionError("the worker never came to rest")

    # ----------------------------------------------------------- looking

    def rounds(self) -> list[Round]:
        """Every round that the front heard of."""
        return [message for message in self.mailbox.outbox if isinstance(message, Round)]

    def news(self, number: int) -> list[News]:
        """Everything that the front heard of a request."""
        return [
            news
            for message in self.rounds()
            for news in message.by_request()
            if news.request == number
        ]

    def tokens(self, number: int) -> tuple[int, ...]:
        """A request's tokens."""
        return tuple(token for news in self.news(number) for token in news.tokens)

    def ending(self, number: int) -> News:
        """A request's one ending, after which nothing is said of it."""
        news = self.news(number)
        assert [part.finish is not None for part in news] == [False] * (len(news) - 1) + [True]
        return news[-1]

    def finish(self, number: int) -> Finish:
        """Why a request ended."""
        finish = self.ending(number).finish
        assert finish is not None
        return finish

    def order(self) -> list[RequestId]:
        """Requests in the order in which they first reached the model."""
        return list(dict.fromkeys(self.admissions()))

    def admissions(self) -> list[RequestId]:
        """Requests as they were given slots, as often as they were."""
        return [
            request
            for played in self.device.played
            if played.operation in (Operation.INITIALIZE, Operation.RESTORE)
            for request in played.requests
        ]

    def is_empty(self) -> bool:
        """Whether no slot, no page and no place in the queue is taken."""
        view = self.worker.roster.view()
        return (len(self.worker.queue), view.lanes, self.worker.roster.cache_view().free_pages) == (
            0,
            (),
            self.pages,
        )


# -------------------------------------------------------------- expectation


def played_line(line: Line, request: PreparedRequest) -> tuple[tuple[int, ...], Finish]:
    """What a request is told that nothing befalls but its own line."""
    told: list[int] = []
    while True:
        place = len(told)
        if line.fail_at == place:
            return tuple(told), Finish.FAILED
        told.append(line.tokens[place] if place < len(line.tokens) else request.eos_ids[0])
        if told[-1] in request.eos_ids:
            return tuple(told), Finish.END_OF_SEQUENCE
        stops = line.end == "length" and len(told) == len(line.tokens)
        if len(told) == request.output_limit or stops:
            return tuple(told), Finish.OUTPUT_LIMIT
