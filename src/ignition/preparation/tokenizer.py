"""The tokenizer and chat template of a checkpoint, in the form that a core carries.

A Hugging Face folder's tokenizer.json is taken byte for byte; a GGUF file's vocabulary is
converted (`gguf_tokenizer`).  Serving renders the template and encodes with the
`tokenizers` library; it needs nothing else from here.

Always: the asset opens in `tokenizers`, and the ids it names are tokens of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from tokenizers import Tokenizer

from ignition.preparation.gguf_tokenizer import ConvertedTokenizer, convert_tokenizer
from ignition.weights.checkpoint import (
    Checkpoint,
    CheckpointError,
    Kind,
    Settings,
    open_checkpoint,
)
from ignition.weights.folder import flattened, read_object

TOKENIZER: Final = "tokenizer.json"
CONFIG: Final = "tokenizer_config.json"
GENERATION: Final = "generation_config.json"
SPECIAL_TOKENS: Final = "special_tokens_map.json"
TEMPLATE: Final = "chat_template.jinja"
GGUF_TEMPLATE: Final = "tokenizer.chat_template"
NAMES: Final = (
    "bos_token",
    "eos_token",
    "unk_token",
    "pad_token",
    "sep_token",
    "cls_token",
    "mask_token",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SpecialToken:
    """A token with a part to play."""

    id: int
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenizerAsset:
    """What serving needs to turn messages into tokens and tokens into text.

    `special_names` are the texts that a template may use by name (`bos_token`, ...).
    """

    json: bytes
    template: str | None
    bos: SpecialToken | None
    eos: SpecialToken | None
    unk: SpecialToken | None
    pad: SpecialToken | None
    eos_token_ids: tuple[int, ...]
    adds_bos: bool
    special_names: Mapping[str, str]

    @property
    def vocabulary(self) -> int:
        """Ids of the tokenizer, added ones included."""
        return open_tokenizer(self.json, at=TOKENIZER).get_vocab_size()

    @property
    def added(self) -> dict[str, int]:
        """Ids of added tokens by their texts."""
        decoder = open_tokenizer(self.json, at=TOKENIZER).get_added_tokens_decoder()
        return {token.content: index for index, token in decoder.items()}


def tokenizer_of(checkpoint: Checkpoint) -> TokenizerAsset:
    """The checkpoint's own tokenizer and template."""
    match checkpoint.kind:
        case Kind.GGUF:
            return from_gguf(checkpoint.settings)
        case Kind.HUGGING_FACE:
            return from_folder(checkpoint)


def from_gguf(settings: Settings) -> TokenizerAsset:
    """Convert what a GGUF file says under `tokenizer`."""
    converted = convert_tokenizer(settings)
    open_tokenizer(converted.json, at="tokenizer.ggml")
    special = converted.special
    parts = {
        "bos_token": named(converted, special.bos),
        "eos_token": named(converted, special.eos),
        "unk_token": named(converted, special.unknown),
        "pad_token": named(converted, special.padding),
    }
    return TokenizerAsset(
        json=converted.json,
        template=settings.take(GGUF_TEMPLATE, str, default=None),
        bos=parts["bos_token"],
        eos=parts["eos_token"],
        unk=parts["unk_token"],
        pad=parts["pad_token"],
        eos_token_ids=special.ends,
        adds_bos=converted.adds_bos,
        special_names={name: token.text for name, token in parts.items() if token is not None},
    )


def named(converted: ConvertedTokenizer, index: int | None) -> SpecialToken | None:
    """A special token with its text."""
    if index is None:
        return None
    return SpecialToken(id=index, text=converted.vocabulary.texts[index])


def from_folder(checkpoint: Checkpoint) -> TokenizerAsset:
    """Read the tokenizer files of a Hugging Face folder."""
    declared = checkpoint.generation.take_one_or_many("eos_token_id", int, default=None)
    if declared is None:
        declared = checkpoint.settings.take_one_or_many("eos_token_id", int, default=())
    return from_files(checkpoint.path / TOKENIZER, declared)


def beside(path: Path, template: Path | None) -> TokenizerAsset:
    """A tokenizer file alone, with what lies beside it; a GGUF file brings its own.

    A template that is given wins over one that is found.
    """
    if path.suffix == ".gguf":
        asset = from_gguf(open_checkpoint(path).settings)
    else:
        said = dict(flattened(read_optional(path.with_name(GENERATION))))
        generation = Settings(said, origin=GENERATION)
        asset = from_files(path, generation.take_one_or_many("eos_token_id", int, default=()))
    if template is None:
        return asset
    return replace(asset, template=read_text(template))


