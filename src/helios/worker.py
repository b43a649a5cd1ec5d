"""The one loop that owns roster, queue, cache and frames of a model.

Settle what finished, let in what waits, submit what fits; publish the round's news in one
message.  Nothing here decides: gates, plan and roster do.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, Protocol, cast

from msgspec.structs import replace

from helios.cache.content import Key
from helios.cache.host import Direction, Transfer
from helios.execute.executor import Executor
from helios.frontend.grammar.matcher import Impossible
from helios.frontend.request import PreparedRequest
from helios.judges import Judges, Tools
from helios.mailbox import (
    Begun,
    Gauges,
    MailboxClosed,
    News,
    Ping,
    Plain,
    Pong,
    Ready,
    Requests,
    Round,
    Shutdown,
    Step,
    ToFront,
    Totals,
    ToWorker,
)
from helios.rounds import Finish
from helios.schedule.gates import Admitted, MustWait, Refused
from helios.schedule.lanes import Plan, Preempt, Result, Reuse
from helios.schedule.plan import by_operation, plan_round
from helios.schedule.queue import Queue, Waiting
from helios.schedule.roster import Masks, Roster
from helios.timings import Timings
from helios.values import Clock, RequestId
from prepared.contract import Operation

PATIENCE_NS: Final = 5_000_000
"""Longest wait for the device before the mailbox is looked at again."""

COMPILING_SECONDS: Final = 0.002
"""Longest wait for a message while a grammar is being compiled."""


class Mailbox(Protocol):
    """What the loop needs of its mailbox."""

    def drain(self) -> list[ToWorker]:
        """Every message that has arrived."""

    def publish(self, message: ToFront) -> None:
        """Send a message without blocking."""

    def wait(self, seconds: float | None) -> None:
        """Wait for a message, or for so long."""


@dataclass(slots=True)
class Bulletin:
    """What the front has not been told yet."""

    news: list[News | Plain] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)
    begun: list[Begun] = field(default_factory=list)
    totals: Totals = Totals()

    def count(self, **more: int) -> None:
        """Add to the totals."""
        self.set(**{name: getattr(self.totals, name) + value for name, value in more.items()})

    def set(self, **totals: int) -> None:
        """Say totals anew."""
        self.totals = replace(self.totals, **totals)

    @property
    def waits(self) -> bool:
        """Whether there is anything to say."""
        return bool(self.news or self.steps or self.begun)

    def take(self, gauges: Gauges) -> Round:
        """The round's message."""
        told = Round(tuple(self.news), tuple(self.steps), gauges, self.totals, tuple(self.begun))
        self.news, self.steps, self.begun = [], [], []
        return told


