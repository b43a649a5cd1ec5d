"""Progress of long work: a bar on a terminal, plain lines or JSON otherwise."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Final, Literal, Protocol

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

Mode = Literal["auto", "plain", "json"]
MODES: Final[tuple[Mode, ...]] = ("auto", "plain", "json")


class Stage(Protocol):
    """Work with a known end."""

    def advance(self, amount: int = 1) -> None:
        """So much more is done."""


class Reporter(Protocol):
    """Where progress goes."""

    def stage(self, name: str, total: int) -> AbstractContextManager[Stage]:
        """Report one stage of work."""

    def say(self, text: str) -> None:
        """A line for people."""


class BarStage:
    """A stage shown as a bar."""

    def __init__(self, progress: Progress, task: TaskID) -> None:
        self._progress, self._task = progress, task

    def advance(self, amount: int = 1) -> None:
        """Move the bar."""
        self._progress.advance(self._task, amount)


class BarReporter:
    """Bars on a terminal."""

    def __init__(self) -> None:
        self._console = Console(stderr=True)

    @contextmanager
    def stage(self, name: str, total: int) -> Iterator[Stage]:
        """A bar that stays when it is full."""
        with Progress(
            TextColumn("{task.description:<28}"),
            BarColumn(),
            TimeElapsedColumn(),
            console=self._console,
        ) as progress:
            yield BarStage(progress, progress.add_task(name, total=total))

    def say(self, text: str) -> None:
        """Print a line."""
        self._console.print(text, highlight=False)


class QuietStage:
    """A stage that is only announced and timed."""

    def advance(self, amount: int = 1) -> None:
        """Nothing to show."""


class LineReporter:
    """One line a stage, as text or JSON."""

    def __init__(self, *, as_json: bool) -> None:
        self._as_json = as_json

    @contextmanager
    def stage(self, name: str, total: int) -> Iterator[Stage]:
        """Say when the stage is done, and how long it took."""
        began = time.monotonic()
        yield QuietStage()
        self._write({"stage": name, "units": total, "seconds": round(time.monotonic() - began, 3)})

    def say(self, text: str) -> None:
        """Print a line."""
        self._write({"message": text})

    def _write(self, record: dict[str, object]) -> None:
        if self._as_json:
            line = json.dumps(record)
        elif "message" in record:
            line = str(record["message"])
        else:
            line = f"{record['stage']}: {record['seconds']} s"
        print(line, file=sys.stderr, flush=True)


def reporter(mode: Mode) -> Reporter:
    """The reporter of a mode; `auto` draws bars on a terminal only."""
    if mode == "auto" and sys.stderr.isatty():
        return BarReporter()
    return LineReporter(as_json=mode == "json")
