"""The marks around an assistant's turn, as a chat template writes them (FI-10).

Found by rendering two small conversations: what the template writes where an answer may begin,
and what it writes around an answer that is there.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any, Final

import jinja2
import jinja2.ext
import jinja2.sandbox

from prepared.contract import AssistantEnvelope

QUESTION: Final = "question4711"
ANSWER: Final = "answer4711"
USER: Final = {"role": "user", "content": QUESTION}
SAID: Final = {"role": "assistant", "content": ANSWER}


class Refused(Exception):
    """The template refused a conversation."""


def refuse(message: str) -> None:
    """What templates call to refuse."""
    raise Refused(message)


def assistant_envelope(source: str | None, tokens: Mapping[str, str]) -> AssistantEnvelope | None:
    """The marks, or None where the template shows none."""
    if source is None:
        return None
    try:
        template = compiled(source)
        begun = render(template, tokens, [USER], generation=True)
        before = render(template, tokens, [USER], generation=False)
        said = render(template, tokens, [USER, SAID], generation=False)
    except (Refused, jinja2.TemplateError, TypeError, ValueError, KeyError, AttributeError):
        return None
    prompt = begun.removeprefix(before) if begun.startswith(before) else ""
    around, found, rest = said.rpartition(ANSWER)
    place = around.rfind(prompt[:1]) if not around.startswith(before) else len(before)
    opened = os.path.commonprefix([prompt, around[place:]])
    closed = rest.strip()
    if not found or not opened.strip() or not closed:
        return None
    return AssistantEnvelope(open=opened, close=closed)


def compiled(source: str) -> jinja2.Template:
    """A template in the sandbox that public templates are written for."""
    environment = jinja2.sandbox.ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[jinja2.ext.loopcontrols]
    )
    environment.globals["raise_exception"] = refuse
    environment.globals["strftime_now"] = lambda layout: layout
    return environment.from_string(source)


def render(
    template: jinja2.Template,
    tokens: Mapping[str, str],
    messages: Sequence[Mapping[str, Any]],
    *,
    generation: bool,
) -> str:
    """The text of a conversation."""
    return template.render(
        messages=messages, tools=None, add_generation_prompt=generation, **tokens
    )
