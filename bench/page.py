"""A record as one static page: the table with its verdicts, and a bar chart in SVG a row."""

from __future__ import annotations

import html
from collections.abc import Sequence

from bench.record import OURS, Record, compared
from bench.rows import Figure, Line, lines_of
from bench.text import number, rounds_of, spread, verdict_of

BAR, STEP, LEFT, WIDE, TOTAL = 18, 26, 150, 400, 760
STYLE = """
:root { color-scheme: light dark; --ours: light-dark(#c2410c, #fb923c);
        --peer: light-dark(#8aa0b4, #64748b); --quiet: light-dark(#64748b, #94a3b8);
        --line: light-dark(#e2e8f0, #334155); --met: light-dark(#15803d, #4ade80);
        --missed: light-dark(#b91c1c, #f87171) }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 50rem; margin: 3rem auto; padding: 0 1rem;
       color: light-dark(#0f172a, #e2e8f0); background: light-dark(#fff, #0f172a) }
h1 { font-size: 1.7rem; margin: 0 } h2 { font-size: 1.05rem; margin: 0 }
.quiet { color: var(--quiet); font-size: .9rem }
.met { color: var(--met) } .missed { color: var(--missed) }
section { border-top: 1px solid var(--line); padding: 1.1rem 0 .7rem }
section > div { display: flex; justify-content: space-between; align-items: baseline; gap: 1rem }
svg { display: block; width: 100%; height: auto; margin-top: .6rem }
text { font: 13px system-ui, sans-serif; fill: currentColor }
.peer { fill: var(--peer) } .ours { fill: var(--ours) } .name { text-anchor: end }
.spread { stroke: currentColor; stroke-width: 1.5; opacity: .55 }
.aim { stroke: currentColor; stroke-dasharray: 3 3; opacity: .7 }
table { border-collapse: collapse; width: 100%; font-size: .9rem; margin: 1rem 0 }
td { border-top: 1px solid var(--line); padding: .25rem .6rem .25rem 0; vertical-align: top }
"""


def bar(name: str, figure: Figure, *, at: int, most: float) -> str:
    """One server's median, with its least and its most."""
    kind, middle = "ours" if name == OURS else "peer", at + BAR / 2
    low, high = (LEFT + WIDE * bound / most for bound in (figure.least, figure.most))
    return (
        f'<text class="name" x="{LEFT - 10}" y="{at + 13.5}">{html.escape(name)}</text>'
        f'<rect class="{kind}" x="{LEFT}" y="{at}" rx="2" height="{BAR}" '
        f'width="{WIDE * figure.middle / most:.1f}"/>'
        f'<path class="spread" d="M{low:.1f} {middle}H{high:.1f}M{low:.1f} {at + 5}v8'
        f'M{high:.1f} {at + 5}v8"/>'
        f'<text x="{max(high, LEFT) + 10:.1f}" y="{at + 13.5}">{spread(figure)}</text>'
    )


def chart(line: Line) -> str:
    """Bars of one row, a server each."""
    most = max(figure.most for figure in line.figures.values()) or 1.0
    bars = [
        bar(name, figure, at=index * STEP + 2, most=most)
        for index, (name, figure) in enumerate(line.figures.items())
    ]
    size = f'viewBox="0 0 {TOTAL} {len(bars) * STEP}"'
    return f'<svg {size} role="img" aria-label="{html.escape(line.name)}">{"".join(bars)}</svg>'


def section(line: Line) -> str:
    """A row: its name, what it should reach, its chart, and who failed."""
    kind = {True: "met", False: "missed", None: "quiet"}[line.met]
    unit = f' <span class="quiet">{line.unit}</span>' * bool(line.unit)
    failed = "".join(
        f'<p class="quiet">{html.escape(f"{server} failed: {reason}")}</p>'
        for server, reason in line.failed.items()
    )
    return (
        f"<section><div><h2>{html.escape(line.name)}{unit}</h2>"
        f'<span class="{kind}">{html.escape(verdict_of(line))}</span></div>'
        f"{chart(line) if line.figures else ''}{failed}</section>"
    )


def facts(rows: Sequence[tuple[str, object]]) -> str:
    """Names and what they are."""
    cells = (
        f'<tr><td class="quiet">{html.escape(name)}</td><td>{html.escape(str(value))}</td></tr>'
        for name, value in rows
    )
    return f"<table>{''.join(cells)}</table>"


def page(record: Record) -> str:
    """The whole page."""
    _, state = compared(record.turns)
    lines = lines_of(record)
    judged = [line for line in lines if line.met is not None]
    met = sum(line.met is True for line in judged)
    turns = [
        (
            f"round {turn.round + 1}, {turn.server}",
            f"{turn.state}: reads "
            + ", then ".join(
                f"{number(seen['read_1'])} and {number(seen['read_all'])} GB/s"
                for seen in (turn.before, turn.after)
            ),
        )
        for turn in record.turns
    ]
    told = [
        (name, ", ".join(map(str, value)) if isinstance(value, list) else value)
        for name, value in record.machine.items()
    ]
    return (
        '<!doctype html><html lang="en"><meta charset="utf-8"><title>Helios: measured</title>'
        '<meta name="viewport" content="width=device-width">'
        f"<style>{STYLE}</style><h1>Helios, measured</h1>"
        f'<p class="quiet">Through HTTP, streaming, temperature 0; {rounds_of(record)}, '
        f"placement {state}. Bars are medians, whiskers least and most. "
        f"{met} of {len(judged)} targets met.</p>"
        f"{''.join(map(section, lines))}"
        f"<section><h2>Machine</h2>{facts(told)}</section>"
        f"<section><h2>Versions</h2>{facts(list(record.versions.items()))}</section>"
        f"<section><h2>Placement of every turn, one thread and all</h2>{facts(turns)}</section>"
        "</html>\n"
    )
