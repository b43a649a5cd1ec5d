"""Jinja2's immutable sandbox, configured as transformers configures it, tracing and bounded.

Three things are added, none of which changes what a template renders: constants of the
template are `Traced` strings; every turn of a loop and every call of a macro looks at the
clock; and sums and products are bounded in length.

What stays unbounded in time is a single step: one filter, method or comparison over values
that the client sent, whose size the request's body bounds.
"""

from __future__ import annotations

import json
import string
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from functools import update_wrapper
from typing import Any, Final

import jinja2
import jinja2.ext
import jinja2.sandbox
from jinja2 import nodes
from jinja2.compiler import CodeGenerator, Frame
from jinja2.filters import make_attrgetter
from jinja2.parser import Parser
from jinja2.runtime import Context, Macro
from markupsafe import Markup

from helios.frontend.provenance import (
    Traced,
    concat,
    joined,
    safe,
    spans_of,
    template_text,
)

MOST_CHARACTERS: Final = 8 << 20
"""The longest prompt, and the longest string that a template may build on its way."""


class RenderTooLong(Exception):
    """A rendering passed its bound; the text says which."""


class TracingGenerator(CodeGenerator):
    """Compiles templates so that their own text is known as such."""

    environment: Sandbox

    def visit_Template(self, node: nodes.Template, frame: Frame | None = None) -> None:  # noqa: N802
        """Make every loop and every macro look at the clock."""
        for found in list(node.find_all((nodes.For, nodes.Macro, nodes.CallBlock))):
            clock = nodes.EnvironmentAttribute("tick")
            look = nodes.ExprStmt(nodes.Call(clock, [], [], None, None))
            assert isinstance(found, nodes.For | nodes.Macro | nodes.CallBlock)
            found.body.insert(0, look.set_lineno(found.lineno).set_environment(self.environment))
        super().visit_Template(node, frame)

    def visit_Const(self, node: nodes.Const, frame: Frame) -> None:  # noqa: N802
        """A constant of the template."""
        self.write(self._spelled(node.as_const(frame.eval_ctx)))

    def visit_TemplateData(self, node: nodes.TemplateData, frame: Frame) -> None:  # noqa: N802
        """Text outside of tags, where it is not part of an output."""
        self.write(self._spelled(node.as_const(frame.eval_ctx)))

    def visit_Concat(self, node: nodes.Concat, frame: Frame) -> None:  # noqa: N802
        """The operator `~`."""
        self.write("environment.concat(map(str, (")
        for part in node.nodes:
            self.visit(part, frame)
            self.write(", ")
        self.write(")))")

    def _output_const_repr(self, group: Iterable[Any]) -> str:
        return self._spelled(concat([str(part) for part in group]))

    def _spelled(self, value: object) -> str:
        """Source text of a constant; strings live in the environment."""
        spelled = repr(value)
        match value:
            case Markup():  # a folded `safe`
                spelled = f"environment.filters['safe']({self._spelled(str.__str__(value))})"
            case str():
                literals = self.environment.literals
                literals.append(template_text(value))
                spelled = f"environment.literals[{len(literals) - 1}]"
            case tuple():
                spelled = "(" + "".join(f"{self._spelled(item)}, " for item in value) + ")"
            case list():
                spelled = "[" + ", ".join(self._spelled(item) for item in value) + "]"
            case dict():
                items = (f"{self._spelled(k)}: {self._spelled(v)}" for k, v in value.items())
                spelled = "{" + ", ".join(items) + "}"
            case float():
                spelled = str(value)
        return spelled


class GenerationTag(jinja2.ext.Extension):
    """`{% generation %}`: marks what the model wrote, for training; here only its body counts."""

    tags = {"generation"}

    def parse(self, parser: Parser) -> nodes.Node:
        """A call block, whose scope is its own, as transformers has it."""
        line = next(parser.stream).lineno
        body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
        return nodes.CallBlock(self.call_method("body"), [], [], body).set_lineno(line)

    def body(self, caller: Macro) -> str:
        """What the block renders."""
        text: str = caller()
        return text


