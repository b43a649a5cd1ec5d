"""Traced strings behave as strings do; spans never hold what was not the template's."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from helios.frontend.provenance import Traced, concat, safe, spans_of, template_text

# The template's letters are capitals, a client's are small: so every span can be judged.
OWN = st.text("AB\n ", max_size=6).map(template_text)
CLIENTS = st.text("ab\n ", max_size=6)
MIXED = st.lists(st.one_of(OWN, CLIENTS), max_size=5).map(concat)

OPERATIONS: dict[str, Callable[[str, str, int], object]] = {
    "add": lambda a, b, n: a + b,
    "times": lambda a, b, n: a * n,
    "index": lambda a, b, n: a[n] if -len(a) <= n < len(a) else "",
    "from": lambda a, b, n: a[n:],
    "to": lambda a, b, n: a[:n],
    "backwards": lambda a, b, n: a[::-1],
    "strip": lambda a, b, n: a.strip(),
    "strip of": lambda a, b, n: a.strip("aA"),
    "lstrip": lambda a, b, n: a.lstrip(),
    "rstrip": lambda a, b, n: a.rstrip("\n"),
    "split": lambda a, b, n: a.split("A", n),
    "split by other": lambda a, b, n: a.split(b) if b else [],
    "split by blanks": lambda a, b, n: a.split(),
    "rsplit": lambda a, b, n: a.rsplit("a", n),
    "lines": lambda a, b, n: a.splitlines(),
    "whole lines": lambda a, b, n: a.splitlines(keepends=True),
    "replace": lambda a, b, n: a.replace("A", b, n),
    "replace nothing": lambda a, b, n: a.replace("", b),
    "join": lambda a, b, n: a.join([b, a, b]),
    "removeprefix": lambda a, b, n: a.removeprefix(b),
    "removesuffix": lambda a, b, n: a.removesuffix(b),
    "partition": lambda a, b, n: a.partition("A"),
    "format": lambda a, b, n: f"{a}{b}",
    "str": lambda a, b, n: str(a),
    "equal": lambda a, b, n: (a == b, hash(a), a in b, len(a), sorted(a)),
}


def plain(value: object) -> object:
    """The value without spans."""
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    return str.__str__(value) if isinstance(value, str) else value


def texts_of(value: object) -> list[str]:
    """Every text in a value."""
    if isinstance(value, list | tuple):
        return [text for item in value for text in texts_of(item)]
    return [value] if isinstance(value, str) else []


@pytest.mark.parametrize("name", OPERATIONS)
@settings(max_examples=60, deadline=None)
@given(a=MIXED, b=MIXED, n=st.integers(-2, 5))
def test_an_operation_gives_what_strings_give_and_no_clients_text(
    name: str, a: str, b: str, n: int
) -> None:
    operation = OPERATIONS[name]
    got = operation(a, b, n)
    assert plain(got) == plain(operation(str.__str__(a), str.__str__(b), n))
    for text in texts_of(got):
        end = -1
        for first, last in spans_of(text):
            assert end < first < last <= len(text)  # ascending, apart, not empty
            assert not set("ab") & set(text[first:last])
            end = last


@settings(max_examples=100, deadline=None)
@given(a=MIXED, b=MIXED)
def test_what_is_followed_keeps_all_of_the_templates_text(a: str, b: str) -> None:
    kept = Traced(b, spans_of(b))
    for text in (a + b, (kept + a).strip(" "), kept.join([a, b]), kept.replace("a", a)):
        own = {at for first, last in spans_of(text) for at in range(first, last)}
        assert all(at in own for at, letter in enumerate(text) if letter in "AB")


@pytest.mark.parametrize("method", ["upper", "lower", "capitalize", "title"])
def test_case_changes_keep_places_and_origins(method: str) -> None:
    text = template_text("<one") + " two>"
    changed = getattr(text, method)()
    assert changed == getattr("<one two>", method)()
    assert spans_of(changed) == ((0, 4),)
    longer = template_text("<one") + "ß>"  # one character becomes two
    assert getattr(longer, method)() == getattr("<oneß>", method)()
    assert spans_of(getattr(longer, method)()) == ()


def test_a_constructed_string_is_not_the_templates() -> None:
    assert spans_of(Traced("<|im_start|>")) == ()


def test_safe_text_escapes_what_it_is_added_to_and_keeps_certain_spans() -> None:
    own = template_text("[A]")
    assert str(own + safe("<b>")) == "[A]<b>"
    assert spans_of(str(own + safe("<b>"))) == ((0, 3),)
    assert str(template_text("<A>") + safe("b")) == "&lt;A&gt;b"
    assert spans_of(str(template_text("<A>") + safe("b"))) == ()
    assert spans_of(str(safe(own) + "<b>")) == ((0, 3),)
