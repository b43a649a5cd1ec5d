"""Wire messages under the knife: walk them, change one field, write them again.

For contracts that no encoder of ours writes: older versions, and enums that say nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeVar

from prepared.decode import WIRE
from prepared.encode import encode
from tests.treaty.schema import NEWER

S = TypeVar("S")


def message_of(shape: Any) -> Any:
    """The wire message of a shape that stands alone."""
    message = WIRE[type(shape)]()
    message.ParseFromString(encode(shape))
    return message


def bytes_of(message: Any) -> bytes:
    """The canonical bytes of a message."""
    data = message.SerializeToString(deterministic=True)
    assert isinstance(data, bytes)
    return data


def walk_messages(message: Any, *, at: str) -> Iterator[tuple[str, Any]]:
    """Every message within a message, itself first, with its path."""
    yield at, message
    for field, value in message.ListFields():
        if field.message_type is None:
            continue
        if field.is_repeated:
            for index, item in enumerate(value):
                yield from walk_messages(item, at=f"{at}.{field.name}[{index}]")
        else:
            yield from walk_messages(value, at=f"{at}.{field.name}")


def age(message: Any, version: int) -> None:
    """Make a contract one of an older version: without every newer field."""
    for _, part in list(walk_messages(message, at="")):
        name = part.DESCRIPTOR.name
        if name == "ModelContract":
            part.version = version
        for (owner, field), since in NEWER.items():
            if owner == name and since > version:
                part.ClearField(field)
