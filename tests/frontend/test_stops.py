"""Stops: what may be asked, and that no split of an output shows any part of a matched stop."""

from __future__ import annotations

import codecs

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from helios.frontend.stops import Piece, StopCut, StopFilter, StopMatcher, StopSpec, stop_spec
from helios.values import RequestInvalid

VOCABULARY = 100


class Bytes:
    """A decoder over a made vocabulary: each token is some bytes."""

    def __init__(self, vocabulary: list[bytes]) -> None:
        self._vocabulary = vocabulary
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
        self._last = 0

    def feed(self, token: int) -> list[Piece]:
        self._last = token
        text = self._decoder.decode(self._vocabulary[token])
        return [Piece(token, text)] if text else []

    def close(self) -> list[Piece]:
        text = self._decoder.decode(b"", final=True)
        return [Piece(self._last, text)] if text else []


class Played:
    """An output played through both ends, as worker and front would."""

    def __init__(
        self, vocabulary: list[bytes], spec: StopSpec | None, *, markers: frozenset[int]
    ) -> None:
        self.matcher = StopMatcher(spec, Bytes(vocabulary)) if spec is not None else None
        self.filter = StopFilter(spec, Bytes(vocabulary), markers=markers)
        self.shown: list[list[Piece]] = []
        self.cut: StopCut | None = None

    def play(self, tokens: list[int]) -> str:
        for token in tokens:
            self.cut = self.matcher.feed(token) if self.matcher is not None else None
            self.shown.append(self.filter.feed(token))
            if self.cut is not None:
                self.shown.append(self.filter.stop(self.cut))
                return self.text
        self.shown.append(self.filter.close())
        return self.text

    @property
    def text(self) -> str:
        return "".join(piece.text for step in self.shown for piece in step)

    @property
    def steps(self) -> list[str]:
        return ["".join(piece.text for piece in step) for step in self.shown]


def play(pieces: list[bytes], *stops: str, markers: frozenset[int] = frozenset()) -> Played:
    """An output of the given tokens' bytes, with string stops."""
    played = Played(pieces, StopSpec(strings=stops) if stops else None, markers=markers)
    played.play(list(range(len(pieces))))
    return played


def cut_at_first(text: str, stops: tuple[str, ...]) -> str:
    """The text before the stop that is complete first; of two at once, the longer."""
    found = [(text.index(stop) + len(stop), text.index(stop)) for stop in stops if stop in text]
    return text[: min(found)[1]] if found else text


def split(data: bytes, cuts: list[int]) -> list[bytes]:
    """Bytes cut at the given places."""
    edges = sorted({0, len(data), *(cut % (len(data) + 1) for cut in cuts)})
    return [data[a:b] for a, b in zip(edges, edges[1:], strict=False)]


LETTERS = st.text(alphabet="ab<é🙂", max_size=24)
STOPS = st.lists(st.text(alphabet="ab<é🙂", min_size=1, max_size=4), min_size=1, max_size=4)


@pytest.mark.clause("SS-04", "SS-05", "SS-06", "SS-07")
@settings(max_examples=100, deadline=None)
@given(text=LETTERS, stops=STOPS, cuts=st.lists(st.integers(0, 100), max_size=30))
def test_every_split_shows_the_text_before_the_first_complete_stop(
    text: str, stops: list[str], cuts: list[int]
) -> None:
    played = play(split(text.encode(), cuts), *stops)
    assert played.text == cut_at_first(text, tuple(stops))
    assert "\ufffd" not in played.text
    assert (played.cut is not None) == any(stop in text for stop in stops)
    if played.cut is not None:
        assert played.cut.string in stops
        assert text.startswith(played.text + played.cut.string)


@pytest.mark.clause("SS-06")
@settings(max_examples=60, deadline=None)
@given(text=LETTERS, stops=STOPS)
def test_text_is_shown_as_soon_as_no_stop_can_take_it(text: str, stops: list[str]) -> None:
    played = play([character.encode() for character in text], *stops)
    for count in range(len(played.shown) - 1):
        so_far = text[: count + 1]
        if any(stop in so_far for stop in stops):
            break
        held = max(
            (n for stop in stops for n in range(len(stop)) if so_far.endswith(stop[:n])), default=0
        )
        assert "".join(played.steps[: count + 1]) == so_far[: len(so_far) - held]


@pytest.mark.clause("TO-21", "TO-22", "TO-23")
@settings(max_examples=60, deadline=None)
@given(
    tokens=st.lists(st.integers(0, 3), max_size=24),
    sequences=st.lists(st.lists(st.integers(0, 3), min_size=1, max_size=4), min_size=1, max_size=4),
)
def test_a_matched_token_sequence_is_not_shown_and_all_before_it_is(
    tokens: list[int], sequences: list[list[int]]
) -> None:
    spec = StopSpec(sequences=tuple(map(tuple, sequences)))
    played = Played([b"a", b"b", b"c", b"d"], spec, markers=frozenset())
    shown = "".join("abcd"[token] for token in tokens)
    stops = tuple("".join("abcd"[token] for token in sequence) for sequence in sequences)
    assert played.play(tokens) == cut_at_first(shown, stops)


@pytest.mark.clause("SS-05")
def test_a_stop_across_tokens_leaves_nothing_of_itself() -> None:
    played = play([b"abcDEF", b"G", b"HI", b"Jkl"], "DEFGHIJ")
    assert played.text == "abc"
    assert played.steps[0] == "abc"


@pytest.mark.clause("SS-05")
def test_a_stop_inside_a_token_takes_the_rest_of_the_token() -> None:
    assert play([b"one. Two three"], ".").text == "one"


