"""Chat templates: compiled once, rendered off the event loop, bounded in time and output.

What a template renders is the text that transformers renders, character by character, and
which of its characters came from the template (`provenance`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import jinja2
from jinja2 import nodes

from helios.frontend.provenance import PromptText, concat, spans_of, template_text
from helios.frontend.sandbox import MOST_CHARACTERS, RenderTooLong, Sandbox
from helios.values import RequestInvalid

RENDER_SECONDS: Final = 5.0
"""Renderings take milliseconds; the bound is for loops that do not end."""

Message = Mapping[str, Any]
FAULTS: Final = (
    jinja2.TemplateError,
    ArithmeticError,
    AttributeError,
    LookupError,
    RecursionError,
    TypeError,
    ValueError,
)
"""What a template can raise by what it is given."""

OWN_VARIABLES: Final = frozenset(
    ("messages", "tools", "documents", "add_generation_prompt", "continue_final_message")
)


class TemplateFault(Exception):
    """The template refused or failed; the text says why."""


class ChatTemplate:
    """A core's chat template and the tokens it may name."""

    def __init__(
        self, source: str, tokens: Mapping[str, str], *, seconds: float = RENDER_SECONDS
    ) -> None:
        self._environment = Sandbox()
        self._template = self._environment.from_string(source)
        self.tokens = {name: template_text(text) for name, text in tokens.items()}
        self._seconds = seconds
        self.source = source
        self.constants: frozenset[str] = frozenset(
            node.value
            for node in self._environment.parse(source).find_all(nodes.Const)
            if isinstance(node.value, str)
        )
        self.reserved: frozenset[str] = OWN_VARIABLES.union(tokens, self._environment.globals)

    def render(
        self,
        messages: Sequence[Message],
        *,
        tools: Sequence[Mapping[str, Any]] | None = None,
        documents: Sequence[Mapping[str, Any]] | None = None,
        add_generation_prompt: bool = True,
        variables: Mapping[str, Any] | None = None,
    ) -> PromptText:
        """The prompt of a conversation, or RequestInvalid naming `messages` or `tools`."""
        given: dict[str, Any] = {
            **self.tokens,
            **(variables or {}),
            "messages": messages,
            "tools": tools,
            "documents": documents,
            "add_generation_prompt": add_generation_prompt,
        }
        try:
            return self.attempt(given)
        except RenderTooLong as fault:
            raise RequestInvalid(
                "messages", fault, expected="a conversation that renders quickly"
            ) from None
        except TemplateFault as fault:
            field = "tools" if tools and self._renders({**given, "tools": None}) else "messages"
            raise RequestInvalid(
                field,
                f"what the model's chat template refuses ({fault})",
                expected=f"{field} that it takes",
            ) from None

    def attempt(self, given: Mapping[str, Any]) -> PromptText:
        """Render with these variables, or TemplateFault or RenderTooLong."""
        pieces, length = [], 0
        try:
            with self._environment.within(self._seconds):
                for piece in self._template.generate(given):
                    self._environment.tick()
                    length += len(piece)
                    if length > MOST_CHARACTERS:
                        raise RenderTooLong(f"a prompt of more than {MOST_CHARACTERS} characters")
                    pieces.append(piece)
        except FAULTS as fault:
            raise TemplateFault(str(fault) or type(fault).__name__) from None
        text = concat(pieces)
        return PromptText(text=str.__str__(text), template_spans=spans_of(text))

    def _renders(self, given: Mapping[str, Any]) -> bool:
        try:
            self.attempt(given)
        except (TemplateFault, RenderTooLong):
            return False
        return True
