"""Reading and replacing parts of a frozen shape by path, as errors write them.

`put(contract, {"model.graphs[3].token_capacity": 2})` is a contract that differs in one
place; the refusal's path differs from the key by its root only.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final, TypeVar

from msgspec.structs import fields, replace

from prepared.fields import Shape

STEP: Final = re.compile(r"(\w+)(?:\[(\d+)\])?(?:\.(.+))?$")

S = TypeVar("S")


def put(shape: S, changes: Mapping[str, object]) -> S:
    """The shape with other values at these paths, changed one after another."""
    for path, value in changes.items():
        shape = put_one(shape, path, value)
    return shape


def put_one(shape: Any, path: str, value: object) -> Any:
    """The shape with another value at one path; an index past the end appends."""
    match = STEP.match(path)
    assert match, path
    name, index, rest = match.groups()
    current = getattr(shape, name)
    if index is None:
        return replace(shape, **{name: put_one(current, rest, value) if rest else value})
    place = int(index)
    item = put_one(current[place], rest, value) if rest else value
    return replace(shape, **{name: (*current[:place], item, *current[place + 1 :])})


def walk(shape: Any, *, at: str) -> Iterator[tuple[str, Any]]:
    """Every dataclass within a shape, itself first, with its path."""
    yield at, shape
    for field in fields(shape):
        item = getattr(shape, field.name)
        if isinstance(item, Shape):
            yield from walk(item, at=f"{at}.{field.name}")
        elif isinstance(item, tuple):
            for index, member in enumerate(item):
                if isinstance(member, Shape):
                    yield from walk(member, at=f"{at}.{field.name}[{index}]")
