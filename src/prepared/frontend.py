"""Rules of the frontend's declarations: which syntaxes pair, which ids and images exist."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from prepared.contract import (
    ArgumentTyping,
    FrontendContract,
    ImageLayout,
    ImagePreparation,
    Marker,
    ModelContract,
    ReasoningParser,
    ReasoningSyntax,
    ToolParser,
    ToolSyntax,
)
from prepared.fields import ContractError, check_unique


def check_frontend(frontend: FrontendContract, model: ModelContract, *, at: str) -> None:
    """Parsers pair as the specification allows, and every id exists."""
    for index, token in enumerate(frontend.eos_token_ids):
        if token >= model.vocabulary.tokens:
            raise ContractError(
                f"{at}.eos_token_ids[{index}]",
                token,
                expected=f"an id below {model.vocabulary.tokens}",
            )
    check_tools(frontend.tools, at=f"{at}.tools")
    check_reasoning(frontend.reasoning, frontend.tools, at=f"{at}.reasoning")
    for path, marker in markers_of(frontend):
        if marker.token_id is not None and marker.token_id >= model.input_vocabulary.tokens:
            raise ContractError(
                f"{at}.{path}.token_id",
                marker.token_id,
                expected=f"an id below {model.input_vocabulary.tokens}",
            )
    check_images(frontend, model, at=at)
    check_unique((token.name for token in frontend.template_tokens), at=f"{at}.template_tokens")
    check_unique((level.effort for level in frontend.efforts), at=f"{at}.efforts")
    if not 0.0 < frontend.sampling.top_p <= 1.0:
        raise ContractError(
            f"{at}.sampling.top_p", frontend.sampling.top_p, expected="above 0, at most 1"
        )
    if not frontend.sampling.min_p <= 1.0:
        raise ContractError(f"{at}.sampling.min_p", frontend.sampling.min_p, expected="0 to 1")
    if frontend.sampling.repetition_penalty <= 0.0:
        raise ContractError(
            f"{at}.sampling.repetition_penalty",
            frontend.sampling.repetition_penalty,
            expected="above 0",
        )


TOOL_MARKERS: Final = (
    "section_open",
    "section_close",
    "call_open",
    "call_close",
    "name_open",
    "name_close",
    "key_open",
    "key_close",
    "value_open",
    "value_close",
    "object_open",
    "object_close",
)
REASONING_MARKERS: Final = ("open", "close", "terminal", "answer_open", "answer_close")
FRAME_MARKERS: Final = ("open", "header_close", "channel_open")


def markers_of(frontend: FrontendContract) -> list[tuple[str, Marker]]:
    """Every declared marker with its path."""
    found: list[tuple[str, Marker | None]] = [
        (f"tools.{name}", getattr(frontend.tools, name)) for name in TOOL_MARKERS
    ]
    found += [
        (f"reasoning.{name}", getattr(frontend.reasoning, name)) for name in REASONING_MARKERS
    ]
    frames = frontend.reasoning.frames
    if frames is not None:
        found += [(f"reasoning.frames.{name}", getattr(frames, name)) for name in FRAME_MARKERS]
        found += [(f"reasoning.frames.closes[{at}]", mark) for at, mark in enumerate(frames.closes)]
    for index, layout in enumerate(frontend.image_layouts):
        found += [
            (f"image_layouts[{index}].{name}", getattr(layout, name)) for name in ("open", "close")
        ]
    return [(path, marker) for path, marker in found if marker is not None]


def check_tools(tools: ToolSyntax, *, at: str) -> None:
    """No parser, no data; attribute typing names its attribute."""
    if tools.parser is ToolParser.NO_TOOLS:
        for name in (*TOOL_MARKERS, "typing", "type_attribute", "generic_recipient"):
            if getattr(tools, name) is not None:
                raise ContractError(f"{at}.{name}", "a value", expected="nothing with NO_TOOLS")
        return
    if tools.typing is None:
        raise ContractError(f"{at}.typing", "nothing", expected="how arguments are typed")
    by_attribute = tools.typing is ArgumentTyping.TYPED_BY_ATTRIBUTE
    if by_attribute != (tools.type_attribute is not None):
        raise ContractError(
            f"{at}.type_attribute",
            tools.type_attribute,
            expected=f"{'a name' if by_attribute else 'nothing'} with {tools.typing.name}",
        )
    if tools.generic_recipient is not None and tools.parser is not ToolParser.ATEM:
        raise ContractError(
            f"{at}.generic_recipient", repr(tools.generic_recipient), expected="it only with ATEM"
        )


PAIRED: Final[Sequence[tuple[ReasoningParser, ToolParser]]] = (
    (ReasoningParser.RECIPIENT_HEADERS, ToolParser.ATEM),
    (ReasoningParser.HARMONY_CHANNELS, ToolParser.HARMONY),
)
"""Syntaxes whose parser consumes complete frames: one needs the other (FI-18)."""


def check_reasoning(reasoning: ReasoningSyntax, tools: ToolSyntax, *, at: str) -> None:
    """Reasoning pairs with the tool syntax as FI-03 to FI-06 and FI-18 allow."""
    if reasoning.parser is ReasoningParser.NO_REASONING:
        for name in REASONING_MARKERS:
            if getattr(reasoning, name) is not None:
                raise ContractError(f"{at}.{name}", "a marker", expected="none with NO_REASONING")
    if reasoning.parser is ReasoningParser.THINK_TAGS and (
        reasoning.open is None or reasoning.close is None
    ):
        raise ContractError(f"{at}.open", "no pair of tags", expected="open and close")
    if reasoning.parser is ReasoningParser.XTML_THINK and tools.parser is not ToolParser.XTML_TOOLS:
        raise ContractError(
            f"{at}.parser", "XTML_THINK", expected="it only with XTML_TOOLS (FI-04)"
        )
    for frames, calls in PAIRED:
        if (reasoning.parser is frames) != (tools.parser is calls):
            raise ContractError(
                f"{at}.parser",
                reasoning.parser.name,
                expected=f"{frames.name} and {calls.name} together (FI-18)",
            )
    if reasoning.terminal is not None:
        opener = tools.section_open or tools.call_open
        if opener is None or reasoning.terminal != opener:
            raise ContractError(
                f"{at}.terminal",
                repr(reasoning.terminal.text),
                expected="the tool syntax's opener (FI-06)",
            )


def check_images(frontend: FrontendContract, model: ModelContract, *, at: str) -> None:
    """Images need vision, a geometry and a layout; without images there is none of them."""
    has_images = frontend.images.preparation is not ImagePreparation.NO_IMAGES
    if has_images != (frontend.images.geometry is not None):
        raise ContractError(
            f"{at}.images.geometry",
            "nothing" if has_images else "a geometry",
            expected=f"the opposite with {frontend.images.preparation.name}",
        )
    if has_images != (model.vision is not None):
        raise ContractError(
            f"{at}.images.preparation",
            frontend.images.preparation.name,
            expected="images exactly when the model has vision",
        )
    geometry = frontend.images.geometry
    if geometry is not None:
        for name in ("mean", "deviation"):
            channels = len(getattr(geometry, name))
            if channels != 3:
                raise ContractError(f"{at}.images.geometry.{name}", channels, expected="3 channels")
    if has_images != bool(frontend.image_layouts):
        raise ContractError(
            f"{at}.image_layouts",
            f"{len(frontend.image_layouts)} layouts",
            expected="a layout for images" if has_images else "none without images",
        )
    for index, layout in enumerate(frontend.image_layouts):
        where = f"{at}.image_layouts[{index}]"
        if layout.layout is ImageLayout.NO_IMAGE_LAYOUT:
            raise ContractError(f"{where}.layout", layout.layout.name, expected="no empty layout")
        if layout.feature_id is None or layout.feature_id >= model.input_vocabulary.tokens:
            raise ContractError(
                f"{where}.feature_id",
                layout.feature_id,
                expected=f"an id below {model.input_vocabulary.tokens}",
            )
