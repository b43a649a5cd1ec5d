"""Permits: how many requests may be inside the server at once (TO-26).

A permit is held from before preparation until the reader lets go of the response (TO-33).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from helios.values import IngressFull


class Gate:
    """Counts permits; never hands out more than there are."""

    def __init__(self, permits: int) -> None:
        self.permits = permits
        self.held = 0

    @contextmanager
    def permit(self) -> Iterator[None]:
        """Hold a permit, or raise IngressFull."""
        if self.held >= self.permits:
            raise IngressFull(
                f"{self.held} requests are being served or wait, as many as this server takes; "
                "try again later"
            )
        self.held += 1
        try:
            yield
        finally:
            self.held -= 1
