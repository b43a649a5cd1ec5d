"""Anthropic's messages and tools in OpenAI's chat form.

Results of tools stand in a user's message there and are messages of their own here; thinking is
the assistant's reasoning.  `cache_control` is read by nobody: what can be reused always is.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from helios.serve.translated import kind_of, known, member, refuse, text_in, unsealed

Object = dict[str, Any]

CACHED: Final = "cache_control"
BILLED: Final = "x-anthropic-billing-header:"
"""How a block of the system begins that is about the client's bill; no two requests have the same,
so it would keep them from sharing a prompt."""

FAILED: Final = "Error: "
"""Put before the result of a tool that failed; templates know no other way to say so."""


class Turns(msgspec.Struct):
    """Messages in chat's form, and where each comes from."""

    messages: list[Object] = msgspec.field(default_factory=list)
    places: list[str] = msgspec.field(default_factory=list)

    def add(self, at: str, **message: Any) -> None:
        """One message."""
        self.messages.append(message)
        self.places.append(at)

    def system(self, system: object, at: str) -> None:
        """The system's text; blocks are paragraphs."""
        if isinstance(system, str):
            self.add(at, role="system", content=system)
            return
        texts = [text_block(block, where) for block, where in blocks_of(system, at)]
        texts = [text for text in texts if not text.startswith(BILLED)]
        if texts:
            self.add(at, role="system", content="\n\n".join(texts))

    def message(self, message: Object, at: str) -> None:
        """One of Anthropic's messages."""
        known(message, ("role", "content"), at)
        content = message.get("content")
        match message.get("role"):
            case "user":
                self.user(content, f"{at}.content")
            case "assistant":
                self.assistant(content, f"{at}.content")
            case "system":
                self.system(content, f"{at}.content")
            case other:
                refuse(f"{at}.role", repr(other)[:80], expected="'user' or 'assistant'")

    def user(self, content: object, at: str) -> None:
        """What a user says, results of tools each apart, in order."""
        if isinstance(content, str):
            self.add(at, role="user", content=content)
            return
        said: list[Object] = []
        for block, where in blocks_of(content, at):
            if block.get("type") != "tool_result":
                said.append(part_of(block, where))
                continue
            if said:
                self.add(at, role="user", content=joined(said))
                said = []
            self.result(block, where)
        if said:
            self.add(at, role="user", content=joined(said))

    def result(self, block: Object, at: str) -> None:
        """The result of a tool."""
        known(block, ("type", "tool_use_id", "content", "is_error", CACHED), at)
        content = block.get("content")
        parts = [{"type": "text", "text": content}] if isinstance(content, str) else []
        if not isinstance(content, str | None):
            parts = [part_of(part, where) for part, where in blocks_of(content, f"{at}.content")]
        if flag(block, "is_error", at):
            parts = [{"type": "text", "text": FAILED}, *parts]
        call = text_in(block, "tool_use_id", at)
        self.add(at, role="tool", tool_call_id=call, content=joined(parts))

    def assistant(self, content: object, at: str) -> None:
        """What the assistant thought, said and called."""
        if isinstance(content, str):
            self.add(at, role="assistant", content=content)
            return
        said, thought, calls = "", "", []
        for block, where in blocks_of(content, at):
            match block.get("type"):
                case "thinking":
                    thought += thought_in(block, where)
                case "redacted_thinking":
                    thought += unsealed(text_in(block, "data", where))
                case "tool_use":
                    calls.append(call_of(block, where))
                case _:
                    said += text_block(block, where)
        message: Object = {"role": "assistant"}
        if said or not calls:
            message["content"] = said
        if thought:
            message["reasoning_content"] = thought
        if calls:
            message["tool_calls"] = calls
        self.add(at, **message)

    def continues(self) -> bool:
        """Whether the last message is the assistant's, to be continued."""
        last = self.messages[-1] if self.messages else {}
        if last.get("role") != "assistant":
            return False
        if not last.get("content") or "tool_calls" in last:
            refuse(self.places[-1], "an answer without text at its end", expected="text to go on")
        return True


