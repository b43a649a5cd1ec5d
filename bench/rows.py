"""The rows of the table, their targets, and whether a record meets them."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence

import msgspec

from bench.record import OURS, Record, Turn, compared

STREAMS = {1: "1 stream", 4: "4 streams", 8: "8 streams", 16: "16 streams"}
PREFILL = {512: "first token of 512", 4000: "first token of 4,000"}
CACHED = "first token, 480 cached + 20"
MIXED = ("mixed: p99 gap", "mixed: throughput", "mixed: median gap")
START, READY, LOADED = "start to ready", "resident when ready", "resident after load"
BARE, BUSY = "bare loop", "busy, of one thread"
TEMPLATE_TOKENS = 32  # of a prompt, before and after its words; cached since the first request


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """A figure of every server, and what ours should reach."""

    figure: str
    unit: str
    more_is_better: bool = False
    times: float | None = None  # better than the best peer
    beside: str = ""  # compared with peers whose name starts so
    most: float | None = None
    most_cores: float | None = None  # times the core's size


class Share(msgspec.Struct, frozen=True, kw_only=True):
    """A figure of ours as a share of a limit that was measured in the same turn."""

    name: str
    least: float
    of: Callable[[Turn, dict[str, float]], Sequence[float]]


class Figure(msgspec.Struct, frozen=True, kw_only=True):
    """Median, least, most."""

    middle: float
    least: float
    most: float


class Line(msgspec.Struct, frozen=True, kw_only=True):
    """A row as measured."""

    name: str
    unit: str
    figures: dict[str, Figure]  # by server; those that failed have none
    failed: dict[str, str]
    best: str | None = None  # of the peers
    times: float | None = None  # how much better than it ours is
    target: str = ""
    met: bool | None = None


ROWS = (
    Row(figure=STREAMS[1], unit="tokens/s", more_is_better=True, times=1.6),
    Row(figure=STREAMS[4], unit="tokens/s", more_is_better=True, times=2),
    Row(figure=STREAMS[8], unit="tokens/s", more_is_better=True, times=2.2),
    Row(figure=STREAMS[16], unit="tokens/s", more_is_better=True, times=2),
    Row(figure=PREFILL[512], unit="ms", times=1.2),
    Row(figure=PREFILL[4000], unit="ms", times=1.2),
    Row(figure=CACHED, unit="ms", times=5, beside="llama"),
    Row(figure=MIXED[0], unit="ms", times=2),
    Row(figure=MIXED[1], unit="tokens/s", more_is_better=True, times=1),
    Row(figure=MIXED[2], unit="ms"),
    Row(figure=START, unit="s", most=0.7),
    Row(figure=READY, unit="MB", most_cores=2),
    Row(figure=LOADED, unit="MB"),
)


def of_bandwidth(turn: Turn, facts: dict[str, float]) -> list[float]:
    """One stream's bytes a second, of what all cores were seen to read."""
    limit = 1e9 * max(seen[name] for seen in (turn.before, turn.after) for name in READS)
    return [speed * facts["token_nbytes"] / limit for speed in turn.figures.get(STREAMS[1], ())]


def of_int8(sums: str) -> Callable[[Turn, dict[str, float]], list[float]]:
    """A prompt's operations a second, of what all cores were seen to do."""

    def share(turn: Turn, facts: dict[str, float]) -> list[float]:
        limit = 1e9 * max(turn.before[sums], turn.after[sums])
        work = facts["token_operations"] * (512 - TEMPLATE_TOKENS)
        return [work / (ms / 1e3) / limit for ms in turn.figures.get(PREFILL[512], ())]

    return share


def of_bare(turn: Turn, _facts: dict[str, float]) -> list[float]:
    """One stream's speed, of the program's alone."""
    if not (bare := turn.figures.get(BARE)):
        return []
    return [speed / statistics.median(bare) for speed in turn.figures.get(STREAMS[1], ())]


def of_one_thread(turn: Turn, _facts: dict[str, float]) -> list[float]:
    """Speed with the last core busy, of one thread's with both free."""
    return turn.figures.get(BUSY, [])


