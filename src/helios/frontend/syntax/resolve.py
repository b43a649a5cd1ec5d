"""A contract's syntax and a tokenizer become a `Syntax`, or a `ContractError` with the path.

Everything is judged here, at the start: no request meets a terminal that cannot be generated.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import tokenizers

from helios.frontend.syntax.frames import Framing
from helios.frontend.syntax.grammar import NEEDED, built
from helios.frontend.syntax.machine import Machine
from helios.frontend.syntax.marks import MARK, Marks
from helios.frontend.syntax.opening import Opening, Place, opening_of
from helios.frontend.syntax.pieces import PieceStream, Vocabulary
from helios.frontend.syntax.plain import PlainText
from helios.frontend.syntax.states import Delimiters, Rules, State, Use
from prepared.contract import (
    ArgumentTyping,
    FrontendContract,
    Marker,
    ReasoningParser,
    ToolParser,
)
from prepared.fields import ContractError
from prepared.frontend import check_reasoning, check_tools, markers_of

AT: Final = "contract.model.frontend"
FRAMED: Final = (ReasoningParser.RECIPIENT_HEADERS, ReasoningParser.HARMONY_CHANNELS)
DELIMITED: Final = (ReasoningParser.THINK_TAGS, ReasoningParser.XTML_THINK)


class Syntax:
    """How one model writes its answers."""

    def __init__(self, frontend: FrontendContract, vocabulary: Vocabulary) -> None:
        self._frontend, self._vocabulary = frontend, vocabulary
        self._marks = Marks(vocabulary.added, texts_of(frontend))
        self._delimiters = delimiters_of(frontend, self._marks, vocabulary)
        grammar = built(frontend.tools, self._written, ends=self._delimiters.frame_ends)
        self._rules = Rules(grammar, self._delimiters)

    def _written(self, marker: Marker | None) -> str:
        return "" if marker is None else self._marks.written(marker.text)

    @property
    def markers(self) -> frozenset[int]:
        """Ids of added tokens that are, or are part of, a declared terminal."""
        return self._marks.ids

    @property
    def added_ids(self) -> Mapping[str, int]:
        """Added tokens of the tokenizer by their texts."""
        return self._vocabulary.ids

    def plain(self) -> PlainText:
        """A reader to which nothing is markup."""
        return PlainText(self._vocabulary.added)

    def pieces(self) -> PieceStream:
        """The pieces of one answer."""
        return self._vocabulary.pieces()

    def opening(self, prompt: Sequence[int] | str) -> Opening:
        """What this prompt leaves open; ids tell markup from text that only spells it."""
        text = self._marks.written(prompt) if isinstance(prompt, str) else self._read(prompt)
        assistant = self._frontend.assistant
        return opening_of(
            text,
            self._delimiters,
            begins="" if assistant is None else self._marks.written(assistant.open),
            ends="" if assistant is None else self._marks.written(assistant.close),
            envelope=assistant is not None,
        )

    def _read(self, prompt: Sequence[int]) -> str:
        """A prompt as the machine would see it."""
        stream = self._vocabulary.pieces()
        pieces = [piece for token in prompt for piece in stream.feed(token)]
        return "".join(self._marks.seen(piece) for piece in [*pieces, *stream.close()])

    def machine(
        self,
        *,
        tools: Mapping[str, Mapping[str, object]],
        opened: Opening,
        opaque: bool = False,
    ) -> Machine:
        """A machine for one answer.

        `tools`: parameters' schemas by name; with none registered, or none allowed, tool markup
        is content.  `opaque`: the answer is a document in which no markup counts (FI-09).
        """
        use = {
            (True, False): Use.CALLS,
            (False, False): Use.NO_CALLS,
            (True, True): Use.OPAQUE_CALLS,
            (False, True): Use.OPAQUE,
        }[bool(tools), opaque]
        machine = Machine(
            self._rules,
            self._marks,
            self._framing(),
            tools=tools,
            use=use,
            state=self._state(opened),
            reasoned=opened.reasoned,
            typed_as_json=self._frontend.tools.typing is ArgumentTyping.TYPED_AS_JSON,
        )
        if opened.place is Place.BODY:
            machine.enter(opened.header)
        return machine

    def _state(self, opened: Opening) -> State:
        """The machine's first state."""
        if self._delimiters.frame_open:
            return State.HEADER
        if opened.place is Place.REASONING:
            return State.THINKING_BEGINS if opened.fresh else State.THINKING
        if not opened.fresh:
            return State.ANSWER
        return State.ANSWER_PREFIX if opened.reasoned else State.ANSWER_BEGINS

    def _framing(self) -> Framing | None:
        """The frames of this syntax, if it has any."""
        if not self._delimiters.frame_open:
            return None
        tools, reasoning = self._frontend.tools, self._frontend.reasoning
        harmony = tools.parser is ToolParser.HARMONY
        return Framing(
            marks=self._delimiters,
            reasoning=reasoning.reasoning_recipients,
            content=reasoning.content_recipients,
            function_prefix=self._written(tools.name_open) if harmony else "",
            generic=tools.generic_recipient,
        )


