"""A tool's parameters as its JSON schema declares them, and values typed by that schema.

A text stays a string wherever the schema allows a string, or says nothing; the one exception is
exactly `null` where null is allowed beside it.  Elsewhere it is JSON if it is valid, finite JSON,
then Python's spelling of the same, and otherwise the raw string: nothing is ever lost or made up.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from helios.frontend.syntax.notation import PYTHON, quoted, transcoded

STRING, NULL = "string", "null"
ANY: Final = frozenset({"any"})
MOST_REFERENCES: Final = 64
NAMES: Final[Mapping[type, str]] = {
    str: STRING, bool: "boolean", int: "integer", float: "number",
    type(None): NULL, list: "array", dict: "object",
}  # fmt: skip
Schema = Mapping[str, Any]


class Parameters:
    """What one tool takes."""

    def __init__(self, schema: object) -> None:
        self._root: Schema = schema if isinstance(schema, Mapping) else {}
        self._properties: dict[str, object] = {}
        self._others: object = None
        for part in self._parts(self._root):
            properties = part.get("properties")
            if isinstance(properties, Mapping):
                self._properties.update(properties)
            if "additionalProperties" in part:
                self._others = part["additionalProperties"]

    def takes(self, key: str) -> bool:
        """Whether the schema allows this argument at all."""
        return key in self._properties or self._others is not False

    def declares(self, key: str) -> bool:
        """Whether the schema names this argument."""
        return key in self._properties

    def kinds(self, key: str) -> frozenset[str]:
        """The JSON types that an argument may have; `ANY` where nothing is said."""
        return self._kinds(self._properties.get(key, self._others), MOST_REFERENCES)

    def _parts(self, schema: Schema) -> Iterator[Schema]:
        """The schema and what it refers to and joins, each once."""
        waiting, seen = [schema], 0
        while waiting and seen < MOST_REFERENCES:
            part, seen = waiting.pop(), seen + 1
            yield part
            referred = self._referred(part)
            joined = part.get("allOf")
            members = [referred, *(joined if isinstance(joined, list) else [])]
            waiting += [member for member in members if isinstance(member, Mapping)]

    def _referred(self, schema: Schema) -> object:
        """What `$ref` points at inside this document; None for anything else."""
        reference = schema.get("$ref")
        if not isinstance(reference, str) or not reference.startswith("#"):
            return None
        place: object = self._root
        for step in reference[1:].split("/")[1:]:
            step = step.replace("~1", "/").replace("~0", "~")
            place = place.get(step) if isinstance(place, Mapping) else None
        return place

    def _kinds(self, schema: object, references: int) -> frozenset[str]:
        if not isinstance(schema, Mapping) or references <= 0:
            return ANY
        found = [own_kinds(schema)]
        for word in ("anyOf", "oneOf"):
            members = schema.get(word)
            if isinstance(members, list) and members:
                share = references // (len(members) + 1)
                found.append(frozenset().union(*(self._kinds(m, share) for m in members)))
        joined = schema.get("allOf")
        if isinstance(joined, list) and joined:
            found += [self._kinds(member, references // (len(joined) + 1)) for member in joined]
        if "$ref" in schema:
            found.append(self._kinds(self._referred(schema), references - 1))
        return narrowed(found)


def narrowed(found: Iterable[frozenset[str]]) -> frozenset[str]:
    """Types that satisfy every condition; conditions that say nothing are left out."""
    kinds = ANY
    for condition in found:
        if "any" in condition:
            continue
        kinds = condition if "any" in kinds else (kinds & condition) or condition
    return kinds


def own_kinds(schema: Schema) -> frozenset[str]:
    """What `type`, `const` and `enum` say."""
    declared = schema.get("type")
    names = [declared] if isinstance(declared, str) else declared
    if isinstance(names, list) and names and all(isinstance(name, str) for name in names):
        nullable = [NULL] if schema.get("nullable") is True else []
        return frozenset([*names, *nullable])
    values = [schema["const"]] if "const" in schema else schema.get("enum")
    if isinstance(values, list) and values:
        return frozenset(NAMES.get(type(value), "any") for value in values)
    return ANY


def may_be_text(kinds: frozenset[str]) -> bool:
    """Whether a value may be a string as it stands."""
    return STRING in kinds or "any" in kinds


def refuse_constant(word: str) -> float:
    """NaN and infinities are no JSON."""
    raise ValueError(word)


def strict_float(text: str) -> float:
    """A float that JSON can carry on."""
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(text)
    return value


def strict_json(text: str) -> str | None:
    """The text itself, trimmed, if it is valid, finite JSON."""
    try:
        json.loads(text, parse_constant=refuse_constant, parse_float=strict_float)
    except (ValueError, RecursionError):
        return None
    return text.strip()


def as_json(text: str, kinds: frozenset[str]) -> str:
    """A value of these types as JSON text."""
    if may_be_text(kinds) and not (text == NULL and NULL in kinds):
        return f'"{quoted(text)}"'
    return json_or_text(text)


def json_or_text(text: str) -> str:
    """JSON if it is, or Python's spelling of it; a string otherwise."""
    made = strict_json(text)
    if made is None:
        word = {"true": "true", "false": "false", "none": "null", "null": "null"}
        made = word.get(text.strip().lower())
    if made is None and text.strip()[:1] in ("[", "{", "("):
        spelled = transcoded(text, PYTHON, str)
        made = None if spelled is None else strict_json(spelled)
    return f'"{quoted(text)}"' if made is None else made
