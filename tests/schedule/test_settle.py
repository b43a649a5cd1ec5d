"""Every number of a completion record is judged, and a wrong one is named (AH-13)."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from helios.rounds import Completion, LaneRecord, LaneWork, Score, Submission
from helios.schedule.settle import Expected, lane_problem, record_problem
from helios.values import Generation, ProgramId, Sequence, Slot
from prepared.manifest import FinishBits
from tests.schedule.made import EOS, VOCABULARY

WORK = LaneWork(
    slot=Slot(3),
    generation=Generation(5),
    tokens=(),
    start=8,
    endpoint=9,
    samples=True,
    new_pages=(),
    admission=None,
)
FEEDING = replace(WORK, tokens=(10, 11), start=0, endpoint=2, samples=False)
EXPECTED = Expected(over=False, emitted=2, output_limit=10, eos_ids=(EOS, 7), vocabulary=VOCABULARY)
RECORD = LaneRecord(
    slot=3,
    generation=5,
    consumed=9,
    emitted=1,
    tokens=(42,),
    offered=0,
    accepted=0,
    cursor=-1,
    reserved=-1,
    finish=0,
)
FED = replace(RECORD, consumed=2, emitted=0, tokens=())
PACKED = 1
SUBMISSION = Submission(sequence=Sequence(11), frame=1, program=ProgramId(4), lanes=(WORK,))
COMPLETION = Completion(sequence=11, frame=1, program=4, status=0, rows=1, lanes=(RECORD,))


def test_a_record_that_answers_its_submission_is_right() -> None:
    assert record_problem(SUBMISSION, COMPLETION, packed_tokens=PACKED) is None
    assert lane_problem(WORK, RECORD, EXPECTED) is None
    assert lane_problem(FEEDING, FED, EXPECTED) is None


@pytest.mark.clause("AH-13", "HV-17", "SG-27")
@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        (replace(COMPLETION, sequence=12), "completion sequence: found 12, expected 11"),
        (replace(COMPLETION, frame=0), "completion frame: found 0, expected 1"),
        (replace(COMPLETION, program=3), "completion program: found 3, expected 4"),
        (replace(COMPLETION, status=9), "completion status: found 9, expected 0"),
        (
            replace(COMPLETION, rows=2, lanes=(RECORD, RECORD)),
            "completion rows: found 2, expected 1",
        ),
        (replace(COMPLETION, rows=0, lanes=()), "completion rows: found 0, expected 1"),
        (replace(COMPLETION, rows=9000), "completion rows: found 9000, expected 1"),
    ],
)
def test_each_wrong_number_of_a_record_is_named(wrong: Completion, sentence: str) -> None:
    assert record_problem(SUBMISSION, wrong, packed_tokens=PACKED) == sentence


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        pytest.param({"slot": 2}, "lane slot: found 2, expected 3", id="slot"),
        pytest.param(
            {"generation": 4},
            "lane generation: found 4, expected 5",
            id="generation",
            marks=pytest.mark.clause("AH-13"),
        ),
        pytest.param(
            {"consumed": 8},
            "lane consumed: found 8, expected 9",
            id="endpoint",
            marks=pytest.mark.clause("AH-13"),
        ),
        pytest.param(
            {"offered": 1},
            "lane offered: found 1, expected 0",
            id="offer",
            marks=pytest.mark.clause("SG-30"),
        ),
        pytest.param(
            {"accepted": 1},
            "lane accepted: found 1, expected 0",
            id="accepted",
            marks=pytest.mark.clause("AH-13"),
        ),
        pytest.param(
            {"cursor": 9},
            "lane draft cursor: found 9, expected -1",
            id="cursor",
            marks=pytest.mark.clause("AH-11"),
        ),
        pytest.param(
            {"reserved": 0},
            "lane reserved field: found 0, expected -1",
            id="reserved",
            marks=pytest.mark.clause("AH-12"),
        ),
        pytest.param(
            {"emitted": 0, "tokens": ()}, "lane emitted: found 0, expected 1", id="no_token"
        ),
        pytest.param(
            {"emitted": 2, "tokens": (1, 2)}, "lane emitted: found 2, expected 1", id="two_tokens"
        ),
        pytest.param({"emitted": 7}, "lane emitted: found 7, expected 1", id="more_than_it_holds"),
        pytest.param(
            {"tokens": (VOCABULARY,)},
            "lane token: found 100, expected an id below 100",
            id="token_past_the_vocabulary",
            marks=pytest.mark.clause("AH-12"),
        ),
        pytest.param(
            {"tokens": (-1,)},
            "lane token: found -1, expected an id below 100",
            id="negative_token",
            marks=pytest.mark.clause("AH-12"),
        ),
        pytest.param(
            {"finish": FinishBits.END_OF_SEQUENCE},
            "lane finish: found 1, expected 0",
            id="end_without_an_end_token",
            marks=pytest.mark.clause("FI-23"),
        ),
        pytest.param({"finish": 32}, "lane finish: found 32, expected 0", id="unknown_finish"),
        pytest.param(
            {"tokens": (EOS,)}, "lane finish: found 0, expected 1", id="end_that_is_not_said"
        ),
        pytest.param(
            {"tokens": (7,), "finish": 2}, "lane finish: found 2, expected 1", id="another_end"
        ),
    ],
)
def test_each_wrong_number_of_a_lane_is_named(wrong: dict[str, object], sentence: str) -> None:
    record = replace(RECORD, **wrong)  # type: ignore[arg-type]
    assert lane_problem(WORK, record, EXPECTED) == sentence


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        ({"emitted": 1, "tokens": (4,)}, "lane emitted: found 1, expected 0"),
        ({"finish": 2}, "lane finish: found 2, expected 0"),
    ],
)
def test_a_lane_that_only_feeds_its_prompt_says_nothing(
    wrong: dict[str, object], sentence: str
) -> None:
    record = replace(FED, **wrong)  # type: ignore[arg-type]
    assert lane_problem(FEEDING, record, EXPECTED) == sentence


@pytest.mark.parametrize(
    ("token", "emitted", "finish"),
    [
        pytest.param(42, 0, 0, id="neither"),
        pytest.param(EOS, 0, FinishBits.END_OF_SEQUENCE, id="end"),
        pytest.param(7, 0, FinishBits.END_OF_SEQUENCE, id="another_end"),
        pytest.param(42, 9, FinishBits.OUTPUT_LIMIT, id="limit"),
        pytest.param(EOS, 9, FinishBits.END_OF_SEQUENCE | FinishBits.OUTPUT_LIMIT, id="both"),
    ],
)
@pytest.mark.clause("FI-30")
def test_a_finish_is_what_its_token_and_the_limit_make_it(
    token: int, emitted: int, finish: int
) -> None:
    expected = replace(EXPECTED, emitted=emitted)
    right = replace(RECORD, tokens=(token,), finish=int(finish))
    assert lane_problem(WORK, right, expected) is None
    if finish:
        unsaid = lane_problem(WORK, replace(right, finish=0), expected)
        assert unsaid == f"lane finish: found 0, expected {int(finish)}"


def test_a_device_may_stop_a_lane_before_its_limit() -> None:
    early = replace(RECORD, finish=int(FinishBits.OUTPUT_LIMIT))
    assert lane_problem(WORK, early, EXPECTED) is None


def test_a_lane_that_is_over_emits_nothing_more() -> None:
    over = replace(EXPECTED, over=True)
    silent = replace(RECORD, emitted=0, tokens=(), finish=1)
    assert lane_problem(WORK, silent, over) is None
    assert lane_problem(WORK, RECORD, over) == "lane emitted: found 1, expected 0"


# ------------------------------------------------ lanes that fail, log-probabilities


@pytest.mark.parametrize(
    ("record", "sentence"),
    [
        (
            replace(RECORD, emitted=0, tokens=(), finish=4),
            "no token is allowed: grammar, bias and minimum output leave none to sample",
        ),
        (
            replace(RECORD, emitted=0, tokens=(), finish=8, forbidden=123),
            "token 123 is forbidden by the grammar",
        ),
        (
            replace(RECORD, emitted=0, tokens=(), finish=16),
            "the device reports that execution failed",
        ),
    ],
)
def test_a_lane_that_fails_alone_says_why(record: LaneRecord, sentence: str) -> None:
    assert lane_problem(WORK, record, EXPECTED) == sentence
    assert lane_problem(WORK, replace(record, slot=2), EXPECTED) == "lane slot: found 2, expected 3"
    both = replace(record, emitted=1, tokens=(42,))
    assert lane_problem(WORK, both, EXPECTED) == "lane emitted: found 1, expected 0"


# ------------------------------------------------------- rounds with proposals

WIDE = replace(WORK, endpoint=12, ceiling=4)
TAKEN = replace(RECORD, consumed=11, emitted=3, tokens=(40, 41, 42), offered=3, accepted=2)


@pytest.mark.clause("SG-29", "SG-30")
def test_a_lane_with_proposals_says_what_was_offered_and_taken() -> None:
    assert lane_problem(WIDE, TAKEN, EXPECTED) is None
    refused = replace(TAKEN, consumed=9, emitted=1, tokens=(40,), accepted=0)
    assert lane_problem(WIDE, refused, EXPECTED) is None


@pytest.mark.clause("SG-29", "SG-30", "SG-12")
@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        ({"offered": 4}, "lane offered: found 4, expected 2 to 3"),
        ({"offered": 1}, "lane offered: found 1, expected 2 to 3"),
        ({"accepted": 3}, "lane accepted: found 3, expected 2"),
        ({"consumed": 12}, "lane consumed: found 12, expected 11"),
        ({"emitted": 5}, "lane emitted: found 5, expected 1 to 4"),
        ({"emitted": 2}, "lane tokens: found 3, expected 2"),
        ({"tokens": (40, VOCABULARY, 42)}, "lane token: found 100, expected an id below 100"),
        ({"tokens": (40, 41, EOS)}, "lane finish: found 0, expected 1"),
    ],
)
def test_each_wrong_number_of_a_lane_with_proposals_is_named(
    wrong: dict[str, object], sentence: str
) -> None:
    record = replace(TAKEN, **wrong)  # type: ignore[arg-type]
    assert lane_problem(WIDE, record, EXPECTED) == sentence


@pytest.mark.clause("SG-30")
def test_offers_that_a_program_has_no_rows_for_are_a_wrong_record() -> None:
    submission = replace(SUBMISSION, lanes=(WIDE, replace(WIDE, slot=Slot(2))))
    wide = replace(COMPLETION, rows=2, lanes=(TAKEN, replace(TAKEN, slot=2)))
    assert record_problem(submission, wide, packed_tokens=8) is None
    assert record_problem(submission, wide, packed_tokens=7) == (
        "completion offers: found 8 rows, expected at most 7 (SG-30)"
    )


ASKED = replace(WORK, logprobs=2)
SCORED = replace(RECORD, logprob=-0.5, top=((42, -0.5), (3, -1.5)))


@pytest.mark.clause("AH-13")
@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        ({"logprob": None}, "lane log-probability: found None, expected a finite number"),
        ({"logprob": float("nan")}, "lane log-probability: found nan, expected a finite number"),
        ({"logprob": float("-inf")}, "lane log-probability: found -inf, expected a finite number"),
        (
            {"top": ((VOCABULARY, -1.0),)},
            f"lane alternative: found {VOCABULARY}, expected an id below {VOCABULARY}",
        ),
        ({"top": ((3, float("inf")),)}, "lane alternative: found inf, expected a finite number"),
        ({"scores": (None,)}, "lane scores: found 1, expected 0"),
    ],
)
def test_each_wrong_log_probability_is_named(wrong: dict[str, object], sentence: str) -> None:
    assert lane_problem(ASKED, SCORED, EXPECTED) is None
    record = replace(SCORED, **wrong)  # type: ignore[arg-type]
    assert lane_problem(ASKED, record, EXPECTED) == sentence


@pytest.mark.clause("AH-13")
def test_prompt_scores_are_judged_where_there_is_a_target() -> None:
    work = replace(FEEDING, targets=(11, -1))
    good = replace(FED, scores=(Score(logprob=-2.0, top=()), None))
    assert lane_problem(work, good, EXPECTED) is None
    broken = replace(good, scores=(Score(logprob=float("nan"), top=()), None))
    found = lane_problem(work, broken, EXPECTED)
    assert found == "lane score: found nan, expected a finite number"
