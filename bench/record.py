"""The record of a run: every server's turns with the placement around them, and what failed.

Written after every turn, so that a run that is cut short loses nothing.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import msgspec

from bench.machine import APART, TOGETHER, state_of

OURS = "helios"
LEAST_TURNS = 2  # one says nothing of the spread


class Turn(msgspec.Struct, frozen=True, kw_only=True):
    """One server asked every row once, between two looks at the placement."""

    round: int
    server: str
    seconds: float
    before: dict[str, float]
    after: dict[str, float]
    figures: dict[str, list[float]]
    failed: dict[str, str]  # a row's figure, and why it has none

    @property
    def state(self) -> str:
        """The placement it was measured in."""
        return state_of(self.before, self.after)


class Record(msgspec.Struct, frozen=True, kw_only=True):
    """All that a run found."""

    machine: dict[str, Any]
    versions: dict[str, str]
    quick: bool  # short requests: the figures say nothing but that all ran
    facts: dict[str, float]  # core_nbytes, token_nbytes, token_operations
    turns: list[Turn] = []
    quality: dict[str, dict[str, float]] = {}
    failed: dict[str, str] = {}  # what belongs to no turn


def write(record: Record, path: Path) -> None:
    """Keep a record as JSON."""
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(msgspec.json.format(msgspec.json.encode(record), indent=1) + b"\n")


def read(path: Path) -> Record:
    """A record that was kept."""
    return msgspec.json.decode(path.read_bytes(), type=Record)


def compared(turns: list[Turn]) -> tuple[list[Turn], str]:
    """Turns of a placement in which every server was measured twice; all of them if none is."""
    servers = {turn.server for turn in turns}
    for state in (APART, TOGETHER):
        chosen = [turn for turn in turns if turn.state == state]
        measured = Counter(turn.server for turn in chosen)
        if all(measured[server] >= LEAST_TURNS for server in servers):
            return chosen, state
    return turns, "mixed"
