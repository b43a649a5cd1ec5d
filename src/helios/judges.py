"""Judges of lanes: grammars say what may come, stops say when to end; one of each a request.

They hear tokens as they are settled, before anything else learns of them.  The worker alone owns
them; what they need of the tokenizer is made when the first request wants it, so that a server
without such requests starts without it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass

from msgspec.structs import replace

from helios.frontend.grammar.matcher import Grammars, Impossible, Matcher
from helios.frontend.request import PreparedRequest
from helios.frontend.stops import StopMatcher
from helios.frontend.syntax.pieces import PieceStream
from helios.rounds import Finish
from helios.schedule.lanes import Verdict
from helios.schedule.roster import keep_all
from helios.values import Clock, RequestId


@dataclass(slots=True)
class Judge:
    """What one request has."""

    request: PreparedRequest
    stops: StopMatcher | None
    compiling: Future[Matcher | Impossible] | None
    grammar: Matcher | None = None


@dataclass(slots=True, kw_only=True)
class Tools:
    """What judges are made with."""

    grammars: Grammars
    make_decoder: Callable[[], PieceStream]


class Judges:
    """All judges of a worker."""

    def __init__(self, tools: Tools, clock: Clock) -> None:
        self._tools, self._clock = tools, clock
        self._judges: dict[RequestId, Judge] = {}

    # ----------------------------------------------------- requests come, go

    def open(self, request: PreparedRequest) -> None:
        """A request comes; its grammar is compiled meanwhile."""
        if not request.judged:
            return
        compiling = None
        if request.constraint is not None:
            compiling = self._tools.grammars.compile(request.constraint)
        stops = None
        if request.stops is not None:
            stops = StopMatcher(request.stops, self._tools.make_decoder())
        self._judges[request.id] = Judge(request, stops, compiling)

    def close(self, request: RequestId) -> None:
        """A request is over."""
        self._judges.pop(request, None)

    def waits(self, request: RequestId) -> bool:
        """Whether a request's grammar is still being compiled."""
        judge = self._judges.get(request)
        return judge is not None and judge.compiling is not None and not judge.compiling.done()

    def problem(self, request: RequestId) -> str | None:
        """Why a request whose grammar was compiled cannot be served, if so."""
        judge = self._judges.get(request)
        if judge is None or judge.compiling is None:
            return None
        compiled = judge.compiling.result()
        if isinstance(compiled, Impossible):
            return f"the grammar cannot be followed: {compiled.why}"
        judge.grammar, judge.compiling = compiled, None
        return None

    # -------------------------------------------------------------- judging

    def masks(self, requests: Iterable[RequestId]) -> Mapping[RequestId, bytes | Impossible]:
        """Which tokens these requests may have next; those without a grammar are left out."""
        if not self._judges:
            return {}
        judges = [self._judges[name] for name in requests if name in self._judges]
        pairs = [(j.request.id, j.grammar) for j in judges if j.grammar is not None]
        if not pairs:
            return {}
        filled = self._tools.grammars.fill([grammar for _, grammar in pairs]).result()
        return {name: row for (name, _), row in zip(pairs, filled.rows, strict=True)}

    def hear(self, request: RequestId, tokens: tuple[int, ...]) -> Verdict:
        """What becomes of a request that these tokens were settled for."""
        judge = self._judges.get(request)
        if judge is None:
            return keep_all(request, tokens)
        at_ns = self._clock.now_ns() if judge.request.observed else None  # (TO-09)
        for index, token in enumerate(tokens, start=1):
            verdict = self._token(judge, token, kept=index)
            if verdict is not None:
                return replace(verdict, at_ns=at_ns)
        return Verdict(kept=len(tokens), at_ns=at_ns)

    def _token(self, judge: Judge, token: int, *, kept: int) -> Verdict | None:
        """The ending that a token makes, if it makes one."""
        if judge.grammar is not None and judge.grammar.advance(token) is not None:
            why = f"token {token} is forbidden by the grammar"
            return Verdict(kept=kept - 1, finish=Finish.FAILED, problem=why)
        if judge.stops is not None and token not in judge.request.eos_ids:
            cut = judge.stops.feed(token)
            if cut is not None:
                return Verdict(kept=kept, finish=Finish.STOPPED, cut=cut)
        return None
