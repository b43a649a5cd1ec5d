"""Images over HTTP: counted, laid out, reused for the same and no other, refused by name."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final
from unittest.mock import patch

import httpx
import pytest
from PIL import Image

from ignition.cli import parser
from tests.frontend.conversations import byte_tokenizer_file
from tests.frontend.images.pictures import (
    MARKERS,
    TEXT_ONLY,
    data_uri,
    noise,
    shown,
    template_source,
    text,
    uri,
)
from tests.serving import RealServer

PATH: Final = "/v1/chat/completions"
OPTIONS: Final = ("--max-active", "4", "--cache-memory", "64M")
QWEN: Final = ("<|vision_start|>", "<|image_pad|>", "<|vision_end|>")
RED, BLUE = uri(noise(600, 400, seed=1)), uri(noise(600, 400, seed=2))
FEATURES: Final = 294  # of either: 21 by 14


def serve(folder: Path, template: str, *, images: str) -> Iterator[httpx.Client]:
    """A scripted core that takes such images, served."""
    tokenizer, core, script = (folder / name for name in ("tokenizer.json", "x.core", "x.jsonl"))
    end = "<|im_end|>"
    tokenizer.write_text(json.dumps(byte_tokenizer_file((*MARKERS, *QWEN))))
    (folder / "tokenizer_config.json").write_text(json.dumps({"eos_token": end}))
    (folder / "x.jinja").write_text(template)
    script.write_text(json.dumps({"text": "It is noise.", "end": "eos"}))
    command = ["scripted", "--tokenizer", str(tokenizer), "--template", str(folder / "x.jinja")]
    with patch.dict("os.environ", {"HELIOS_HOME": str(folder)}):
        said = parser().parse_args([*command, "--images", images, "--out", str(core)])
        said.run(said)
    server = RealServer("--script", str(script), *OPTIONS, core=core, home=folder)
    try:
        server.wait_until_ready()
        with httpx.Client(base_url=server.origin, timeout=60) as client:
            yield client
    finally:
        server.stop()


@pytest.fixture(scope="module")
def seeing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    yield from serve(
        tmp_path_factory.mktemp("seeing"), template_source("qwen_vl"), images="qwen_vl"
    )


@pytest.fixture(scope="module")
def blind(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    yield from serve(tmp_path_factory.mktemp("blind"), TEXT_ONLY, images="none")


def body(*parts: Any, **more: Any) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": list(parts)}], **more}


def usage(client: httpx.Client, *parts: Any, **more: Any) -> tuple[int, int]:
    """Prompt tokens, and how many of them were computed already."""
    answer = client.post(PATH, json=body(*parts, **more))
    assert answer.status_code == 200, answer.text
    whole = answer.json()
    assert whole["choices"][0]["message"]["content"] == "It is noise."
    found = whole["usage"]
    return found["prompt_tokens"], found["prompt_tokens_details"]["cached_tokens"]


def refusal(client: httpx.Client, *parts: Any, **more: Any) -> dict[str, Any]:
    answer = client.post(PATH, json=body(*parts, **more))
    assert answer.status_code == 400, answer.text
    error: dict[str, Any] = answer.json()["error"]
    return error


def test_usage_counts_a_token_for_each_feature(seeing: httpx.Client) -> None:
    bare, _ = usage(seeing, text("What is it?"))
    one, _ = usage(seeing, shown(RED), text("What is it?"))
    two, _ = usage(seeing, shown(RED), shown(BLUE), text("What is it?"))
    assert one - bare == FEATURES + 2  # and its two markers
    assert two - one == FEATURES + 2


@pytest.mark.clause("AH-15")
def test_the_same_image_is_reused_and_another_is_not(seeing: httpx.Client) -> None:
    salt = {"cache_salt": "reuse"}
    whole, first = usage(seeing, shown(RED), text("What is it?"), **salt)
    _, again = usage(seeing, shown(RED), text("What is it?"), **salt)
    _, other = usage(seeing, shown(BLUE), text("What is it?"), **salt)
    _, longer = usage(seeing, shown(RED), text("What is it? Say more."), **salt)
    assert first == 0
    assert again == whole - 1
    assert other < whole - FEATURES - len("What is it?")
    assert FEATURES < longer < whole


def test_the_same_pixels_in_another_format_are_the_same_image(seeing: httpx.Client) -> None:
    salt = {"cache_salt": "format"}
    whole, _ = usage(seeing, shown(RED), text("x"), **salt)
    lossless = uri(noise(600, 400, seed=1), "WEBP", lossless=True)
    assert usage(seeing, shown(lossless), text("x"), **salt) == (whole, whole - 1)


def test_several_choices_and_a_stream_see_the_image(seeing: httpx.Client) -> None:
    asked = body(shown(RED), text("x"), n=3)
    answer = seeing.post(PATH, json=asked).json()
    assert [choice["message"]["content"] for choice in answer["choices"]] == ["It is noise."] * 3
    with seeing.stream("POST", PATH, json={**asked, "stream": True}) as streamed:
        assert streamed.status_code == 200
        assert streamed.read().endswith(b"data: [DONE]\n\n")


def test_an_image_may_come_in_any_message_and_without_a_type(seeing: httpx.Client) -> None:
    messages = [
        {"role": "user", "content": [{"image_url": {"url": RED}}, text("x")]},
        {"role": "assistant", "content": "y"},
        {"role": "user", "content": [text("z"), {"type": "input_image", "image_url": BLUE}]},
    ]
    answer = seeing.post(PATH, json={"messages": messages})
    assert answer.json()["usage"]["prompt_tokens"] > 2 * FEATURES


REFUSED: list[tuple[Any, str]] = [
    (shown("https://example.org/a.png"), "messages[0].content[1].image_url.url"),
    (shown("data:image/png,iVBORw0KGgoAAAANSUhEUg"), "messages[0].content[1].image_url.url"),
    (shown("data:image/png;base64,@@@"), "messages[0].content[1].image_url.url"),
    (shown(data_uri(b"not an image")), "messages[0].content[1].image_url.url"),
    (shown(uri(noise(64, 64))[:9000]), "messages[0].content[1].image_url.url"),
    (shown(uri(noise(1000, 4))), "messages[0].content[1].image_url.url"),
    ({"type": "image_url", "image_url": "x"}, "messages[0].content[1].image_url"),
    ({"type": "image_url"}, "messages[0].content[1]"),
    ({"type": "text", "text": "x", "image_url": RED}, "messages[0].content[1].image_url"),
    ({"type": "video_url", "video_url": {"url": "x"}}, "messages[0].content[1].type"),
]


@pytest.mark.clause("TO-37")
@pytest.mark.parametrize(("part", "field"), REFUSED, ids=range(len(REFUSED)))
def test_a_bad_image_is_a_400_that_names_its_field(
    seeing: httpx.Client, part: Any, field: str
) -> None:
    error = refusal(seeing, text("x"), part)
    assert error["param"] == field
    assert error["message"].startswith(f"{field}: found ")


def test_images_that_fill_the_context_are_a_400(seeing: httpx.Client) -> None:
    plain = uri(Image.new("RGB", (600, 400)))
    error = refusal(seeing, *[shown(plain)] * 40)
    assert error["message"].endswith("expected fewer than the context of 8192")


@pytest.mark.parametrize(
    "part", [shown(RED), {"image_url": {"url": RED}}, {"type": "image", "image": RED}], ids=range(3)
)
def test_a_model_without_images_refuses_them_by_name(blind: httpx.Client, part: Any) -> None:
    error = refusal(blind, text("x"), part)
    assert error["param"].startswith("messages[0].content[1].")
    assert error["message"].endswith("expected text: this model takes no images")
    assert usage(blind, text("x"))[0] > 0
