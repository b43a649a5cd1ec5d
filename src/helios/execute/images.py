"""Fills of what programs read of images: positions, features, tensors (FI-14, HV-06, HV-11).

A lane carries what the frontend's image layout made of its prompt; here it is cut to the rows
that a submission feeds.  Rows behind the prompt are text, and go on counting from the delta.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

from helios.execute.destinations import Destination, cells_of, put_packed
from helios.rounds import ImageTensor, LaneWork, Submission
from prepared.contract import ValueSource

INT32: Final = "i"
NO_FEATURE: Final = -1
NO_ROW: Final = -1


def numbers(data: bytes) -> Sequence[int]:
    """Packed 32-bit integers."""
    return memoryview(data).cast(INT32)


def delta_of(lane: LaneWork) -> int:
    """What the position of a token behind the prompt is beyond its place."""
    return lane.images.delta if lane.images else 0


def features_of(lane: LaneWork) -> Sequence[int]:
    """For each row the feature of its slot that it stands for; -1 for text."""
    known = numbers(lane.images.features)[lane.start : lane.endpoint] if lane.images else ()
    return [*known, *[NO_FEATURE] * (lane.rows - len(known))]


def mask_of(lane: LaneWork) -> Sequence[int]:
    """For each row whether it is an image's."""
    return [int(feature != NO_FEATURE) for feature in features_of(lane)]


def contexts_of(submission: Submission) -> Iterator[int]:
    """The packed rows that are images', in order; then -1, as often as there are other rows."""
    row = 0
    others = 0
    for lane in submission.lanes:
        for feature in features_of(lane):
            if feature == NO_FEATURE:
                others += 1
            else:
                yield row
            row += 1
    for _ in range(others):
        yield NO_ROW


def positions_of(lane: LaneWork, axes: int) -> Iterator[int]:
    """One position on every axis for each row."""
    start = lane.start
    if lane.images and lane.images.positions:
        known = numbers(lane.images.positions)
        prompt = len(known) // axes
        yield from known[start * axes : min(lane.endpoint, prompt) * axes]
        start = max(start, prompt)
        for place in range(start, lane.endpoint):
            yield from (place + lane.images.delta,) * axes
        return
    for place in range(start, lane.endpoint):
        yield from (place,) * axes


def fill_positions(to: Destination, submission: Submission) -> None:
    """Positions of every packed token, its axes one after another."""
    packed = array(to.cells.format)
    for lane in submission.lanes:
        if to.row_elements == 1:
            packed.extend(range(lane.start, lane.endpoint))
        else:
            packed.extend(positions_of(lane, to.row_elements))
    put_packed(to, packed)


def fill_contexts(to: Destination, submission: Submission) -> None:
    """Where image rows are among the packed ones; programs gather by it."""
    put_packed(to, array(to.cells.format, contexts_of(submission)))


def tensors_of(submission: Submission) -> Mapping[str, ImageTensor]:
    """Tensors of the one picture that a program looks at, by name."""
    (lane,) = submission.lanes
    assert lane.images is not None
    assert lane.picture is not None
    return {tensor.name: tensor for tensor in lane.images.pictures[lane.picture]}


def fill_tensor(to: Destination, submission: Submission) -> None:
    """A named tensor, a row of the destination for each of its own; the rest is left alone."""
    assert to.binding.image_tensor is not None
    tensor = tensors_of(submission)[to.binding.image_tensor]
    assert tensor.rows <= to.rows, "the front bounds patches by the largest program's"
    values = cells_of(memoryview(tensor.data), tensor.element)
    width = tensor.row_elements
    if to.row_cells == width:
        to.cells[: len(values)] = values
        return
    for row in range(tensor.rows):
        start = row * to.row_cells
        to.cells[start : start + width] = values[row * width : (row + 1) * width]


IMAGE_TOKENS: Final[Mapping[ValueSource, Callable[[LaneWork], Sequence[int]]]] = {
    ValueSource.IMAGE_FEATURE_INDICES: features_of,
    ValueSource.IMAGE_TOKEN_MASK: mask_of,
}
"""Sources with a number for each packed token."""
