"""`decode(encode(x)) == x`, for every specimen and for shapes that nobody thought of."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from prepared.contract import PendingToken, ServingContract
from prepared.decode import WIRE, decode
from prepared.encode import encode
from tests.treaty.anything import shapes
from tests.treaty.carriers import STANDING
from tests.treaty.paths import put
from tests.treaty.specimens import CONTRACTS


@pytest.mark.parametrize("name", STANDING)
def test_a_specimen_comes_back_as_it_went(name: str) -> None:
    shape = STANDING[name]
    data = encode(shape)
    again = decode(data, type(shape), at=name)
    assert again == shape
    assert encode(again) == data


def test_a_message_that_says_nothing_is_still_there() -> None:
    silent = PendingToken(state=None, destination=None)
    contract = put(CONTRACTS["plain"], {"model.graphs[4].pending_token": silent})
    assert decode(encode(contract), ServingContract, at="contract") == contract


@pytest.mark.parametrize("shape", WIRE, ids=lambda shape: shape.__name__)
@settings(
    max_examples=60,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
@given(data=st.data())
def test_any_shape_comes_back_as_it_went(shape: type, data: st.DataObject) -> None:
    value = data.draw(shapes(shape))
    written = encode(value)
    assert decode(written, shape, at="any") == value
    assert encode(value) == written
