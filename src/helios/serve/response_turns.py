"""Items of /v1/responses as messages in OpenAI's chat form."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec

from helios.serve.translated import kind_of, known, member, refuse, text_in, unsealed

Object = dict[str, Any]

PARTS: Final = {
    "input_text": "text",
    "output_text": "text",
    "text": "text",
    "refusal": "refusal",
}
FIRST: Final = frozenset({"system", "developer"})
OWN: Final = ("type", "id", "status")
"""Of every item; the last two have no effect."""

MEMBERS: Final[Mapping[object, tuple[str, ...]]] = {
    "message": (*OWN, "role", "content", "phase"),
    "reasoning": (*OWN, "summary", "content", "encrypted_content"),
    "function_call": (*OWN, "call_id", "name", "arguments"),
    "function_call_output": (*OWN, "call_id", "output"),
}


class Turns(msgspec.Struct):
    """Items as messages: what a model made between two inputs is one assistant's message.

    What the client's instructions and the first system and developer items say is one message,
    because many templates take only one.
    """

    messages: list[Object] = msgspec.field(default_factory=list)
    places: list[str] = msgspec.field(default_factory=list)

    def take(self, items: str | Iterable[Object]) -> None:
        """The whole input."""
        if isinstance(items, str):
            self.say("user", items, "input")
            return
        for index, item in enumerate(items):
            self.item(item, f"input[{index}]")

    def item(self, item: Object, at: str) -> None:
        """One item."""
        kind = item.get("type", "message")
        if kind in MEMBERS:
            known(item, MEMBERS[kind], at)
        match kind:
            case "message":
                self.message(item, at)
            case "reasoning":
                self.reasoning(item, at)
            case "function_call":
                call = {
                    "id": text_in(item, "call_id", at),
                    "type": "function",
                    "function": {
                        "name": text_in(item, "name", at),
                        "arguments": text_in(item, "arguments", at),
                    },
                }
                self.assistant(at).setdefault("tool_calls", []).append(call)
            case "function_call_output":
                call_id = text_in(item, "call_id", at)
                output = content_of(item.get("output"), f"{at}.output")
                self.say("tool", output, at, tool_call_id=call_id)
            case "item_reference":
                expected = "the item itself: nothing is stored"
                refuse(f"{at}.type", "'item_reference'", expected=expected)
            case _:
                refuse(
                    f"{at}.type",
                    repr(kind)[:80],
                    expected="message, reasoning, function_call or function_call_output",
                )

    def message(self, item: Object, at: str) -> None:
        """A message; an assistant's goes on with what was thought before it."""
        role = text_in(item, "role", at)
        if role == "tool":
            refuse(f"{at}.role", "'tool'", expected="an item of the type function_call_output")
        content = content_of(item.get("content"), f"{at}.content")
        if role != "assistant":
            self.say(role, content, at)
            return
        open_one = self.assistant(at)
        if "content" in open_one and "tool_calls" not in open_one:
            self.say(role, content, at)
        else:
            open_one["content"] = joined(open_one.get("content"), content)

    def reasoning(self, item: Object, at: str) -> None:
        """What was thought: as it is, or as this server sealed it."""
        parts = item.get("content") or []
        if not isinstance(parts, list):
            refuse(f"{at}.content", kind_of(parts), expected="a list of parts")
        texts = [
            text_in(member(part, f"{at}.content[{index}]"), "text", f"{at}.content[{index}]")
            for index, part in enumerate(parts)
        ]
        thought = "".join(texts) or unsealed(item.get("encrypted_content"))
        if not thought:
            return
        message = self.assistant(at)
        if "content" in message or "tool_calls" in message:
            message = self.say("assistant", None, at)
        message["reasoning_content"] = message.get("reasoning_content", "") + thought

    def assistant(self, at: str) -> Object:
        """The assistant's message that is being put together."""
        if self.messages and self.messages[-1]["role"] == "assistant":
            return self.messages[-1]
        return self.say("assistant", None, at)

    def say(self, role: str, content: object, at: str, **more: str) -> Object:
        """A message, or more of the first."""
        if role in FIRST and len(self.messages) == 1 and self.messages[0]["role"] in FIRST:
            self.messages[0]["content"] = joined(self.messages[0]["content"], content, by="\n\n")
            return self.messages[0]
        message: Object = {"role": role, **more}
        if content is not None:
            message["content"] = content
        self.messages.append(message)
        self.places.append(at)
        return message


def content_of(content: object, at: str) -> object:
    """Content in chat's form: text, or parts."""
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        refuse(at, kind_of(content), expected="text, or a list of parts")
    parts = [part_of(part, f"{at}[{index}]") for index, part in enumerate(content)]
    if all(part["type"] == "text" for part in parts):
        return "".join(part["text"] for part in parts)
    return parts


def part_of(part: object, at: str) -> Object:
    """A part in chat's form."""
    part = member(part, at)
    kind = part.get("type")
    if isinstance(kind, str) and kind in PARTS:
        known(part, ("type", PARTS[kind], "annotations", "logprobs"), at)
        return {"type": "text", "text": text_in(part, PARTS[kind], at)}
    if kind == "input_image":
        known(part, ("type", "image_url", "detail"), at)
        return {"type": "image_url", "image_url": {"url": text_in(part, "image_url", at)}}
    return refuse(
        f"{at}.type", repr(kind)[:80], expected="input_text, output_text, refusal or input_image"
    )


def joined(one: object, more: object, *, by: str = "") -> object:
    """Two contents as one."""
    if one is None or more is None:
        return more if one is None else one
    if isinstance(one, str) and isinstance(more, str):
        return one + by + more
    return [*parts_of(one), *parts_of(by), *parts_of(more)]


def parts_of(content: object) -> list[object]:
    """Content as parts."""
    if isinstance(content, str):
        return [{"type": "text", "text": content}] if content else []
    assert isinstance(content, list)
    return content
