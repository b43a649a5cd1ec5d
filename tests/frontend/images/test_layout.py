"""Images among tokens: placeholders, spans, positions, features, as public models have them."""

from __future__ import annotations

from array import array
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from transformers.models.qwen2_5_vl.modeling_qwen2_5_vl import Qwen2_5_VLModel

from helios.cache.content import content_of
from helios.frontend.images.front import (
    MOST_TENSOR_NBYTES,
    Illustrated,
    check_tensors,
    load_images,
)
from helios.frontend.images.layout import PLACEMENTS, features_of, grid
from helios.frontend.images.picture import Picture
from helios.frontend.images.pixels import MOST_IMAGES
from helios.frontend.template import ChatTemplate
from helios.rounds import ImagePrompt, ImageTensor, Span
from helios.values import RequestInvalid, StartRefused
from ignition.preparation.images import IMAGES, images_named, with_images
from ignition.preparation.syntaxes import UnknownSyntax
from prepared.contract import ElementType, ImageKind, ImageLayout
from tests.frontend.images.pictures import (
    TEXT_ONLY,
    Seer,
    model_for,
    noise,
    shown,
    source,
    template_source,
    text,
    tokenizer_for,
    uri,
)
from tests.treaty.frontends import text_frontend

RED, BLUE = uri(noise(120, 60, seed=1)), uri(noise(60, 200, seed=2))


def numbers(data: bytes) -> list[int]:
    return array("i", data).tolist()


def test_every_declared_layout_places_tokens() -> None:
    assert set(PLACEMENTS) == set(ImageLayout) - {ImageLayout.NO_IMAGE_LAYOUT}


@pytest.mark.clause("FI-13")
@pytest.mark.parametrize(
    ("name", "place"),
    [
        ("qwen_vl", None),
        ("qwen3_vl", "<|image_pad|>"),
        ("muse", None),
        ("muse", "<|image|>"),
        ("muse", "<|image_start|><|image|><|image_end|>"),
        ("muse", "Picture: <|image|>\n"),
    ],
)
def test_a_placeholder_becomes_a_token_for_each_feature_within_its_markers(
    name: str, place: str | None
) -> None:
    seer = Seer(name, place=place)
    layout = seer.images.layout
    assert layout.open is not None
    assert layout.close is not None
    tokens = seer.tokens(text("a"), shown(RED), shown(BLUE), text("b"))
    found = seer.images.illustrated(tokens, [source(RED), source(BLUE)])
    assert [span.length for span in found.spans] == [
        picture.features for picture in seer.images.pictures([source(RED), source(BLUE)])
    ]
    for span in found.spans:
        assert found.tokens[span.start - 1] == layout.open.token_id
        stop = span.start + span.length
        assert set(found.tokens[span.start : stop]) == {layout.feature_id}
        assert found.tokens[stop] == layout.close.token_id
    added = (layout.feature_id, layout.open.token_id, layout.close.token_id, seer.id("<|image|>"))
    assert [t for t in found.tokens if t not in added] == [t for t in tokens if t not in added]
    assert found.tokens.count(layout.feature_id) == sum(span.length for span in found.spans)
    assert found.tokens.count(layout.open.token_id) == 2


@pytest.mark.clause("FI-13")
def test_a_clients_own_spelling_of_a_placeholder_is_text() -> None:
    seer = Seer("qwen_vl")
    tokens = seer.tokens(text("<|image_pad|>"), shown(RED))
    assert tokens.count(seer.id("<|image_pad|>")) == 1
    assert len(seer.images.illustrated(tokens, [source(RED)]).spans) == 1


def test_images_that_the_template_leaves_out_are_refused_and_not_dropped() -> None:
    seer = Seer("qwen_vl")
    with pytest.raises(RequestInvalid) as refusal:
        seer.images.illustrated(seer.tokens(shown(RED)), [source(RED), source(BLUE)])
    assert str(refusal.value) == (
        "messages: found 2 images for which the chat template wrote 1 places, expected images "
        "where the model's chat template takes them"
    )


def test_a_template_that_writes_no_place_takes_no_images() -> None:
    tokenizer = tokenizer_for("qwen_vl")
    for template in (
        ChatTemplate(TEXT_ONLY, {}),
        ChatTemplate(template_source("qwen_vl", place="[img]"), {}),
    ):
        images = load_images(model_for("qwen_vl"), template, tokenizer)
        assert images is not None
        with pytest.raises(
            RequestInvalid, match="at: found an image, expected text: the chat temp"
        ):
            images.pictures([source(RED)])


