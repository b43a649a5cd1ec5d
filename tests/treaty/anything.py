"""Hypothesis strategies for whole shapes, made from their annotations and the wire's types.

What comes out obeys every rule of a single field and none between fields: it decodes,
though no recipe would write it.
"""

from __future__ import annotations

from enum import IntEnum
from functools import cache
from typing import Any, Final

from google.protobuf.descriptor import FieldDescriptor
from hypothesis import strategies as st

from prepared.contract import ModelContract
from prepared.fields import Finite, Length, OneOf, PowerOfTwo, Shape, Since, Within
from tests.treaty.schema import BOUNDS, MESSAGES, Said, said_by

LONGEST: Final = 2
"""Items of a repeated field: enough for order to matter."""


@cache
def shapes(shape: type) -> st.SearchStrategy[Any]:
    """Any value of a shape; contracts are of the newest version."""
    message = MESSAGES[shape.__name__]
    parts = {
        name: field_values(said, message.fields_by_name[name])
        for name, said in said_by(shape).items()
    }
    if shape is ModelContract:
        parts["version"] = st.just(3)
    return st.builds(shape, **parts)


def field_values(said: Said, field: FieldDescriptor) -> st.SearchStrategy[Any]:
    """Any value of one field."""
    one = st.deferred(lambda: values(said, field))
    if said.repeated:
        return st.lists(one, max_size=LONGEST).map(tuple)
    return st.none() | one if said.optional else one


def values(said: Said, field: FieldDescriptor) -> st.SearchStrategy[Any]:
    """Any single value, or item, of a field."""
    rules = [rule for rule in said.rules if not isinstance(rule, Since)]
    if issubclass(said.kind, Shape):
        return shapes(said.kind)
    if issubclass(said.kind, IntEnum):
        return st.sampled_from(list(said.kind))
    if said.kind is bool:
        return st.booleans()
    if said.kind is float:
        least = max(
            (rule.least for rule in rules if isinstance(rule, Finite) and rule.least is not None),
            default=None,
        )
        return st.floats(min_value=least, width=32, allow_nan=False, allow_infinity=False)
    if said.kind is int:
        return integers(rules, field)
    least = max((rule.least for rule in rules if isinstance(rule, Length)), default=0)
    most = min(
        (rule.most for rule in rules if isinstance(rule, Length) and rule.most is not None),
        default=least + 4,
    )
    return (
        st.text(min_size=least, max_size=most)
        if said.kind is str
        else st.binary(min_size=least, max_size=most)
    )


def integers(rules: list[Any], field: FieldDescriptor) -> st.SearchStrategy[int]:
    """Integers that the wire type holds and the rules allow."""
    least, most = BOUNDS[field.type]
    for rule in rules:
        if isinstance(rule, OneOf):
            return st.sampled_from(rule.values)
        if isinstance(rule, PowerOfTwo):
            return st.integers(0, most.bit_length() - 1).map(lambda bit: 1 << bit)
        assert isinstance(rule, Within), f"{rule}: write a strategy for it"
        least = max(least, rule.least)
        most = most if rule.most is None else min(most, rule.most)
    return st.integers(least, most)
