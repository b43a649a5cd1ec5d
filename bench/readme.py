"""README's table of speeds and the page of charts, from the newest record: `scripts/measured`.

`scripts/measured --check` changes nothing, and fails where the two differ.
"""

from __future__ import annotations

import sys
from pathlib import Path

from bench.page import page
from bench.record import read
from bench.text import markdown_of

ROOT = Path(__file__).parents[1]
README = ROOT / "README.md"
BEGIN, END = "<!-- measured: scripts/measured writes this -->\n", "<!-- /measured -->\n"


class NoPlace(RuntimeError):
    """The document does not say where the table goes."""


def newest() -> Path | None:
    """The newest record of the table; their names begin with their dates."""
    return max(ROOT.glob("bench/results/*-table.json"), default=None)


def filled(document: str, table: str) -> str:
    """A document with the table between its marks."""
    before, begin, rest = document.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise NoPlace(f"README.md: no {BEGIN.strip()} ... {END.strip()}")
    return f"{before}{begin}\n{table}\n\n{end}{after}"


def main() -> int:
    """Write, or check; 1 when they differ."""
    if (path := newest()) is None:
        print("bench/results: no record of the table; bench/table makes one")
        return int("--check" not in sys.argv)
    record = read(path)
    if record.quick:
        print(f"{path.relative_to(ROOT)}: a quick record; its figures say nothing")
        return 1
    found = README.read_text()
    wanted = filled(found, markdown_of(record))
    if "--check" not in sys.argv:
        README.write_text(wanted)
        path.with_suffix(".html").write_text(page(record))
    elif found != wanted:
        print(f"README.md: its table is not {path.relative_to(ROOT)}'s; run scripts/measured")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
