"""Options and the contract become limits, once; what cannot be is refused by the option's name."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import fields, replace

from helios.options import Options, free_memory, home_folder, resolve
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
    ({"cache_memory": 0}, "--cache-memory: found 0, expected at least 1"),
    ({"port": -1}, "--port: found -1, expected 0 to 65535"),
    ({"port": 65536}, "--port: found 65536, expected 0 to 65535"),
]


@pytest.mark.clause("SM-02")
@pytest.mark.parametrize(("changes", "sentence"), REFUSED)
def test_a_number_out_of_bounds_is_refused_by_name(changes: dict[str, int], sentence: str) -> None:
    with pytest.raises(StartRefused) as refusal:
        resolve(CONTRACT, replace(OPTIONS, **changes))  # type: ignore[arg-type]
    assert str(refusal.value) == sentence


@pytest.mark.parametrize(
    "changes",
    [{"max_active": 1}, {"max_active": 6}, {"threads": PROCESSORS}, {"port": 0}, {"port": 65535}],
)
def test_the_bound_itself_is_accepted(changes: dict[str, int]) -> None:
    resolve(CONTRACT, replace(OPTIONS, **changes))  # type: ignore[arg-type]


def test_the_same_options_give_the_same_limits() -> None:
    assert resolve(CONTRACT, OPTIONS) == resolve(CONTRACT, OPTIONS)


def test_nothing_the_user_set_is_changed() -> None:
    options = replace(OPTIONS, max_active=3)
    before = {field.name: getattr(options, field.name) for field in fields(options)}
    resolve(CONTRACT, options)
    assert {field.name: getattr(options, field.name) for field in fields(options)} == before


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
