"""A request ready for the model: numbers only, frozen, made once by `frontend.prepare`."""

from __future__ import annotations

import msgspec

from helios.rounds import Sampling
from helios.values import RequestId


class PreparedRequest(msgspec.Struct, frozen=True, kw_only=True):
    """What the worker needs to know of a request."""

    id: RequestId
    prompt: tuple[int, ...]
    sampling: Sampling
    output_limit: int
    minimum_output: int
    eos_ids: tuple[int, ...]

    @property
    def most_tokens(self) -> int:
        """Tokens whose keys and values may have to be kept; the last one never is."""
        return len(self.prompt) + self.output_limit - 1
