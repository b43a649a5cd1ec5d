"""A record of turns becomes the table: within one placement, against the best peer of each row."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.machine import APART, MOVED, TOGETHER, state_of
from bench.page import page
from bench.readme import BEGIN, END, NoPlace, filled
from bench.record import Record, Turn, compared, read, write
from bench.rows import BARE, CACHED, PREFILL, ROWS, START, STREAMS, Line, lines_of
from bench.text import markdown_of, text_of, verdict_of
from bench.workloads import ASKS

SEEN = {"read_1": 10.0, "read_all": 11.0, "int8_sums_32": 100.0, "int8_sums_16": 200.0}
SPLIT = SEEN | {"read_all": 20.0}
FACTS = {"core_nbytes": 100e6, "token_nbytes": 100e6, "token_operations": 0.2e9}


def turn(
    server: str, seen: dict[str, float] = SEEN, figures: dict[str, list[float]] | None = None
) -> Turn:
    """A turn with figures of rows by their names."""
    return Turn(
        round=0,
        server=server,
        seconds=1.0,
        before=seen,
        after=seen,
        figures=figures or {},
        failed={},
    )


def record(*turns: Turn) -> Record:
    """A record of some turns."""
    machine = {"cpu": "a processor", "cores": 2, "instructions": ["avx2"], "date": "2000-01-01"}
    return Record(machine=machine, versions={}, quick=False, facts=FACTS, turns=list(turns))


def line(found: Record, name: str) -> Line:
    """One line of a record."""
    return next(line for line in lines_of(found) if line.name == name)


def peers(figure: str, ours: float, *others: tuple[str, float]) -> Record:
    """A record with one figure of ours and of peers."""
    every = [("helios", ours), *others]
    return record(*(turn(name, figures={figure: [value]}) for name, value in every))


def test_speed_is_compared_with_the_fastest_peer() -> None:
    found = line(peers(STREAMS[1], 180.0, ("a", 60.0), ("b", 100.0)), STREAMS[1])
    assert (found.best, found.times, found.met) == ("b", 1.8, True)
    assert verdict_of(found) == "target at least 1.6 times, reached 1.80 times: met"


def test_time_is_compared_with_the_quickest_peer() -> None:
    found = line(peers(PREFILL[512], 100.0, ("a", 110.0), ("b", 500.0)), PREFILL[512])
    assert (found.best, found.times, found.met) == ("a", 1.1, False)


def test_a_row_may_name_the_peer_that_counts() -> None:
    found = line(peers(CACHED, 10.0, ("openvino", 1.0), ("llama-server Q4_0", 60.0)), CACHED)
    assert (found.best, found.times, found.met) == ("llama-server Q4_0", 6.0, True)


def test_without_a_peer_nobody_knows_whether_a_target_is_met() -> None:
    assert line(peers(STREAMS[4], 100.0), STREAMS[4]).met is None


def test_an_absolute_target_needs_no_peer() -> None:
    assert line(peers(START, 0.69), START).met is True
    assert line(peers(START, 0.71), START).met is False


def test_a_stream_is_a_share_of_the_bandwidth_seen_around_it() -> None:
    found = record(turn("helios", figures={STREAMS[1]: [99.0]}))
    assert line(found, "1 stream, of the read bandwidth").figures["helios"].middle == 90.0


def test_a_failed_row_says_why_and_the_others_stand() -> None:
    failed = Turn(
        round=0,
        server="b",
        seconds=1.0,
        before=SEEN,
        after=SEEN,
        figures={},
        failed={STREAMS[8]: "hung up"},
    )
    ours = turn("helios", figures={STREAMS[8]: [9.0], BARE: [1.0]})
    said = text_of(record(ours, failed))
    assert "  b                    failed: hung up" in said
    assert "  helios               9.00" in said


@pytest.mark.parametrize(
    ("before", "after", "state"),
    [(SEEN, SEEN, TOGETHER), (SPLIT, SPLIT, APART), (SEEN, SPLIT, MOVED)],
)
def test_a_placement_is_what_both_looks_agree_on(
    before: dict[str, float], after: dict[str, float], state: str
) -> None:
    assert state_of(before, after) == state


def test_turns_are_compared_within_a_placement_that_all_servers_had_twice() -> None:
    apart = [turn(name, SPLIT) for name in ("helios", "a", "helios", "a")]
    assert compared([turn("helios"), *apart, turn("a")]) == (apart, APART)
    once = [turn("helios", SPLIT), turn("helios"), turn("a", SPLIT), turn("a", SPLIT)]
    assert compared(once) == (once, "mixed")


def test_every_row_of_a_workload_is_in_the_table() -> None:
    asked = {figure for ask in ASKS for figure in ask.figures}
    assert asked <= {row.figure for row in ROWS}


def test_a_record_comes_back_from_its_file(tmp_path: Path) -> None:
    found = peers(STREAMS[1], 1.0, ("a", 2.0))
    write(found, tmp_path / "kept" / "x.json")
    assert read(tmp_path / "kept" / "x.json") == found


def test_the_page_has_a_chart_for_every_measured_row_and_fetches_nothing() -> None:
    said = page(peers(STREAMS[1], 1.0, ("<a>", 2.0)))
    assert 'aria-label="1 stream"' in said
    assert "&lt;a&gt;" in said
    assert "http" not in said
    assert "src=" not in said


def test_the_document_takes_the_table_between_its_marks() -> None:
    table = markdown_of(peers(STREAMS[1], 180.0, ("b", 100.0)))
    assert "| 1 stream | 180 tokens/s | 100 (b) | 1.80 | at least 1.6 times: met |" in table
    once = filled(f"a\n{BEGIN}old\n{END}b\n", table)
    assert filled(once, table) == once
    assert once.startswith("a\n")
    assert once.endswith("b\n")
    with pytest.raises(NoPlace, match="no <!-- measured"):
        filled("a", table)
