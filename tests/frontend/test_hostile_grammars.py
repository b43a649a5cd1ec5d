"""What clients ask of the shape of answers: refused by field, and within bounds whatever it is."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from helios.frontend.grammar.check import Checker
from helios.frontend.grammar.envelope import Opened
from helios.frontend.grammar.patterns import unfolded
from helios.frontend.grammar.wish import wish_of
from helios.values import RequestInvalid
from tests.frontend.grammars import HERMES, TOOLS, World


@pytest.fixture(scope="module")
def world() -> Iterator[World]:
    """One world for all: none of these may disturb it."""
    made = World(HERMES)
    yield made
    made.close()


def format_of(schema: object, *, strict: bool = True) -> dict[str, object]:
    """A `response_format` with this schema."""
    return {"type": "json_schema", "json_schema": {"name": "a", "schema": schema, "strict": strict}}


def nested(depth: int) -> dict[str, object]:
    """A schema of so many objects in each other."""
    schema: dict[str, object] = {"type": "string"}
    for _ in range(depth):
        schema = {"type": "object", "properties": {"a": schema}}
    return schema


def either_of(count: int) -> dict[str, object]:
    """A schema whose combinations multiply."""
    return {
        "allOf": [
            {"anyOf": [{"properties": {f"p{part}": {"const": value}}} for value in range(8)]}
            for part in range(count)
        ]
    }


HOSTILE: dict[str, object] = {
    "repetitions in repetitions": {"type": "string", "pattern": "^((a{1000}){1000}){1000}$"},
    "a pattern without end": {"type": "string", "pattern": "[a-z]?" * 20_000},
    "a hidden repetition": {"patternProperties": {"^(x{99}){99}{99}$": {}}},
    "depth": nested(300),
    "combinations": either_of(7),
    "another machine": {"$ref": "http://example.com/schema"},
    "digits": {"type": "integer", "multipleOf": 9_999_999_967},
    "size": {"enum": [f"value {number}" for number in range(40_000)]},
    "nonsense": {"type": "strin"},
    "no schema": [1, 2],
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_schema_is_refused_soon_and_by_field(world: World, name: str) -> None:
    began = time.monotonic()
    with pytest.raises(RequestInvalid) as refused:
        world.constraint(response_format=format_of(HOSTILE[name]))
    assert time.monotonic() - began < 10
    assert refused.value.field.startswith("response_format")
    assert len(str(refused.value)) < 700


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "string", "pattern": "^(a|b)*a(a|b){25}$"},
        {"type": "string", "pattern": "^(.*a){30}$"},
        {"type": "string", "maxLength": 10**9},
        {"type": "array", "minItems": 10**7, "items": {"type": "array", "minItems": 10**6}},
        nested(20),
        {"$ref": "#/$defs/a", "$defs": {"a": {"type": "array", "items": {"$ref": "#/$defs/a"}}}},
    ],
)
def test_a_large_schema_that_is_bounded_is_taken(world: World, schema: object) -> None:
    began = time.monotonic()
    matcher = world.matcher(response_format=format_of(schema))
    assert world.allowed(matcher)
    assert time.monotonic() - began < 10


def test_a_grammar_that_compiles_for_ever_ends_only_its_own_request() -> None:
    """The bound on time is the operating system's, so it needs no knowledge of grammars."""
    checker = Checker()
    endless = "start: C\nA: /a{1000}/\nB: A{1000}\nC: B{1000}\n"
    began = time.monotonic()
    with pytest.raises(RequestInvalid) as refused:
        checker.check(endless, "structured_outputs")
    assert time.monotonic() - began < 20
    assert refused.value.field == "structured_outputs"
    checker.check('start: "a"\n', "structured_outputs")
    checker.close()


def test_a_token_that_a_grammar_names_and_no_tokenizer_has_is_told_by_the_matcher(
    world: World,
) -> None:
    constraint = world.constraint(structured_outputs={"grammar": "start: <|nothing|>"})
    made = world.worker.compile(constraint).result()
    assert "nothing" in getattr(made, "why", "")


def test_a_schema_that_no_document_has_is_told_by_the_matcher(world: World) -> None:
    schema = {"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/a"}}}
    matcher = world.matcher(response_format=format_of(schema))
    (row,) = world.worker.fill([matcher]).result().rows
    assert not isinstance(row, bytes)


@pytest.mark.parametrize(
    ("grammar", "found"),
    [
        ("start: C\nA: /a{1000}/\nB: A{1000}\nC: B{1000}\n", r"a definition \w+ that unfolds"),
        ("start: C\nA: /a{1000}/\nB: A~1..1000\n", r"a definition \w+ that unfolds"),
        ("start: /((a{1000}){1000}){1000}/", r"a definition \w+ that unfolds"),
        ('start: %json {"pattern": "x"}', "'%json'"),
        ('start: "a" @other', "'@other'"),
        ("start: A\nA: B\nB: A", r"a definition \w+ that unfolds"),
    ],
)
def test_a_clients_grammar_is_bounded_before_anything_compiles_it(grammar: str, found: str) -> None:
    with pytest.raises(RequestInvalid, match=found) as refused:
        wish_of(structured_outputs={"grammar": grammar})
    assert refused.value.field == "structured_outputs.grammar"