@pytest.mark.clause("SS-05")
def test_of_two_stops_the_one_that_is_complete_first_counts() -> None:
    assert play([b"xabcdy"], "abcd", "bc").text == "xa"


@pytest.mark.clause("SS-05")
def test_of_two_stops_complete_at_once_the_longer_counts() -> None:
    assert play([b"xab", b"c"], "bc", "abc").text == "x"


@pytest.mark.clause("SS-07")
def test_an_unmatched_beginning_is_shown_at_the_end() -> None:
    played = play([b"one", b" END"], " ENDING")
    assert played.steps == ["one", "", " END"]


@pytest.mark.clause("SS-06")
def test_a_stop_that_begins_with_its_own_end_is_found_again() -> None:
    assert play([b"a", b"a", b"b", b"a", b"a", b"c"], "aabaac").text == ""
    assert play([b"aab", b"aab", b"aac"], "aabaac").text == "aab"


@pytest.mark.clause("SS-04")
def test_a_stop_may_lie_in_a_marker_and_across_its_end() -> None:
    played = play([b"hm", b"</think>", b"\n\n", b"yes"], ">\n\ny", markers=frozenset({1}))
    assert played.text == "hm</think"
    assert [p.text for p in played.shown[1]] == []  # a marker is not shown in parts


def test_a_marker_that_no_stop_takes_stays_whole() -> None:
    played = play([b"hm", b"</think>", b"x"], ">\n", markers=frozenset({1}))
    assert played.shown[2] == [Piece(1, "</think>"), Piece(2, "x")]


def test_without_stops_everything_is_shown_at_once() -> None:
    played = play([b"a", b"\xc3", b"\xa9", b"b"])
    assert played.steps == ["a", "", "é", "b", ""]


def test_a_character_that_never_ends_is_replaced_at_the_end() -> None:
    assert play([b"a", b"\xc3"], "z").text == "a\ufffd"


@pytest.mark.clause("SS-01", "SS-02")
@pytest.mark.parametrize("stop", [None, [], ()])
def test_null_and_no_strings_are_no_stops(stop: object) -> None:
    assert stop_spec(stop=stop, vocabulary=VOCABULARY) is None


@pytest.mark.clause("SS-01")
def test_one_string_or_four_are_taken() -> None:
    assert stop_spec(stop="a", vocabulary=VOCABULARY) == StopSpec(strings=("a",))
    four = ["a", "b", "c", "é" * 2046 + "x"]
    assert stop_spec(stop=four, vocabulary=VOCABULARY) == StopSpec(strings=tuple(four))


@pytest.mark.clause("SS-01", "SS-03", "TO-21", "TO-22")
@pytest.mark.parametrize(
    ("asked", "sentence"),
    [
        ({"stop": ""}, "stop: found '', expected a nonempty string"),
        ({"stop": ["a", ""]}, "stop[1]: found '', expected a nonempty string"),
        ({"stop": [1]}, "stop[0]: found 1, expected a nonempty string"),
        (
            {"stop": 7},
            "stop: found int, expected null, a nonempty string, or up to four nonempty strings",
        ),
        (
            {"stop": list("abcde")},
            "stop: found 5 strings, expected null, a nonempty string, or up to four nonempty "
            "strings",
        ),
        ({"stop": "é" * 2049}, "stop: found 4098 bytes, expected at most 4096 in all"),
        ({"stop": "\ud800"}, "stop: found half a surrogate pair, expected Unicode text"),
        (
            {"stop": "a", "stop_token_ids": [1]},
            "stop_token_ids: found token stops beside stop, expected one kind of stops",
        ),
        (
            {"stop": "a", "stop_token_sequences": [[1]]},
            "stop_token_sequences: found token stops beside stop, expected one kind of stops",
        ),
        (
            {"stop": "a", "structured": True},
            "stop: found strings beside structured output, expected one of the two",
        ),
        (
            {"stop_token_ids": 3},
            "stop_token_ids: found int, expected null or a list of token ids",
        ),
        (
            {"stop_token_ids": [True]},
            "stop_token_ids[0]: found True, expected a token id below 100",
        ),
        ({"stop_token_ids": [-1]}, "stop_token_ids[0]: found -1, expected a token id below 100"),
        ({"stop_token_ids": [100]}, "stop_token_ids[0]: found 100, expected a token id below 100"),
        (
            {"stop_token_sequences": [[1]] * 17},
            "stop_token_sequences: found 17 sequences, expected at most 16",
        ),
        (
            {"stop_token_sequences": [[]]},
            "stop_token_sequences[0]: found 0 tokens, expected 1 to 64",
        ),
        (
            {"stop_token_sequences": [[1] * 65]},
            "stop_token_sequences[0]: found 65 tokens, expected 1 to 64",
        ),
        (
            {"stop_token_sequences": [[1, 2.0]]},
            "stop_token_sequences[0][1]: found 2.0, expected a token id below 100",
        ),
    ],
)
def test_what_is_no_stop_is_refused_by_name(asked: dict[str, object], sentence: str) -> None:
    with pytest.raises(RequestInvalid) as refused:
        stop_spec(**asked, vocabulary=VOCABULARY)  # type: ignore[arg-type]
    assert str(refused.value) == sentence


@pytest.mark.clause("SS-02", "SS-03")
def test_an_empty_list_beside_the_other_kind_is_no_combination() -> None:
    tokens = stop_spec(stop=[], stop_token_ids=[1, 1], vocabulary=VOCABULARY)
    assert tokens == StopSpec(sequences=((1,),))
    strings = stop_spec(stop="a", stop_token_sequences=[], vocabulary=VOCABULARY)
    assert strings == StopSpec(strings=("a",))
