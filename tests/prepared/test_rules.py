"""Each rule of a single field: what passes, and what is expected of what does not."""

from __future__ import annotations

import pytest

from prepared.fields import ContractError, Finite, Length, OneOf, PowerOfTwo, Rule, Within

PASSING: list[tuple[Rule, list[object]]] = [
    (Within(1), [1, 2, 1 << 64]),
    (Within(-1, 1), [-1, 0, 1]),
    (Length(1), ["a", "\u00e9", b"\0"]),
    (Length(32, 32), [bytes(32)]),
    (Length(0, 4), ["", "four", b"\0"]),
    (PowerOfTwo(), [1, 2, 4096, 1 << 63]),
    (Finite(), [0.0, -0.0, -1e30, 3.4028234663852886e38]),
    (Finite(0.0), [0.0, -0.0, 5e-324, 1.0]),
    (OneOf((4, 6)), [4, 6]),
]
BREAKING: list[tuple[Rule, list[object], str]] = [
    (Within(1), [0, -1], "at least 1"),
    (Within(-1, 1), [-2, 2], "-1 to 1"),
    (Length(1), [""], "text"),
    (Length(1), [b""], "at least 1 bytes"),
    (Length(32, 32), [b"", bytes(31), bytes(33)], "32 bytes"),
    (Length(0, 4), ["fives", bytes(5)], "at most 4"),
    (PowerOfTwo(), [0, -1, -4, 3, 4095, 4097], "a power of two"),
    (Finite(), [float("inf"), float("-inf"), float("nan")], "a finite number"),
    (
        Finite(0.5),
        [0.25, -1.0, float("inf"), float("-inf"), float("nan")],
        "a finite number, at least 0.5",
    ),
    (OneOf((4, 6)), [0, 5, -4], "one of [4, 6]"),
]


@pytest.mark.parametrize(("rule", "value"), [(rule, v) for rule, vs in PASSING for v in vs])
def test_a_value_within_its_rule_passes(rule: Rule, value: object) -> None:
    assert rule.broken_by(value) is None


@pytest.mark.parametrize(
    ("rule", "value", "expected"), [(rule, v, text) for rule, vs, text in BREAKING for v in vs]
)
def test_a_broken_rule_says_what_was_expected(rule: Rule, value: object, expected: str) -> None:
    assert rule.broken_by(value) == expected


def test_an_error_says_where_what_and_what_instead() -> None:
    error = ContractError("cache.histories[2].kind", 0, expected="one of [1, 4]")
    assert str(error) == "cache.histories[2].kind: found 0, expected one of [1, 4]"
    assert (error.at, error.found, error.expected) == (
        "cache.histories[2].kind",
        0,
        "one of [1, 4]",
    )
