"""Frontends whose parsers do not pair, whose markers do not exist, whose numbers are off."""

from __future__ import annotations

from itertools import product

import pytest
from msgspec.structs import replace

from prepared.consistency import check_contract
from prepared.contract import (
    ArgumentTyping,
    EffortLevel,
    ImageLayout,
    ImagePreparation,
    Marker,
    ReasoningParser,
    ReasoningSyntax,
    TemplateToken,
    ToolParser,
)
from prepared.fields import ContractError
from tests.treaty.frontends import every_tool_datum, no_reasoning, no_tools, think_reasoning
from tests.treaty.paths import put
from tests.treaty.refusals import attack, refused
from tests.treaty.specimens import CONTRACTS

FRONT = "model.frontend"
MARK = Marker(text="<x>", token_id=None)

SYNTAX = [
    attack(
        "an end token cannot be sampled",
        "seeing",
        {f"{FRONT}.eos_token_ids": (2, 100)},
        f"contract.{FRONT}.eos_token_ids[1]: found 100, expected an id below 100",
    ),
    attack(
        "a template token stands twice",
        "plain",
        {f"{FRONT}.template_tokens": (TemplateToken(name="bos_token", text="<s>"),) * 2},
        f"contract.{FRONT}.template_tokens: found 'bos_token', expected each name once",
    ),
    attack(
        "an effort stands twice",
        "plain",
        {f"{FRONT}.efforts": (EffortLevel(effort="low", variable="effort", value="1"),) * 2},
        f"contract.{FRONT}.efforts: found 'low', expected each name once",
    ),
    *(
        attack(
            f"no tools but {name}",
            "plain",
            {f"{FRONT}.tools.{name}": value},
            f"contract.{FRONT}.tools.{name}: found a value, expected nothing with NO_TOOLS",
        )
        for name, value in (
            ("section_open", MARK),
            ("value_close", MARK),
            ("typing", ArgumentTyping.TYPED_AS_JSON),
            ("type_attribute", "string"),
            ("generic_recipient", "tool"),
        )
    ),
    attack(
        "arguments are not typed",
        "speculating",
        {f"{FRONT}.tools.typing": None},
        f"contract.{FRONT}.tools.typing: found nothing, expected how arguments are typed",
    ),
    attack(
        "a typing attribute has no name",
        "speculating",
        {f"{FRONT}.tools.type_attribute": None},
        f"contract.{FRONT}.tools.type_attribute: "
        "found None, expected a name with TYPED_BY_ATTRIBUTE",
    ),
    attack(
        "typing by schema has an attribute",
        "speculating",
        {f"{FRONT}.tools.typing": ArgumentTyping.TYPED_BY_SCHEMA},
        f"contract.{FRONT}.tools.type_attribute: "
        "found string, expected nothing with TYPED_BY_SCHEMA",
    ),
    attack(
        "tags have a recipient",
        "speculating",
        {f"{FRONT}.tools.parser": ToolParser.DSML},
        f"contract.{FRONT}.tools.generic_recipient: found 'tool', expected it only with ATEM",
    ),
    *(
        attack(
            f"no reasoning but {name}",
            "plain",
            {f"{FRONT}.reasoning.{name}": MARK},
            f"contract.{FRONT}.reasoning.{name}: found a marker, expected none with NO_REASONING",
        )
        for name in ("open", "close", "terminal")
    ),
    *(
        attack(
            f"think tags lack {name}",
            "hybrid",
            {f"{FRONT}.reasoning.{name}": None},
            f"contract.{FRONT}.reasoning.open: found no pair of tags, expected open and close",
        )
        for name in ("open", "close")
    ),
    attack(
        "xtml thinks with other tools",
        "hybrid",
        {f"{FRONT}.reasoning.parser": ReasoningParser.XTML_THINK},
        f"contract.{FRONT}.reasoning.parser: "
        "found XTML_THINK, expected it only with XTML_TOOLS (FI-04)",
        clauses=("FI-04",),
    ),
    attack(
        "recipients without atem",
        "hybrid",
        {f"{FRONT}.reasoning.parser": ReasoningParser.RECIPIENT_HEADERS},
        f"contract.{FRONT}.reasoning.parser: found RECIPIENT_HEADERS, "
        "expected RECIPIENT_HEADERS and ATEM together (FI-18)",
        clauses=("FI-18",),
    ),
    attack(
        "atem without recipients",
        "speculating",
        {f"{FRONT}.reasoning": think_reasoning()},
        f"contract.{FRONT}.reasoning.parser: found THINK_TAGS, "
        "expected RECIPIENT_HEADERS and ATEM together (FI-18)",
        clauses=("FI-18",),
    ),
    attack(
        "channels without their calls",
        "hybrid",
        {f"{FRONT}.reasoning.parser": ReasoningParser.HARMONY_CHANNELS},
        f"contract.{FRONT}.reasoning.parser: found HARMONY_CHANNELS, "
        "expected HARMONY_CHANNELS and HARMONY together (FI-18)",
    ),
    *(
        attack(
            f"a terminal differs by its {part}",
            "speculating",
            {f"{FRONT}.reasoning.terminal.{part}": value},
            f"contract.{FRONT}.reasoning.terminal: "
            f"found {text!r}, expected the tool syntax's opener (FI-06)",
            clauses=("FI-06",),
        )
        for part, value, text in (
            ("text", "<tool>", "<tool>"),
            ("token_id", None, "<atem:function_calls>"),
        )
    ),
    attack(
        "a terminal opens no call",
        "hybrid",
        {f"{FRONT}.reasoning.terminal": MARK},
        f"contract.{FRONT}.reasoning.terminal: "
        "found '<x>', expected the tool syntax's opener (FI-06)",
        clauses=("FI-06",),
    ),
    *(
        attack(
            f"the marker {path} is no token",
            name,
            {f"{FRONT}.{path}.token_id": size},
            f"contract.{FRONT}.{path}.token_id: found {size}, expected an id below {size}",
        )
        for name, path, size in (
            ("speculating", "tools.value_close", 100),
            ("speculating", "reasoning.close", 100),
            ("seeing", "image_layouts[1].close", 104),
        )
    ),
]

