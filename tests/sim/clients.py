"""Made-up clients: conversations that begin, pause, go on, and are left at any moment."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass, field

from helios.frontend.request import PreparedRequest
from helios.mailbox import News
from helios.rounds import Finish, Sampling
from helios.serve.gate import Gate
from helios.values import IngressFull, RequestId
from tests.sim.judges import UNJUDGED, Judged

PLAIN = Sampling(
    seed=0,
    temperature=0.0,
    top_p=1.0,
    top_k=0,
    min_p=0.0,
    repetition_penalty=1.0,
    presence_penalty=0.0,
    frequency_penalty=0.0,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """One turn of a conversation."""

    tokens: tuple[int, ...]  # what the client adds to what was said
    output_limit: int
    after: int  # turns of the loop since the last answer was read
    reads_for: int  # turns that the reader takes to let go of the answer
    leaves_after: int | None = None  # turns of the loop
    judged: Judged = UNJUDGED


@dataclass(frozen=True, slots=True, kw_only=True)
class Script:
    """What a client will do."""

    asks: tuple[Ask, ...]
    salt: str
    eos_ids: tuple[int, ...]


@dataclass(slots=True)
class Client:
    """One conversation, one request at a time."""

    script: Script
    next_at: int
    place: int = 0
    said: list[int] = field(default_factory=list)
    request: RequestId | None = None
    ended: bool = False
    leaves_at: int | None = None
    lets_go_at: int | None = None
    turned_away: int = 0
    _permit: ExitStack = field(default_factory=ExitStack)

    def __post_init__(self) -> None:
        """The first turn begins when its time has come."""
        self.next_at += self.script.asks[0].after

    @property
    def over(self) -> bool:
        """Whether it has nothing more to ask or to read."""
        return self.request is None and self.place == len(self.script.asks)

    def ask(self, turn: int, number: RequestId, gate: Gate, context: int) -> PreparedRequest | None:
        """Its next request, if its time has come and there is a permit (TO-26)."""
        if self.request is not None or self.place == len(self.script.asks) or turn < self.next_at:
            return None
        ask = self.script.asks[self.place]
        try:
            self._permit.enter_context(gate.permit())
        except IngressFull:
            self.turned_away += 1
            self.next_at = turn + 3
            return None
        room = context - ask.output_limit + 1
        self.said = [*self.said, *ask.tokens][-room:]
        self.request, self.ended = number, False
        self.leaves_at = None if ask.leaves_after is None else turn + ask.leaves_after
        return PreparedRequest(
            id=number,
            prompt=tuple(self.said),
            sampling=PLAIN,
            output_limit=ask.output_limit,
            minimum_output=0,
            eos_ids=self.script.eos_ids,
            salt=self.script.salt,
            constraint=ask.judged.rule.constraint if ask.judged.rule else None,
            stops=ask.judged.stops,
        )

    def leave(self, turn: int) -> RequestId | None:
        """Its request, if it leaves now."""
        if self.ended or self.leaves_at != turn:
            return None
        return self.request

    def read(self, news: News, turn: int) -> None:
        """Tokens of its answer, or its end; the permit goes back when it has let go (TO-33)."""
        self.said.extend(news.tokens)
        if news.finish is not None:
            assert not self.ended, "two endings"
            self.ended = True
            patient = news.finish is not Finish.CANCELLED
            pause = self.script.asks[self.place].reads_for if patient else 0
            self.lets_go_at = turn + pause

    def let_go(self, turn: int) -> None:
        """The answer was read: the permit goes back."""
        if self.lets_go_at is None or turn < self.lets_go_at:
            return
        self._permit.close()
        self.request, self.lets_go_at = None, None
        self.place += 1
        if self.place < len(self.script.asks):
            self.next_at = turn + self.script.asks[self.place].after
