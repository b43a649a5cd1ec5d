"""A request ready for the model: numbers only, frozen, made once by `frontend.prepare`."""

from __future__ import annotations

import msgspec

from helios.frontend.grammar.constraint import Constraint
from helios.frontend.stops import StopSpec
from helios.rounds import ImagePrompt, Sampling, Span
from helios.values import RequestId


class PreparedRequest(msgspec.Struct, frozen=True, kw_only=True):
    """What the worker needs to know of a request."""

    id: RequestId
    prompt: tuple[int, ...]
    sampling: Sampling
    output_limit: int
    minimum_output: int
    eos_ids: tuple[int, ...]
    salt: str = ""  # requests reuse only what requests with the same salt computed
    spans: tuple[Span, ...] = ()  # images among the prompt's tokens
    images: ImagePrompt | None = None  # what programs must know of them
    logit_bias: tuple[tuple[int, float], ...] = ()  # at most `MOST_LOGIT_BIAS`
    logprobs: int | None = None  # of each token: its own and so many alternatives; None: nothing
    score_prompt: bool = False  # log-probabilities of the prompt's tokens too
    observed: bool = False  # tokens carry the time at which they were settled
    constraint: Constraint | None = None
    stops: StopSpec | None = None

    @property
    def barrier(self) -> bool:
        """Whether the host must see each token before the next round (SG-32, SS-08)."""
        return self.constraint is not None or self.stops is not None

    @property
    def judged(self) -> bool:
        """Whether the host looks at each token as it is settled."""
        return self.barrier or self.observed

    @property
    def most_tokens(self) -> int:
        """Tokens whose keys and values may have to be kept; the last one never is."""
        return len(self.prompt) + self.output_limit - 1
