"""Sampling: the kernel draws what the meaning draws, and the meaning draws rightly."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ignition.build.cpu import LEVELS
from ignition.ops.sample import (
    MOST_BIAS,
    NOTHING_ALLOWED,
    SAMPLE,
    UNDEFINED,
    Sampling,
    adjusted,
    exponentials,
    philox,
    sample,
)
from ignition.ops.score import MOST_TOP, SCORE, log_probabilities, top_row
from ignition.preparation.storage import SLOT_NBYTES
from ignition.record.meaning import SLOT_DTYPE
from tests.ops.kernels import SHARES, Array, Kernels, count

TOKENS = 997


def sampling(**changes: object) -> Sampling:
    plain: dict[str, object] = {
        "seed": 7,
        "temperature": 1.0,
        "top_p": 1.0,
        "min_p": 0.0,
        "top_k": 0,
        "repetition": 1.0,
        "presence": 0.0,
        "frequency": 0.0,
        "forbidden": (),
    }
    # The device keeps single precision, so that is what was asked of both.
    rounded = {
        name: float(np.float32(value)) if isinstance(value, float) else value
        for name, value in {**plain, **changes}.items()
    }
    return Sampling(**rounded)  # type: ignore[arg-type]


def run(
    kernels: Kernels,
    logits: Array,
    histogram: Array,
    wanted: Sampling,
    *,
    position: int,
    eos: int = -1,
    emitted: int = 0,
) -> int:
    """The kernel's token for one row in slot 2."""
    return run_scored(kernels, logits, histogram, wanted, position=position, eos=eos)[0]


