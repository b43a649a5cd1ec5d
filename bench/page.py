"""Figures as one static page: a bar chart in SVG a row of the table, medians with their spread."""

from __future__ import annotations

import html
import statistics
from collections.abc import Mapping, Sequence
from typing import Any

Figures = Mapping[str, Sequence[float]]

BAR, GAP, LEFT, WIDE, VALUES = 22, 6, 190, 420, 200
COLOURS = ("#c2410c", "#57708a", "#8aa0b4", "#6b8f71", "#a3a3a3")
STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem;
       color: CanvasText; background: Canvas; color-scheme: light dark }
svg { display: block } svg text { font: 13px system-ui, sans-serif; fill: CanvasText }
h2 { font-size: 1rem; margin: 1.4rem 0 .2rem }
dl { display: grid; grid-template-columns: 12rem 1fr }
dd { margin: 0 }
"""


def chart(name: str, rows: Sequence[tuple[str, Sequence[float]]]) -> str:
    """Bars of one figure, a server each."""
    most = max(max(values) for _, values in rows) or 1.0
    height = len(rows) * (BAR + GAP)
    parts = [
        f'<svg width="{LEFT + WIDE + VALUES}" height="{height}" role="img" '
        f'aria-label="{html.escape(name)}">'
    ]
    for index, (server, values) in enumerate(rows):
        y, middle = index * (BAR + GAP), statistics.median(values)
        low, high = (LEFT + WIDE * bound / most for bound in (min(values), max(values)))
        parts.append(
            f'<text x="{LEFT - 8}" y="{y + 16}" text-anchor="end">{html.escape(server)}</text>'
            f'<rect x="{LEFT}" y="{y}" width="{WIDE * middle / most:.1f}" height="{BAR}" '
            f'fill="{COLOURS[index % len(COLOURS)]}"/>'
            f'<line x1="{low:.1f}" x2="{high:.1f}" y1="{y + BAR / 2}" y2="{y + BAR / 2}" '
            'stroke="CanvasText" stroke-width="2"/>'
            f'<text x="{LEFT + WIDE + 8}" y="{y + 16}">{middle:,.4g} '
            f"({min(values):,.4g} to {max(values):,.4g})</text>"
        )
    return "".join([*parts, "</svg>"])


def page(machine: Mapping[str, Any], figures: Mapping[str, Figures]) -> str:
    """The whole page: the machine, then a chart a figure."""
    facts = "".join(
        f"<dt>{html.escape(str(name))}</dt><dd>{html.escape(str(value))}</dd>"
        for name, value in machine.items()
    )
    names = dict.fromkeys(name for taken in figures.values() for name in taken)
    charts = "".join(
        f"<h2>{html.escape(name)}</h2>"
        + chart(name, [(server, taken[name]) for server, taken in figures.items() if name in taken])
        for name in names
    )
    return (
        '<!doctype html><html lang="en"><meta charset="utf-8"><title>Helios: measured</title>'
        f"<style>{STYLE}</style><h1>Measured</h1><dl>{facts}</dl>{charts}</html>\n"
    )
