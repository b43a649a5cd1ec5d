"""JSON Schemas of clients: bounded before anything compiles them, and looked into for types.

Objects are written in the order in which the schema declares their properties, those it only
requires after them; any other order is not generated (llguidance fixes it so).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec

from helios.frontend.grammar.patterns import check_pattern
from helios.values import RequestInvalid

Schema = Mapping[str, Any] | bool

MOST_SCHEMA_NBYTES: Final = 256 << 10
MOST_SCHEMA_DEPTH: Final = 64
MOST_PATTERNS: Final = 256
WHITESPACE: Final = r"[ \t]{1,32}|\r?\n[ \t]{0,32}"
"""Between the parts of a document: never enough for a model to lose itself in (G-05)."""

OPTIONS: Final = "x-guidance"


def checked_schema(schema: object, field: str) -> Schema:
    """The schema, if it is one in kind and size."""
    if not isinstance(schema, Mapping | bool):
        raise RequestInvalid(field, type(schema).__name__, expected="a JSON Schema object")
    nbytes = len(msgspec.json.encode(schema))
    if nbytes > MOST_SCHEMA_NBYTES:
        raise RequestInvalid(
            field, f"a schema of {nbytes} bytes", expected=f"at most {MOST_SCHEMA_NBYTES}"
        )
    for index, pattern in enumerate(patterns_of(schema, field)):
        if index == MOST_PATTERNS:
            raise RequestInvalid(
                field, "too many patterns", expected=f"at most {MOST_PATTERNS} in a schema"
            )
        check_pattern(pattern, field)
    return schema


def patterns_of(schema: object, field: str) -> Iterator[str]:
    """Every regular expression in a schema; refuses one that is too deep."""
    waiting: list[tuple[object, int]] = [(schema, 1)]
    while waiting:
        value, depth = waiting.pop()
        if depth > MOST_SCHEMA_DEPTH:
            raise RequestInvalid(
                field, "a schema that is too deep", expected=f"at most {MOST_SCHEMA_DEPTH} levels"
            )
        if isinstance(value, Mapping):
            if isinstance(pattern := value.get("pattern"), str):
                yield pattern
            if isinstance(keyed := value.get("patternProperties"), Mapping):
                yield from keyed
            waiting += [(part, depth + 1) for part in value.values()]
        elif isinstance(value, list | tuple):
            waiting += [(part, depth + 1) for part in value]


def written_schema(schema: Schema, *, exact: bool) -> str:
    """The schema with our options: bounded whitespace; what is not exact may be loosened.

    Without `exact`, keywords that cannot be enforced are left to the client, as OpenAI's
    `strict: false` has it.
    """
    whole: dict[str, Any] = {} if schema is True else {"not": {}} if schema is False else {**schema}
    whole.pop("$schema", None)
    whole[OPTIONS] = {"whitespace_pattern": WHITESPACE, "lenient": not exact}
    return msgspec.json.encode(whole).decode()


# ------------------------------------------------------------- looking for types

KINDS: Final[Mapping[type, str]] = {
    str: "string", bool: "boolean", int: "number", float: "number", type(None): "null",
    dict: "object", list: "array",
}  # fmt: skip
ALL_KINDS: Final = frozenset(KINDS.values())


class Property(msgspec.Struct, frozen=True):
    """A declared member of an object."""

    name: str
    schema: Schema
    required: bool


def properties_of(root: Schema) -> list[Property]:
    """The members that a schema declares, in its order; those only required after them."""
    known = resolved(root, root)
    declared = known.get("properties")
    declared = declared if isinstance(declared, Mapping) else {}
    required = [name for name in known.get("required") or () if isinstance(name, str)]
    names = dict.fromkeys((*declared, *required))
    return [
        Property(name, part_of(declared.get(name, True), root), name in required) for name in names
    ]


def resolved(schema: object, root: Schema) -> Mapping[str, Any]:
    """The schema that local references lead to; nothing known where they lead nowhere."""
    for _ in range(MOST_SCHEMA_DEPTH):
        if not isinstance(schema, Mapping):
            return {}
        reference = schema.get("$ref")
        if not isinstance(reference, str):
            return schema
        schema = pointed(reference, root)
    return {}


def pointed(reference: str, root: Schema) -> object:
    """What a reference within the document points at."""
    if not reference.startswith("#"):
        return None
    at: object = root
    for part in reference[1:].split("/")[1:]:
        key = part.replace("~1", "/").replace("~0", "~")
        if not isinstance(at, Mapping) or key not in at:
            return None
        at = at[key]
    return at


def kinds_of(schema: object, root: Schema, *, depth: int = 8) -> frozenset[str]:
    """The JSON types that a value may have; all where nothing says otherwise."""
    known = resolved(schema, root)
    if depth == 0:
        return ALL_KINDS
    if "const" in known:
        return frozenset({kind_of(known["const"])})
    if isinstance(values := known.get("enum"), list | tuple):
        return frozenset(map(kind_of, values))
    if isinstance(kinds := known.get("type"), str | list | tuple):
        named = [kinds] if isinstance(kinds, str) else kinds
        return ALL_KINDS & {"number" if kind == "integer" else str(kind) for kind in named}
    return combined_kinds(known, root, depth=depth)


def combined_kinds(known: Mapping[str, Any], root: Schema, *, depth: int) -> frozenset[str]:
    """The JSON types that combinations of schemas leave."""
    for key in ("anyOf", "oneOf"):
        if isinstance(branches := known.get(key), list | tuple):
            found = (kinds_of(branch, root, depth=depth - 1) for branch in branches)
            return frozenset[str]().union(*found)
    if isinstance(parts := known.get("allOf"), list | tuple):
        return ALL_KINDS.intersection(*(kinds_of(part, root, depth=depth - 1) for part in parts))
    return ALL_KINDS


def kind_of(value: object) -> str:
    """The JSON type of a value."""
    return KINDS[type(value)]


def texts_of(schema: object, root: Schema) -> tuple[str, ...] | None:
    """The only strings that a value may be, if the schema counts them out."""
    known = resolved(schema, root)
    values = [known["const"]] if "const" in known else known.get("enum")
    if not isinstance(values, list | tuple) or not values:
        return None
    if not all(isinstance(value, str) for value in values):
        return None
    return tuple(values)


def part_of(schema: object, root: Schema) -> Schema:
    """A schema cut out of its document, with the definitions that it may refer to."""
    if not isinstance(schema, Mapping):
        return True
    if not isinstance(root, Mapping):
        return schema
    definitions = {key: root[key] for key in ("$defs", "definitions") if key in root}
    return {**definitions, **schema}
