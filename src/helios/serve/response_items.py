"""The output of a response as it grows: items, and the event of every step, in OpenAI's order.

A call that the model left unfinished has no done event, so that no client runs it (T-27); its
item is in the response all the same, as incomplete.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from itertools import count
from typing import Any

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

Item = dict[str, Any]
Told = dict[str, Any]


class Items:
    """The items of one response."""

    def __init__(self, *, seals: bool) -> None:
        self.output: list[Item] = []
        self._open: Item | None = None
        self._text = ""  # of the open item
        self._seals = seals
        self._numbers = count()

    def told(self, kind: str, **more: Any) -> Told:
        """An event with the next number."""
        return {"type": f"response.{kind}", "sequence_number": next(self._numbers), **more}

    def take(self, made: Event) -> Iterator[Told]:
        """The events of what was made."""
        match made:
            case Content(text):
                yield from self._opened("message")
                yield self._part("output_text.delta", delta=text, logprobs=[])
                self._text += text
            case Reasoning(text):
                yield from self._opened("reasoning")
                yield self._part("reasoning_text.delta", delta=text)
                self._text += text
            case CallOpened(_, name, call_id):
                yield from self.close()
                yield self._add(
                    "fc",
                    type="function_call",
                    call_id=call_id or new_call_id(),
                    name=name,
                    arguments="",
                )
            case Arguments(_, text):
                yield self._item("function_call_arguments.delta", delta=text)
                self._text += text
            case CallClosed():
                yield from self._close_call()

    def close(self, *, status: str = "completed") -> Iterator[Told]:
        """The end of the open item."""
        if self._open is None:
            return
        match self._open["type"]:
            case "message":
                yield self._part("output_text.done", text=self._text, logprobs=[])
                yield from self._close_part(text_part(self._text))
            case "reasoning":
                yield self._part("reasoning_text.done", text=self._text)
                if self._seals:
                    self._open["encrypted_content"] = sealed(self._text)
                yield from self._close_part({"type": "reasoning_text", "text": self._text})
            case _:
                self.leave()
                return
        yield from self._done(status)

    def leave(self) -> None:
        """What is open stays unfinished; nothing more is told of it."""
        if self._open is None:
            return
        self._open["status"] = "incomplete"
        match self._open["type"]:
            case "message":
                self._open["content"] = [text_part(self._text)]
            case "reasoning":
                self._open["content"] = [{"type": "reasoning_text", "text": self._text}]
            case _:
                self._open["arguments"] = self._text
        self._open, self._text = None, ""

    # ---------------------------------------------------------------- steps

    def _opened(self, kind: str) -> Iterator[Told]:
        """Such an item is open now."""
        if self._open is not None and self._open["type"] == kind:
            return
        yield from self.close()
        if kind == "message":
            yield self._add("msg", type="message", role="assistant", content=[])
            yield self._part("content_part.added", part=text_part(""))
        else:
            yield self._add("rs", type="reasoning", summary=[], content=[])
            yield self._part("content_part.added", part={"type": "reasoning_text", "text": ""})

    def _add(self, prefix: str, **more: Any) -> Told:
        item = {"id": f"{prefix}_{secrets.token_hex(12)}", "status": "in_progress", **more}
        self.output.append(item)
        self._open, self._text = item, ""
        return self.told("output_item.added", output_index=len(self.output) - 1, item=dict(item))

    def _item(self, kind: str, **more: Any) -> Told:
        """An event of the open item."""
        assert self._open is not None
        index = len(self.output) - 1
        return self.told(kind, item_id=self._open["id"], output_index=index, **more)

    def _part(self, kind: str, **more: Any) -> Told:
        """An event of the open item's only part."""
        return self._item(kind, content_index=0, **more)

    def _close_part(self, part: Told) -> Iterator[Told]:
        assert self._open is not None
        self._open["content"] = [part]
        yield self._part("content_part.done", part=part)

    def _close_call(self) -> Iterator[Told]:
        assert self._open is not None
        self._open["arguments"] = self._text
        yield self._item(
            "function_call_arguments.done", name=self._open["name"], arguments=self._text
        )
        yield from self._done("completed")

    def _done(self, status: str) -> Iterator[Told]:
        assert self._open is not None
        self._open["status"] = status
        item, self._open, self._text = self._open, None, ""
        yield self.told("output_item.done", output_index=len(self.output) - 1, item=item)


def text_part(text: str) -> Told:
    """A part with the answer's text."""
    return {"type": "output_text", "text": text, "annotations": [], "logprobs": []}
