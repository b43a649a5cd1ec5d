"""Chat chunks as bytes: what every chunk of an answer repeats is encoded once.

One event a turn and kind is the hot path of a server that streams, so it is written by hand;
rarer events are objects.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import msgspec

from helios.frontend.syntax.events import Arguments, CallOpened, Content, Event, Reasoning
from helios.respond.pipeline import Usage
from helios.rounds import Score
from helios.serve.answers import Turn
from helios.serve.wire import encode, new_call_id

Spell = Callable[[int], bytes]
ENCODE: Final = msgspec.json.Encoder().encode


def told(choice: int, delta: dict[str, Any], *, finish: str | None = None) -> dict[str, Any]:
    """A choice of a chunk."""
    return {"index": choice, "delta": delta, "logprobs": None, "finish_reason": finish}


class Chunks:
    """The deltas of one answer."""

    def __init__(
        self,
        head: dict[str, Any],
        tail: dict[str, Any],
        *,
        choices: int,
        spell: Spell | None = None,
    ) -> None:
        before, rest = encode(head)[:-1], encode(tail)[1:-1]
        self._heads = [
            b'data: %b,"choices":[{"index":%d,"delta":' % (before, choice)
            for choice in range(choices)
        ]
        self._tail = b',"finish_reason":null}]' + (b"," + rest if rest else b"") + b"}\n\n"
        self._plain_tail = b',"logprobs":null' + self._tail
        self._spell = spell  # of tokens, if log-probabilities were asked for

    # hot
    def deltas(self, turn: Turn) -> list[bytes]:
        """A chunk for each event; log-probabilities go with the first."""
        head, tail = self._heads[turn.choice], self._plain_tail
        if self._spell is not None and turn.scores:
            tail = self._scored_tail(turn, self._spell)
        chunks = []
        for event in turn.events:
            delta = delta_of(event)
            if delta is not None:
                chunks.append(head + delta + tail)
                tail = self._plain_tail
        if tail is not self._plain_tail:
            chunks.append(head + b"{}" + tail)
        return chunks

    def _scored_tail(self, turn: Turn, spell: Spell) -> bytes:
        """What follows a delta that has its tokens' log-probabilities beside it."""
        pairs = zip(turn.tokens, turn.scores, strict=True)
        content = [scored(token, score, spell) for token, score in pairs]
        return b',"logprobs":' + encode({"content": content}) + self._tail


def delta_of(event: Event) -> bytes | None:
    """An event as a delta; nothing where there is nothing to say.  # hot"""
    if isinstance(event, Content):
        return b'{"content":%b}' % ENCODE(event.text)
    if isinstance(event, Reasoning):
        return b'{"reasoning_content":%b}' % ENCODE(event.text)
    match event:
        case CallOpened(index, name, call_id):
            function = {"name": name, "arguments": ""}
            call = {
                "index": index,
                "id": call_id or new_call_id(),
                "type": "function",
                "function": function,
            }
            return encode({"tool_calls": [call]})
        case Arguments(index, text):
            return encode({"tool_calls": [{"index": index, "function": {"arguments": text}}]})
    return None


def scored(token: int, score: Score, spell: Spell) -> dict[str, Any]:
    """A token's log-probability in OpenAI's shape."""

    def spelled(number: int, logprob: float) -> dict[str, Any]:
        data = spell(number)
        return {
            "token": data.decode("utf-8", "replace"),
            "logprob": logprob,
            "bytes": list(data),
        }

    return {
        **spelled(token, score.logprob),
        "top_logprobs": [spelled(*alternative) for alternative in score.top],
    }


def usage_of(usage: Usage) -> dict[str, Any]:
    """Token counts as OpenAI's clients read them."""
    return {
        "prompt_tokens": usage.prompt_tokens,
        "completion_tokens": usage.completion_tokens,
        "total_tokens": usage.prompt_tokens + usage.completion_tokens,
        "prompt_tokens_details": {"cached_tokens": usage.reused_tokens},
        "completion_tokens_details": {"reasoning_tokens": usage.reasoning_tokens},
    }