def from_files(path: Path, ends: int | tuple[int, ...]) -> TokenizerAsset:
    """A tokenizer.json and what its folder says of it."""
    folder = path.parent
    content = read_tokenizer(path)
    tokenizer = open_tokenizer(content, at=path.name)
    config = read_optional(folder / CONFIG)
    names = special_names({**read_optional(folder / SPECIAL_TOKENS), **config})
    parts = {name: token_of(tokenizer, text) for name, text in names.items()}
    eos = parts.get("eos_token")
    return TokenizerAsset(
        json=content,
        template=read_template(folder, config),
        bos=parts.get("bos_token"),
        eos=eos,
        unk=parts.get("unk_token"),
        pad=parts.get("pad_token"),
        eos_token_ids=end_ids(ends, tokenizer, eos=eos),
        adds_bos=adds_bos(tokenizer, config, bos=parts.get("bos_token")),
        special_names=names,
    )


def read_tokenizer(path: Path) -> bytes:
    """The bytes of tokenizer.json."""
    try:
        return path.read_bytes()
    except OSError as error:
        raise CheckpointError(
            path.name,
            f"nothing readable ({error.strerror})",
            expected="the tokenizer in the form of the tokenizers library",
            remedy="fetch the file, or save it with transformers' AutoTokenizer",
        ) from None


def open_tokenizer(content: bytes, *, at: str) -> Tokenizer:
    """Open a tokenizer.json as serving will."""
    try:
        return Tokenizer.from_buffer(content)
    except ValueError as error:
        raise CheckpointError(
            at,
            f"a tokenizer that the tokenizers library refuses ({error})",
            expected="one that it opens",
            remedy="the file is damaged or needs a newer tokenizers library",
        ) from None


def read_optional(path: Path) -> dict[str, object]:
    """A JSON document that a folder may lack."""
    return read_object(path) if path.is_file() else {}


def special_names(config: Mapping[str, object]) -> dict[str, str]:
    """The texts of special tokens; each is written as a text or as an object."""
    names = {}
    for name in NAMES:
        value = config.get(name)
        text = value.get("content") if isinstance(value, dict) else value
        if isinstance(text, str):
            names[name] = text
        elif value is not None:
            raise misread(
                f"{CONFIG}: {name}", repr(value), expected="a text, or an object with one"
            )
    return names


def token_of(tokenizer: Tokenizer, text: str) -> SpecialToken | None:
    """The token of this text, if the vocabulary has it."""
    index = tokenizer.token_to_id(text)
    return None if index is None else SpecialToken(id=index, text=text)


def read_template(folder: Path, config: Mapping[str, object]) -> str | None:
    """The chat template: a file of its own, or the one in tokenizer_config.json."""
    if (folder / TEMPLATE).is_file():
        return read_text(folder / TEMPLATE)
    value = config.get("chat_template")
    if isinstance(value, list):
        value = default_template(value)
    if value is not None and not isinstance(value, str):
        raise misread(f"{CONFIG}: chat_template", repr(value), expected="a text")
    return value


def read_text(path: Path) -> str:
    """A template in a file of its own."""
    try:
        return path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise misread(path.name, str(error), expected="a readable template") from None


def default_template(named_templates: list[object]) -> object:
    """The template called "default" among several."""
    for entry in named_templates:
        if isinstance(entry, dict) and entry.get("name") == "default":
            return entry.get("template")
    raise misread(f"{CONFIG}: chat_template", "no default", expected='a template named "default"')


def end_ids(
    declared: int | tuple[int, ...], tokenizer: Tokenizer, *, eos: SpecialToken | None
) -> tuple[int, ...]:
    """The tokens that end generation: as declared for generation, and the tokenizer's own."""
    ids = declared if isinstance(declared, tuple) else (declared,)
    tokens = tokenizer.get_vocab_size()
    for index in ids:
        if not 0 <= index < tokens:
            raise misread("eos_token_id", index, expected=f"0 to {tokens - 1}: a token")
    return tuple(dict.fromkeys([*ids, *([eos.id] if eos else [])]))


def adds_bos(
    tokenizer: Tokenizer, config: Mapping[str, object], *, bos: SpecialToken | None
) -> bool:
    """Whether a plain prompt begins with the first token; some configurations say so."""
    declared = config.get("add_bos_token")
    if isinstance(declared, bool):
        return declared
    return bos is not None and tokenizer.encode("").ids[:1] == [bos.id]


def misread(at: str, found: object, *, expected: str) -> CheckpointError:
    """A tokenizer document that does not say what it should."""
    return CheckpointError(
        at, found, expected=expected, remedy="fetch the tokenizer files of this model again"
    )
