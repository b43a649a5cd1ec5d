"""The order of merges whose tokens have the same score.

Among equals the leftmost merge comes first in a text.  A list of merges can say so where
it matters: a merge that would take the left half of another must come before it.
Repetitions, such as runs of blanks, are the exception: there the longer comes first, so
that a run grows from its left end, as leftmost-first makes it grow.

Always: tokens of one score apply in a text as if leftmost came first, or the scores are
refused.  (Two ways to form one and the same token are ordered by neighbourhood only.)
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from ignition.preparation.tokenizer_json import Merge
from ignition.preparation.vocabulary import damaged


@dataclass(frozen=True, slots=True, kw_only=True)
class Tied:
    """The tokens of one score, each with the merges that form it."""

    score: float
    merges: Mapping[str, tuple[Merge, ...]]


def order_tied(tied: Tied, *, earlier: Collection[Merge]) -> Sequence[Merge]:
    """The merges of one score in order; `earlier` are those of better scores."""
    entries = sorted(
        (merge for merges in tied.merges.values() for merge in merges),
        key=lambda merge: (-len(merge[0] + merge[1]), -len(merge[0])),
    )
    followers = followers_of(entries)
    ordered = topological(entries, followers, tied=tied) if followers else entries
    if len(tied.merges) > 1:
        check_independent(ordered, soon={*ordered, *earlier}, tied=tied)
    return ordered


def check_independent(ordered: Sequence[Merge], *, soon: Collection[Merge], tied: Tied) -> None:
    """Refuse two tokens of one score if what they grow into may meet in a text.

    Then it would matter which of two merges apart from each other comes first, and a list
    cannot say "leftmost".  `soon` are the merges that come before other ones of this score.
    """
    after: dict[str, set[str]] = {}
    before: dict[str, set[str]] = {}
    for place, left in enumerate(ordered):
        for right in ordered[:place]:  # where it stands to the right, it still comes first
            first, second = "".join(left), "".join(right)
            if first == second or repeats(*left, *right):
                continue
            if first not in after:
                after[first] = {end for start, end in soon if first in start}
            if second not in before:
                before[second] = {start for start, end in soon if second in end}
            meeting = any(end == right[0] or second in end for end in after[first])
            if meeting or left[1] in before[second] or after[first] & before[second]:
                raise tied_badly(tied, first)


def followers_of(entries: Sequence[Merge]) -> Mapping[Merge, Sequence[Merge]]:
    """For each merge, those that must come after it."""
    beginning_with: dict[str, list[Merge]] = defaultdict(list)
    for merge in entries:
        beginning_with[merge[0]].append(merge)
    followers: dict[Merge, list[Merge]] = defaultdict(list)
    for merge in entries:
        for rival in beginning_with.get(merge[1], ()):
            if rival != merge and not repeats(*merge, *rival):
                followers[merge].append(rival)
    if followers:
        for longer, shorter in pairwise(runs_in(entries)):
            followers[longer].append(shorter)
    return followers


def runs_in(entries: Sequence[Merge]) -> Iterator[Merge]:
    """The merges of repetitions, in the order given."""
    return (merge for merge in entries if repeats(*merge))


def repeats(first: str, *others: str) -> bool:
    """Whether all texts repeat one and the same unit, which is when they commute."""
    return all(first + other == other + first for other in others)


def topological(
    entries: Sequence[Merge], followers: Mapping[Merge, Sequence[Merge]], *, tied: Tied
) -> Sequence[Merge]:
    """The entries with every follower after its leaders, else in the order given."""
    place = {merge: index for index, merge in enumerate(entries)}
    waiting: dict[Merge, int] = defaultdict(int)
    for rivals in followers.values():
        for rival in rivals:
            waiting[rival] += 1
    ready = [place[merge] for merge in entries if not waiting[merge]]
    ordered: list[Merge] = []
    while ready:
        merge = entries[heapq.heappop(ready)]
        ordered.append(merge)
        for rival in followers.get(merge, ()):
            waiting[rival] -= 1
            if not waiting[rival]:
                heapq.heappush(ready, place[rival])
    if len(ordered) < len(entries):
        stuck = next(merge for merge in entries if waiting[merge])
        raise tied_badly(tied, "".join(stuck))
    return ordered


def tied_badly(tied: Tied, text: str) -> Exception:
    """Scores that no list of merges can say."""
    others = [other for other in tied.merges if other != text][:3]
    return damaged(
        "tokenizer.ggml.scores",
        f"{tied.score} for {text!r} and for {others}",
        expected="different scores for tokens that can share a part",
    )
