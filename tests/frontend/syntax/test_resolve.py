"""What is refused at the start, by the field's path; and what every named data set is."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from helios.frontend.syntax.grammar import BUILDERS, NEEDED
from helios.frontend.syntax.machine import BEGINNINGS, MEANINGS, STEPS
from helios.frontend.syntax.resolve import resolve_syntax
from helios.frontend.syntax.states import State
from ignition.preparation.syntaxes import REASONING, TOOLS, UnknownSyntax, syntax_named
from prepared.contract import FrontendContract, Marker, ToolParser, ToolSyntax
from prepared.fields import ContractError
from tests.frontend.syntax.bench import ENVELOPES, Bench
from tests.treaty.refusals import refused

AT = "contract.model.frontend"
FRAMED = {"atem": "recipient", "harmony": "harmony"}


@pytest.mark.clause("FI-01")
def test_every_selector_has_a_grammar() -> None:
    assert set(BUILDERS) == set(NEEDED) == set(ToolParser)
    assert set(STEPS) == set(State)
    assert set(BEGINNINGS) < set(State)
    assert "call" in MEANINGS


@pytest.mark.parametrize("name", sorted(TOOLS))
def test_every_named_tool_syntax_resolves(name: str) -> None:
    assert Bench(name, FRAMED.get(name, "none")).frontend.tools.parser in ToolParser


@pytest.mark.parametrize("name", sorted(set(REASONING) - {"recipient", "harmony"}))
def test_every_named_reasoning_resolves(name: str) -> None:
    assert Bench("xtml", name).frontend.reasoning.parser is REASONING[name].parser


@pytest.mark.clause("FI-07")
def test_a_marker_that_is_one_token_has_its_id() -> None:
    tools, reasoning = syntax_named("glm", "think", {"<tool_call>": 7, "</think>": 8})
    assert tools.call_open == Marker(text="<tool_call>", token_id=7)
    assert reasoning.close == Marker(text="</think>", token_id=8)
    assert reasoning.terminal == tools.call_open


def test_an_unknown_name_is_refused() -> None:
    with pytest.raises(UnknownSyntax, match="^qwen: no such syntax"):
        syntax_named("qwen", "none", {})


def broken(frontend: FrontendContract, **changes: object) -> FrontendContract:
    tools: ToolSyntax = replace(frontend.tools, **changes)
    return replace(frontend, tools=tools)


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        (
            {"call_open": None},
            "tools.call_open: found nothing, expected a value with GLM_ARGUMENT_TAGS",
        ),
        (
            {"call_open": Marker(text="<tool_call>", token_id=1)},
            "tools.call_open.token_id: found 1, no added token, "
            "expected the tokenizer's token '<tool_call>'",
        ),
        (
            {"key_open": Marker(text="\n", token_id=None)},
            "tools.key_open.text: found '\\n', expected more than white space",
        ),
        (
            {"key_close": Marker(text="<arg_key>", token_id=None)},
            "tools.key_close: found '<arg_key>', expected another text than what it closes",
        ),
        ({"typing": None}, "tools.typing: found nothing, expected how arguments are typed"),
    ],
)
def test_a_terminal_that_cannot_be_is_refused(changes: dict[str, object], sentence: str) -> None:
    bench = Bench("glm")
    with refused(f"{AT}.{sentence}"):
        resolve_syntax(broken(bench.frontend, **changes), bench.tokenizer)


def test_an_opener_that_ends_generation_is_refused() -> None:
    bench = Bench("glm", added=["<tool_call>"])
    ended = replace(bench.frontend, eos_token_ids=(bench.ids["<tool_call>"],))
    with pytest.raises(
        ContractError, match=r"^contract\.model\.frontend\.tools\.call_open\.token_id"
    ):
        resolve_syntax(ended, bench.tokenizer)


@pytest.mark.clause("FI-18")
def test_frames_need_their_partner_and_their_data() -> None:
    bench = Bench("atem", "recipient")
    alone = replace(bench.frontend, tools=TOOLS["glm"])
    with pytest.raises(ContractError, match=r"reasoning\.parser: found RECIPIENT_HEADERS"):
        resolve_syntax(alone, bench.tokenizer)
    unframed = replace(bench.frontend, reasoning=replace(bench.frontend.reasoning, frames=None))
    with refused(f"{AT}.reasoning.frames: found nothing, expected frames with RECIPIENT_HEADERS"):
        resolve_syntax(unframed, bench.tokenizer)
    assert ENVELOPES["recipient"].open == "<|start|>assistant"
