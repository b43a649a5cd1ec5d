"""The tokenizer asset of a GGUF file and of a Hugging Face folder."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import gguf
import pytest
from tokenizers import Tokenizer
from weights.written import write_folder, write_gguf, write_json

from ignition.preparation.gguf_tokenizer import convert_tokenizer
from ignition.preparation.tokenizer import SpecialToken, TokenizerAsset, tokenizer_of
from ignition.weights.checkpoint import CheckpointError, open_checkpoint
from preparation.vocabularies import CONTROL, byte_level

AGAIN = "fetch the tokenizer files of this model again"
MARKS = [("<b>", CONTROL), ("<e>", CONTROL), ("<t>", CONTROL), ("<p>", CONTROL)]
BOS, EOS, TURN, PAD = 256, 257, 258, 259


def folder_with(
    path: Path,
    *,
    config: Mapping[str, object] | None = None,
    model: Mapping[str, object] | None = None,
    adds: bool = False,
) -> Path:
    """A folder with a small tokenizer, whose own template adds the first token or not."""
    folder = write_folder(path, config={"model_type": "llama", **(model or {})})
    settings = byte_level(more=MARKS, pre="gpt-2", bos_token_id=BOS, add_bos_token=adds)
    (folder / "tokenizer.json").write_bytes(convert_tokenizer(settings).json)
    write_json(folder / "tokenizer_config.json", config or {})
    return folder


def asset_of(path: Path) -> TokenizerAsset:
    return tokenizer_of(open_checkpoint(path))


def refusal_of(path: Path) -> str:
    checkpoint = open_checkpoint(path)
    with pytest.raises(CheckpointError) as refusal:
        tokenizer_of(checkpoint)
    return str(refusal.value)


def test_a_gguf_file_gives_its_converted_tokenizer_and_template(tmp_path: Path) -> None:
    settings = byte_level(merges=[("a", "b")], more=MARKS)
    texts = settings.take_list("tokenizer.ggml.tokens", str)
    kinds = settings.take_list("tokenizer.ggml.token_type", int)
    path = write_gguf(
        tmp_path / "m.gguf",
        settings={
            gguf.Keys.Tokenizer.MODEL: "gpt2",
            gguf.Keys.Tokenizer.PRE: "qwen2",
            gguf.Keys.Tokenizer.LIST: list(texts),
            gguf.Keys.Tokenizer.TOKEN_TYPE: list(kinds),
            gguf.Keys.Tokenizer.MERGES: ["a b"],
            gguf.Keys.Tokenizer.BOS_ID: BOS + 1,
            gguf.Keys.Tokenizer.EOS_ID: EOS + 1,
            gguf.Keys.Tokenizer.EOT_ID: TURN + 1,
            gguf.Keys.Tokenizer.PAD_ID: PAD + 1,
            gguf.Keys.Tokenizer.CHAT_TEMPLATE: "{{ messages }}",
            gguf.Keys.Tokenizer.ADD_PREFIX: False,
        },
    )
    checkpoint = open_checkpoint(path)
    asset = tokenizer_of(checkpoint)
    assert asset.template == "{{ messages }}"
    assert asset.bos == SpecialToken(id=257, text="<b>")
    assert asset.eos == SpecialToken(id=258, text="<e>")
    assert asset.pad == SpecialToken(id=260, text="<p>")
    assert asset.unk is None
    assert asset.eos_token_ids == (258, 259)
    assert not asset.adds_bos
    assert asset.special_names == {"bos_token": "<b>", "eos_token": "<e>", "pad_token": "<p>"}
    assert Tokenizer.from_buffer(asset.json).encode("ab<e>").tokens == ["ab", "<e>"]
    assert checkpoint.settings.untaken("tokenizer.") == ()


def test_a_folders_tokenizer_is_taken_byte_for_byte(tmp_path: Path) -> None:
    folder = folder_with(tmp_path)
    assert asset_of(folder).json == (folder / "tokenizer.json").read_bytes()


def test_special_tokens_are_named_by_the_tokenizers_configuration(tmp_path: Path) -> None:
    config = {
        "bos_token": "<b>",
        "eos_token": {"content": "<e>", "lstrip": False},
        "pad_token": None,
        "unk_token": "<nowhere>",
    }
    asset = asset_of(folder_with(tmp_path, config=config))
    assert asset.bos == SpecialToken(id=BOS, text="<b>")
    assert asset.eos == SpecialToken(id=EOS, text="<e>")
    assert asset.pad is None
    assert asset.unk is None
    assert asset.special_names == {
        "bos_token": "<b>",
        "eos_token": "<e>",
        "unk_token": "<nowhere>",
    }


def test_special_tokens_may_have_a_file_of_their_own(tmp_path: Path) -> None:
    folder = folder_with(tmp_path, config={"eos_token": "<e>"})
    write_json(folder / "special_tokens_map.json", {"bos_token": "<b>", "eos_token": "<t>"})
    asset = asset_of(folder)
    assert asset.special_names == {"bos_token": "<b>", "eos_token": "<e>"}


def test_a_folder_may_have_a_tokenizer_and_nothing_else(tmp_path: Path) -> None:
    folder = folder_with(tmp_path)
    (folder / "tokenizer_config.json").unlink()
    asset = asset_of(folder)
    assert (asset.template, asset.bos, asset.eos_token_ids) == (None, None, ())
    assert not asset.adds_bos


def test_the_template_in_a_file_of_its_own_wins(tmp_path: Path) -> None:
    folder = folder_with(tmp_path, config={"chat_template": "old"})
    assert asset_of(folder).template == "old"
    (folder / "chat_template.jinja").write_text("n\u00e9w\n", "utf-8")
    assert asset_of(folder).template == "n\u00e9w\n"


def test_the_default_of_several_templates_is_taken(tmp_path: Path) -> None:
    named = [{"name": "tool_use", "template": "t"}, {"name": "default", "template": "d"}]
    assert asset_of(folder_with(tmp_path, config={"chat_template": named})).template == "d"


@pytest.mark.parametrize(
    ("model", "generation", "ids"),
    [
        ({"eos_token_id": TURN}, None, (TURN, EOS)),
        ({"eos_token_id": [TURN, EOS]}, None, (TURN, EOS)),
        ({"eos_token_id": TURN}, {"eos_token_id": PAD}, (PAD, EOS)),
        ({"eos_token_id": TURN}, {"eos_token_id": [EOS, PAD]}, (EOS, PAD)),
        ({"eos_token_id": TURN}, {"eos_token_id": None}, (TURN, EOS)),
        ({"eos_token_id": TURN}, {}, (TURN, EOS)),
        ({}, None, (EOS,)),
    ],
)
def test_generation_ends_where_it_is_declared_and_at_the_tokenizers_end(
    tmp_path: Path,
    model: dict[str, object],
    generation: dict[str, object] | None,
    ids: tuple[int, ...],
) -> None:
    folder = folder_with(tmp_path, config={"eos_token": "<e>"}, model=model)
    if generation is not None:
        write_json(folder / "generation_config.json", generation)
    assert asset_of(folder).eos_token_ids == ids


@pytest.mark.parametrize(
    ("adds", "declared", "expected"),
    [
        (True, {}, True),
        (False, {}, False),
        (True, {"add_bos_token": False}, False),
        (False, {"add_bos_token": True}, True),
        (True, {"bos_token": None}, False),
    ],
)
def test_the_first_token_is_added_as_declared_or_as_the_tokenizer_does(
    tmp_path: Path, adds: bool, declared: dict[str, object], expected: bool
) -> None:
    config = {"bos_token": "<b>", **declared}
    assert asset_of(folder_with(tmp_path, config=config, adds=adds)).adds_bos is expected


def test_a_folder_without_tokenizer_is_refused(tmp_path: Path) -> None:
    assert refusal_of(write_folder(tmp_path)) == (
        "tokenizer.json: found nothing readable (No such file or directory), "
        "expected the tokenizer in the form of the tokenizers library; "
        "fetch the file, or save it with transformers' AutoTokenizer"
    )


@pytest.mark.parametrize("content", [b"{}", b"", b"\xff"])
def test_a_tokenizer_that_does_not_open_is_refused(tmp_path: Path, content: bytes) -> None:
    folder = folder_with(tmp_path)
    (folder / "tokenizer.json").write_bytes(content)
    sentence = refusal_of(folder)
    assert sentence.startswith(
        "tokenizer.json: found a tokenizer that the tokenizers library refuses ("
    )
    assert sentence.endswith(
        "), expected one that it opens; the file is damaged or needs a newer tokenizers library"
    )


@pytest.mark.parametrize(
    ("config", "sentence"),
    [
        (
            {"bos_token": 7},
            "tokenizer_config.json: bos_token: found 7, expected a text, or an object with one",
        ),
        (
            {"eos_token": {"text": "<e>"}},
            "tokenizer_config.json: eos_token: found {'text': '<e>'}, "
            "expected a text, or an object with one",
        ),
        ({"chat_template": 7}, "tokenizer_config.json: chat_template: found 7, expected a text"),
        (
            {"chat_template": [{"name": "tool_use", "template": "t"}]},
            "tokenizer_config.json: chat_template: found no default, "
            'expected a template named "default"',
        ),
    ],
)
def test_a_configuration_that_misspeaks_is_refused(
    tmp_path: Path, config: dict[str, object], sentence: str
) -> None:
    assert refusal_of(folder_with(tmp_path, config=config)) == f"{sentence}; {AGAIN}"


@pytest.mark.parametrize("index", [260, -1])
def test_an_end_that_is_no_token_is_refused(tmp_path: Path, index: int) -> None:
    folder = folder_with(tmp_path, model={"eos_token_id": [EOS, index]})
    assert refusal_of(folder) == (
        f"eos_token_id: found {index}, expected 0 to 259: a token; {AGAIN}"
    )


def test_a_template_that_is_no_text_is_refused(tmp_path: Path) -> None:
    folder = folder_with(tmp_path)
    (folder / "chat_template.jinja").write_bytes(b"\xff")
    assert refusal_of(folder) == (
        "chat_template.jinja: found 'utf-8' codec can't decode byte 0xff in position 0: invalid "
        f"start byte, expected a readable template; {AGAIN}"
    )
