"""The one error of reading a checkpoint: its text tells a person what to do next."""

from __future__ import annotations


class CheckpointError(Exception):
    """A checkpoint cannot be used: where, what was found, what was expected, what to do."""

    def __init__(self, at: str, found: object, *, expected: str, remedy: str) -> None:
        super().__init__(f"{at}: found {found}, expected {expected}; {remedy}")
        self.at = at
        self.found = found
        self.expected = expected
        self.remedy = remedy
