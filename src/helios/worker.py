"""The one loop that owns roster, queue, cache and frames of a model.

Settle what finished, let in what waits, submit what fits; publish the round's news in one
message.  Nothing here decides: gates, plan and roster do.
"""

from __future__ import annotations

from typing import Final, Protocol

from helios.execute.executor import Executor
from helios.frontend.request import PreparedRequest
from helios.mailbox import (
    Gauges,
    MailboxClosed,
    News,
    Ready,
    Requests,
    Round,
    Step,
    ToFront,
    ToWorker,
)
from helios.rounds import Finish
from helios.schedule.gates import Admitted, MustWait, Refused, admit
from helios.schedule.lanes import Plan, Preempt, Result
from helios.schedule.plan import plan_round
from helios.schedule.queue import Queue, Waiting
from helios.schedule.roster import Roster
from helios.values import RequestId
from prepared.contract import Operation

PATIENCE_NS: Final = 5_000_000
"""Longest wait for the device before the mailbox is looked at again."""


class Mailbox(Protocol):
    """What the loop needs of its mailbox."""

    def drain(self) -> list[ToWorker]:
        """Every message that has arrived."""

    def publish(self, message: ToFront) -> None:
        """Send a message without blocking."""

    def wait(self, seconds: float | None) -> None:
        """Wait for a message, or for so long."""


class Worker:
    """One model's loop."""

    def __init__(self, mailbox: Mailbox, executor: Executor, roster: Roster) -> None:
        self.mailbox, self.executor, self.roster = mailbox, executor, roster
        self.queue = Queue()
        self.stopping = False
        self._arrivals = 0
        self._last: Operation | None = None
        self._news: list[News] = []
        self._steps: list[Step] = []
        self._preempted = 0
        self._changed = False  # something was settled since the last message

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
            self._tell(*self.roster.settle(completion))
            self._changed = True
        for message in self.mailbox.drain():
            self._take(message)
        self._admit()
        for frame in self.executor.free_frames():
            plan = self._plan()
            if plan is None:
                break
            self._submit(plan, frame)
        self._publish()

    def rest(self) -> None:
        """Wait for the device while it works, for messages otherwise."""
        if self.executor.in_flight:
            self.executor.wait(nanoseconds=PATIENCE_NS)
        elif not self.stopping:
            self.mailbox.wait(None)

    def _take(self, message: ToWorker) -> None:
        if not isinstance(message, Requests):
            self.stopping = True
            return
        for request in message.submit:
            self._enqueue(request)
        for cancelled in message.cancel:
            self._cancel(cancelled)

    def _enqueue(self, request: PreparedRequest) -> None:
        self._arrivals += 1
        self.queue.add(Waiting(arrival=self._arrivals, request=request))

    def _cancel(self, request: RequestId) -> None:
        if self.queue.remove(request) is not None:
            self._tell(Result(request=request, tokens=(), finish=Finish.CANCELLED))
        elif (result := self.roster.cancel(request)) is not None:
            self._tell(result)

    def _admit(self) -> None:
        """Give free slots to the oldest requests that the cache can hold."""
        while (waiting := self.queue.first()) is not None:
            view = self.roster.view()
            gate = admit(waiting, self.roster.cache_view(), reserved_pages=len(view.lanes))
            match gate:
                case Refused(why):
                    self.queue.take_first()
                    self._tell(
                        Result(
                            request=waiting.request.id,
                            tokens=(),
                            finish=Finish.REJECTED,
                            problem=why,
                        )
                    )
                case Admitted() if view.free_slots:
                    self.roster.admit(self.queue.take_first())
                case Admitted() | MustWait():
                    return

    def _plan(self) -> Plan | None:
        """The next round; lanes give way until one fits."""
        while True:
            plan = plan_round(
                self.roster.view(),
                self.roster.cache_view(),
                self.executor.programs,
                last=self._last,
            )
            if not isinstance(plan, Preempt):
                return plan
            self.queue.add(self.roster.preempt(plan.slot))
            self._preempted += 1

    def _submit(self, plan: Plan, frame: int) -> None:
        self._last = plan.program.operation
        self.executor.submit(self.roster.commit(plan, frame))
        self._steps.append(
            Step(
                operation=plan.program.operation.name.lower(),
                lanes=len(plan.shares),
                tokens=sum(share.tokens for share in plan.shares),
            )
        )

    def _tell(self, *results: Result) -> None:
        self._news.extend(
            News(result.request, result.tokens, result.finish, result.problem) for result in results
        )

    def _publish(self) -> None:
        """One message, when there is anything to say."""
        if not self._news and not self._steps and not self._changed:
            return
        view = self.roster.view()
        gauges = Gauges(
            waiting=len(self.queue), lanes=len(view.lanes), free_pages=self.roster.pool.free
        )
        self.mailbox.publish(Round(tuple(self._news), tuple(self._steps), gauges, self._preempted))
        self._news, self._steps, self._preempted, self._changed = [], [], 0, False
