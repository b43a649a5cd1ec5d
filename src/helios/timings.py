"""How long rounds take: what the counts are told, and what the pace of prompts learns from."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from helios.mailbox import Step
from helios.rounds import Submission
from helios.schedule.pace import Pace
from helios.schedule.plan import PROMPTS
from helios.values import Clock
from prepared.contract import Operation


@dataclass(slots=True)
class Running:
    """A submission that has not finished."""

    operation: Operation
    lanes: int
    tokens: int
    prompt_tokens: int
    constrained: int
    planned_ns: int
    submitted_ns: int


@dataclass(slots=True)
class Timings:
    """Rounds of one worker, in order."""

    clock: Clock
    pace: Pace = field(default_factory=Pace)
    _running: deque[Running] = field(default_factory=deque)
    _last_ns: int = 0  # when the device last finished something

    def submitted(
        self, submission: Submission, operation: Operation, *, planned_ns: int, constrained: int
    ) -> None:
        """A round was handed to the device."""
        rows = sum([lane.endpoint - lane.start for lane in submission.lanes])
        prompt = sum([len(lane.tokens) for lane in submission.lanes])
        self._running.append(
            Running(
                operation=operation,
                lanes=len(submission.lanes),
                tokens=rows,
                prompt_tokens=prompt,
                constrained=constrained,
                planned_ns=planned_ns,
                submitted_ns=self.clock.now_ns(),
            )
        )

    def finished(self) -> Step:
        """The oldest round has finished."""
        now, run = self.clock.now_ns(), self._running.popleft()
        began = max(run.submitted_ns, self._last_ns)
        if run.operation in PROMPTS and run.prompt_tokens:
            self.pace.learn(run.prompt_tokens, now - began)
        step = Step(
            operation=run.operation.name.lower(),
            lanes=run.lanes,
            tokens=run.tokens,
            prompt_tokens=run.prompt_tokens,
            constrained=run.constrained,
            device_ns=now - began,
            host_ns=run.submitted_ns - run.planned_ns,
            gap_ns=began - self._last_ns if self._last_ns else 0,
        )
        self._last_ns = now
        return step

    @property
    def oldest_ns(self) -> int:
        """How long the oldest submission has been running; zero when none is."""
        if not self._running:
            return 0
        return self.clock.now_ns() - max(self._running[0].submitted_ns, self._last_ns)
