"""Requests drawn from a JSON schema: some that fit it, some that nearly do, some absurd."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hypothesis import strategies as st

Schema = Mapping[str, Any]
REFERENCE = "#/components/schemas/"

ABSURD: st.SearchStrategy[object] = st.one_of(
    st.none(),
    st.booleans(),
    st.sampled_from([-1, 0, 1, 2**31, -(2**63), 2**64, 10**40, -0.0, 1e-320, 1e308, 1.5]),
    st.sampled_from(["", "\x00", "\ud7ff", "\U0001f642", "a" * 3000, "user", "auto", "text"]),
    st.just([]),
    st.just({}),
    st.recursive(
        st.none() | st.integers() | st.text(max_size=5),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner),
        max_leaves=6,
    ),
)
WORDS = st.sampled_from(
    ["type", "role", "content", "text", "user", "assistant", "tool", "system", "function", "name"]
)
PROMPTS: Mapping[str, object] = {
    "prompt": "hello",
    "messages": [{"role": "user", "content": "hello"}],
}
"""What a request is about; one of them is always drawn."""
OBJECT = st.dictionaries(WORDS, WORDS | ABSURD, max_size=4)
MESSAGE: st.SearchStrategy[dict[str, object]] = st.one_of(
    st.just({"role": "user", "content": "hello"}),
    st.fixed_dictionaries({"role": WORDS, "content": WORDS | ABSURD}),
    OBJECT,
)


def request_of(schema: Schema, schemas: Mapping[str, Schema]) -> st.SearchStrategy[object]:
    """Objects of a request's schema: each field fits or is absurd, most are left out."""
    properties: Mapping[str, Schema] = schema["properties"]
    fields = {name: field_of(name, found, schemas) for name, found in properties.items()}
    about = next((name for name in PROMPTS if name in fields), None)
    always = {*schema.get("required", ()), *({about} if about else ())}

    def with_some(names: set[str]) -> st.SearchStrategy[object]:
        return st.fixed_dictionaries({name: fields[name] for name in sorted(always | names)})

    return st.sets(st.sampled_from(sorted(fields)), max_size=2).flatmap(with_some)


def field_of(name: str, schema: Schema, schemas: Mapping[str, Schema]) -> st.SearchStrategy[object]:
    """One field."""
    fitting = value_of(schema, schemas)
    if name in PROMPTS:
        plain = st.just(PROMPTS[name])
        messages = st.lists(MESSAGE, max_size=3) if name == "messages" else fitting
        return st.one_of(plain, plain, plain, messages, ABSURD)
    if name == "model":
        return st.sampled_from(["acme/small", "another", "", None])
    return st.one_of(fitting, fitting, fitting, ABSURD)


def value_of(schema: Schema, schemas: Mapping[str, Schema]) -> st.SearchStrategy[Any]:
    """Values that a schema allows, and numbers at and just beyond its bounds."""
    if "$ref" in schema:
        return request_of(schemas[schema["$ref"].removeprefix(REFERENCE)], schemas)
    if "anyOf" in schema:
        return st.one_of([value_of(choice, schemas) for choice in schema["anyOf"]])
    kind = schema.get("type")
    if kind in ("integer", "number"):
        edges = [schema[k] for k in ("minimum", "maximum", "exclusiveMinimum") if k in schema]
        near = [edge + step for edge in edges for step in (-1, 0, 1)]
        return st.sampled_from([*near, 0, 1, 3])
    if kind == "array":
        return st.lists(value_of(schema.get("items", {}), schemas), max_size=3)
    return PLAIN.get(kind or "", ABSURD)


PLAIN: Mapping[str, st.SearchStrategy[Any]] = {
    "string": st.text(max_size=6),
    "boolean": st.booleans(),
    "null": st.none(),
    "object": OBJECT,
}
