"""Parts of contracts that speak: tool syntaxes, reasoning, images, and whole frontends."""

from __future__ import annotations

from typing import Final

from msgspec.structs import replace

from prepared.contract import (
    ArgumentTyping,
    AssistantEnvelope,
    EffortLevel,
    FrameSyntax,
    FrontendContract,
    ImageGeometry,
    ImageKind,
    ImageLayout,
    ImagePreparation,
    ImageSettings,
    ImageTokenLayout,
    Marker,
    MessageRole,
    PrefixBoundaryRule,
    ReasoningParser,
    ReasoningSyntax,
    Resampling,
    SamplingDefaults,
    TemplateToken,
    ToolParser,
    ToolSyntax,
)

TOKENS: Final = 100
"""Ids that the specimens sample; sentinels follow."""


def no_tools() -> ToolSyntax:
    """A model that calls nothing."""
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


def every_tool_datum() -> ToolSyntax:
    """A syntax that uses all the data a tool parser may have."""
    return ToolSyntax(
        parser=ToolParser.ATEM,
        section_open=Marker(text="<atem:function_calls>", token_id=90),
        section_close=Marker(text="</atem:function_calls>", token_id=None),
        call_open=Marker(text='<invoke name="', token_id=None),
        call_close=Marker(text="</invoke>", token_id=None),
        name_open=Marker(text='"', token_id=None),
        name_close=Marker(text='">', token_id=None),
        key_open=Marker(text='<parameter name="', token_id=None),
        key_close=Marker(text='">', token_id=None),
        value_open=Marker(text="<value>", token_id=None),
        value_close=Marker(text="</value>", token_id=None),
        typing=ArgumentTyping.TYPED_BY_ATTRIBUTE,
        type_attribute="string",
        wrapping="\n",
        separator="\n\n",
        name_field="name",
        arguments_field="arguments",
        generic_recipient="tool",
        object_open=Marker(text="<object>", token_id=None),
        object_close=Marker(text="</object>", token_id=None),
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


def frames() -> FrameSyntax:
    """Frames with all the data they may have."""
    return FrameSyntax(
        open=Marker(text="<|start|>", token_id=91),
        header_close=Marker(text="<|message|>", token_id=None),
        closes=(Marker(text="<|eom|>", token_id=92), Marker(text="<|eot|>", token_id=None)),
        recipient_prefix=" to=",
        channel_open=Marker(text="<|channel|>", token_id=None),
    )


def recipient_reasoning() -> ReasoningSyntax:
    """Reasoning in recipient frames, ended by the tool syntax's opener as well."""
    return ReasoningSyntax(
        parser=ReasoningParser.RECIPIENT_HEADERS,
        open=Marker(text="<|start|>", token_id=91),
        close=Marker(text="<|eom|>", token_id=92),
        terminal=Marker(text="<atem:function_calls>", token_id=90),
        wrapping="\n",
        answer_prefix="\n\n",
        reasoning_recipients=("self",),
        content_recipients=("commentary", "user"),
        answer_open=Marker(text="<answer>", token_id=None),
        answer_close=Marker(text="</answer>", token_id=None),
        frames=frames(),
    )


def think_reasoning() -> ReasoningSyntax:
    """Reasoning between a pair of tags."""
    return replace(
        no_reasoning(),
        parser=ReasoningParser.THINK_TAGS,
        open=Marker(text="<think>", token_id=93),
        close=Marker(text="</think>", token_id=94),
        wrapping="\n",
    )


def text_frontend() -> FrontendContract:
    """Text in, text out."""
    return FrontendContract(
        tools=no_tools(),
        reasoning=no_reasoning(),
        images=ImageSettings(preparation=ImagePreparation.NO_IMAGES, geometry=None),
        image_layouts=(),
        eos_token_ids=(2, 7),
        template_tokens=(TemplateToken(name="eos_token", text="</s>"),),
        sampling=SamplingDefaults(
            temperature=0.5,
            top_p=0.75,
            top_k=20,
            min_p=0.0625,
            repetition_penalty=1.125,
            presence_penalty=-1.5,
            frequency_penalty=0.25,
        ),
        prefix_boundaries=(
            PrefixBoundaryRule(role=MessageRole.USER, needs_generation_prompt=True),
            PrefixBoundaryRule(role=MessageRole.TOOL, needs_generation_prompt=False),
        ),
        assistant=AssistantEnvelope(open="<|assistant|>", close="<|end|>"),
        tokenizer_asset="tokenizer",
        template_asset="chat_template",
        efforts=(EffortLevel(effort="none", variable="enable_thinking", value="false"),),
        adds_bos=True,
    )


def image_frontend() -> FrontendContract:
    """Images, still and moving, over three position axes."""
    geometry = ImageGeometry(
        patch_pixels=14,
        merge=2,
        temporal_patches=2,
        least_pixels=784,
        most_pixels=100_352,
        most_features=64,
        resampling=Resampling.BICUBIC,
        mean=(0.5, 0.25, 0.125),
        deviation=(0.5, 0.75, 0.875),
    )
    layout = ImageTokenLayout(
        layout=ImageLayout.GRID_POSITIONS,
        kind=ImageKind.STILL_IMAGE,
        open=Marker(text="<|image|>", token_id=95),
        close=Marker(text="<|/image|>", token_id=96),
        feature_id=TOKENS,
        atomic=True,
        longest_span=64,
        patches_per_feature=None,
    )
    moving = replace(
        layout,
        kind=ImageKind.VIDEO,
        feature_id=TOKENS + 1,
        atomic=False,
        patches_per_feature=8,
    )
    return replace(
        text_frontend(),
        images=ImageSettings(preparation=ImagePreparation.RESIZE_TO_PATCH_GRID, geometry=geometry),
        image_layouts=(layout, moving),
    )