def texts_of(frontend: FrontendContract) -> list[str]:
    """Every terminal's text."""
    texts = [marker.text for _, marker in syntax_markers(frontend)]
    assistant = frontend.assistant
    return texts if assistant is None else [*texts, assistant.open, assistant.close]


def syntax_markers(frontend: FrontendContract) -> Iterator[tuple[str, Marker]]:
    """The markers of tools and reasoning with their paths; images have their own."""
    for path, marker in markers_of(frontend):
        if not path.startswith("image"):
            yield path, marker


def delimiters_of(frontend: FrontendContract, marks: Marks, vocabulary: Vocabulary) -> Delimiters:
    """The terminals around reasoning, answer and frames."""
    reasoning, frames = frontend.reasoning, frontend.reasoning.frames

    def written(marker: Marker | None) -> str:
        return "" if marker is None else marks.written(marker.text)

    tags = reasoning.parser in DELIMITED
    opened = written(reasoning.open) if tags else ""
    close = written(reasoning.close) if tags else ""
    return Delimiters(
        open=opened,
        close=close,
        open_is_token=MARK.match(opened) is not None,
        close_is_token=MARK.match(close) is not None,
        terminal=reasoning.terminal is not None,
        wrapping=reasoning.wrapping,
        answer_prefix=reasoning.answer_prefix,
        answer_open=written(reasoning.answer_open),
        answer_close=written(reasoning.answer_close),
        message_close="" if frames is not None else message_close(frontend, marks, vocabulary),
        separator=frontend.tools.separator,
        frame_open="" if frames is None else written(frames.open),
        header_close="" if frames is None else written(frames.header_close),
        frame_closes=() if frames is None else tuple(written(close) for close in frames.closes),
        recipient_prefix="" if frames is None else frames.recipient_prefix,
        channel_open="" if frames is None else written(frames.channel_open),
        role=role_of(frontend, marks),
    )


def role_of(frontend: FrontendContract, marks: Marks) -> str:
    """What a header of the assistant begins with."""
    frames, assistant = frontend.reasoning.frames, frontend.assistant
    if frames is None or assistant is None:
        return ""
    return marks.written(assistant.open).removeprefix(marks.written(frames.open.text))


def message_close(frontend: FrontendContract, marks: Marks, vocabulary: Vocabulary) -> str:
    """The end of a message as far as it is generated: without tokens that end generation."""
    assistant = frontend.assistant
    if assistant is None:
        return ""
    close = assistant.close
    for token in frontend.eos_token_ids:
        added = vocabulary.added.get(token)
        close = close.replace(added.text, "") if added is not None else close
    written = marks.written(close)
    tagged = frontend.reasoning.parser is ReasoningParser.XTML_THINK
    return written if tagged or MARK.search(written) else ""


