"""The content of an answer as it grows: Anthropic's blocks, and the event of every step."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Final

from helios.frontend.syntax.events import (
    Arguments,
    CallClosed,
    CallOpened,
    Content,
    Event,
    Reasoning,
)
from helios.serve.translated import sealed
from helios.serve.wire import new_call_id

Block = dict[str, Any]
Told = dict[str, Any]

UNSIGNED: Final = "unsigned"
"""The signature of thinking that is shown; clients want one, and nobody checks it here."""


class Blocks:
    """The blocks of one answer."""

    def __init__(self, *, shows_thinking: bool) -> None:
        self.content: list[Block] = []
        self._open: Block | None = None
        self._text = ""  # of the open block
        self._shows = shows_thinking

    def take(self, made: Event) -> Iterator[Told]:
        """The events of what was made."""
        match made:
            case Content(text):
                yield from self._opened({"type": "text", "text": ""})
                yield self._delta(type="text_delta", text=text)
                self._text += text
            case Reasoning(text):
                yield from self._opened({"type": "thinking", "thinking": "", "signature": ""})
                if self._shows:
                    yield self._delta(type="thinking_delta", thinking=text)
                self._text += text
            case CallOpened(_, name, call_id):
                yield from self.close()
                call = call_id or new_call_id()
                yield self._start({"type": "tool_use", "id": call, "name": name, "input": {}})
            case Arguments(_, text):
                yield self._delta(type="input_json_delta", partial_json=text)
                self._text += text
            case CallClosed():
                yield from self._stop(input=json.loads(self._text))

    def close(self) -> Iterator[Told]:
        """The end of the open block; of an unfinished call's input, what was complete."""
        if self._open is None:
            return
        match self._open["type"]:
            case "text":
                yield from self._stop(text=self._text)
            case "thinking":
                signature = UNSIGNED if self._shows else sealed(self._text)
                yield self._delta(type="signature_delta", signature=signature)
                shown = self._text if self._shows else ""
                yield from self._stop(thinking=shown, signature=signature)
            case _:
                yield from self._stop(input=complete_members(self._text))

    # ---------------------------------------------------------------- steps

    def _opened(self, block: Block) -> Iterator[Told]:
        """Such a block is open now."""
        if self._open is None or self._open["type"] != block["type"]:
            yield from self.close()
            yield self._start(block)

    def _start(self, block: Block) -> Told:
        self.content.append(block)
        self._open, self._text = block, ""
        return {
            "type": "content_block_start",
            "index": len(self.content) - 1,
            "content_block": dict(block),
        }

    def _delta(self, **delta: Any) -> Told:
        return {"type": "content_block_delta", "index": len(self.content) - 1, "delta": delta}

    def _stop(self, **finished: Any) -> Iterator[Told]:
        assert self._open is not None
        self._open.update(finished)
        self._open = None
        yield {"type": "content_block_stop", "index": len(self.content) - 1}


def complete_members(text: str) -> dict[str, Any]:
    """Members of an object that its text says in full; what was being written is left out."""
    ends, depth, quoted, escaped = 0, 0, False, False
    for index, character in enumerate(text):
        if escaped:
            escaped = False
        elif quoted:
            escaped, quoted = character == "\\", character != '"'
        elif character == '"':
            quoted = True
        elif character in "{[":
            depth += 1
        elif character in "}]":
            depth -= 1
        elif character == "," and depth == 1:
            ends = index
    found: dict[str, Any] = json.loads(text[:ends] + "}") if ends else {}
    return found
