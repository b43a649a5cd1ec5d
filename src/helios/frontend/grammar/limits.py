"""How much work a grammar may make, the same where it is checked and where it runs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

PARSER_LIMITS: Final[Mapping[str, Any]] = {
    "max_items_in_row": 2_000,
    "initial_lexer_fuel": 1_000_000,
    "step_lexer_fuel": 200_000,
    "step_max_items": 50_000,
    "max_lexer_states": 50_000,
    "max_grammar_size": 200_000,
    "precompute_large_lexemes": False,
    "verbose_errors": False,
}
"""Bounds on compiling and on each mask, as llguidance names them; a lane that exceeds one fails
alone."""
