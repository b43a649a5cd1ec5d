"""A checkpoint's settings: flat keys, plain values, and which ones a recipe has taken.

Nested settings appear under dotted keys (`rope_scaling.factor`).  What a setting means is
the recipe's business; a setting that nobody took is how a recipe notices a model that it
does not understand.

Always: a value handed out has the kind that was asked for, or a `CheckpointError` names
the key; a null counts as absent (`is_null` tells them apart).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import Enum
from typing import Final, TypeVar, overload

from ignition.weights.errors import CheckpointError

Kind = TypeVar("Kind", bool, int, float, str)
Default = TypeVar("Default")


class Missing(Enum):
    """The absence of a default, which no value can be confused with."""

    NOTHING = "nothing"


KIND_NAMES: Final[Mapping[type, str]] = {
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    str: "text",
}


class Settings:
    """The settings of a checkpoint by key; remembers which were taken."""

    def __init__(self, values: Mapping[str, object], *, origin: str) -> None:
        self._values = dict(values)
        self._origin = origin
        self._taken: set[str] = set()

    def __contains__(self, key: object) -> bool:
        return key in self._values

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def is_null(self, key: str) -> bool:
        """Whether the key is there and says null."""
        return key in self._values and self._values[key] is None

    @overload
    def take(self, key: str, kind: type[Kind]) -> Kind: ...
    @overload
    def take(self, key: str, kind: type[Kind], *, default: Default) -> Kind | Default: ...
    def take(self, key: str, kind: type[Kind], *, default: object = Missing.NOTHING) -> object:
        """The key's value, of this kind; `default` when it is absent."""
        value = self._found(key)
        if value is None:
            return self._fallback(key, default, expected=KIND_NAMES[kind])
        return self._checked(key, value, kind=kind)

    @overload
    def take_list(self, key: str, kind: type[Kind]) -> tuple[Kind, ...]: ...
    @overload
    def take_list(
        self, key: str, kind: type[Kind], *, default: Default
    ) -> tuple[Kind, ...] | Default: ...
    def take_list(self, key: str, kind: type[Kind], *, default: object = Missing.NOTHING) -> object:
        """The key's list, every item of this kind; `default` when it is absent."""
        value = self._found(key)
        if value is None:
            return self._fallback(key, default, expected=f"a list, each {KIND_NAMES[kind]}")
        if not isinstance(value, tuple):
            raise self._refusal(key, repr(value), expected=f"a list, each {KIND_NAMES[kind]}")
        return tuple(
            self._checked(f"{key}[{index}]", item, kind=kind) for index, item in enumerate(value)
        )

    @overload
    def take_one_or_many(self, key: str, kind: type[Kind]) -> Kind | tuple[Kind, ...]: ...
    @overload
    def take_one_or_many(
        self, key: str, kind: type[Kind], *, default: Default
    ) -> Kind | tuple[Kind, ...] | Default: ...
    def take_one_or_many(
        self, key: str, kind: type[Kind], *, default: object = Missing.NOTHING
    ) -> object:
        """For keys that publishers write as one value or as a list of them."""
        if isinstance(self._values.get(key), tuple):
            return self.take_list(key, kind)
        return self.take(key, kind, default=default)

    def untaken(self, prefix: str = "") -> tuple[str, ...]:
        """The keys under `prefix` that nobody took, sorted."""
        return tuple(
            sorted(key for key in self._values.keys() - self._taken if key.startswith(prefix))
        )

    def _found(self, key: str) -> object:
        self._taken.add(key)
        return self._values.get(key)

    def _fallback(self, key: str, default: object, *, expected: str) -> object:
        if default is Missing.NOTHING:
            found = "null" if self.is_null(key) else "nothing"
            raise self._refusal(key, found, expected=expected)
        return default

    def _checked(self, key: str, value: object, *, kind: type[Kind]) -> Kind:
        # bool is an int to Python, never to a checkpoint; 10000 may stand for 10000.0.
        if type(value) is kind:
            return value
        if kind is float and type(value) is int:
            return kind(value)
        raise self._refusal(key, repr(value), expected=KIND_NAMES[kind])

    def _refusal(self, key: str, found: str, *, expected: str) -> CheckpointError:
        return CheckpointError(
            f"{self._origin}: {key}",
            found,
            expected=expected,
            remedy="the checkpoint is damaged or needs a newer Ignition",
        )
