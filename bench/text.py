"""The table as text: every server for the terminal, ours and the best peer for the README."""

from __future__ import annotations

from bench.record import OURS, Record, compared
from bench.rows import Figure, Line, lines_of

TARGET_MET = {True: "met", False: "missed", None: ""}


def number(value: float) -> str:
    """Three digits that say something."""
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return (
        f"{value:.3g}"
        if abs(value) >= 10
        else f"{value:.2f}"
        if abs(value) >= 1
        else f"{value:.3g}"
    )


def spread(figure: Figure) -> str:
    """The median, and least to most where they differ."""
    if figure.least == figure.most:
        return number(figure.middle)
    return f"{number(figure.middle)} ({number(figure.least)} to {number(figure.most)})"


def verdict_of(line: Line) -> str:
    """The target and what was reached: one sentence, or nothing."""
    if not line.target:
        return ""
    if line.met is None:
        return f"target {line.target}, not compared"
    by_times = "times" in line.target
    reached = f", reached {number(line.times)} times" if by_times and line.times else ""
    return f"target {line.target}{reached}: {TARGET_MET[line.met]}"


def text_of(record: Record) -> str:
    """Every row with every server."""
    _, state = compared(record.turns)
    parts = [f"placement: {state}"]
    for line in lines_of(record):
        parts.append(f"{line.name}{', ' * bool(line.unit)}{line.unit}")
        parts += [f"  {server:<20} {spread(figure)}" for server, figure in line.figures.items()]
        parts += [f"  {server:<20} failed: {reason}" for server, reason in line.failed.items()]
        if verdict := verdict_of(line):
            parts.append(f"  {verdict}")
    parts += [f"{name} failed: {reason}" for name, reason in record.failed.items()]
    return "\n".join(parts)


def markdown_of(record: Record) -> str:
    """Ours beside the best peer of each row."""
    _, state = compared(record.turns)
    facts = record.machine
    rows = ["| | Helios | best peer | times | target |", "|---|---|---|---|---|"]
    for line in lines_of(record):
        if OURS not in line.figures:
            continue
        ours = f"{number(line.figures[OURS].middle)} {line.unit}".strip()
        best = ""
        if line.best:
            best = f"{number(line.figures[line.best].middle)} ({line.best})"
        times = number(line.times) if line.times else ""
        met = TARGET_MET[line.met]
        target = f"{line.target}{': ' * bool(met)}{met}"
        rows.append(f"| {line.name} | {ours} | {best} | {times} | {target} |")
    where = (
        f"{facts['cores']} cores of {facts['cpu']} ({', '.join(facts['instructions'])}), "
        f"{facts['date']}, placement {state}; medians of {rounds_of(record)}."
    )
    return "\n".join([where, "", *rows])


def rounds_of(record: Record) -> str:
    """How often every server was asked."""
    count = 1 + max(turn.round for turn in record.turns)
    return f"{count} rounds in turn" if count > 1 else "one round"
