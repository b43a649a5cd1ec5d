"""One answer being made: tokens in, text out, one ending."""

from __future__ import annotations

from collections.abc import Container, Iterable
from dataclasses import dataclass

from helios.frontend.text import TextStream
from helios.rounds import Finish


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """Tokens of a request."""

    prompt_tokens: int
    completion_tokens: int


class OutputPipeline:
    """Decoding state of one answer."""

    def __init__(self, text: TextStream, eos_ids: Container[int], *, prompt_tokens: int) -> None:
        self._text, self._eos_ids = text, eos_ids
        self._prompt_tokens = prompt_tokens
        self._tokens = 0

    def feed(self, tokens: Iterable[int]) -> str:
        """The text that these tokens complete; an end of sequence has none."""
        pieces = []
        for token in tokens:
            self._tokens += 1
            if token not in self._eos_ids:
                pieces.append(self._text.feed(token))
        return "".join(pieces)

    def close(self) -> str:
        """Text that was held back."""
        return self._text.close()

    def usage(self) -> Usage:
        """What was consumed so far."""
        return Usage(prompt_tokens=self._prompt_tokens, completion_tokens=self._tokens)


FINISH_REASON = {Finish.END_OF_SEQUENCE: "stop", Finish.OUTPUT_LIMIT: "length"}
"""How an ending is told to a client; other endings are errors."""
