"""Grammars and stops of made-up requests, over a tokenizer in which every token is a character.

What a request's grammar and stops make of its line is said here once more, a token at a time, so
that neither the worker's judges nor the library below them are asked about themselves.
"""

from __future__ import annotations

from concurrent.futures import Future, wait
from dataclasses import dataclass
from functools import cache
from typing import Final

import tokenizers
from tokenizers import AddedToken, decoders, models, pre_tokenizers

from helios.device.scripted import Line
from helios.frontend.grammar.constraint import Constraint
from helios.frontend.grammar.matcher import GrammarTokenizer, Impossible, Matcher
from helios.frontend.request import PreparedRequest
from helios.frontend.stops import StopSpec
from helios.frontend.syntax.pieces import Vocabulary
from helios.judges import Tools
from helios.rounds import Finish
from tests.worker.world import VOCABULARY

EOS: Final = 2
CHARACTERS: Final = sorted(pre_tokenizers.ByteLevel.alphabet())[: VOCABULARY - EOS - 1]
"""The text of tokens 3, 4, 5 and so on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """What a grammar says: which tokens may come, and how many."""

    allowed: frozenset[int]
    most: int

    def may_follow(self, emitted: int) -> frozenset[int]:
        """Tokens that may come after so many; the end always may."""
        return (self.allowed if emitted < self.most else frozenset()) | {EOS}

    @property
    def constraint(self) -> Constraint:
        """The same, as the worker is told."""
        characters = "".join(f"\\x{{{ord(text_of(token)):x}}}" for token in sorted(self.allowed))
        return Constraint(grammar=f"start: /[{characters}]{{0,{self.most}}}/")


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """How a request is judged, if it is."""

    rule: Rule | None = None
    stop: tuple[int, ...] = ()
    as_text: bool = False  # the stop is declared as a string

    @property
    def stops(self) -> StopSpec | None:
        """Its stops, as the worker is told."""
        if not self.stop:
            return None
        if self.as_text:
            return StopSpec(strings=("".join(map(text_of, self.stop)),))
        return StopSpec(sequences=(self.stop,))


UNJUDGED: Final = Judged()


def text_of(token: int) -> str:
    """A token's one character."""
    return CHARACTERS[token - EOS - 1]


@cache
def tokenizer() -> tokenizers.Tokenizer:
    """One character a token; the first three are special, the third ends."""
    vocabulary = {text: EOS + 1 + place for place, text in enumerate(CHARACTERS)}
    specials = ("<pad>", "<begin>", "<end>")
    made = tokenizers.Tokenizer(
        models.BPE(vocab=dict(zip(specials, range(EOS + 1), strict=True)) | vocabulary, merges=[])
    )
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    made.add_tokens([AddedToken(text, special=True, normalized=False) for text in specials])
    return made


class PromptGrammars(GrammarTokenizer):
    """Grammars that are compiled at once, so that one history has one outcome."""

    def compile(self, constraint: Constraint) -> Future[Matcher | Impossible]:
        """See `GrammarTokenizer`; whoever asks waits."""
        future = super().compile(constraint)
        wait([future])
        return future


@cache
def grammars() -> GrammarTokenizer:
    """The tokenizer as grammars see it."""
    return PromptGrammars(
        tokenizer().to_str().encode(),
        tokens=VOCABULARY,
        mask_words=-(-VOCABULARY // 32),
        eos_ids=(EOS,),
        markers=(),
    )


TOOLS: Final = Tools(grammars=grammars(), make_decoder=lambda: Vocabulary(tokenizer()).pieces())


def answer_of(
    line: Line, request: PreparedRequest, judged: Judged
) -> tuple[tuple[int, ...], Finish]:
    """What a request is told that nothing befalls but its own line and its own judges."""
    told: list[int] = []
    while True:
        place = len(told)
        token = line.tokens[place] if place < len(line.tokens) else request.eos_ids[0]
        if line.fail_at == place:
            return tuple(told), Finish.FAILED
        if judged.rule is not None and token not in judged.rule.may_follow(place):
            return tuple(told), Finish.FAILED
        told.append(token)
        if token in request.eos_ids:
            return tuple(told), Finish.END_OF_SEQUENCE
        if judged.stop and tuple(told[-len(judged.stop) :]) == judged.stop:
            return tuple(told), Finish.STOPPED
        ends = line.end == "length" and len(told) == len(line.tokens)
        if len(told) == request.output_limit or ends:
            return tuple(told), Finish.OUTPUT_LIMIT