def test_the_number_of_images_is_bounded() -> None:
    with pytest.raises(
        RequestInvalid, match=f"at: found {MOST_IMAGES + 1} images, expected at most"
    ):
        Seer("qwen_vl").images.pictures([source(RED)] * (MOST_IMAGES + 1))


# ---------------------------------------------------------------- positions


def flat(rows: int, columns: int) -> Picture:
    return Picture(rows=rows * 2, columns=columns * 2, merge=2, pixels=b"")


def laid(gaps: list[int], grids: list[tuple[int, int]]) -> tuple[int, list[Span], list[Picture]]:
    """Text of these lengths around pictures of these grids."""
    at, spans = 0, []
    for gap, (rows, columns) in zip(gaps, grids, strict=False):
        spans.append(Span(start=at + gap, length=rows * columns, digest=b"d"))
        at += gap + rows * columns
    return at + gaps[-1], spans, [flat(*extent) for extent in grids]


GRIDS = st.lists(st.tuples(st.integers(1, 7), st.integers(1, 7)), min_size=1, max_size=3)


def public_positions(length: int, spans: list[Span], grids: list[tuple[int, int]]) -> Any:
    """Positions and delta as the public model computes them."""
    kinds = torch.zeros((1, length), dtype=torch.int)
    for span in spans:
        kinds[0, span.start : span.start + span.length] = 1

    class Config:
        class vision_config:  # noqa: N801 - as the model's own is called
            spatial_merge_size = 2
            tokens_per_second = 2

    class Model:
        config = Config
        get_vision_position_ids = Qwen2_5_VLModel.get_vision_position_ids

    public: Any = Qwen2_5_VLModel.get_rope_index
    return public(
        Model(),
        input_ids=torch.zeros((1, length), dtype=torch.long),
        mm_token_type_ids=kinds,
        image_grid_thw=torch.tensor([(1, rows * 2, columns * 2) for rows, columns in grids]),
        attention_mask=torch.ones((1, length), dtype=torch.long),
    )


@pytest.mark.clause("FI-13")
@given(GRIDS, st.data())
@settings(max_examples=40, deadline=None)
def test_positions_over_a_grid_are_the_public_models(
    grids: list[tuple[int, int]], data: Any
) -> None:
    gaps = [data.draw(st.integers(1, 5)) for _ in range(len(grids) + 1)]
    length, spans, pictures = laid(gaps, grids)
    found = grid(length, spans, pictures)
    positions, delta = public_positions(length, spans, grids)
    assert found.positions.tolist() == positions[:, 0].T.flatten().tolist()
    assert found.delta == int(delta[0])


def test_text_goes_on_behind_the_largest_position_of_an_image() -> None:
    found = grid(*laid([2, 1], [(2, 3)]))
    assert found.positions.tolist() == [
        *(0, 0, 0, 1, 1, 1),
        *(2, 2, 2, 2, 2, 3, 2, 2, 4, 2, 3, 2, 2, 3, 3, 2, 3, 4),
        *(5, 5, 5),
    ]
    assert found.delta == 5 + 1 - 9


def test_sequential_features_count_like_any_token() -> None:
    found = Seer("muse").images
    images = found.illustrated(Seer("muse").tokens(shown(RED)), [source(RED)]).images
    assert images is not None
    assert (images.positions, images.delta) == (b"", 0)


def test_features_are_counted_through_all_images_of_a_request() -> None:
    spans = [Span(start=1, length=2, digest=b""), Span(start=5, length=3, digest=b"")]
    assert features_of(9, spans).tolist() == [-1, 0, 1, -1, -1, 2, 3, 4, -1]


# -------------------------------------------------------------------- cache