class Worker:
    """One model's loop."""

    def __init__(
        self,
        mailbox: Mailbox,
        executor: Executor,
        roster: Roster,
        clock: Clock,
        tools: Tools,
        *,
        identity: bytes,
        gap_ns: int,
    ) -> None:
        self.mailbox, self.executor, self.roster = mailbox, executor, roster
        self.judges = Judges(tools, clock)
        self.queue = Queue()
        self._compiling: list[Waiting] = []  # requests whose grammars are being compiled
        self.stopping = False
        self._clock, self._identity, self._gap_ns = clock, identity, gap_ns
        self._programs = by_operation(executor.programs)
        self._timings = Timings(clock)
        self._bulletin = Bulletin()
        self._arrivals = 0
        self._arrived_ns: dict[RequestId, int] = {}  # of requests that wait for their first slot
        self._last: Operation | None = None

    # ------------------------------------------------------------- turning

    def run(self, ready: Ready) -> None:
        """Turn until told to stop, or until the front is gone; then drain."""
        try:
            self.mailbox.publish(ready)
            while not self.stopping:
                self.turn()
                self.rest()
        except MailboxClosed:
            pass
        while self.executor.in_flight:
            self.executor.wait(nanoseconds=PATIENCE_NS)
            for completion in self.executor.finished():
                self.roster.settle(completion)

    def turn(self) -> None:
        """Settle what finished, let in what waits, submit what fits."""
        for completion in self.executor.finished():
            self._bulletin.steps.append(self._timings.finished())
            settled = self.roster.settle(completion, self.judges.hear)
            if settled.requests:
                self._bulletin.news.append(Plain(settled.requests, settled.tokens))
            self._tell(*settled.results)
        for message in self.mailbox.drain():
            self._take(message)
        self._take_compiled()
        self._admit()
        for frame in self.executor.free_frames():
            planned_ns = self._clock.now_ns()
            plan = self._plan()
            while plan is not None and not self._submit(plan, frame, planned_ns=planned_ns):
                plan = self._plan()
            if plan is None:
                break
        if self._bulletin.waits:
            cache = self.roster.cache
            self._bulletin.set(published=cache.snapshots, evicted=cache.evicted)
            self.mailbox.publish(self._bulletin.take(self._gauges()))

    def rest(self) -> None:
        """Wait for the device while it works, for messages otherwise."""
        if self.executor.in_flight:
            self.executor.wait(nanoseconds=PATIENCE_NS)
        elif not self.stopping:
            self.mailbox.wait(COMPILING_SECONDS if self._compiling else None)

    # ------------------------------------------------------------ messages

    def _take(self, message: ToWorker) -> None:
        match message:
            case Requests(submit, cancel):
                for request in submit:
                    self._enqueue(request)
                for cancelled in cancel:
                    self._cancel(cancelled)
            case Ping():
                self.mailbox.publish(Pong(self._timings.oldest_ns))
            case Shutdown():
                self.stopping = True

    def _enqueue(self, request: PreparedRequest) -> None:
        self._arrivals += 1
        self._arrived_ns[request.id] = self._clock.now_ns()
        key = Key(identity=self._identity, salt=request.salt)
        waiting = Waiting(arrival=self._arrivals, request=request, key=key)
        self.judges.open(request)
        self._compiling.append(waiting)

    def _take_compiled(self) -> None:
        """Requests whose grammars are ready, most have none, may have slots."""
        still = []
        for waiting in self._compiling:
            request = waiting.request.id
            if self.judges.waits(request):
                still.append(waiting)
            elif (why := self.judges.problem(request)) is not None:
                self._drop(request, Finish.FAILED, problem=why)
            else:
                self.queue.add(waiting)
        self._compiling = still

    def _cancel(self, request: RequestId) -> None:
        compiling = [waiting for waiting in self._compiling if waiting.request.id == request]
        if compiling or self.queue.remove(request) is not None:
            self._compiling = [w for w in self._compiling if w not in compiling]
            self._drop(request, Finish.CANCELLED)
        elif (result := self.roster.cancel(request)) is not None:
            self._tell(result)

    def _drop(self, request: RequestId, finish: Finish, *, problem: str | None = None) -> None:
        """A request that never had a slot is over."""
        self._arrived_ns.pop(request, None)
        self._tell(Result(request=request, tokens=(), finish=finish, problem=problem))

    # ----------------------------------------------------------- admission

    def _admit(self) -> None:
        """Give free slots to the oldest requests that the cache can hold."""
        while (waiting := self.queue.first()) is not None and self.roster.free_slots:
            match self.roster.admit(waiting):
                case Admitted(reuse):
                    self.queue.take_first()
                    self._begin(waiting, reuse)
                case MustWait():
                    return
                case Refused(why):
                    self.queue.take_first()
                    self._drop(waiting.request.id, Finish.REJECTED, problem=why)

    def _begin(self, waiting: Waiting, reuse: Reuse) -> None:
        request, now = waiting.request.id, self._clock.now_ns()
        self._bulletin.begun.append(
            Begun(
                request=request,
                reused=reuse.tokens,
                asked=waiting.tokens - 1,
                stop=reuse.stop.value,
                again=reuse.again,
                waited_ns=now - self._arrived_ns.pop(request, now),
            )
        )
        if not self._copy(reuse.loads):
            failed = self.roster.fail(request, "a page could not be brought back from the host")
            self._tell(*([failed] if failed else []))

    def _copy(self, transfers: Iterable[Transfer]) -> bool:
        """Copy pages between the device and the host; whether all went well."""
        every = True
        for transfer in transfers:
            out = transfer.direction is Direction.TO_HOST
            move = self.executor.device.save if out else self.executor.device.load
            well = move(transfer.page, transfer.slot)
            self.roster.copied(transfer, well=well)
            if well:
                self._bulletin.count(**{"spilled" if out else "loaded": 1})
            every &= well
        return every

    # ---------------------------------------------------------- submission

    def _plan(self) -> Plan | None:
        """The next round; lanes give way until one fits."""
        while True:
            plan = plan_round(
                self.roster.view(),
                self.roster.cache_view(),
                self._programs,
                last=self._last,
                gap_tokens=self._timings.pace.tokens_within(self._gap_ns),
            )
            if not isinstance(plan, Preempt):
                return plan
            self.queue.add(self.roster.preempt(plan.slot))
            self._bulletin.count(preempted=1)

    def _submit(self, plan: Plan, frame: int, *, planned_ns: int) -> bool:
        """Hand a round over; whether it still could be, once its grammars were asked."""
        request_in = self.roster.request_in
        masks = self.judges.masks(request_in(s.slot) for s in plan.shares if s.samples)
        if not self._allowed(masks):
            return False
        self._last = plan.program.operation
        if self.roster.cache.host_slots:
            self._copy(self.roster.spill(self.roster.pages_wanted(plan)))
        submission = self.roster.commit(plan, frame, cast(Masks, masks))
        self.executor.submit(submission)
        self._timings.submitted(
            submission,
            plan.program.operation,
            planned_ns=planned_ns,
            constrained=len(masks),
        )
        if masks:
            most = max(self._bulletin.totals.constrained_most_in_flight, self.executor.in_flight)
            self._bulletin.set(constrained_most_in_flight=most)
        return True

    def _allowed(self, masks: Mapping[RequestId, bytes | Impossible]) -> bool:
        """Whether every grammar has a mask; requests whose grammar has none fail."""
        stuck = {name: row for name, row in masks.items() if isinstance(row, Impossible)}
        for name, impossible in stuck.items():
            failed = self.roster.fail(name, f"the grammar cannot be followed: {impossible.why}")
            self._tell(*([failed] if failed else []))
        return not stuck

    # ----------------------------------------------------------------- news

    def _tell(self, *results: Result) -> None:
        for result in results:
            if result.finish is not None:
                self.judges.close(result.request)
            times = () if result.at_ns is None else (result.at_ns,) * len(result.tokens)
            self._bulletin.news.append(
                News(
                    result.request,
                    result.tokens,
                    result.finish,
                    result.problem,
                    times,
                    result.cut,
                    result.scores,
                    result.prompt_scores,
                )
            )

    def _gauges(self) -> Gauges:
        pages, rows = self.roster.cache.pages, self.roster.cache.rows
        return Gauges(
            waiting=len(self.queue),
            lanes=self.roster.slots - self.roster.free_slots,
            free_pages=pages.free,
            idle_pages=pages.idle,
            free_rows=rows.free,
            idle_rows=rows.idle,
        )
