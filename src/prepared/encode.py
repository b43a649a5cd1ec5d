"""Shapes to canonical bytes: fields in ascending order, nothing twice, nothing unknown."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from typing import Any

from prepared.decode import WIRE


def encode(value: Any) -> bytes:
    """The canonical bytes of a shape that stands alone (`decode.WIRE`)."""
    message = WIRE[type(value)]()
    write_message(value, message)
    return message.SerializeToString(deterministic=True)


def write_message(value: Any, message: Any) -> None:
    """Copy a shape's fields into its message."""
    for field in fields(value):
        item = getattr(value, field.name)
        if item is None:
            continue
        if is_dataclass(item):
            inner = getattr(message, field.name)
            inner.SetInParent()
            write_message(item, inner)
        elif isinstance(item, tuple):
            write_items(item, getattr(message, field.name))
        else:
            setattr(message, field.name, item)


def write_items(items: tuple[Any, ...], repeated: Any) -> None:
    """Copy a tuple into a repeated field."""
    for item in items:
        if is_dataclass(item):
            write_message(item, repeated.add())
        else:
            repeated.append(item)
