"""Messages as a chat template expects them, checked and shaped.

Clients send OpenAI's form.  Templates differ in what they take: content as text or as parts, a
developer's role or none, arguments of calls as an object or as JSON text.  How a template
differs is found out once, by rendering small conversations with it (`Taste.of`).

Roles and types are words of the server, so they count as the template's own text: a template
may make a marker of a role, and no client can bring a role of its own.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from enum import Enum, auto
from typing import Any, Final, NoReturn

import msgspec

from helios.frontend.images.source import is_image
from helios.frontend.provenance import template_text
from helios.frontend.sandbox import RenderTooLong
from helios.frontend.template import ChatTemplate, TemplateFault
from helios.values import RequestInvalid

ROLES: Final = ("system", "developer", "user", "assistant", "tool")
REASONING_FIELDS: Final = ("reasoning_content", "reasoning")
NEEDLE: Final = "needle4711"
TOOL: Final = {
    "type": "function",
    "function": {
        "name": "probe",
        "description": "x",
        "parameters": {"type": "object", "properties": {"word": {"type": "string"}}},
    },
}

MESSAGE_FIELDS: Final = frozenset(
    {"role", "content", "name", "tool_calls", "tool_call_id", *REASONING_FIELDS}
)
TEXT_FIELDS: Final = frozenset({"type", "text", "annotations"})
EMPTY_FIELDS: Final = frozenset({"refusal", "annotations", "audio", "function_call"})
"""Fields of answers that clients send back; they may come when they say nothing."""

Message = Mapping[str, Any]
Shaped = dict[str, Any]


# ------------------------------------------------------------------- taste


class Silence(Enum):
    """What stands for the content of a message that has none."""

    ABSENT = auto()  # as transformers has it
    EMPTY = auto()
    NULL = auto()

    def content(self) -> Shaped:
        """The field, or its absence."""
        if self is Silence.ABSENT:
            return {}
        return {"content": "" if self is Silence.EMPTY else None}


class Taste(msgspec.Struct, frozen=True, kw_only=True):
    """What a template takes."""

    parts: frozenset[str]  # roles whose content may be a list of parts
    texts: frozenset[str]  # roles whose content may be a text
    knows_developer: bool  # its source names the role
    silence: Silence  # with which it writes the calls of a message without content
    arguments_as_text: bool  # it cannot write a call's arguments from an object

    @classmethod
    def of(cls, template: ChatTemplate) -> Taste:
        """Render small conversations, and see what comes out."""
        roles = [role for role in ROLES if role != "developer"]
        silence, as_text = taste_in_calls(template)
        return cls(
            parts=frozenset(
                role
                for role in roles
                if takes(template, opening(role, [{"type": "text", "text": NEEDLE}]))
            ),
            texts=frozenset(role for role in roles if takes(template, opening(role, NEEDLE))),
            knows_developer="developer" in template.constants,
            silence=silence,
            arguments_as_text=as_text,
        )


def taste_in_calls(template: ChatTemplate) -> tuple[Silence, bool]:
    """How calls without content come out: with which content, and arguments as text or not."""
    arguments = {"word": NEEDLE}
    forms: tuple[tuple[object, bool], ...] = ((arguments, False), (json.dumps(arguments), True))
    for more in (going_on(), []):
        for silence in Silence:
            for given, as_text in forms:
                if takes(template, [*calling(given, silence), *more]):
                    return silence, as_text
    for silence in Silence:
        if rendered(template, calling({}, silence)) is not None:
            return silence, False
    return Silence.ABSENT, False


def opening(role: str, content: object) -> list[Shaped]:
    """The shortest conversation with such a message."""
    user = {"role": "user", "content": "x"}
    message = {"role": role, "content": content}
    match role:
        case "system":
            return [message, user]
        case "assistant":
            return [user, message]
        case "tool":
            named = {"tool_call_id": "call00001", "name": "probe"}
            return [*calling({}, Silence.EMPTY), {**message, **named}]
    return [message]


def calling(arguments: object, silence: Silence) -> list[Shaped]:
    """A conversation with a call."""
    function = {"name": "probe", "arguments": arguments}
    call = {"id": "call00001", "type": "function", "function": function}
    return [
        {"role": "user", "content": "x"},
        {"role": "assistant", **silence.content(), "tool_calls": [call]},
    ]


def going_on() -> list[Shaped]:
    """What may follow a call; not every template takes it."""
    return [
        {"role": "tool", "tool_call_id": "call00001", "name": "probe", "content": "x"},
        {"role": "assistant", "content": "x"},
        {"role": "user", "content": "x"},
    ]


def takes(template: ChatTemplate, messages: Sequence[Message]) -> bool:
    """Whether the needle comes out, and not within the spelling of a Python value."""
    text = rendered(template, messages) or ""
    spelled = (f"'{NEEDLE}'", f'"text": "{NEEDLE}"')
    return NEEDLE in text and not any(spelling in text for spelling in spelled)


def rendered(template: ChatTemplate, messages: Sequence[Message]) -> str | None:
    """The text; with a tool for templates that want one; None if the template fails."""
    for tools in (None, [TOOL]):
        try:
            return template.attempt(
                {
                    **template.tokens,
                    "messages": messages,
                    "tools": tools,
                    "documents": None,
                    "add_generation_prompt": False,
                }
            ).text
        except (TemplateFault, RenderTooLong):
            continue
    return None


# ----------------------------------------------------------------- shaping


def shaped(messages: Sequence[Message], taste: Taste) -> list[Shaped]:
    """Messages as the template takes them, or RequestInvalid naming the field."""
    if not messages:
        raise RequestInvalid("messages", "no message", expected="at least one")
    names: dict[str, str] = {}
    made = []
    for index, message in enumerate(messages):
        at = f"messages[{index}]"
        one = shaped_message(message, taste, at=at)
        for call in one.get("tool_calls", ()):
            names[call.get("id", "")] = call["function"]["name"]
        if one["role"] == "tool" and "name" not in one:
            name = names.get(one.get("tool_call_id", ""))
            one |= {} if name is None else {"name": name}
        made.append(one)
    return made


def shaped_message(message: Message, taste: Taste, *, at: str) -> Shaped:
    """One message."""
    role = message.get("role")
    if role not in ROLES:
        refuse(f"{at}.role", repr(role), expected=f"one of {', '.join(ROLES)}")
    if role == "developer" and not taste.knows_developer:
        role = "system"
    check_fields(message, MESSAGE_FIELDS, at=at)
    calls = message.get("tool_calls") or []
    if calls and role != "assistant":
        refuse(f"{at}.tool_calls", f"calls of the role {role}", expected="calls of an assistant")
    reasoning = reasoning_of(message, at=at)
    made: Shaped = {"role": template_text(role), **said(message, role, taste, at=at)}
    if reasoning is not None:  # the names under which templates look for it
        made |= {"reasoning_content": reasoning, "thinking": reasoning}
        made |= {"reasoning": reasoning} if message.get("reasoning") is not None else {}
    if calls:
        made["tool_calls"] = list(shaped_calls(calls, taste, at=f"{at}.tool_calls"))
    for field in ("name", "tool_call_id"):
        if message.get(field) is not None:
            made[field] = text_of(message[field], at=f"{at}.{field}")
    return made


def check_fields(value: Mapping[str, Any], known: frozenset[str], *, at: str) -> None:
    """Refuse a field that means nothing here, by its name."""
    for name, content in value.items():
        if name in known or (name in EMPTY_FIELDS and not content):
            continue
        refuse(
            f"{at}.{name}",
            "a field that this server does not know",
            expected="fields that docs/api.md lists",
        )


def said(message: Message, role: str, taste: Taste, *, at: str) -> Shaped:
    """The content of a message; an assistant that calls or thinks need not say anything."""
    content = message.get("content")
    calls = bool(message.get("tool_calls"))
    if calls and content == "" and taste.silence is Silence.NULL:
        content = None  # the template takes any text for the whole answer
    if content is not None:
        return {"content": shaped_content(content, role, taste, at=f"{at}.content")}
    if role != "assistant" or not (calls or reasoning_of(message, at=at)):
        refuse(f"{at}.content", "nothing", expected="text")
    return taste.silence.content()


def reasoning_of(message: Message, *, at: str) -> str | None:
    """Reasoning of an earlier turn, under either of its names (C-05)."""
    for field in REASONING_FIELDS:
        if message.get(field) is not None:
            return text_of(message[field], at=f"{at}.{field}")
    return None


def shaped_content(content: object, role: str, taste: Taste, *, at: str) -> object:
    """Text where the template takes text, parts where it takes parts."""
    role = "system" if role == "developer" else role
    if isinstance(content, str):
        if role in taste.texts or role not in taste.parts:
            return content
        return [{"type": template_text("text"), "text": content}]
    if not isinstance(content, list | tuple):
        refuse(at, type(content).__name__, expected="text, or a list of parts")
    parts = [shaped_part(part, at=f"{at}[{index}]") for index, part in enumerate(content)]
    if role in taste.parts:
        return parts
    for index, part in enumerate(parts):
        if "text" not in part:
            refuse(
                f"{at}[{index}]",
                "an image",
                expected=f"text: the template of this model takes no images from the role {role}",
            )
    return "".join(part["text"] for part in parts)


def shaped_part(part: object, *, at: str) -> Shaped:
    """A part as templates know it; what an image shows is not the template's business."""
    if not isinstance(part, Mapping):
        refuse(at, type(part).__name__, expected="a part with a type")
    kind = part.get("type")
    if is_image(part):
        return {"type": template_text("image")}
    if "image_url" in part:
        refuse(f"{at}.image_url", f"an image in a part of type {kind!r}", expected="image_url")
    if kind in ("text", "input_text", "output_text"):
        check_fields(part, TEXT_FIELDS, at=at)
        text = text_of(part.get("text"), at=f"{at}.text")
        return {"type": template_text("text"), "text": text}
    return refuse(f"{at}.type", repr(kind), expected="text or image_url")


