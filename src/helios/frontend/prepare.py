"""A chat request becomes a `PreparedRequest`, or a `RequestInvalid` that names the field.

Runs in a preparation thread: rendering and tokenising may take a while.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from helios.frontend.request import PreparedRequest
from helios.frontend.template import ChatTemplate, Message
from helios.frontend.text import Tokenizer
from helios.rounds import Sampling
from helios.values import RequestId, RequestInvalid
from prepared.contract import SamplingDefaults

SEED_BITS: Final = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What a client set; None where it said nothing."""

    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    seed: int | None = None
    output_limit: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Frontend:
    """Assets, defaults and limits of a model, ready to prepare requests."""

    tokenizer: Tokenizer
    template: ChatTemplate | None
    defaults: SamplingDefaults
    eos_ids: tuple[int, ...]
    context_tokens: int
    output_tokens: int

    def prepare(
        self, request: RequestId, messages: Sequence[Message], asked: Asked
    ) -> PreparedRequest:
        """The request as numbers; explicit values win over prepared defaults (FI-34)."""
        if self.template is None:
            raise RequestInvalid(
                "messages", "a conversation", expected="a model with a chat template"
            )
        prompt = tuple(self.tokenizer.encode(self.template.render(messages)))
        room = self.context_tokens - len(prompt)
        if not prompt:
            raise RequestInvalid("messages", "an empty prompt", expected="some text")
        if room < 1:
            raise RequestInvalid(
                "messages",
                f"{len(prompt)} tokens",
                expected=f"fewer than the context of {self.context_tokens}",
            )
        return PreparedRequest(
            id=request,
            prompt=prompt,
            sampling=self.sampling(asked),
            output_limit=self.output_limit(asked, prompt=len(prompt)),
            minimum_output=0,
            eos_ids=self.eos_ids,
        )

    def output_limit(self, asked: Asked, *, prompt: int) -> int:
        """Tokens that may be emitted: as asked if the context holds them, else what it holds."""
        room = self.context_tokens - prompt
        if asked.output_limit is None:
            return min(room, self.output_tokens)
        if asked.output_limit > room:
            raise RequestInvalid(
                "max_tokens",
                asked.output_limit,
                expected=f"at most {room}: the prompt has {prompt} tokens of the context's "
                f"{self.context_tokens}",
            )
        return asked.output_limit

    def sampling(self, asked: Asked) -> Sampling:
        """Complete sampling parameters."""
        defaults = self.defaults
        return Sampling(
            seed=secrets.randbits(SEED_BITS)
            if asked.seed is None
            else asked.seed % (1 << SEED_BITS),
            temperature=defaults.temperature if asked.temperature is None else asked.temperature,
            top_p=defaults.top_p if asked.top_p is None else asked.top_p,
            top_k=defaults.top_k if asked.top_k is None else asked.top_k,
            min_p=defaults.min_p,
            repetition_penalty=defaults.repetition_penalty,
            presence_penalty=defaults.presence_penalty,
            frequency_penalty=defaults.frequency_penalty,
        )
