"""How a test says that something is refused, and with which sentence."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from prepared.fields import ContractError


@contextmanager
def refused(sentence: str) -> Iterator[None]:
    """The block raises a ContractError that reads exactly so."""
    with pytest.raises(ContractError) as refusal:
        yield
    assert str(refusal.value) == sentence


def attack(fault: str, *parts: Any, clauses: tuple[str, ...] = ()) -> Any:
    """A case named for its fault, and the clauses that it would break."""
    marks = [pytest.mark.clause(*clauses)] if clauses else []
    return pytest.param(*parts, id=fault.replace(" ", "_"), marks=marks)
