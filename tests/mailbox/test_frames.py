"""Messages survive any cutting of their bytes, and an absurd length ends the connection."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from helios.mailbox import MOST_NBYTES, PREFIX, FrameBuffer, MailboxClosed, framed


@given(messages=st.lists(st.binary(max_size=40), max_size=8), data=st.data())
def test_messages_arrive_whole_and_in_order_however_they_are_cut(
    messages: list[bytes], data: st.DataObject
) -> None:
    stream = b"".join(map(framed, messages))
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=12)))
    buffer, found = FrameBuffer(), list[bytes]()
    for start, end in pairwise((0, *cuts, len(stream))):
        found += buffer.feed(stream[start:end])
    assert found == messages


def test_a_message_is_given_as_soon_as_its_last_byte_is_there() -> None:
    buffer, stream = FrameBuffer(), framed(b"one") + framed(b"two")
    given_after = [list(buffer.feed(stream[i : i + 1])) for i in range(len(stream))]
    arrivals = {index: messages for index, messages in enumerate(given_after) if messages}
    assert arrivals == {len(framed(b"one")) - 1: [b"one"], len(stream) - 1: [b"two"]}


def test_a_length_that_no_message_has_is_refused_before_its_bytes_arrive() -> None:
    with pytest.raises(MailboxClosed, match=f"a message of {MOST_NBYTES + 1} bytes"):
        list(FrameBuffer().feed(PREFIX.pack(MOST_NBYTES + 1)))


def test_messages_before_an_absurd_length_are_given() -> None:
    feed = FrameBuffer().feed(framed(b"one") + PREFIX.pack(MOST_NBYTES + 1))
    assert next(feed) == b"one"
    with pytest.raises(MailboxClosed):
        next(feed)


def test_the_longest_length_is_awaited() -> None:
    assert list(FrameBuffer().feed(PREFIX.pack(MOST_NBYTES))) == []
