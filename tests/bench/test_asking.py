"""An answer is read from the bytes of a connection, with the time at which each text came."""

from __future__ import annotations

import json

import pytest

from bench.asking import Answer, Broken, read_answer
from bench.workloads import together

HEAD = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"


def event(**chunk: object) -> bytes:
    """One event."""
    return b"data: " + json.dumps(chunk).encode() + b"\n\n"


def chunk(data: bytes) -> bytes:
    """Bytes as a piece of a chunked body."""
    return b"%x\r\n%b\r\n" % (len(data), data)


def text(content: str) -> bytes:
    """An event with text."""
    return event(choices=[{"index": 0, "delta": {"content": content}, "finish_reason": None}])


ENDING = event(choices=[], usage={"prompt_tokens": 7, "completion_tokens": 2}) + b"data: [DONE]\n\n"


def test_an_event_cut_by_chunks_and_packets_came_when_its_end_came() -> None:
    first, second = text("a"), text("b")
    body = HEAD + chunk(first[:9]) + chunk(first[9:] + second) + chunk(ENDING) + chunk(b"")
    cut = len(HEAD + chunk(first[:9])) + 4
    found = read_answer([body[:cut], body[cut:]], [1.0, 2.0], began=0.5)
    assert found.arrivals == [2.0, 2.0]
    assert (found.first, found.tokens, found.prompt_tokens, found.ended) == (1.5, 2, 7, 2.0)


def test_an_answer_without_its_end_is_broken() -> None:
    with pytest.raises(Broken, match="ended after 1 texts"):
        read_answer([HEAD + chunk(text("a"))], [1.0], began=0.0)


def test_a_connection_closed_at_once_is_broken() -> None:
    with pytest.raises(Broken, match="found: nothing"):
        read_answer([], [], began=0.0)


def test_a_refusal_says_what_the_server_said() -> None:
    with pytest.raises(Broken, match="503 Busy"):
        read_answer([b"HTTP/1.1 503 Busy\r\n\r\n"], [1.0], began=0.0)


def test_streams_count_while_all_of_them_decode() -> None:
    answers = [
        Answer(0.0, arrivals=[0.0, 1.0, 2.0, 3.0], tokens=4),
        Answer(0.0, arrivals=[1.0, 2.0, 3.0, 4.0], tokens=4),
    ]
    assert together(answers) == pytest.approx(4 / 2)


def test_streams_that_never_overlapped_count_in_all_their_time() -> None:
    answers = [
        Answer(0.0, arrivals=[0.0, 1.0], tokens=2),
        Answer(0.0, arrivals=[2.0, 4.0], tokens=2),
    ]
    assert together(answers) == pytest.approx(3 / 4)