SAMPLING = [
    attack(
        f"{name} is {value}",
        "plain",
        {f"{FRONT}.sampling.{name}": value},
        f"contract.{FRONT}.sampling.{name}: found {value}, expected {expected}",
    )
    for name, value, expected in (
        ("top_p", 0.0, "above 0, at most 1"),
        ("top_p", 1.5, "above 0, at most 1"),
        ("min_p", 1.5, "0 to 1"),
        ("repetition_penalty", 0.0, "above 0"),
    )
]

GEOMETRY = CONTRACTS["seeing"].model.frontend.images.geometry
LAYOUTS = CONTRACTS["seeing"].model.frontend.image_layouts
IMAGES = [
    attack(
        "images have no geometry",
        "seeing",
        {f"{FRONT}.images.geometry": None},
        f"contract.{FRONT}.images.geometry: "
        "found nothing, expected the opposite with RESIZE_TO_PATCH_GRID",
    ),
    attack(
        "no images have a geometry",
        "plain",
        {f"{FRONT}.images.geometry": GEOMETRY},
        f"contract.{FRONT}.images.geometry: found a geometry, expected the opposite with NO_IMAGES",
    ),
    attack(
        "images are not seen",
        "seeing",
        {"model.vision": None},
        f"contract.{FRONT}.images.preparation: "
        "found RESIZE_TO_PATCH_GRID, expected images exactly when the model has vision",
    ),
    attack(
        "vision has no images",
        "seeing",
        {
            f"{FRONT}.images.preparation": ImagePreparation.NO_IMAGES,
            f"{FRONT}.images.geometry": None,
        },
        f"contract.{FRONT}.images.preparation: "
        "found NO_IMAGES, expected images exactly when the model has vision",
    ),
    *(
        attack(
            f"the {name} has two channels",
            "seeing",
            {f"{FRONT}.images.geometry.{name}": (0.5, 0.5)},
            f"contract.{FRONT}.images.geometry.{name}: found 2, expected 3 channels",
        )
        for name in ("mean", "deviation")
    ),
    attack(
        "images have no layout",
        "seeing",
        {f"{FRONT}.image_layouts": ()},
        f"contract.{FRONT}.image_layouts: found 0 layouts, expected a layout for images",
    ),
    attack(
        "no images have a layout",
        "plain",
        {f"{FRONT}.image_layouts": LAYOUTS},
        f"contract.{FRONT}.image_layouts: found 2 layouts, expected none without images",
    ),
    attack(
        "a layout lays out nothing",
        "seeing",
        {f"{FRONT}.image_layouts[1].layout": ImageLayout.NO_IMAGE_LAYOUT},
        f"contract.{FRONT}.image_layouts[1].layout: "
        "found NO_IMAGE_LAYOUT, expected no empty layout",
    ),
    *(
        attack(
            f"features are the id {value}",
            "seeing",
            {f"{FRONT}.image_layouts[1].feature_id": value},
            f"contract.{FRONT}.image_layouts[1].feature_id: "
            f"found {value}, expected an id below 104",
            clauses=("SM-14",) if value else (),
        )
        for value in (None, 104)
    ),
]


