"""The machine that reads one answer: marks and text in, events out.

Driven by `Rules` alone.  It consumes text only when no later text can change what it means, so
the events joined are the same however the answer was cut into pieces, and the same as for the
answer in one piece.

A call opens once its name and the beginning of its arguments are certain; what only resembled
one is content.  A call whose arguments turn out to be none stays open for ever (T-27).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Final

from helios.frontend.syntax.arguments import TaggedArguments
from helios.frontend.syntax.emitter import Emitter
from helios.frontend.syntax.envelope import WHOLE
from helios.frontend.syntax.events import Content, Event, Reasoning
from helios.frontend.syntax.frames import Framing, Route
from helios.frontend.syntax.marks import MARK, Marks
from helios.frontend.syntax.notation import Outcome, Transcoder
from helios.frontend.syntax.parameters import Parameters
from helios.frontend.syntax.pieces import Piece
from helios.frontend.syntax.scan import Found, Nothing, Scanner
from helios.frontend.syntax.states import Rules, State, Use

NUMBERED: Final = re.compile(r":\d+$", re.ASCII)
OPENINGS: Final = ("call", "section", "answering")
BEGINNINGS: Final = {
    State.THINKING_BEGINS: State.THINKING,
    State.ANSWER_PREFIX: State.ANSWER_BEGINS,
    State.ANSWER_BEGINS: State.ANSWER,
    State.VALUE_BEGINS: State.VALUE,
    State.TAIL: State.AFTER,
    State.AFTER: State.ANSWER,
}
"""States that look at one place only, and where they lead when nothing of theirs is there."""

PROSE: Final[Mapping[State, type[Content] | type[Reasoning]]] = {
    State.ANSWER: Content,
    State.THINKING: Reasoning,
}
"""States that pass text on as it is until markup comes, and as what."""


class Machine:
    """One answer."""

    def __init__(
        self,
        rules: Rules,
        marks: Marks,
        framing: Framing | None,
        *,
        tools: Mapping[str, Mapping[str, object]],
        use: Use,
        state: State,
        reasoned: bool,
        typed_as_json: bool,
    ) -> None:
        self._rules, self._marks, self._framing = rules, marks, framing
        self._tools, self._use = tools, use
        self._state, self._reasoned = state, reasoned
        self._typed_as_json = typed_as_json
        self._buffer = ""
        self._final = False
        self._names: Mapping[str, str] = {}
        self._out = Emitter(marks)
        self._sinks: Mapping[State, Callable[[str], None]] = {
            State.THINKING_BEGINS: self._out.reasoning,
            State.THINKING: self._out.reasoning,
            State.ANSWER_PREFIX: self._out.content,
            State.ANSWER_BEGINS: self._out.content,
            State.ANSWER: self._out.content,
            State.VALUE: self._value,
            State.VALUE_ALONE: self._value,
        }
        """Where each state's text goes; it is read otherwise in the others."""
        self._in_section = False
        self._route: Route | None = None
        self._arguments: TaggedArguments | None = None
        self._coder: Transcoder | None = None
        self._prose: type[Content] | type[Reasoning] | None = None
        self._passes: Callable[[str], bool] = bool
        self._settle()

    @property
    def thinking(self) -> bool:
        """Whether what comes next is still reasoning, as far as can be told."""
        return self._state in (State.THINKING_BEGINS, State.THINKING)

    # hot
    def feed(self, piece: Piece) -> list[Event]:
        """The events that this piece completes."""
        prose, text = self._prose, piece.text
        if prose and piece.token_id not in self._marks.added and self._passes(text):
            return [prose(text)] if text else []
        self._buffer += self._marks.seen(piece)
        self._run()
        self._settle()
        return self._out.taken()

    def close(self, *, truncated: bool) -> list[Event]:
        """The events that were held back; a cut-off answer keeps no half markup (F-01)."""
        if truncated:
            self._cut()
        else:
            self._final = True
            self._run()
        return self._out.taken()

    def enter(self, header: str) -> None:
        """Begin inside the body of the frame that this header opens."""
        self._enter(header)
        self._settle()

    def _settle(self) -> None:
        """Whether text without markup says what it says from here on, and as what.

        Always: it is the event that the state's own sink would make of it.
        """
        self._prose = None if self._buffer else PROSE.get(self._state)
        if self._prose is not None:
            self._passes = self._scanner().passes

    def _run(self) -> None:
        """Step until nothing changes; without text nothing does before the end."""
        while self._buffer or self._final:
            before = (self._state, len(self._buffer))
            STEPS[self._state](self)
            if before == (self._state, len(self._buffer)):
                return

    def _cut(self) -> None:
        """The answer ended in the middle: whatever may be markup is none of it."""
        sink = self._sinks.get(self._state)
        if sink is None or self._state in (State.VALUE, State.VALUE_ALONE):
            return
        found = self._find()
        edge = found.edge if isinstance(found, Nothing) else None
        if edge is not None and edge.meaning in OPENINGS:
            return
        if not MARK.match(self._buffer):
            sink(self._buffer)

    # ---------------------------------------------------------------- where text goes

    def _value(self, text: str) -> None:
        if self._arguments is not None:
            self._out.write(self._arguments.feed(self._out.literally(text)))

    def _nowhere(self, text: str) -> None:
        """Text that belongs to nobody."""

    # ---------------------------------------------------------------- looking

    def _scanner(self) -> Scanner:
        return self._rules.scanner(self._state, self._use, reasoned=self._reasoned)

    def _find(self) -> Found | Nothing:
        return self._scanner().find(self._buffer, final=self._final, accept=self._accepts)

    def _accepts(self, what: str, name: str) -> bool:
        """Whether this name may stand here."""
        if MARK.search(name):
            return False
        match what, self._arguments:
            case "next", TaggedArguments() as arguments:
                return arguments.may_add(name)
            case "declared", TaggedArguments() as arguments:
                return arguments.declares(name)
            case "argument", _:
                return name.isidentifier()
            case "name", _:
                return self._callable(name)
        return what in ("key", "recipient")

    def _callable(self, name: str) -> bool:
        """Whether a call may have this name: without markers, only a registered tool's."""
        if self._route is not None:
            return self._route.accepts(name)
        return name in self._tools or not self._rules.grammar.alone

    def _scan(self) -> None:
        """Pass text on up to the next markup of this state."""
        sink = self._sinks.get(self._state, self._nowhere)
        found = self._find()
        if isinstance(found, Nothing):
            sink(self._buffer[: found.safe])
            self._buffer = self._buffer[found.safe :]
            return
        sink(self._buffer[: found.start])
        self._buffer = self._buffer[found.end :]
        self._names = found.taken
        MEANINGS[found.edge.meaning](self)

    def _look(self) -> None:
        """Look for this state's markup here and nowhere later."""
        found = self._scanner().at(self._buffer, 0, final=self._final, accept=self._accepts)
        if isinstance(found, Nothing) or (found is None and not self._buffer and not self._final):
            return
        if found is None:
            self._state = self._next()
            return
        self._buffer = self._buffer[found.end :]
        if self._state in (State.ANSWER_BEGINS, State.AFTER) or found.edge.meaning != "dropped":
            self._names = found.taken
            MEANINGS[found.edge.meaning](self)
        else:
            self._state = self._next()

    def _next(self) -> State:
        """Where a state leads that has found nothing, or its own markup."""
        if self._state is State.AFTER and self._framing is not None:
            return State.IGNORED
        if self._state is State.VALUE_BEGINS and not self._in_section:
            return State.VALUE_ALONE
        return BEGINNINGS[self._state]

    # ---------------------------------------------------------------- what markup means

    def _dropped(self) -> None:
        """Markup that says nothing."""

    def _think(self) -> None:
        self._state = State.THINKING_BEGINS

    def _answer(self) -> None:
        """Reasoning ends, once (FI-08)."""
        self._reasoned = True
        self._state = State.ANSWER_PREFIX

    def _answering(self) -> None:
        """A call follows that ends reasoning (FI-06)."""
        self._reasoned = True
        self._state = State.ANSWER_BEGINS

    def _frame(self) -> None:
        if self._state is State.ARGUMENTS:
            self._finish()
        self._state = State.HEADER

    def _section(self) -> None:
        self._in_section = True
        self._call()

    def _call(self) -> None:
        """A call begins."""
        name = self._names["name"]
        grammar = self._rules.grammar
        call_id = name if grammar.numbered else None
        if grammar.numbered:
            name = NUMBERED.sub("", name.removeprefix(grammar.prefix)) or name
        if self._route is not None:
            name = self._route.registered(name) or name
        self._open(name, call_id)
        if WHOLE in self._names:
            self._out.write(self._transcoder().advance(self._names[WHOLE], final=True)[1])
            self._shut()
        elif grammar.tags is not None:
            parameters = Parameters(self._tools.get(name))
            self._arguments = TaggedArguments(parameters, as_json=self._typed_as_json)
            self._state = State.ARGUMENTS

    def _open(self, name: str, call_id: str | None) -> None:
        self._out.open(name, call_id)
        self._begin_written()

    def _transcoder(self) -> Transcoder:
        return Transcoder(self._rules.grammar.notation, self._out.literally)

    def _begin_written(self) -> None:
        self._coder = None
        self._state = State.WRITTEN

    def _shut(self) -> None:
        """The call is complete."""
        self._out.shut()
        self._state = State.AFTER

    def _finish(self) -> None:
        if self._arguments is not None:
            self._out.write(self._arguments.finish())
        self._shut()

    def _closed(self) -> None:
        self._finish()

    def _key(self) -> None:
        if self._arguments is not None:
            key, kind = self._names["key"].strip(), self._names.get("type")
            self._out.write(self._arguments.begin(key, kind))
        self._state = State.VALUE_BEGINS

    def _ended(self) -> None:
        if self._arguments is not None:
            self._out.write(self._arguments.end())
        self._state = State.ARGUMENTS

    def _object(self) -> None:
        """All arguments follow as one object, unless some came before it."""
        if self._arguments is not None and self._arguments.empty:
            self._begin_written()

    def _spoilt_over(self) -> None:
        self._state = State.AFTER

    # ---------------------------------------------------------------- arguments as one object

    def _written(self) -> None:
        """Pass an object on as JSON while it comes."""
        if self._coder is None and not self._begin_object():
            return
        coder = self._coder
        if coder is None:
            return
        limit = self._frame_end()
        read, made = coder.advance(self._buffer[:limit], final=self._final)
        self._out.write(made)
        self._buffer = self._buffer[read:]
        if coder.outcome is Outcome.DONE:
            self._shut()
            self._state = State.TAIL if self._rules.grammar.tail else State.AFTER
        elif coder.outcome is Outcome.BAD or limit is not None:
            self._state = State.SPOILT

    def _begin_object(self) -> bool:
        """Whether the object has begun; a call that ends instead has no arguments."""
        self._buffer = self._buffer.lstrip()
        if not self._buffer:
            return False
        if self._buffer[0] in "{(":
            self._coder = self._transcoder()
            return True
        scanner = self._rules.scanner(State.SPOILT, self._use, reasoned=self._reasoned)
        found = scanner.at(self._buffer, 0, final=self._final, accept=self._accepts)
        if isinstance(found, Found):
            self._out.write("{}")
            self._shut()
        elif found is None:
            self._state = State.SPOILT
        return False

    def _frame_end(self) -> int | None:
        """Where the frame that holds this object ends, if that has come."""
        ends = [self._buffer.find(text) for text in self._rules.marks.frame_ends]
        return min((end for end in ends if end >= 0), default=None)

    # ---------------------------------------------------------------- frames

    def _header(self) -> None:
        """Read a header, whole."""
        if self._framing is None:
            return
        end = self._framing.header_end(self._buffer, final=self._final)
        if end is None:
            return
        header, self._buffer = self._buffer[: end.header], self._buffer[end.body :]
        if end.is_header:
            self._enter(header)
        else:
            self._state = State.ANSWER_BEGINS if header == "" else State.IGNORED

    def _enter(self, header: str) -> None:
        if self._framing is None:
            return
        calling = self._use in (Use.CALLS, Use.OPAQUE_CALLS)
        self._route = self._framing.route(header, self._tools if calling else {})
        self._state = self._route.state

    def _call_frame(self) -> None:
        """The body is the arguments of the call that the header names."""
        self._buffer = self._buffer.lstrip()
        route, ended = self._route, self._frame_end() == 0
        if route is None or not (self._buffer or self._final):
            return
        if not ended and self._buffer and self._buffer[0] != "{":
            self._state = State.IGNORED
            return
        self._open(route.name, None)
        if ended or not self._buffer:
            self._out.write("{}")
            self._shut()


Step = Callable[[Machine], None]
Meaning = Callable[[Machine], None]
STEPS: Final[Mapping[State, Step]] = {
    **dict.fromkeys(BEGINNINGS, Machine._look),
    State.THINKING: Machine._scan,
    State.ANSWER: Machine._scan,
    State.HEADER: Machine._header,
    State.CALLS: Machine._scan,
    State.CALL_FRAME: Machine._call_frame,
    State.ARGUMENTS: Machine._scan,
    State.VALUE: Machine._scan,
    State.VALUE_ALONE: Machine._scan,
    State.WRITTEN: Machine._written,
    State.SPOILT: Machine._scan,
    State.IGNORED: Machine._scan,
}
MEANINGS: Final[Mapping[str, Meaning]] = {
    "dropped": Machine._dropped,
    "thinking": Machine._think,
    "answer": Machine._answer,
    "answering": Machine._answering,
    "frame": Machine._frame,
    "section": Machine._section,
    "call": Machine._call,
    "key": Machine._key,
    "object": Machine._object,
    "closed": Machine._closed,
    "next": Machine._closed,
    "finished": Machine._closed,
    "value": Machine._ended,
    "spoilt over": Machine._spoilt_over,
}
