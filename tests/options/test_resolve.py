"""Options and the contract become limits, once; what cannot be is refused by the option's name."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import fields, replace

from helios.options import (
    Options,
    chosen_processors,
    free_memory,
    home_folder,
    huge_pages_state,
    resolve,
    with_huge_pages,
)
from helios.values import StartRefused
from prepared.contract import ServingDefaults
from tests.treaty.specimens import CONTRACTS

CONTRACT = replace(
    CONTRACTS["plain"],
    concurrency=6,
    context_tokens=1024,
    defaults=ServingDefaults(
        queue_capacity=9, frontend_workers=3, event_capacity=64, output_tokens=500
    ),
)
OPTIONS = Options(core=Path("x.core"), home=Path("home"), cache_memory=1 << 20)
PROCESSORS = len(os.sched_getaffinity(0))
USABLE = ",".join(map(str, sorted(os.sched_getaffinity(0))))
FIRST = USABLE.partition(",")[0]


@pytest.mark.clause("SM-06")
def test_the_contract_fills_what_options_leave_open() -> None:
    limits = resolve(CONTRACT, OPTIONS)
    assert (limits.max_active, limits.queue_capacity, limits.frontend_workers) == (6, 9, 3)
    assert (limits.context_tokens, limits.output_tokens) == (1024, 500)
    assert limits.threads == PROCESSORS


@pytest.mark.clause("SM-06", "SM-02")
def test_an_option_takes_precedence_over_the_contract() -> None:
    limits = resolve(
        CONTRACT,
        replace(OPTIONS, max_active=2, queue_capacity=100, frontend_workers=1, threads=1),
    )
    assert (limits.max_active, limits.queue_capacity, limits.frontend_workers, limits.threads) == (
        2,
        100,
        1,
        1,
    )


@pytest.mark.clause("TO-26")
@given(active=st.integers(1, 6), queue=st.integers(1, 1000))
def test_permits_are_what_may_run_and_what_may_wait(active: int, queue: int) -> None:
    limits = resolve(CONTRACT, replace(OPTIONS, max_active=active, queue_capacity=queue))
    assert limits.permits == active + queue


REFUSED = [
    ({"max_active": 7}, "--max-active: found 7, expected 1 to 6"),
    ({"max_active": 0}, "--max-active: found 0, expected 1 to 6"),
    ({"queue_capacity": 0}, "--queue-capacity: found 0, expected at least 1"),
    ({"frontend_workers": -1}, "--frontend-workers: found -1, expected at least 1"),
    ({"threads": 0}, f"--threads: found 0, expected 1 to {PROCESSORS}"),
    (
        {"threads": PROCESSORS + 1},
        f"--threads: found {PROCESSORS + 1}, expected 1 to {PROCESSORS}",
    ),
    (
        {"threads": 2, "affinity": FIRST},
        "--threads: found 2, expected 1 to 1",
    ),
    (
        {"affinity": f"{FIRST},99999"},
        "--affinity: found 99999, expected some of those that this process may use: " + USABLE,
    ),
    ({"affinity": "3-2"}, "--affinity: found 3-2, expected the lower one first"),
    *(
        ({"affinity": text}, f"--affinity: found {text!r}, expected processors, such as 0,2-5")
        for text in ("", "all", "0,", "-1", "0-", "1-2-3", "\u0661")
    ),
    ({"cache_memory": 0}, "--cache-memory: found 0, expected at least 1"),
    ({"port": -1}, "--port: found -1, expected 0 to 65535"),
    ({"port": 65536}, "--port: found 65536, expected 0 to 65535"),
]


@pytest.mark.clause("SM-02")
@pytest.mark.parametrize(("changes", "sentence"), REFUSED)
def test_what_cannot_be_is_refused_by_name(changes: dict[str, Any], sentence: str) -> None:
    with pytest.raises(StartRefused) as refusal:
        resolve(CONTRACT, replace(OPTIONS, **changes))
    assert str(refusal.value) == sentence


@pytest.mark.parametrize(
    "changes",
    [{"max_active": 1}, {"max_active": 6}, {"threads": PROCESSORS}, {"port": 0}, {"port": 65535}],
)
def test_the_bound_itself_is_accepted(changes: dict[str, Any]) -> None:
    resolve(CONTRACT, replace(OPTIONS, **changes))


def test_the_same_options_give_the_same_limits() -> None:
    assert resolve(CONTRACT, OPTIONS) == resolve(CONTRACT, OPTIONS)


def test_nothing_the_user_set_is_changed() -> None:
    options = replace(OPTIONS, max_active=3)
    before = {field.name: getattr(options, field.name) for field in fields(options)}
    resolve(CONTRACT, options)
    assert {field.name: getattr(options, field.name) for field in fields(options)} == before


# --------------------------------------------------------------- processors


def test_threads_run_on_all_usable_processors_unless_told_otherwise() -> None:
    assert resolve(CONTRACT, OPTIONS).processors == tuple(sorted(os.sched_getaffinity(0)))
    limits = resolve(CONTRACT, replace(OPTIONS, affinity=FIRST))
    assert (limits.processors, limits.threads) == ((int(FIRST),), 1)


@given(st.sets(st.integers(0, 40), min_size=1))
def test_a_list_of_processors_may_have_spans_and_blanks(chosen: set[int]) -> None:
    usable = range(41)
    assert chosen_processors(" , ".join(map(str, chosen)), usable) == tuple(sorted(chosen))
    first, last = min(chosen), max(chosen)
    assert chosen_processors(f"{first}-{last}", usable) == tuple(range(first, last + 1))


@pytest.mark.parametrize(
    ("asked", "state", "given_so"),
    [
        (None, "always", True),
        (None, "madvise", True),
        (None, "never", False),
        ("on", "madvise", True),
        ("off", "always", False),
        ("off", "never", False),
    ],
)
def test_memory_is_in_huge_pages_where_they_can_be_had(
    asked: str | None, state: str, given_so: bool
) -> None:
    assert with_huge_pages(asked, state) is given_so


def test_huge_pages_that_cannot_be_had_are_refused() -> None:
    with pytest.raises(StartRefused, match=r"--huge-pages: found on, expected off: /sys/kernel"):
        with_huge_pages("on", "never")


def test_what_the_system_does_about_huge_pages_is_read_as_it_writes_it(tmp_path: Path) -> None:
    file = tmp_path / "enabled"
    assert huge_pages_state(file) == "never"
    file.write_text("always [madvise] never\n")
    assert huge_pages_state(file) == "madvise"


# ------------------------------------------------------------------- memory


def test_the_cache_gets_a_part_of_the_free_memory_unless_told_otherwise() -> None:
    assert resolve(CONTRACT, OPTIONS).cache_memory == 1 << 20
    open_ended = resolve(CONTRACT, replace(OPTIONS, cache_memory=None)).cache_memory
    assert 0 < open_ended < free_memory()


def test_a_cache_of_a_given_size_does_not_ask_the_system(monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown() -> int:
        raise StartRefused("no MemAvailable")

    monkeypatch.setattr("helios.options.free_memory", unknown)
    assert resolve(CONTRACT, OPTIONS).cache_memory == 1 << 20


def test_free_memory_is_what_the_system_could_give(tmp_path: Path) -> None:
    meminfo = tmp_path / "meminfo"
    meminfo.write_text("MemTotal:       16 kB\nMemAvailable:    7 kB\nBuffers:  1 kB\n")
    assert free_memory(meminfo) == 7 * 1024


def test_a_system_that_does_not_say_is_answered_with_the_option(tmp_path: Path) -> None:
    meminfo = tmp_path / "meminfo"
    meminfo.write_text("MemTotal:       16 kB\n")
    with pytest.raises(StartRefused) as refusal:
        free_memory(meminfo)
    assert str(refusal.value) == f"{meminfo}: no MemAvailable; say --cache-memory"


# ---------------------------------------------------------------------- home


def test_the_home_folder_is_the_named_one_or_the_user_s(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("HELIOS_HOME", str(tmp_path / "here"))
    assert home_folder() == tmp_path / "here"
    monkeypatch.delenv("HELIOS_HOME")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    assert home_folder() == tmp_path / "helios"
    monkeypatch.delenv("XDG_CONFIG_HOME")
    monkeypatch.setenv("HOME", str(tmp_path / "user"))
    assert home_folder() == tmp_path / "user" / ".config" / "helios"


# --------------------------------------------------------------- speculation


@pytest.mark.clause("SM-02")
def test_speculation_may_only_be_narrower() -> None:
    wide = replace(CONTRACT, speculative_widths=(2, 4))
    widths = {
        asked: resolve(wide, replace(OPTIONS, speculative_width=asked)).speculative_width
        for asked in (None, 1, 2, 4)
    }
    assert widths == {None: 4, 1: 1, 2: 2, 4: 4}
    for asked in (0, -1, 3, 8):
        with pytest.raises(StartRefused) as refusal:
            resolve(wide, replace(OPTIONS, speculative_width=asked))
        assert str(refusal.value) == (
            f"--speculative-width: found {asked}, expected one of the core's: 1, 2, 4"
        )


def test_a_core_that_does_not_speculate_has_one_width() -> None:
    assert resolve(CONTRACT, OPTIONS).speculative_width == 1
    with pytest.raises(StartRefused, match="expected one of the core's: 1$"):
        resolve(CONTRACT, replace(OPTIONS, speculative_width=2))
