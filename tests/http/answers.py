"""What clients read: chat answers as one object and as events, in one shape to compare."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

Object = dict[str, Any]
EMPTY = "", None


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A call as a client has it in the end."""

    name: str
    arguments: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """One choice of an answer."""

    content: str
    reasoning: str
    calls: tuple[Call, ...]
    finish: str | None
    usage: Object | None
    ids: tuple[str, ...] = field(default=(), compare=False)

    @staticmethod
    def of_object(answer: Object, choice: int = 0) -> Said:
        """What a JSON answer says."""
        chosen = answer["choices"][choice]
        message = chosen["message"]
        calls = message.get("tool_calls", [])
        assert all(call["type"] == "function" for call in calls)
        return Said(
            content=message["content"] or "",
            reasoning=message.get("reasoning_content", ""),
            calls=tuple(Call(**call["function"]) for call in calls),
            finish=chosen["finish_reason"],
            usage=plain_usage(answer["usage"]),
            ids=tuple(call["id"] for call in calls),
        )


def plain_usage(usage: Object | None) -> Object | None:
    """Usage without what the cache did for an earlier request of the same prompt."""
    if usage is None:
        return None
    return {name: value for name, value in usage.items() if name != "prompt_tokens_details"}


@dataclass(frozen=True, slots=True)
class Stream:
    """The events of a streamed answer, in order."""

    chunks: tuple[Object, ...]
    done: bool
    error: Object | None

    @staticmethod
    def read(text: str) -> Stream:
        """Parse events; nothing may follow [DONE], nor an error."""
        events = [event.removeprefix("data: ") for event in text.split("\n\n") if event]
        done = events[-1] == "[DONE]"
        bodies = [json.loads(event) for event in (events[:-1] if done else events)]
        error = bodies[-1].get("error")
        chunks = bodies if error is None else bodies[:-1]
        assert all("error" not in chunk for chunk in chunks)
        return Stream(tuple(chunks), done, error)

    def of(self, choice: int) -> list[Object]:
        """A choice's own parts."""
        return [
            part for chunk in self.chunks for part in chunk["choices"] if part["index"] == choice
        ]

    def usage(self) -> Object | None:
        """What the last chunk that has usage says."""
        found = [chunk["usage"] for chunk in self.chunks if chunk.get("usage")]
        assert len(found) <= 1
        return found[0] if found else None

    def said(self, choice: int = 0) -> Said:
        """What the deltas joined say; checks what every stream keeps."""
        parts = self.of(choice)
        assert parts[0]["delta"] == {"role": "assistant", "content": ""}
        assert all(part["finish_reason"] is None for part in parts[:-1])
        assert parts[-1]["delta"] == {}
        assert len({chunk["id"] for chunk in self.chunks}) == 1
        calls, ids = joined_calls(parts)
        return Said(
            content="".join(part["delta"].get("content") or "" for part in parts),
            reasoning="".join(part["delta"].get("reasoning_content", "") for part in parts),
            calls=calls,
            finish=parts[-1]["finish_reason"],
            usage=plain_usage(self.usage()),
            ids=ids,
        )


def joined_calls(parts: list[Object]) -> tuple[tuple[Call, ...], tuple[str, ...]]:
    """Calls from their deltas: the id and the name come first and once, indices count up (T-12)."""
    names: list[str] = []
    ids: list[str] = []
    arguments: list[str] = []
    for part in parts:
        for delta in part["delta"].get("tool_calls", ()):
            function = delta["function"]
            if delta["index"] == len(names):
                assert delta["type"] == "function"
                names.append(function["name"])
                ids.append(delta["id"])
                arguments.append("")
            else:
                assert delta["index"] == len(names) - 1
                assert set(delta) == {"index", "function"}
                assert set(function) == {"arguments"}
            arguments[-1] += function["arguments"]
    made = tuple(Call(name=n, arguments=a) for n, a in zip(names, arguments, strict=True))
    return made, tuple(ids)
