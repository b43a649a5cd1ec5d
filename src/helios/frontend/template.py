"""Chat templates: Jinja2's immutable sandbox, configured as transformers configures it.

A template is compiled once and rendered off the event loop; what it renders is bounded, for
templates loop over what clients send.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final

import jinja2
import jinja2.ext
import jinja2.sandbox

from helios.values import RequestInvalid

MOST_CHARACTERS: Final = 8 << 20
Message = Mapping[str, Any]


class TemplateRefusal(Exception):
    """The template itself refused the conversation (`raise_exception`)."""


def raise_exception(message: str) -> None:
    """What templates call to refuse a conversation."""
    raise TemplateRefusal(message)


def strftime_now(layout: str) -> str:
    """The local time, as templates ask for it."""
    return datetime.now().astimezone().strftime(layout)


def to_json(
    value: object,
    ensure_ascii: bool = False,  # noqa: FBT001, FBT002 - the filter's own signature
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,  # noqa: FBT001, FBT002
) -> str:
    """JSON without HTML escapes, as transformers' filter writes it."""
    return json.dumps(
        value,
        ensure_ascii=ensure_ascii,
        indent=indent,
        separators=separators,
        sort_keys=sort_keys,
    )


def environment() -> jinja2.sandbox.ImmutableSandboxedEnvironment:
    """The environment that public templates are written for."""
    made = jinja2.sandbox.ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[jinja2.ext.loopcontrols]
    )
    made.filters["tojson"] = to_json
    made.globals["raise_exception"] = raise_exception
    made.globals["strftime_now"] = strftime_now
    return made


class ChatTemplate:
    """A core's chat template and the tokens it may name."""

    def __init__(self, source: str, tokens: Mapping[str, str]) -> None:
        self._template = environment().from_string(source)
        self._tokens = dict(tokens)

    def render(self, messages: Sequence[Message]) -> str:
        """The prompt of a conversation, up to where the assistant begins."""
        pieces, length = [], 0
        try:
            for piece in self._template.generate(
                messages=messages, add_generation_prompt=True, tools=None, **self._tokens
            ):
                length += len(piece)
                if length > MOST_CHARACTERS:
                    raise RequestInvalid(
                        "messages",
                        f"a prompt of more than {MOST_CHARACTERS} characters",
                        expected="a shorter conversation",
                    )
                pieces.append(piece)
        except TemplateRefusal as refusal:
            raise RequestInvalid(
                "messages", f"what the template refuses ({refusal})", expected="other messages"
            ) from None
        except (jinja2.TemplateError, TypeError, ValueError, KeyError, AttributeError) as error:
            raise RequestInvalid(
                "messages",
                f"what the template cannot render ({error})",
                expected="messages that the model's chat template takes",
            ) from None
        return "".join(pieces)
