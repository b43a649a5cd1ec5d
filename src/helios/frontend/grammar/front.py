"""The front's side: from a request's fields to a `Constraint`, in a preparation thread."""

from __future__ import annotations

from helios.frontend.grammar.check import Checker
from helios.frontend.grammar.constraint import Constraint
from helios.frontend.grammar.envelope import Envelope, Opened
from helios.frontend.grammar.wish import wish_of


class Grammars:
    """A model's envelope, and the children that try grammars out."""

    def __init__(self, envelope: Envelope) -> None:
        self._envelope = envelope
        self._checker = Checker()

    def constraint(
        self,
        *,
        response_format: object = None,
        structured_outputs: object = None,
        tools: object = None,
        tool_choice: object = None,
        parallel_tool_calls: bool = True,
        opened: Opened,
    ) -> Constraint | None:
        """What the output must be; None where the model is free.

        Raises RequestInvalid naming the field that cannot be followed.
        """
        wish = wish_of(
            response_format=response_format,
            structured_outputs=structured_outputs,
            tools=tools,
            tool_choice=tool_choice,
            parallel_tool_calls=parallel_tool_calls,
        )
        if wish is None:
            return None
        grammar = self._envelope.grammar(wish, opened)
        if wish.document is None and wish.grammar is None:
            field = "tools"
        else:
            field = "structured_outputs" if structured_outputs is not None else "response_format"
        self._checker.check(grammar, field)
        return Constraint(grammar=grammar)

    def close(self) -> None:
        """End the children."""
        self._checker.close()