def run_scored(
    kernels: Kernels,
    logits: Array,
    histogram: Array,
    wanted: Sampling,
    *,
    position: int,
    eos: int = -1,
    logprobs: int = -1,
) -> tuple[int, float, Array, Array]:
    """The kernel's token for one row in slot 2, and what it says of its log-probability."""
    slots = np.zeros((3, SLOT_NBYTES), np.uint8)
    record = slots.view(SLOT_DTYPE).reshape(-1)[2:3]
    for name in (
        "seed",
        "temperature",
        "top_p",
        "min_p",
        "top_k",
        "repetition",
        "presence",
        "frequency",
    ):
        record[name] = getattr(wanted, name)
    record["eos"] = -1
    record["eos"][0, 0] = eos
    record["minimum_output"], record["emitted"] = 5, 0 if wanted.forbidden else 5
    width = -(-len(logits) // 32) * 32
    histograms = np.zeros((3, width), np.uint16)
    histograms[2, : len(logits)] = histogram
    padded = np.zeros((1, len(logits) + 16), np.float32)
    padded[0, : len(logits)] = logits
    sampled = np.full(4, -7, np.int32)
    record["logprobs"] = logprobs
    bias_ids, bias_values = np.full((3, MOST_BIAS), -1, np.int32), np.zeros((3, MOST_BIAS), "<f4")
    for place, (token, value) in enumerate(wanted.bias):
        bias_ids[2, place], bias_values[2, place] = token, value
    masks = np.full((3, width // 32), 0xFFFFFFFF, np.uint32)
    if wanted.mask is not None:
        masks[2] = wanted.mask
    chosen = np.full(4, 7.0, np.float32)
    top_ids, tops = np.full((4, MOST_TOP), -7, np.int32), np.full((4, MOST_TOP), 7, np.float32)
    kernels.run(
        SAMPLE,
        SHARES,
        logits=padded,
        samples=count(1),
        sample_rows=np.array([1], np.uint32),
        sample_lanes=np.array([3], np.uint32),
        positions=np.array([0, position - 1], np.int32),
        slots=np.array([0, 0, 0, 2], np.uint32),
        states=slots,
        histograms=histograms,
        bias_ids=bias_ids,
        bias_values=bias_values,
        masks=masks,
        sampled=sampled,
        logprobs=chosen,
        top_ids=top_ids,
        top_logprobs=tops,
        tokens=len(logits),
        stride=padded.shape[1],
        slot_stride=SLOT_NBYTES,
        histogram_width=width,
        mask_words=width // 32,
        by_row=0,
    )
    return int(sampled[3]), float(chosen[3]), top_ids[3], tops[3]


def logits_of(seed: int, *, spread: float) -> Array:
    return np.random.default_rng(seed).normal(0, spread, TOKENS).astype(np.float32)


SETTINGS = [
    {},
    {"top_k": 1},
    {"top_k": 40},
    {"top_k": TOKENS + 5},
    {"top_p": 0.1},
    {"top_p": 0.9},
    {"min_p": 0.2},
    {"top_k": 50, "top_p": 0.8, "min_p": 0.05},
    {"temperature": 0.3},
    {"temperature": 2.0, "top_p": 0.95},
    {"temperature": 0.0},
    {"repetition": 1.3, "presence": 0.4, "frequency": 0.2},
]


@pytest.mark.parametrize("changes", SETTINGS, ids=str)
@pytest.mark.parametrize("spread", [0.0, 0.5, 4.0])
def test_the_kernel_draws_what_its_meaning_draws(
    kernels: Kernels, changes: dict[str, object], spread: float
) -> None:
    agreed = 0
    for seed in range(60):
        logits = logits_of(seed, spread=spread)
        histogram = np.random.default_rng(seed).poisson(0.1, TOKENS).astype(np.uint16)
        wanted = sampling(seed=(seed * 0x9E3779B97F4A7C15) % 2**64, **changes)
        expected = sample(logits, histogram, position=seed + 1, sampling=wanted)
        agreed += run(kernels, logits, histogram, wanted, position=seed + 1) == expected
    # Single precision may decide an exact border otherwise, once in a long while.
    assert agreed >= 59


@pytest.mark.parametrize(
    "changes",
    [{}, {"temperature": 0.2}, {"top_k": 5000}, {"top_p": 0.9}, {"top_k": 9000, "top_p": 0.97}],
    ids=str,
)
@pytest.mark.parametrize("rounded", [False, True])
def test_a_large_vocabulary_is_drawn_from_as_a_small_one_is(
    kernels: Kernels, changes: dict[str, object], rounded: bool
) -> None:
    histogram = np.zeros(40_013, np.uint16)
    for seed in range(4):
        logits = np.random.default_rng(seed).normal(0, 2, len(histogram)).astype(np.float32)
        if rounded:
            logits = np.round(logits)
        wanted = sampling(seed=seed, **changes)
        expected = sample(logits, histogram, position=3, sampling=wanted)
        assert run(kernels, logits, histogram, wanted, position=3) == expected


def test_an_infinite_logit_wins(kernels: Kernels) -> None:
    logits = logits_of(1, spread=1.0)
    logits[[40, 700]] = np.inf
    wanted = sampling(top_p=0.9)
    assert sample(logits, NOTHING_SEEN, position=1, sampling=wanted) == 40
    assert run(kernels, logits, NOTHING_SEEN, wanted, position=1) == 40


def test_two_libraries_in_one_process_are_two(kernels: Kernels) -> None:
    assert Kernels.of(LEVELS[-1]).library.kernel(SAMPLE.symbol) != kernels.library.kernel(
        SAMPLE.symbol
    )


def test_greedy_takes_the_lowest_id_among_equals(kernels: Kernels) -> None:
    logits = np.zeros(TOKENS, np.float32)
    logits[[700, 31, 32]] = 2.5
    histogram = np.zeros(TOKENS, np.uint16)
    assert run(kernels, logits, histogram, sampling(temperature=0.0), position=1) == 31


def test_an_end_may_not_come_before_the_minimum_output(kernels: Kernels) -> None:
    logits = np.zeros(TOKENS, np.float32)
    logits[5], logits[9] = 3.0, 2.0
    histogram = np.zeros(TOKENS, np.uint16)
    early = sampling(temperature=0.0, forbidden=(5,))
    assert run(kernels, logits, histogram, early, position=1, eos=5) == 9
    late = sampling(temperature=0.0)
    assert run(kernels, logits, histogram, late, position=1, eos=5) == 5


def test_an_undefined_logit_gives_no_token(kernels: Kernels) -> None:
    logits = logits_of(1, spread=1.0)
    logits[500] = np.nan
    histogram = np.zeros(TOKENS, np.uint16)
    assert run(kernels, logits, histogram, sampling(), position=1) == -1


def test_draws_follow_the_softmax(kernels: Kernels) -> None:
    logits = np.log(np.array([0.5, 0.25, 0.15, 0.07, 0.03], np.float32))
    histogram = np.zeros(5, np.uint16)
    draws = np.array(
        [run(kernels, logits, histogram, sampling(seed=s), position=3) for s in range(20000)]
    )
    expected = np.exp(logits.astype(np.float64)) * len(draws)
    chi = ((np.bincount(draws, minlength=5) - expected) ** 2 / expected).sum()
    assert chi < 23.5  # 4 degrees of freedom, one in ten thousand


def test_philox_gives_the_published_words() -> None:
    # Known answers of Random123 1.14 (kat_vectors): philox4x32-10.
    assert philox(np.array([0], np.uint32), position=0, seed=0)[0] == 0x6627E8D5


@given(st.integers(0, 2**64 - 1), st.integers(0, 2**20))
@settings(max_examples=50)
def test_a_token_is_a_function_of_seed_and_position(seed: int, position: int) -> None:
    logits = logits_of(3, spread=1.0)
    histogram = np.zeros(TOKENS, np.uint16)
    wanted = sampling(seed=seed)
    again = sample(logits, histogram, position=position, sampling=wanted)
    assert sample(logits, histogram, position=position, sampling=wanted) == again


def test_exponential_variates_are_positive_and_average_one() -> None:
    variates = exponentials(philox(np.arange(200_000, dtype=np.uint32), position=1, seed=1))
    assert (variates > 0).all()
    assert abs(variates.mean() - 1.0) < 0.01


# ------------------------------------------------- bias, masks, log-probabilities


def mask_of(allowed: Array) -> Array:
    """Words whose bits are the allowed tokens."""
    padded = np.zeros(-(-len(allowed) // 32) * 32, np.bool_)
    padded[: len(allowed)] = allowed
    return np.packbits(padded, bitorder="little").view(np.uint32)


NOTHING_SEEN = np.zeros(TOKENS, np.uint16)


@given(
    seed=st.integers(0, 2**32 - 1),
    share=st.sampled_from([0.002, 0.1, 0.5, 0.99]),
    temperature=st.sampled_from([0.0, 0.7, 1.5]),
    biased=st.integers(0, 300),
    logprobs=st.sampled_from([-1, 0, 1, 5, 20]),
    levels=st.sampled_from([3, 1000]),
)
@settings(max_examples=60, deadline=None)
def test_bias_mask_and_log_probabilities_are_what_they_mean(
    kernels: Kernels,
    seed: int,
    share: float,
    temperature: float,
    biased: int,
    logprobs: int,
    levels: int,
) -> None:
    rng = np.random.default_rng(seed)
    logits = (rng.integers(0, levels, TOKENS) * np.float32(6 / levels)).astype(np.float32)
    allowed = rng.random(TOKENS) < share
    allowed[rng.integers(TOKENS)] = True
    ids = rng.permutation(TOKENS)[:biased].tolist()
    wanted = sampling(
        seed=seed,
        temperature=temperature,
        mask=mask_of(allowed),
        bias=tuple((token, float(np.float32(rng.normal(0, 3)))) for token in ids),
    )
    token, chosen, top_ids, tops = run_scored(
        kernels, logits, NOTHING_SEEN, wanted, position=9, logprobs=logprobs
    )
    assert allowed[token]
    left = adjusted(logits, NOTHING_SEEN, wanted)
    if temperature == 0.0:
        assert token == sample(logits, NOTHING_SEEN, position=9, sampling=wanted)
    if logprobs < 0:
        assert chosen == 7.0
        return
    expected_ids, expected = top_row(left, logprobs)
    assert chosen == pytest.approx(log_probabilities(left)[token], abs=2e-5)
    assert top_ids.tolist() == expected_ids.tolist()
    np.testing.assert_allclose(tops, expected, atol=2e-5)


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_a_token_is_the_same_whether_its_log_probability_is_asked_for_or_not(
    kernels: Kernels, temperature: float
) -> None:
    for seed in range(30):
        logits = logits_of(seed, spread=1.0)
        wanted = sampling(seed=seed, temperature=temperature, top_p=0.9)
        tokens = {
            run_scored(kernels, logits, NOTHING_SEEN, wanted, position=3, logprobs=count)[0]
            for count in (-1, 0, 20)
        }
        assert len(tokens) == 1


@pytest.mark.parametrize("temperature", [0.0, 1.0])
@pytest.mark.parametrize("only", [0, 31, 32, 992, TOKENS - 1])
def test_the_only_allowed_token_is_drawn_however_unlikely(
    kernels: Kernels, only: int, temperature: float
) -> None:
    logits = logits_of(1, spread=4.0)
    logits[only] = -50.0
    wanted = sampling(temperature=temperature, mask=mask_of(np.arange(TOKENS) == only))
    token, chosen, top_ids, _ = run_scored(
        kernels, logits, NOTHING_SEEN, wanted, position=1, logprobs=3
    )
    assert (token, chosen) == (only, 0.0)
    assert top_ids[:4].tolist() == [only, -1, -1, -1]


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_a_mask_that_allows_nothing_draws_nothing(kernels: Kernels, temperature: float) -> None:
    logits = logits_of(2, spread=1.0)
    wanted = sampling(temperature=temperature, mask=mask_of(np.zeros(TOKENS, np.bool_)))
    assert sample(logits, NOTHING_SEEN, position=1, sampling=wanted) == NOTHING_ALLOWED
    assert run(kernels, logits, NOTHING_SEEN, wanted, position=1) == NOTHING_ALLOWED


def test_an_undefined_logit_draws_nothing_whatever_the_mask(kernels: Kernels) -> None:
    for place in (0, 500, TOKENS - 1):
        logits = logits_of(2, spread=1.0)
        logits[place] = np.nan
        assert run(kernels, logits, NOTHING_SEEN, sampling(), position=1) == UNDEFINED


def test_targets_are_scored_and_rows_without_one_are_left_alone(kernels: Kernels) -> None:
    rows = 5
    logits = np.zeros((rows, TOKENS + 16), np.float32)
    logits[:, :TOKENS] = np.random.default_rng(4).normal(0, 2, (rows, TOKENS))
    before = logits.copy()
    slots = np.zeros((3, SLOT_NBYTES), np.uint8)
    slots.view(SLOT_DTYPE).reshape(-1)["logprobs"] = [4, -1, 20]
    targets = np.array([5, -1, 996, 0, 31], np.int32)
    chosen = np.full(rows, 7.0, np.float32)
    top_ids, tops = np.full((rows, MOST_TOP), -7, np.int32), np.zeros((rows, MOST_TOP), np.float32)
    kernels.run(
        SCORE,
        SHARES,
        logits=logits,
        rows=count(rows),
        targets=targets,
        lanes=np.array([0, 0, 1, 1, 2], np.uint32),
        slots=np.array([2, 0, 1], np.uint32),
        states=slots,
        logprobs=chosen,
        top_ids=top_ids,
        top_logprobs=tops,
        tokens=TOKENS,
        stride=logits.shape[1],
        slot_stride=SLOT_NBYTES,
    )
    assert np.array_equal(logits, before)
    assert (chosen[1], top_ids[1, 0]) == (7.0, -7)
    for row, alternatives in ((0, 20), (2, 4), (3, 4), (4, 0)):
        wanted = log_probabilities(logits[row, :TOKENS])[targets[row]]
        assert chosen[row] == pytest.approx(wanted, abs=2e-5)
        ids, values = top_row(logits[row, :TOKENS], alternatives)
        assert top_ids[row].tolist() == ids.tolist()
        np.testing.assert_allclose(tops[row], values, atol=2e-5)