READS = ("read_1", "read_all")
SHARES = (
    Share(name="1 stream, of the read bandwidth", least=0.8, of=of_bandwidth),
    Share(name="prefill of 512, of the int8 peak", least=0.5, of=of_int8("int8_sums_32")),
    Share(
        name="prefill of 512, of the int8 peak with 16-bit sums",
        least=0,
        of=of_int8("int8_sums_16"),
    ),
    Share(name="1 stream, of the bare program loop", least=0.92, of=of_bare),
    Share(name="second core busy, of one thread with both free", least=0.8, of=of_one_thread),
)


def figure_of(values: Sequence[float]) -> Figure:
    """Values with their spread."""
    return Figure(middle=statistics.median(values), least=min(values), most=max(values))


def lines_of(record: Record) -> list[Line]:
    """Every row of a record."""
    turns, _ = compared(record.turns)
    lines = [line_of(row, turns, record.facts) for row in ROWS]
    for share in SHARES:
        # Measured once, against one thread of the same minute: the placement matters to neither.
        among = record.turns if share.of is of_one_thread else turns
        lines.append(share_line(share, among, record))
    return lines + quality_lines(record)


def line_of(row: Row, turns: Sequence[Turn], facts: dict[str, float]) -> Line:
    """A row of every server."""
    taken: dict[str, list[float]] = {}
    failed = {t.server: t.failed[row.figure] for t in turns if row.figure in t.failed}
    for turn in turns:
        taken.setdefault(turn.server, []).extend(turn.figures.get(row.figure, ()))
    figures = {server: figure_of(values) for server, values in taken.items() if values}
    peers = {s: f.middle for s, f in figures.items() if s != OURS and s.startswith(row.beside)}
    best = (max if row.more_is_better else min)(peers, key=peers.__getitem__, default=None)
    ours = figures[OURS].middle if OURS in figures else None
    times = None
    if ours and best:
        times = ours / peers[best] if row.more_is_better else peers[best] / ours
    target, met = verdict(row, ours, times, facts)
    return Line(
        name=row.figure,
        unit=row.unit,
        figures=figures,
        failed=failed,
        best=best,
        times=times,
        target=target,
        met=met,
    )


def verdict(
    row: Row, ours: float | None, times: float | None, facts: dict[str, float]
) -> tuple[str, bool | None]:
    """What a row should reach, and whether it does; nobody knows without a peer."""
    if row.times is not None:
        beside = " llama-server's" if row.beside else ""
        met = None if times is None else times >= row.times
        return f"at least {row.times:g} times{beside}", met
    most = row.most
    if row.most_cores is not None:
        most = row.most_cores * facts["core_nbytes"] / 1e6
    if most is None:
        return "", None
    return f"at most {most:.3g} {row.unit}", None if ours is None else ours <= most


def share_line(share: Share, turns: Sequence[Turn], record: Record) -> Line:
    """A share of a limit; the turns of our own server have it."""
    values = [v for turn in turns if turn.server == OURS for v in share.of(turn, record.facts)]
    figures = {OURS: figure_of([100 * value for value in values])} if values else {}
    met = figures[OURS].middle >= 100 * share.least if figures and share.least else None
    target = f"at least {100 * share.least:g} %" if share.least else ""
    why = {} if values else {OURS: "what it is a share of was not measured"}
    return Line(name=share.name, unit="%", figures=figures, failed=why, target=target, met=met)


def quality_lines(record: Record) -> list[Line]:
    """Perplexity and divergence of every server's answers."""
    names = dict.fromkeys(name for found in record.quality.values() for name in found)
    lines = []
    for name in names:
        figures = {
            server: figure_of([found[name]])
            for server, found in record.quality.items()
            if name in found
        }
        peers = {server: f.middle for server, f in figures.items() if server != OURS}
        best = min(peers, key=peers.__getitem__, default=None)
        times = peers[best] / figures[OURS].middle if best and OURS in figures else None
        lines.append(Line(name=name, unit="", figures=figures, failed={}, best=best, times=times))
    return lines
