"""What the tests play answers with: small tokenizers, pieces cut in every way, joined events."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence

import tokenizers
from msgspec.structs import replace
from tokenizers import models

from helios.frontend.syntax.events import (
    Arguments,
    CallClosed,
    CallOpened,
    Content,
    Event,
    Reasoning,
)
from helios.frontend.syntax.opening import Opening
from helios.frontend.syntax.pieces import Piece
from helios.frontend.syntax.resolve import Syntax, resolve_syntax
from ignition.preparation.syntaxes import syntax_named
from prepared.contract import AssistantEnvelope, FrontendContract
from tests.treaty.frontends import text_frontend

TEXT = 1  # an id of ordinary text: no added token has it
ENVELOPES = {
    "recipient": AssistantEnvelope(open="<|start|>assistant", close="<|eot|>"),
    "harmony": AssistantEnvelope(open="<|start|>assistant", close="<|end|>"),
    "xtml": AssistantEnvelope(
        open='<|open|>message role="assistant"<|sep|>',
        close="<|close|>message<|sep|><|end_of_msg|>",
    ),
    "think": AssistantEnvelope(open="<|im_start|>assistant\n", close="<|im_end|>"),
}
TOOLS: Mapping[str, Mapping[str, object]] = {
    "get_weather": {
        "type": "object",
        "properties": {"city": {"type": "string"}, "days": {"type": "integer"}},
    },
    "get_time": {},
}


class Bench:
    """A syntax of plain names over a tokenizer with these added tokens."""

    def __init__(
        self,
        tools: str,
        reasoning: str = "none",
        *,
        added: Iterable[str] = (),
        special: Iterable[str] = (),
        ends: Sequence[str] = (),
    ) -> None:
        self.tokenizer = tokenizers.Tokenizer(models.BPE(vocab={"a": 0, "b": TEXT}, merges=[]))
        self.tokenizer.add_tokens(list(added))
        self.tokenizer.add_special_tokens([*special, *ends])
        decoder = self.tokenizer.get_added_tokens_decoder()
        self.ids = {token.content: number for number, token in decoder.items()}
        calls, thinking = syntax_named(tools, reasoning, self.ids)
        self.frontend: FrontendContract = replace(
            text_frontend(),
            tools=calls,
            reasoning=thinking,
            assistant=ENVELOPES.get(reasoning),
            eos_token_ids=tuple(self.ids[end] for end in ends),
        )
        self.syntax: Syntax = resolve_syntax(self.frontend, self.tokenizer)

    def characters(self, text: str) -> list[Piece]:
        """The text with its added tokens as such and every other character alone."""
        spelled = "|".join(map(re.escape, sorted(self.ids, key=len, reverse=True))) or "(?!)"
        parts = re.split(f"({spelled})", text)
        return [
            piece
            for part in parts
            for piece in (
                [Piece(self.ids[part], part)]
                if part in self.ids
                else [Piece(TEXT, character) for character in part]
            )
        ]

    def play(
        self,
        pieces: Iterable[Piece],
        *,
        tools: Mapping[str, Mapping[str, object]] = TOOLS,
        opened: Opening | None = None,
        truncated: bool = False,
        opaque: bool = False,
    ) -> list[Event]:
        """The events of an answer, joined as far as they go."""
        machine = self.syntax.machine(tools=tools, opened=opened or Opening(), opaque=opaque)
        events = [event for piece in pieces for event in machine.feed(piece)]
        return joined([*events, *machine.close(truncated=truncated)])

    def read(
        self,
        text: str,
        *,
        tools: Mapping[str, Mapping[str, object]] = TOOLS,
        opened: Opening | None = None,
        truncated: bool = False,
        opaque: bool = False,
    ) -> list[Event]:
        """The events of a text; the same by characters as in the largest pieces."""
        found = [
            self.play(pieces, tools=tools, opened=opened, truncated=truncated, opaque=opaque)
            for pieces in (self.characters(text), grouped(self.characters(text)))
        ]
        assert found[0] == found[1]
        check_calls(found[0])
        return found[0]


def spelled(text: str) -> list[Piece]:
    """A text by ordinary tokens, whatever it spells."""
    return [Piece(TEXT, text)]


def grouped(pieces: Iterable[Piece], *, cuts: frozenset[int] = frozenset()) -> list[Piece]:
    """Ordinary pieces joined, but for cuts before these positions."""
    made: list[Piece] = []
    for at, piece in enumerate(pieces):
        joins = made and made[-1].token_id == TEXT == piece.token_id and at not in cuts
        if joins:
            made[-1] = Piece(TEXT, made[-1].text + piece.text)
        else:
            made.append(piece)
    return made


def joined(events: Iterable[Event]) -> list[Event]:
    """The events with neighbouring text of one kind joined."""
    made: list[Event] = []
    for event in events:
        match made[-1] if made else None, event:
            case Content(said), Content(more):
                made[-1] = Content(said + more)
            case Reasoning(said), Reasoning(more):
                made[-1] = Reasoning(said + more)
            case Arguments(index, said), Arguments(other, more) if index == other:
                made[-1] = Arguments(index, said + more)
            case _:
                made.append(event)
    return made


def check_calls(events: Iterable[Event]) -> None:
    """Indices count up, and the arguments of every closed call are one JSON object (T-27)."""
    arguments: dict[int, str] = {}
    closed: set[int] = set()
    for event in events:
        match event:
            case CallOpened(index, _, _):
                assert index == len(arguments)
                arguments[index] = ""
            case Arguments(index, text):
                assert index not in closed
                arguments[index] += text
            case CallClosed(index):
                assert isinstance(json.loads(arguments[index]), dict)
                closed.add(index)


def call(index: int, name: str, arguments: object, call_id: str | None = None) -> list[Event]:
    """The events of a whole call."""
    text = arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)
    return [CallOpened(index, name, call_id), Arguments(index, text), CallClosed(index)]
