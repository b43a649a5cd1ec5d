"""Where an answer begins: what the prompt left open (FI-10, FI-11, FI-25).

Only the open assistant envelope counts: text behind the last end of a message, and there behind
the assistant's opening.  Completed user, tool and assistant messages say nothing.
"""

from __future__ import annotations

from enum import Enum

import msgspec

from helios.frontend.syntax.states import Delimiters


class Place(Enum):
    """What the first generated token continues."""

    ANSWER = "answer"
    REASONING = "reasoning"
    HEADER = "header"
    BODY = "body"  # of the frame whose header is given


class Opening(msgspec.Struct, frozen=True, kw_only=True):
    """Where an answer begins."""

    place: Place = Place.ANSWER
    fresh: bool = True  # the prompt ends right behind the delimiter: nothing of the text is there
    reasoned: bool = False  # reasoning has ended in the prompt
    header: str = ""


def opening_of(
    prompt: str, marks: Delimiters, *, begins: str, ends: str, envelope: bool
) -> Opening:
    """The opening that this prompt leaves; `begins` and `ends` are the assistant's envelope."""
    if marks.frame_open:
        return frame_opening(prompt, marks)
    if not envelope:
        ended = prompt.rstrip()
        opened = bool(marks.open) and ended.endswith(marks.open)
        body = prompt[len(ended) - len(marks.open) :] if opened else ""
    else:
        body = open_envelope(prompt, begins=begins, ends=ends)
    return body_opening(body, marks)


def open_envelope(prompt: str, *, begins: str, ends: str) -> str:
    """What the prompt already says of the assistant's message."""
    tail = prompt.rpartition(ends)[2]
    if begins in tail:
        return tail.rpartition(begins)[2]
    return tail if ends in prompt else ""


def body_opening(body: str, marks: Delimiters) -> Opening:
    """The opening inside a message."""
    opened = body.rfind(marks.open) if marks.open else -1
    closed = body.rfind(marks.close) if marks.close else -1
    if opened > closed:
        return Opening(place=Place.REASONING, fresh=body.endswith(marks.open))
    answered = body.rfind(marks.answer_open) if marks.answer_open else -1
    said = body[max(closed + len(marks.close), answered + len(marks.answer_open), 0) :]
    if closed < 0 and answered < 0:
        return Opening(fresh=not body.strip())
    return Opening(reasoned=True, fresh=not said.strip())


def frame_opening(prompt: str, marks: Delimiters) -> Opening:
    """The opening inside a frame, in its header or before one."""
    frame = prompt.rpartition(marks.frame_open)[2]
    header, ended, body = frame.partition(marks.header_close)
    closed = any(close in body for close in marks.frame_closes)
    if not ended or closed or not header.startswith(marks.role):
        return Opening(place=Place.HEADER)
    return Opening(place=Place.BODY, header=header, fresh=not body)
