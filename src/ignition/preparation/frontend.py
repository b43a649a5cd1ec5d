"""The text side of a contract: assets, end tokens, template tokens, sampling advice."""

from __future__ import annotations

from dataclasses import dataclass

from ignition.preparation.envelope import assistant_envelope
from ignition.preparation.tokenizer import TokenizerAsset
from ignition.weights.checkpoint import Checkpoint
from prepared.contract import (
    FrontendContract,
    ImagePreparation,
    ImageSettings,
    ReasoningParser,
    ReasoningSyntax,
    SamplingDefaults,
    TemplateToken,
    ToolParser,
    ToolSyntax,
)

TOKENIZER = "tokenizer"
TEMPLATE = "template"


@dataclass(frozen=True, slots=True, kw_only=True)
class SamplingAdvice:
    """What the publisher recommends; None where nothing is said."""

    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    min_p: float | None = None
    repetition_penalty: float | None = None

    def over(self, other: SamplingAdvice) -> SamplingAdvice:
        """This advice, and the other's where this says nothing."""
        return SamplingAdvice(
            **{
                name: getattr(self, name)
                if getattr(self, name) is not None
                else getattr(other, name)
                for name in ("temperature", "top_p", "top_k", "min_p", "repetition_penalty")
            }
        )


def advice_of(checkpoint: Checkpoint) -> SamplingAdvice:
    """The advice in a generation_config.json."""
    generation = checkpoint.generation
    if not generation.take("do_sample", bool, default=True):
        return SamplingAdvice(temperature=0.0)
    return SamplingAdvice(
        temperature=generation.take("temperature", float, default=None),
        top_p=generation.take("top_p", float, default=None),
        top_k=generation.take("top_k", int, default=None),
        min_p=generation.take("min_p", float, default=None),
        repetition_penalty=generation.take("repetition_penalty", float, default=None),
    )


def or_else(value: float | None, default: float) -> float:
    """The value, or what an OpenAI client expects without one."""
    return default if value is None else value


def sampling_of(advice: SamplingAdvice) -> SamplingDefaults:
    """Complete defaults (FI-32)."""
    return SamplingDefaults(
        temperature=or_else(advice.temperature, 1.0),
        top_p=or_else(advice.top_p, 1.0),
        top_k=int(or_else(advice.top_k, 0)),
        min_p=or_else(advice.min_p, 0.0),
        repetition_penalty=or_else(advice.repetition_penalty, 1.0),
        presence_penalty=0.0,
        frequency_penalty=0.0,
    )


def no_tools() -> ToolSyntax:
    """A model that is not known to call tools."""
    return ToolSyntax(
        parser=ToolParser.NO_TOOLS,
        section_open=None,
        section_close=None,
        call_open=None,
        call_close=None,
        name_open=None,
        name_close=None,
        key_open=None,
        key_close=None,
        value_open=None,
        value_close=None,
        typing=None,
        type_attribute=None,
        wrapping="",
        separator="",
        name_field="",
        arguments_field="",
        generic_recipient=None,
        object_open=None,
        object_close=None,
    )


def no_reasoning() -> ReasoningSyntax:
    """A model that answers at once."""
    return ReasoningSyntax(
        parser=ReasoningParser.NO_REASONING,
        open=None,
        close=None,
        terminal=None,
        wrapping="",
        answer_prefix="",
        reasoning_recipients=(),
        content_recipients=(),
        answer_open=None,
        answer_close=None,
        frames=None,
    )


def frontend_of(
    asset: TokenizerAsset,
    advice: SamplingAdvice,
    *,
    syntax: tuple[ToolSyntax, ReasoningSyntax] | None = None,
) -> FrontendContract:
    """The frontend of a chat model; without a syntax its output is the answer."""
    tools, reasoning = syntax or (no_tools(), no_reasoning())
    return FrontendContract(
        tools=tools,
        reasoning=reasoning,
        images=ImageSettings(preparation=ImagePreparation.NO_IMAGES, geometry=None),
        image_layouts=(),
        eos_token_ids=asset.eos_token_ids,
        template_tokens=tuple(
            TemplateToken(name=name, text=text) for name, text in asset.special_names.items()
        ),
        sampling=sampling_of(advice),
        prefix_boundaries=(),
        assistant=assistant_envelope(asset.template, asset.special_names),
        tokenizer_asset=TOKENIZER,
        template_asset=TEMPLATE if asset.template is not None else None,
        efforts=(),
        adds_bos=asset.adds_bos,
    )