@pytest.mark.clause("AH-15")
def test_prompts_equal_but_for_the_image_share_nothing_of_its_span() -> None:
    seer = Seer("qwen_vl")
    tokens = seer.tokens(text("a"), shown(RED), text("b"))
    first, again, other = (
        seer.images.illustrated(tokens, [source(uri(noise(120, 60, seed=seed)))])
        for seed in (1, 1, 3)
    )
    assert first.tokens == other.tokens
    contents = [content_of(prompt.tokens, prompt.spans) for prompt in (first, again, other)]
    assert contents[0] == contents[1]
    (span,) = first.spans
    same = [a == b for a, b in zip(contents[0].symbols, contents[2].symbols, strict=True)]
    inside = range(span.start, span.start + span.length)
    assert not any(same[place] for place in inside)
    assert all(same[place] for place in range(len(same)) if place not in inside)
    assert contents[0].cut(span.start + 1) == span.start


# ------------------------------------------------------------------- tensors


def test_tensors_that_programs_bind_come_with_the_prompt() -> None:
    seer = Seer("qwen_vl")
    images = load_images(model_for("qwen_vl"), None, seer.tokenizer)
    assert images is not None
    assert images.outputs == ()
    bound = replace(seer.images, outputs=("patch_rows", "pixels"))
    tokens = seer.tokens(shown(RED), shown(BLUE))
    prompt = bound.illustrated(tokens, [source(RED), source(BLUE)])
    assert prompt.images is not None
    names = [[tensor.name for tensor in tensors] for tensors in prompt.images.pictures]
    assert names == [["patch_rows", "pixels"]] * 2
    patches = sum(span.length for span in prompt.spans) * 4
    assert prompt.tensor_nbytes == patches * 4 * (1 + 3 * 14 * 14)


def test_what_goes_to_the_worker_is_bounded_for_all_choices_together() -> None:
    tensor = ImageTensor(
        name="bytes", element=ElementType.UINT8, rows=1, row_elements=1, data=bytes(30 << 20)
    )
    images = ImagePrompt(features=b"", positions=b"", delta=0, pictures=((tensor,),))
    prompt = Illustrated(tokens=(1,), images=images)
    check_tensors(prompt, choices=2)
    with pytest.raises(RequestInvalid) as refusal:
        check_tensors(prompt, choices=3)
    assert refusal.value.field == "n"
    assert f"expected at most {MOST_TENSOR_NBYTES} bytes" in str(refusal.value)


# ------------------------------------------------------------------ starting


def test_what_cannot_be_done_is_refused_at_the_start() -> None:
    model, tokenizer = model_for("qwen_vl"), tokenizer_for("qwen_vl")
    (layout,) = model.frontend.image_layouts

    def refusal(**changes: Any) -> str:
        layouts = (replace(layout, **changes),)
        frontend = replace(model.frontend, image_layouts=layouts)
        with pytest.raises(StartRefused) as refused:
            load_images(replace(model, frontend=frontend), None, tokenizer)
        return str(refused.value)

    at = "model.frontend.image_layouts"
    assert refusal(kind=ImageKind.VIDEO) == f"{at}: found none of a STILL_IMAGE, expected one"
    assert refusal(patches_per_feature=9).startswith(f"{at}[0].patches_per_feature: found 9, expe")
    assert refusal(atomic=True).startswith(f"{at}[0].atomic: found true, expected false")
    assert layout.open is not None
    assert refusal(open=replace(layout.open, token_id=None)).startswith(f"{at}[0].open: found text")


def test_an_image_has_no_more_features_than_any_declaration_allows() -> None:
    model, tokenizer = model_for("muse"), tokenizer_for("muse")
    (layout,) = model.frontend.image_layouts
    short = replace(layout, longest_span=9)
    frontend = replace(model.frontend, image_layouts=(short,))
    images = load_images(
        replace(model, frontend=frontend), ChatTemplate(template_source("muse"), {}), tokenizer
    )
    assert images is not None
    (picture,) = images.pictures([source(uri(noise(300, 300)))])
    assert picture.features <= 9


def test_a_model_without_images_has_none() -> None:
    model = model_for("muse")
    assert load_images(replace(model, vision=None), None, tokenizer_for("muse")) is None


def test_an_unknown_family_or_a_tokenizer_without_its_markers_is_refused() -> None:
    assert images_named("none") is None
    with pytest.raises(UnknownSyntax, match="^--images: found 'cubist', expected none or one of"):
        images_named("cubist")
    with pytest.raises(UnknownSyntax, match="^--images: found a tokenizer without <|image_start|>"):
        with_images(text_frontend(), IMAGES["muse"], tokenizer_for("qwen_vl").markers)