def shaped_calls(calls: object, taste: Taste, *, at: str) -> Iterator[Shaped]:
    """Calls of an earlier turn; ids and names as they came (C-04)."""
    if not isinstance(calls, list | tuple):
        refuse(at, type(calls).__name__, expected="a list of calls")
    for index, call in enumerate(calls):
        where = f"{at}[{index}]"
        function = call.get("function") if isinstance(call, Mapping) else None
        if not isinstance(function, Mapping):
            refuse(f"{where}.function", repr(function), expected="a name and arguments")
        arguments = function.get("arguments")
        made: Shaped = {}
        if call.get("id") is not None:
            made["id"] = text_of(call["id"], at=f"{where}.id")
        yield {
            **made,
            "type": template_text("function"),
            "function": {
                "name": text_of(function.get("name"), at=f"{where}.function.name"),
                "arguments": shaped_arguments(arguments, as_text=taste.arguments_as_text),
            },
        }


def shaped_arguments(arguments: object, *, as_text: bool) -> object:
    """An object where JSON text says one, unless the template wants text; else verbatim."""
    if isinstance(arguments, str) and not as_text:
        return parsed(arguments)
    if isinstance(arguments, Mapping) and as_text:
        return json.dumps(arguments, ensure_ascii=False)
    return {} if arguments is None else arguments


def parsed(text: str) -> object:
    """The object that a JSON text says; the text itself if it says none."""
    if not text.strip():
        return {}
    try:
        value = json.loads(text, parse_constant=refuse_constant)
    except (ValueError, RecursionError):
        return text
    return value if isinstance(value, dict) else text


def refuse_constant(name: str) -> NoReturn:
    """NaN and infinities are not JSON."""
    raise ValueError(name)


def text_of(value: object, *, at: str) -> str:
    """The value, which must be text."""
    if not isinstance(value, str):
        refuse(at, "nothing" if value is None else type(value).__name__, expected="text")
    return value


def refuse(field: str, found: object, *, expected: str) -> NoReturn:
    """The client must change this field."""
    raise RequestInvalid(field, found, expected=expected)
