"""Shapes to canonical bytes: fields in ascending order, nothing twice, nothing unknown."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from prepared.body import CoreBody, ModelIndex
from prepared.contract import ServingContract
from prepared.decode import NEWEST_VERSION, WIRE
from prepared.fields import ContractError, Shape


def encode(value: Any) -> bytes:
    """The canonical bytes of a shape that stands alone (`decode.WIRE`).

    A contract of another version than the newest is refused: exporters write 3 (SM-12).
    """
    for at, contract in contracts_of(value):
        if contract.model.version != NEWEST_VERSION:
            raise ContractError(
                f"{at}model.version", contract.model.version, expected=f"{NEWEST_VERSION} (SM-12)"
            )
    return written(value)


def contracts_of(value: Any) -> Iterator[tuple[str, ServingContract]]:
    """Every contract within a shape, with the path to its fields."""
    if isinstance(value, ServingContract):
        yield "", value
    elif isinstance(value, ModelIndex):
        yield "contract.", value.contract
    elif isinstance(value, CoreBody):
        for index, deployment in enumerate(value.deployments):
            yield f"deployments[{index}].contract.", deployment.contract


def written(value: Any) -> bytes:
    """A shape's bytes, whatever it says."""
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
