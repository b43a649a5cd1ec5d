"""The envelope of an answer as a grammar: reasoning as the model likes, then what was asked for.

Built from declared syntax alone.  Reasoning is not constrained (G-01): any token but the one that
ends it.  The answer is an opaque document (FI-09); where tools are registered and may be called,
calls in the model's own syntax stand beside it (FI-26, FI-29).
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from enum import Enum

import msgspec

from helios.frontend.grammar.calls import GAP, arguments, calls
from helios.frontend.grammar.lark import FREE, Rules, Spelling, either, escaped
from helios.frontend.grammar.tags import Tool
from helios.values import RequestInvalid
from prepared.contract import (
    FrameSyntax,
    ReasoningParser,
    ReasoningSyntax,
    ToolParser,
    ToolSyntax,
)


class Opened(Enum):
    """What the prompt has begun, of the answer that is to come (FI-10, FI-25)."""

    NOTHING = "nothing"  # the assistant's turn, or its header
    REASONING = "reasoning"
    ANSWER = "answer"  # reasoning is over


class Wish(msgspec.Struct, frozen=True, kw_only=True):
    """What an output must be: a document, or calls, or one of the two."""

    document: str | None  # a rule's body
    grammar: str | None  # a grammar of the client's own, as the document
    tools: tuple[Tool, ...]  # that may be called
    parallel: bool


class Envelope:
    """A model's syntax, ready to be put around wishes."""

    def __init__(
        self,
        tools: ToolSyntax,
        reasoning: ReasoningSyntax,
        spelling: Spelling,
        *,
        role: str = "assistant",
    ) -> None:
        self._tools, self._reasoning, self._spelling = tools, reasoning, spelling
        self._role = role

    def grammar(self, wish: Wish, opened: Opened) -> str:
        """The grammar of a whole output."""
        rules = Rules()
        rules.once("gap", GAP)
        frames = self._reasoning.frames
        if frames is not None:
            start = Framed(rules, self, frames).start(wish, opened)
        elif self._reasoning.parser is ReasoningParser.NO_REASONING:
            start = self._answer(rules, wish)
        else:
            start = self._reasoned(rules, wish, opened)
        lark = rules.written(start)
        if wish.grammar is None:
            return lark
        whole = [{"lark_grammar": lark}, {"name": "document", "lark_grammar": wish.grammar}]
        return json.dumps({"grammars": whole}, ensure_ascii=False)

    @property
    def tools(self) -> ToolSyntax:
        """How calls are written."""
        return self._tools

    @property
    def reasoning(self) -> ReasoningSyntax:
        """How reasoning is written."""
        return self._reasoning

    @property
    def spelling(self) -> Spelling:
        """The tokens that literals become."""
        return self._spelling

    @property
    def role(self) -> str:
        """The role that a frame's header names."""
        return self._role

    def _calls(self, rules: Rules, wish: Wish) -> str:
        return calls(rules, self._tools, self._spelling, wish.tools, parallel=wish.parallel)

    def _answer(self, rules: Rules, wish: Wish) -> str:
        """The document in what stands around an answer, or calls."""
        ways = []
        reasoning, written = self._reasoning, self._spelling.written
        if (document := document_of(rules, wish)) is not None:
            ways.append(f"{document} {written(reasoning.answer_close)}")
        if wish.tools:
            called = self._calls(rules, wish)
            empty = written(reasoning.answer_close)
            ways.append(f"({empty})? {called}" if empty else f"gap? {called}")
        return rules.add("answer", " | ".join(ways))

    def _reasoned(self, rules: Rules, wish: Wish, opened: Opened) -> str:
        """Reasoning up to its close, then the answer."""
        reasoning, written = self._reasoning, self._spelling.written
        answer = self._answer(rules, wish)
        if opened is Opened.ANSWER:
            return answer
        prefix = written(reasoning.answer_prefix)
        begun = written(reasoning.answer_open)
        after = f"({prefix})? {answer}" if prefix else f"{begun} {answer}"
        thought = self._thought(rules, reasoning, after, wish)
        if opened is Opened.REASONING:
            return thought
        plain = f"{begun} {answer}" if begun else answer
        return f"{written(reasoning.open)} {thought} | {plain}"

    def _thought(self, rules: Rules, reasoning: ReasoningSyntax, after: str, wish: Wish) -> str:
        """Free reasoning with what ends it and what then follows."""
        spelling = self._spelling
        closes = spelling.written(reasoning.close)
        ends = spelling.parts(reasoning.close)
        called = self._calls(rules, wish) if wish.tools and reasoning.terminal else None
        if not ends or not isinstance(ends[0], int):
            close = escaped("".join(map(str, ends)))
            thought = rules.once("thought", FREE, suffix=f"/{close}/")
            return f"{thought} {after}"
        barred = {ends[0]}
        if called is not None:
            barred |= set(spelling.ids(reasoning.terminal.text if reasoning.terminal else ""))
        thought = rules.once("thought", spelling.anything_but(*barred))
        ways = [f"{closes} {after}"]
        if called is not None and len(barred) > 1:
            ways.append(called)
        return rules.add("reasoned", f"{thought} {either(ways)}")