@pytest.mark.parametrize(("name", "changes", "sentence"), [*SYNTAX, *SAMPLING, *IMAGES])
def test_a_broken_frontend_is_refused(name: str, changes: dict[str, object], sentence: str) -> None:
    with refused(sentence):
        check_contract(put(CONTRACTS[name], changes))


@pytest.mark.parametrize(("name", "value"), [("top_p", 1.0), ("min_p", 1.0), ("top_p", 1e-9)])
def test_the_edge_of_sampling_is_accepted(name: str, value: float) -> None:
    check_contract(put(CONTRACTS["plain"], {f"{FRONT}.sampling.{name}": value}))


def test_a_terminal_may_open_the_call_where_no_section_opens() -> None:
    opener = Marker(text="<tool_call>", token_id=97)
    tools = replace(every_tool_datum(), section_open=None, section_close=None, call_open=opener)
    changes = {f"{FRONT}.tools": tools, f"{FRONT}.reasoning.terminal": opener}
    check_contract(put(CONTRACTS["speculating"], changes))


def reasoning_of(parser: ReasoningParser) -> ReasoningSyntax:
    """A syntax with what its parser needs."""
    if parser is ReasoningParser.NO_REASONING:
        return no_reasoning()
    return replace(think_reasoning(), parser=parser)


def is_paired(reasoning: ReasoningParser, tools: ToolParser) -> bool:
    """What the specification says of a pair, in one place."""
    if reasoning is ReasoningParser.XTML_THINK and tools is not ToolParser.XTML_TOOLS:
        return False
    together = {
        ReasoningParser.RECIPIENT_HEADERS: ToolParser.ATEM,
        ReasoningParser.HARMONY_CHANNELS: ToolParser.HARMONY,
    }
    if reasoning in together:
        return tools is together[reasoning]
    return tools not in together.values()


@pytest.mark.clause("FI-01", "FI-03", "FI-04", "FI-18")
@pytest.mark.parametrize(
    ("reasoning", "tools"),
    list(product(ReasoningParser, ToolParser)),
    ids=lambda parser: parser.name,
)
def test_parsers_pair_freely_but_for_those_that_read_frames(
    reasoning: ReasoningParser, tools: ToolParser
) -> None:
    syntax = replace(
        every_tool_datum(),
        parser=tools,
        generic_recipient="tool" if tools is ToolParser.ATEM else None,
    )
    if tools is ToolParser.NO_TOOLS:
        syntax = no_tools()
    changes = {f"{FRONT}.tools": syntax, f"{FRONT}.reasoning": reasoning_of(reasoning)}
    contract = put(CONTRACTS["plain"], changes)
    if is_paired(reasoning, tools):
        check_contract(contract)
    else:
        with pytest.raises(ContractError, match=r"^contract\.model\.frontend\.reasoning\.parser: "):
            check_contract(contract)