# ------------------------------------------------------------------- blocks


def blocks_of(content: object, at: str) -> list[tuple[Object, str]]:
    """Blocks, each with its place."""
    if not isinstance(content, list):
        refuse(at, kind_of(content), expected="text, or a list of blocks")
    places = [f"{at}[{index}]" for index in range(len(content))]
    return [
        (dict(member(block, where)), where) for block, where in zip(content, places, strict=True)
    ]


def text_block(block: Object, at: str) -> str:
    """The text of a block."""
    if block.get("type") != "text":
        refuse(f"{at}.type", repr(block.get("type"))[:80], expected="'text'")
    known(block, ("type", "text", "citations", CACHED), at)
    if block.get("citations"):
        refuse(f"{at}.citations", "citations", expected="null: this server makes none")
    return text_in(block, "text", at)


def part_of(block: Object, at: str) -> Object:
    """A part in chat's form."""
    match block.get("type"):
        case "text":
            return {"type": "text", "text": text_block(block, at)}
        case "image":
            known(block, ("type", "source", CACHED), at)
            url = image_url(member(block.get("source"), f"{at}.source"), f"{at}.source")
            return {"type": "image_url", "image_url": {"url": url}}
        case other:
            return refuse(
                f"{at}.type", repr(other)[:80], expected="'text', 'image' or 'tool_result'"
            )


def image_url(source: Mapping[str, Any], at: str) -> str:
    """An image as chat has it."""
    match source.get("type"):
        case "base64":
            media_type = text_in(source, "media_type", at)
            return f"data:{media_type};base64,{text_in(source, 'data', at)}"
        case "url":
            return text_in(source, "url", at)
        case other:
            return refuse(f"{at}.type", repr(other)[:80], expected="'base64' or 'url'")


def thought_in(block: Object, at: str) -> str:
    """Thinking as it was shown, or as its signature carries it where it was not."""
    known(block, ("type", "thinking", "signature", CACHED), at)
    return text_in(block, "thinking", at) or unsealed(block.get("signature"))


def call_of(block: Object, at: str) -> Object:
    """A call in chat's form."""
    known(block, ("type", "id", "name", "input", "caller", CACHED), at)
    arguments = dict(member(block.get("input"), f"{at}.input"))
    function = {"name": text_in(block, "name", at), "arguments": arguments}
    return {"id": text_in(block, "id", at), "type": "function", "function": function}


def chat_tool(tool: Object, at: str) -> Object:
    """A tool in chat's form; arguments stream as they come, whether that was asked or not."""
    kind = tool.get("type")
    if kind not in (None, "custom"):
        refuse(
            f"{at}.type",
            repr(kind)[:80],
            expected="'custom': this server runs no tools of its own; turn it off in the client",
        )
    fields = ("type", "name", "description", "input_schema", "strict", "eager_input_streaming")
    known(tool, (*fields, CACHED), at)
    schema = dict(member(tool.get("input_schema"), f"{at}.input_schema"))
    function: Object = {"name": text_in(tool, "name", at), "parameters": schema}
    if tool.get("description") is not None:
        function["description"] = text_in(tool, "description", at)
    if tool.get("strict") is not None:
        function["strict"] = tool["strict"]
    return {"type": "function", "function": function}


def joined(parts: list[Object]) -> object:
    """Parts as content: a text where they are only that."""
    if all(part["type"] == "text" for part in parts):
        return "".join(part["text"] for part in parts)
    return parts


def flag(block: Object, name: str, at: str) -> bool:
    """A boolean of a block, false where it is not said."""
    value = block.get(name)
    if not isinstance(value, bool | None):
        refuse(f"{at}.{name}", repr(value)[:80], expected="true or false")
    return bool(value)
