"""Settings: kinds are checked, keys are remembered."""

from __future__ import annotations

import pytest

from ignition.weights.checkpoint import CheckpointError, Settings

REMEDY = "the checkpoint is damaged or needs a newer Ignition"


def some_settings() -> Settings:
    values = {
        "a.layers": 4,
        "a.theta": 10000,
        "a.epsilon": 1e-5,
        "a.tied": True,
        "a.name": "tiny",
        "a.heads": (4, 4, 2),
        "a.window": None,
        "b.other": 1,
    }
    return Settings(values, origin="tiny.gguf")


def test_a_value_is_handed_out_in_its_kind() -> None:
    settings = some_settings()
    assert settings.take("a.layers", int) == 4
    assert settings.take("a.epsilon", float) == 1e-5
    assert settings.take("a.tied", bool) is True
    assert settings.take("a.name", str) == "tiny"
    assert settings.take_list("a.heads", int) == (4, 4, 2)


def test_a_whole_number_may_stand_for_a_number() -> None:
    theta = some_settings().take("a.theta", float)
    assert theta == 10000.0
    assert type(theta) is float


def test_one_or_many_are_both_accepted_where_publishers_differ() -> None:
    settings = some_settings()
    assert settings.take_one_or_many("a.layers", int) == 4
    assert settings.take_one_or_many("a.heads", int) == (4, 4, 2)
    assert settings.take_one_or_many("a.missing", int, default=None) is None


def test_an_absent_key_takes_its_default() -> None:
    settings = some_settings()
    assert settings.take("a.missing", int, default=7) == 7
    assert settings.take_list("a.missing", int, default=None) is None


def test_a_null_counts_as_absent_and_can_be_told_apart() -> None:
    settings = some_settings()
    assert settings.take("a.window", int, default=4096) == 4096
    assert settings.is_null("a.window")
    assert not settings.is_null("a.layers")
    assert not settings.is_null("a.missing")


@pytest.mark.parametrize(
    ("key", "kind", "sentence"),
    [
        ("a.missing", int, "a.missing: found nothing, expected a whole number"),
        ("a.window", int, "a.window: found null, expected a whole number"),
        ("a.tied", int, "a.tied: found True, expected a whole number"),
        ("a.tied", float, "a.tied: found True, expected a number"),
        ("a.epsilon", int, "a.epsilon: found 1e-05, expected a whole number"),
        ("a.layers", bool, "a.layers: found 4, expected true or false"),
        ("a.layers", str, "a.layers: found 4, expected text"),
        ("a.name", float, "a.name: found 'tiny', expected a number"),
        ("a.heads", int, "a.heads: found (4, 4, 2), expected a whole number"),
    ],
)
def test_a_wrong_kind_is_refused_with_the_key(key: str, kind: type[int], sentence: str) -> None:
    with pytest.raises(CheckpointError) as refusal:
        some_settings().take(key, kind)
    assert str(refusal.value) == f"tiny.gguf: {sentence}; {REMEDY}"


@pytest.mark.parametrize(
    ("key", "sentence"),
    [
        ("a.missing", "a.missing: found nothing, expected a list, each text"),
        ("a.name", "a.name: found 'tiny', expected a list, each text"),
        ("a.heads", "a.heads[0]: found 4, expected text"),
    ],
)
def test_a_wrong_list_is_refused_with_the_key(key: str, sentence: str) -> None:
    with pytest.raises(CheckpointError) as refusal:
        some_settings().take_list(key, str)
    assert str(refusal.value) == f"tiny.gguf: {sentence}; {REMEDY}"


def test_keys_that_nobody_took_are_listed_by_prefix() -> None:
    settings = some_settings()
    settings.take("a.layers", int)
    settings.take_list("a.heads", int)
    settings.take("a.window", int, default=None)
    assert settings.untaken("a.") == ("a.epsilon", "a.name", "a.theta", "a.tied")
    assert "b.other" in settings.untaken()


def test_a_key_counts_as_taken_also_when_it_was_absent_or_refused() -> None:
    settings = some_settings()
    settings.take("a.missing", int, default=1)
    with pytest.raises(CheckpointError):
        settings.take("a.name", int)
    assert "a.name" not in settings.untaken()


def test_settings_can_be_looked_through_without_taking() -> None:
    settings = some_settings()
    assert "a.layers" in settings
    assert "a.missing" not in settings
    assert len(list(settings)) == len(settings) == 8
    assert len(settings.untaken()) == 8