def resolve_syntax(frontend: FrontendContract, tokenizer: tokenizers.Tokenizer) -> Syntax:
    """The syntax of a core, or what is wrong with it."""
    check_tools(frontend.tools, at=f"{AT}.tools")
    check_reasoning(frontend.reasoning, frontend.tools, at=f"{AT}.reasoning")
    check_needed(frontend)
    vocabulary = Vocabulary(tokenizer)
    check_terminals(frontend, vocabulary)
    return Syntax(frontend, vocabulary)


def lacking(path: str, expected: str) -> ContractError:
    """Something that its parser cannot do without."""
    return ContractError(f"{AT}.{path}", "nothing", expected=expected)


def check_needed(frontend: FrontendContract) -> None:
    """Each form of writing has the terminals that it cannot do without."""
    tools = frontend.tools
    needed = NEEDED[tools.parser]
    if tools.parser is ToolParser.JSON_CALLS:
        named = tools.name_close is not None
        needed = ("call_open",) if named else ("name_field", "arguments_field")
    for name in needed:
        if not getattr(tools, name):
            raise lacking(f"tools.{name}", f"a value with {tools.parser.name}")
    if frontend.reasoning.parser in DELIMITED:
        for name in ("open", "close"):
            if getattr(frontend.reasoning, name) is None:
                raise lacking(f"reasoning.{name}", f"a marker: {frontend.reasoning.parser.name}")
    check_frames(frontend)


def check_frames(frontend: FrontendContract) -> None:
    """Frames, exactly where the parser reads frames, and complete."""
    reasoning = frontend.reasoning
    framed, frames = reasoning.parser in FRAMED, reasoning.frames
    if frames is None and framed:
        raise lacking("reasoning.frames", f"frames with {reasoning.parser.name}")
    if frames is None:
        return
    if not framed:
        raise ContractError(
            f"{AT}.reasoning.frames", "frames", expected=f"none with {reasoning.parser.name}"
        )
    if not frames.closes:
        raise lacking("reasoning.frames.closes", "at least one marker")
    if frontend.assistant is None:
        raise lacking("assistant", "the envelope of the frames")


def check_terminals(frontend: FrontendContract, vocabulary: Vocabulary) -> None:
    """Every terminal can be generated, and can be told from its partner."""
    for path, marker in syntax_markers(frontend):
        if not marker.text.strip():
            raise ContractError(
                f"{AT}.{path}.text", repr(marker.text), expected="more than white space"
            )
        if marker.token_id is None:
            continue
        added = vocabulary.added.get(marker.token_id)
        if added is None or added.text != marker.text:
            found = "no added token" if added is None else f"the token {added.text!r}"
            raise ContractError(
                f"{AT}.{path}.token_id",
                f"{marker.token_id}, {found}",
                expected=f"the tokenizer's token {marker.text!r}",
            )
        if marker.token_id in frontend.eos_token_ids and path.endswith("open"):
            raise ContractError(
                f"{AT}.{path}.token_id",
                f"{marker.token_id}, which ends generation",
                expected="a token that something can follow",
            )
    for part, opener, closer in pairs(frontend):
        if opener is not None and closer is not None and opener.text == closer.text:
            raise ContractError(
                f"{AT}.{part}", repr(closer.text), expected="another text than what it closes"
            )


def pairs(frontend: FrontendContract) -> Iterator[tuple[str, Marker | None, Marker | None]]:
    """Closing markers with what they close."""
    for room, syntax, names in (
        ("tools", frontend.tools, ("section", "call", "key", "object")),
        ("reasoning", frontend.reasoning, ("", "answer")),
    ):
        for name in names:
            lead = f"{name}_" if name else ""
            opener, closer = getattr(syntax, f"{lead}open"), getattr(syntax, f"{lead}close")
            yield f"{room}.{lead}close", opener, closer