class TracingFormatter(string.Formatter):
    """`str.format` that keeps the spans of a template's own format string."""

    def __init__(self, checked: string.Formatter) -> None:
        self._checked = checked

    def traced(self, layout: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> str:
        """The formatted text; with spans only where they are certain."""
        plain = self._checked.vformat(layout, args, kwargs)
        if spans_of(layout) != ((0, len(layout)),):
            return plain
        made: list[str] = []
        counted = 0
        for literal, name, spec, conversion in self.parse(layout):
            made.append(template_text(literal))
            if name is None:
                continue
            if spec or conversion:
                return plain
            if not name:
                name, counted = str(counted), counted + 1  # noqa: PLW2901
            made.append(str(self._checked.get_field(name, args, kwargs)[0]))
        text = concat(made)
        return text if text == plain else plain


class Sandbox(jinja2.sandbox.ImmutableSandboxedEnvironment):
    """The environment of one chat template."""

    code_generator_class = TracingGenerator
    concat = staticmethod(concat)
    intercepted_binops = frozenset(("+", "*", "**"))

    def __init__(self) -> None:
        super().__init__(
            trim_blocks=True,
            lstrip_blocks=True,
            extensions=[GenerationTag, jinja2.ext.loopcontrols],
        )
        self.literals: list[Traced] = []
        self._clock = threading.local()
        self.filters["tojson"] = to_json
        self.filters["join"] = join
        self.filters["safe"] = safe
        self.globals["raise_exception"] = raise_exception
        self.globals["strftime_now"] = strftime_now
        self.globals["dict"] = TemplateDict()
        self.globals["namespace"] = TemplateNamespace

    @contextmanager
    def within(self, seconds: float) -> Iterator[None]:
        """Renderings of this thread end after so long."""
        self._clock.deadline = time.monotonic() + seconds
        try:
            yield
        finally:
            del self._clock.deadline

    def tick(self) -> None:
        """Give up when the time is over."""
        deadline = getattr(self._clock, "deadline", None)
        if deadline is not None and time.monotonic() > deadline:
            raise RenderTooLong("a rendering that takes too long")

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:
        """Sums and products, refused before they outgrow a prompt."""
        if length_of(operator, left, right) > MOST_CHARACTERS:
            raise RenderTooLong(f"a value of more than {MOST_CHARACTERS} elements")
        return super().call_binop(context, operator, left, right)

    def wrap_str_format(self, value: Any) -> Callable[..., str] | None:
        """Formatting keeps spans where the format string is the template's."""
        checked = super().wrap_str_format(value)
        layout = getattr(value, "__self__", None)
        if checked is None or not isinstance(layout, Traced) or value.__name__ != "format":
            return checked
        formatter = TracingFormatter(jinja2.sandbox.SandboxedFormatter(self))

        def formatted(*args: Any, **kwargs: Any) -> str:
            return formatter.traced(layout, args, kwargs)

        return update_wrapper(formatted, value)


def length_of(operator: str, left: Any, right: Any) -> int:
    """About how long the result will be; zero where it is of no matter."""
    if operator == "+" and isinstance(left, str | list | tuple):
        return len(left) + (len(right) if isinstance(right, str | list | tuple) else 0)
    if operator == "*":
        if isinstance(right, str | list | tuple):
            left, right = right, left
        if isinstance(left, str | list | tuple) and isinstance(right, int):
            return len(left) * right
    if operator == "**" and isinstance(left, int) and isinstance(right, int) and right > 0:
        return left.bit_length() * right
    return 0


# ------------------------------------------------- what templates may call


class TemplateDict:
    """`dict(...)` in a template, and nothing else of the class."""

    def __call__(self, *args: Any, **kwargs: Any) -> dict[Any, Any]:
        """A new dict."""
        return dict(*args, **kwargs)

    def fromkeys(self, keys: Iterable[Any], value: Any = None) -> dict[Any, Any]:
        """A dict with one value for all keys."""
        return dict.fromkeys(keys, value)


class TemplateNamespace(jinja2.utils.Namespace):
    """`namespace(...)` in a template, without names that begin with an underscore."""

    def __init__(*args: Any, **kwargs: Any) -> None:
        self, positional = args[0], args[1:]
        attributes = dict(*positional, **kwargs)
        for name in attributes:
            check_name(name)
        jinja2.utils.Namespace.__init__(self, attributes)

    def __setitem__(self, name: str, value: Any) -> None:
        check_name(name)
        super().__setitem__(name, value)


def check_name(name: object) -> None:
    """Refuse names that could reach the interpreter's own."""
    if isinstance(name, str) and name.startswith("_"):
        raise jinja2.exceptions.SecurityError(
            f"a namespace cannot have the attribute {name!r}: it begins with an underscore"
        )


def raise_exception(message: str) -> None:
    """What templates call to refuse a conversation."""
    raise jinja2.TemplateError(message)


def strftime_now(layout: str) -> str:
    """The local time, as templates ask for it."""
    return datetime.now().strftime(layout)


def to_json(
    value: object,
    ensure_ascii: bool = False,  # noqa: FBT001, FBT002 - the filter's own signature
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,  # noqa: FBT001, FBT002
) -> str:
    """JSON without HTML escapes, as transformers' filter writes it."""
    return json.dumps(
        value,
        ensure_ascii=ensure_ascii,
        indent=indent,
        separators=separators,
        sort_keys=sort_keys,
    )


@jinja2.pass_environment
def join(
    environment: jinja2.Environment,
    value: Iterable[Any],
    d: str = "",
    attribute: str | int | None = None,
) -> str:
    """Jinja's filter, with spans."""
    if attribute is not None:
        value = map(make_attrgetter(environment, attribute), value)
    return joined(map(str, value), str(d))