def test_a_clients_grammar_may_repeat_and_ignore() -> None:
    grammar = (
        '// numbers\nstart: "x%y@z" item{1,20}\nitem: NUM | WORD\nNUM: /[0-9]{1,8}/\n'
        'WORD: /[a-z]+/ "\\"" NUM{2}\n%ignore /[ ]{1,4}/\n'
    )
    assert wish_of(structured_outputs={"grammar": grammar}) is not None


@pytest.mark.parametrize(
    ("pattern", "size"),
    [
        ("abc", 3),
        ("a{3}b", 4),
        ("(ab){10}", 30),
        ("((a{10}){10}){10}", 1110),
        ("[^]a-z]{1,5}", 5),
        (r"\({7}", 7),
        ("a{,9}", 9),
        ("x{5}{5}", 25),
    ],
)
def test_repetitions_multiply(pattern: str, size: int) -> None:
    assert size <= unfolded(pattern) <= 2 * size


def test_keywords_that_cannot_hold_are_refused_with_strict_and_left_out_without(
    world: World,
) -> None:
    schema = {"type": "array", "uniqueItems": True}
    with pytest.raises(RequestInvalid, match="uniqueItems"):
        world.constraint(response_format=format_of(schema))
    assert world.constraint(response_format=format_of(schema, strict=False)).grammar


def test_options_of_the_compiler_are_not_the_clients_to_set(world: World) -> None:
    schema = {"type": "object", "x-guidance": {"whitespace_pattern": "[ ]+"}}
    matcher = world.matcher(response_format=format_of(schema))
    assert world.takes(matcher, "{" + " " * 100) is not None


def test_calls_cannot_be_required_of_a_model_without_their_syntax() -> None:
    plain = World()
    with pytest.raises(RequestInvalid) as refused:
        plain.constraint(Opened.NOTHING, tools=TOOLS, tool_choice="required")
    plain.close()
    assert refused.value.field == "tool_choice"


@pytest.mark.parametrize(
    ("asked", "sentence"),
    [
        (
            {"response_format": {"type": "xml"}},
            "response_format.type: found 'xml', expected 'text', 'json_object' or 'json_schema'",
        ),
        (
            {"response_format": {"type": "json_schema", "json_schema": {}}},
            "response_format.json_schema.schema: found nothing, expected a JSON Schema object",
        ),
        (
            {"response_format": {"type": "json_schema"}},
            "response_format.json_schema: found NoneType, expected an object",
        ),
        (
            {"structured_outputs": {"regex": "a", "choice": ["b"]}},
            "structured_outputs: found regex and choice, expected exactly one of json, regex, "
            "choice, grammar",
        ),
        (
            {"structured_outputs": {}},
            "structured_outputs: found nothing, expected exactly one of json, regex, choice, "
            "grammar",
        ),
        (
            {"structured_outputs": {"guided": 1}},
            "structured_outputs.guided: found a field, expected one of json, regex, choice, "
            "grammar",
        ),
        (
            {"structured_outputs": {"choice": ["a", ""]}},
            "structured_outputs.choice[1]: found '', expected a nonempty string",
        ),
        (
            {"structured_outputs": {"regex": "a"}, "response_format": {"type": "json_object"}},
            "structured_outputs: found it beside response_format, expected one of the two",
        ),
        (
            {"tool_choice": "required"},
            "tool_choice: found 'required', expected tools to choose from",
        ),
        (
            {"tools": TOOLS, "tool_choice": {"type": "function", "function": {"name": "no"}}},
            "tool_choice.function.name: found 'no', expected one of the tools",
        ),
        (
            {"tools": TOOLS, "tool_choice": "always"},
            "tool_choice: found 'always', expected 'none', 'auto', 'required' or a function's name",
        ),
        (
            {"tools": [{"type": "function", "function": {"name": "a b"}}]},
            "tools[0].function.name: found 'a b', expected 1 to 128 letters, digits, dots, "
            "underscores or hyphens",
        ),
    ],
)
def test_what_cannot_be_followed_is_refused_by_name(
    asked: dict[str, object], sentence: str
) -> None:
    with pytest.raises(RequestInvalid) as refused:
        wish_of(**asked)  # type: ignore[arg-type]
    assert str(refused.value) == sentence


@pytest.mark.parametrize(
    "asked",
    [{}, {"response_format": {"type": "text"}}, {"tools": TOOLS}, {"tool_choice": "none"}],
)
def test_a_request_that_asks_for_no_shape_is_free(asked: dict[str, object]) -> None:
    assert wish_of(**asked) is None  # type: ignore[arg-type]
