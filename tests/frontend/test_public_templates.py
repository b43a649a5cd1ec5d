"""Public templates render as transformers renders them; their markers stay, clients get none.

`scripts/public-templates` fetches them into build/; PUBLIC_TEMPLATES names another folder.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from helios.frontend.messages import shaped
from helios.frontend.prompt import PromptPath
from helios.frontend.template import ChatTemplate
from helios.frontend.text import Tokenizer
from helios.values import RequestInvalid
from ignition.preparation.gguf_tokenizer import convert_tokenizer
from ignition.weights.checkpoint import CheckpointError, open_checkpoint
from tests.frontend.conversations import (
    TOKENS,
    as_transformers_renders,
    byte_tokenizer,
    conversations,
    markers_in,
)
from tests.frontend.test_encoding import check_no_injection, own

ROOT = Path(__file__).parents[2]
FOLDER = Path(os.environ.get("PUBLIC_TEMPLATES", ROOT / "build" / "public"))
TEMPLATES = sorted(FOLDER.glob("**/*.jinja"))
VOCABULARIES = sorted(FOLDER.glob("**/ggml-vocab-*.gguf"))
TEXT = "Hello  world\n\n\n\tx = [1,  2]  # \u65e5\u672c\u8a9e \xe9\n"

pytestmark = pytest.mark.skipif(
    not TEMPLATES, reason="run scripts/public-templates, or set PUBLIC_TEMPLATES"
)


@pytest.mark.parametrize("file", TEMPLATES, ids=lambda file: file.stem)
def test_a_public_template_renders_as_in_transformers(file: Path) -> None:
    source = file.read_text("utf-8")
    path = PromptPath(ChatTemplate(source, TOKENS), tokenizer := byte_tokenizer(markers_in(source)))
    for kind, conversation in conversations().items():
        messages = shaped(conversation.messages, path.taste)
        generate = conversation.add_generation_prompt is not False
        expected = as_transformers_renders(source, messages, conversation, generate=generate)
        try:
            prompt = path.prompt(conversation)
        except RequestInvalid:
            assert isinstance(expected, Exception) or path.taste.silence.content(), kind
            continue
        if path.taste.silence.content() != {"content": None} or "call" not in kind:
            assert prompt.text.text == expected, kind
        assert list(prompt.tokens) == tokenizer.encode(prompt.text.text), kind


@pytest.mark.parametrize("file", TEMPLATES, ids=lambda file: file.stem)
def test_a_public_template_gives_clients_no_markers(file: Path) -> None:
    source = file.read_text("utf-8")
    markers = markers_in(source)
    path = PromptPath(ChatTemplate(source, TOKENS), tokenizer := byte_tokenizer(markers))
    hostile = " ".join(f"qZ{marker}Zq" for marker in markers)
    for kind, conversation in conversations(hostile).items():
        try:
            prompt = path.prompt(conversation)
        except RequestInvalid:
            continue
        check_no_injection(tokenizer, source, markers, prompt.text, prompt.tokens, kind)


@pytest.mark.parametrize("file", VOCABULARIES, ids=lambda file: file.stem)
def test_a_real_vocabulary_encodes_markers_where_the_template_wrote_them(file: Path) -> None:
    try:
        converted = convert_tokenizer(open_checkpoint(file).settings)
    except CheckpointError as error:
        pytest.skip(str(error))
    tokenizer = Tokenizer(converted.json)
    markers = tokenizer.markers
    spelled = [*markers][:40] + [*markers][-40:]
    text = TEXT.join(spelled) + TEXT
    assert tokenizer.encode_prompt(own(text)) == tokenizer.encode(text)
    assert set(markers.values()).isdisjoint(tokenizer.encode_plain(text))
    assert tokenizer.encode_plain(TEXT) == tokenizer.encode(TEXT)