def document_of(rules: Rules, wish: Wish) -> str | None:
    """The document as a rule of its own."""
    if wish.grammar is not None:
        return "@document"
    return None if wish.document is None else rules.once("document", wish.document)


class Framed:
    """Answers that are frames: a header that says for whom, then a body (FI-15, FI-22)."""

    def __init__(self, rules: Rules, envelope: Envelope, frames: FrameSyntax) -> None:
        self._rules, self._envelope, self._frames = rules, envelope, frames
        self._written = envelope.spelling.written

    def start(self, wish: Wish, opened: Opened) -> str:
        """Frames of reasoning, then the answer's, or those of tools (FI-26)."""
        document = document_of(self._rules, wish)
        if opened is Opened.ANSWER:
            if document is None:
                raise RequestInvalid(
                    "tool_choice", "a call inside an answer that has begun", expected="'auto'"
                )
            return document
        turn = self._rules.add("turn", "")
        close, frames = self._frames.closes[0], self._frames
        next_frame = self._written(close, frames.open, self._envelope.role)
        thought = self._thought()
        thinks = [
            f"{self._header(name)} {thought} {next_frame} {turn}"
            for name in self._envelope.reasoning.reasoning_recipients
        ]
        ways = list(thinks)
        if document is not None:
            ways.append(f"{self._header(self._answers())} {document}")
        if wish.tools:
            called = self._rules.add("frame", either(self._call(tool) for tool in wish.tools))
            more = f"({next_frame} {called})*" if wish.parallel else ""
            ways.append(f"{called} {more} ({self._written(close)})?")
        self._rules.put(turn, " | ".join(ways))
        return f"{thought} {next_frame} {turn}" if opened is Opened.REASONING else turn

    def _answers(self) -> str:
        """The recipient of the answer proper."""
        names = self._envelope.reasoning.content_recipients
        return next((name for name in ("user", "final") if name in names), names[-1])

    def _header(self, name: str) -> str:
        """A header that addresses a recipient, or a channel."""
        frames = self._frames
        lead = frames.channel_open or frames.recipient_prefix
        return self._written(lead, name, frames.header_close)

    def _thought(self) -> str:
        """A body of reasoning: anything that neither ends nor begins a frame."""
        frames, spelling = self._frames, self._envelope.spelling
        barred = [
            part for marker in (frames.open, *frames.closes) for part in spelling.parts(marker)
        ]
        ids = [part for part in barred if isinstance(part, int)]
        return self._rules.once("thought", spelling.anything_but(*ids))

    def _call(self, tool: Tool) -> str:
        """A frame for a tool, without what ends it."""
        syntax, spelling, frames = self._envelope.tools, self._envelope.spelling, self._frames
        if syntax.parser is ToolParser.HARMONY:
            return self._channel_call(tool)
        body = calls(self._rules, syntax, spelling, (tool,), parallel=False)
        names = [tool.name, *([syntax.generic_recipient] if syntax.generic_recipient else [])]
        heads = [
            self._written(frames.recipient_prefix, name, frames.header_close) for name in names
        ]
        return f"{either(heads)} {body}"

    def _channel_call(self, tool: Tool) -> str:
        """A call on the channel of calls: the recipient in the header, JSON in the body."""
        syntax, frames = self._envelope.tools, self._frames
        names: Sequence[str] = self._envelope.reasoning.content_recipients
        channel = next((name for name in names if name == "commentary"), names[0])
        recipient = self._written(frames.recipient_prefix, syntax.name_open, tool.name)
        kind = self._written(" ", syntax.value_open, "json") if syntax.value_open else '" json"'
        head = f"{self._written(frames.channel_open, channel)} {recipient} ({kind})?"
        return f"{head} {self._written(frames.header_close)} {arguments(self._rules, tool)}"
