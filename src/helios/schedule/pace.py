"""How fast prompts go, so that a round with a prompt in it stays within a gap.

Learns from rounds; knows no clock.  What it learns decides only how a prompt is cut, which
changes no token (system.md section 4).
"""

from __future__ import annotations

from dataclasses import dataclass

LEAST_TOKENS = 16
"""A prompt advances by so many tokens whatever it costs, or it would never end."""

SHARE = 0.25
"""Weight of the newest round."""


@dataclass(slots=True)
class Pace:
    """Nanoseconds a prompt token, as rounds have shown."""

    token_ns: float = 0.0

    def learn(self, tokens: int, nanoseconds: int) -> None:
        """A round with so many prompt tokens took so long."""
        found = nanoseconds / tokens
        self.token_ns += (found - self.token_ns) * (SHARE if self.token_ns else 1.0)

    def tokens_within(self, gap_ns: int) -> int:
        """Prompt tokens that a round may take."""
        if not self.token_ns:
            return LEAST_TOKENS
        return max(LEAST_TOKENS, int(gap_ns / self.token_ns))
