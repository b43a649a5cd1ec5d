"""Shapes to canonical bytes: fields in ascending order, nothing twice, nothing unknown."""

from __future__ import annotations

from typing import Any

from prepared.decode import WIRE
from prepared.fields import Shape


def encode(value: Any) -> bytes:
    """The canonical bytes of a shape that stands alone (`decode.WIRE`)."""
    message = WIRE[type(value)]()
    write_message(value, message)
    return message.SerializeToString(deterministic=True)


def write_message(value: Any, message: Any) -> None:
    """Copy a shape's fields into its message."""
    for name in value.__struct_fields__:
        item = getattr(value, name)
        if item is None:
            continue
        if isinstance(item, Shape):
            inner = getattr(message, name)
            inner.SetInParent()
            write_message(item, inner)
        elif isinstance(item, tuple):
            write_items(item, getattr(message, name))
        else:
            setattr(message, name, item)


def write_items(items: tuple[Any, ...], repeated: Any) -> None:
    """Copy a tuple into a repeated field."""
    for item in items:
        if isinstance(item, Shape):
            write_message(item, repeated.add())
        else:
            repeated.append(item)
