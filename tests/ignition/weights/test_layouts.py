"""What becomes of each format: its own layout, and no growth that is not said."""

from __future__ import annotations

import pytest

from ignition.export.weights import described_layout, described_vector
from ignition.plan.matrices import Matrix
from ignition.weights.formats import Format, row_nbytes

ROWS, COLUMNS = 32, 512


def matrix_of(source: Format) -> Matrix:
    """A matrix in the layout that a format has of its own."""
    layout = source.name.lower()
    return Matrix(parts=("weight",), layout=layout, rows=ROWS, columns=COLUMNS, gated=False)


@pytest.mark.parametrize("source", list(Format))
def test_a_matrix_grows_only_where_its_description_says_so(source: Format) -> None:
    stored = ROWS * row_nbytes(source, columns=COLUMNS)
    matrix = matrix_of(source)
    words = described_layout(matrix, source)
    assert (matrix.nbytes > stored) is ("in bytes" in words)
    assert matrix.nbytes >= stored
    assert words.startswith(source.name.lower())


@pytest.mark.parametrize("source", list(Format))
def test_a_vector_that_becomes_wider_is_said_to(source: Format) -> None:
    words = described_vector(source)
    assert ("widened from " + source.name in words) is (source is not Format.F32)
