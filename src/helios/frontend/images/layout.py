"""Pictures among tokens: placeholders, spans, positions, features (FI-13).

A template writes one placeholder for an image.  In its place come the declared open marker, one
token for each feature, and the close marker; markers that the template has written itself are not
written twice.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

import msgspec

from helios.frontend.images.picture import Picture
from helios.rounds import Span
from prepared.contract import ImageLayout, ImageTokenLayout, Marker

NO_FEATURE: Final = -1
INT32: Final = "i"


class Expanded(msgspec.Struct, frozen=True, kw_only=True):
    """A prompt's tokens with a placeholder for each feature."""

    tokens: tuple[int, ...]
    spans: tuple[Span, ...]


class Placement(msgspec.Struct, frozen=True, kw_only=True):
    """Where tokens are for attention."""

    positions: array[int]  # one for each axis of each token; none where they only count up
    delta: int  # what a later token's position is beyond its place


def expanded(
    tokens: Sequence[int],
    pictures: Sequence[Picture],
    layout: ImageTokenLayout,
    *,
    placeholder: int,
) -> Expanded:
    """Tokens and spans; there are as many placeholders as pictures."""
    assert layout.feature_id is not None
    made: list[int] = []
    spans: list[Span] = []
    left = iter(pictures)
    for place, token in enumerate(tokens):
        if token != placeholder:
            made.append(token)
            continue
        picture = next(left)
        before = made[-1] if made else None
        after = tokens[place + 1] if place + 1 < len(tokens) else None
        made += marked(layout.open, beside=before)
        spans.append(Span(start=len(made), length=picture.features, digest=picture.digest))
        made += [layout.feature_id] * picture.features
        made += marked(layout.close, beside=after)
    return Expanded(tokens=tuple(made), spans=tuple(spans))


def marked(marker: Marker | None, *, beside: int | None) -> list[int]:
    """A marker's token, unless the template has written it there."""
    if marker is None or marker.token_id is None or marker.token_id == beside:
        return []
    return [marker.token_id]


def features_of(length: int, spans: Iterable[Span]) -> array[int]:
    """For each token the request's feature that it stands for, or none."""
    features = array(INT32, [NO_FEATURE]) * length
    first = 0
    for span in spans:
        numbers = range(first, first + span.length)
        features[span.start : span.start + span.length] = array(INT32, numbers)
        first += span.length
    return features


def sequential(_length: int, _spans: Sequence[Span], _pictures: Sequence[Picture]) -> Placement:
    """A feature is a token like any other."""
    return Placement(positions=array(INT32), delta=0)


def grid(length: int, spans: Sequence[Span], pictures: Sequence[Picture]) -> Placement:
    """Time, row and column; text goes on behind the largest of an image."""
    positions, at, following = array(INT32), 0, 0
    for span, picture in zip(spans, pictures, strict=True):
        following = count_up(positions, following, span.start - at)
        rows, columns = picture.grid
        for row in range(following, following + rows):
            for column in range(following, following + columns):
                positions.extend((following, row, column))
        following += max(rows, columns)
        at = span.start + span.length
    following = count_up(positions, following, length - at)
    return Placement(positions=positions, delta=following - length)


def count_up(positions: array[int], first: int, count: int) -> int:
    """Positions of text, the same on every axis; returns the next."""
    for position in range(first, first + count):
        positions.extend((position, position, position))
    return first + count


PLACEMENTS: Final[
    Mapping[ImageLayout, Callable[[int, Sequence[Span], Sequence[Picture]], Placement]]
] = {
    ImageLayout.SEQUENTIAL_FEATURES: sequential,
    ImageLayout.GRID_POSITIONS: grid,
}
