"""Requests wait in the order in which they came, however often they leave and come back."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from helios.schedule.queue import Queue
from helios.values import RequestId
from tests.schedule.made import waiting


@given(numbers=st.permutations(range(8)))
def test_the_oldest_leaves_first_whatever_the_order_of_coming_back(numbers: list[int]) -> None:
    queue = Queue()
    for number in numbers:
        queue.add(waiting(number))
    assert [entry.arrival for entry in queue] == list(range(8))
    assert [queue.take_first().arrival for _ in range(8)] == list(range(8))
    assert (queue.first(), len(queue)) == (None, 0)


def test_looking_at_the_first_leaves_it_there() -> None:
    queue = Queue()
    queue.add(waiting(3))
    assert queue.first() == waiting(3)
    assert len(queue) == 1


def test_a_request_that_no_longer_waits_is_taken_out_alone() -> None:
    queue = Queue()
    for number in (1, 2, 3):
        queue.add(waiting(number))
    assert queue.remove(RequestId(2)) == waiting(2)
    assert queue.remove(RequestId(2)) is None
    assert [entry.arrival for entry in queue] == [1, 3]


def test_what_must_be_fed_is_the_prompt_and_what_was_emitted() -> None:
    assert waiting(1, prompt_tokens=3, emitted=(50, 51)).tokens == 5
