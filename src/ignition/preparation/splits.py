r"""How text is cut before byte-pair merging, for each `tokenizer.ggml.pre` of GGUF files.

A GGUF file names its cutting rules; the name's meaning is fixed by llama.cpp, and this
table says the same in the regular expressions of `tokenizers` (Oniguruma).  Patterns
apply in turn, each inside the pieces that the ones before left; matches and the text
between matches are pieces.  Two habits of llama.cpp are kept on purpose: categories of
letters are not told apart, and a range of characters never includes white space.

Not kept: llama.cpp 11434 knows Unicode 15.1 and Oniguruma 16, so characters that are newer
are cut as `tokenizers` cuts them, which is also what the model's own tokenizer does.

Always: a name stands for one rule, and a name that is not here is refused by who reads it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Final


class Alphabet(Enum):
    """What a vocabulary's tokens are spelt in."""

    BYTES = "bytes"  # every byte of the text is one of 256 printable characters
    TEXT = "text"  # the text itself, blanks as U+2581, unknown characters as <0xXX>


@dataclass(frozen=True, slots=True, kw_only=True)
class Splitting:
    """What one name of `tokenizer.ggml.pre` stands for."""

    patterns: tuple[str, ...]
    alphabet: Alphabet = Alphabet.BYTES
    takes_whole_pieces: bool = False  # a piece that is a token is not merged from parts
    adds_bos: bool = False  # unless the file says otherwise


CONTRACTIONS: Final = r"'(?:[sS]|[tT]|[rR][eE]|[vV][eE]|[mM]|[lL][lL]|[dD])"
BLANKS: Final = r"\s+(?!\S)|\s+"
LINES: Final = r"[^\n]+|\n+"

GPT2: Final = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|" + BLANKS

KANA_AND_HAN: Final = r"\x{4E00}-\x{9FA5}\x{3040}-\x{309F}\x{30A0}-\x{30FF}"
ASCII_MARKS: Final = r"!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~"
MARKED_WORDS: Final = rf"[{ASCII_MARKS}][A-Za-z]+|[^\r\n\p{{L}}\p{{P}}\p{{S}}]?[\p{{L}}\p{{M}}]+"


def words(*, digits: str, letters: str = r"\p{L}", contractions: str = CONTRACTIONS) -> str:
    """The rule that most models since 2023 share; they differ in digits and letters."""
    return "|".join(
        [
            *([contractions] if contractions else []),
            rf"[^\r\n\p{{L}}\p{{N}}]?[{letters}]+",
            digits,
            rf" ?[^\s{letters}\p{{N}}]+[\r\n]*",
            r"\s*[\r\n]+",
            BLANKS,
        ]
    )


def cased_words(*, digits: str, letters: str, contractions: str) -> str:
    """Words cut before an upper-case letter that follows a lower-case one (ASCII only)."""
    start, end = rf"[{letters}&&[^a-z]]", rf"[{letters}&&[^A-Z]]"
    ending = f"(?:{contractions})?" if contractions else ""
    return "|".join(
        [
            rf"[^\r\n\p{{L}}\p{{N}}]?{start}*{end}+{ending}",
            rf"[^\r\n\p{{L}}\p{{N}}]?{start}+{end}*{ending}",
            digits,
            r" ?[^\s\p{L}\p{N}]+[\r\n/]*",
            r"\s*[\r\n]+",
            BLANKS,
        ]
    )


def marked_words(*, after_marks: str, lines: str) -> str:
    """Words that a single ASCII mark may open, marks and letters kept apart."""
    return rf"{MARKED_WORDS}| ?[\p{{P}}\p{{S}}]+{after_marks}|{lines}|{BLANKS}"


def mixed_letters(*, digits: str) -> str:
    """Upper-case, lower-case and uncased letters alike, with marks; contractions stick."""
    return "|".join(
        [
            rf"[^\r\n\p{{L}}\p{{N}}]?[\p{{L}}\p{{M}}]+(?:{CONTRACTIONS})?",
            digits,
            r" ?[^\s\p{L}\p{N}]+[\r\n/]*",
            r"\s*[\r\n]+",
            BLANKS,
        ]
    )


# Cased letters of Unicode 12, as DeepSeek LLM's tokenizer lists them.
CASED_LETTERS: Final = (
    r"A-Za-z\x{B5}\x{C0}-\x{D6}\x{D8}-\x{F6}\x{F8}-\x{1BA}\x{1BC}-\x{1BF}\x{1C4}-\x{293}"
    r"\x{295}-\x{2AF}\x{370}-\x{373}\x{376}\x{377}\x{37B}-\x{37D}\x{37F}\x{386}"
    r"\x{388}-\x{38A}\x{38C}\x{38E}-\x{3A1}\x{3A3}-\x{3F5}\x{3F7}-\x{481}\x{48A}-\x{52F}"
    r"\x{531}-\x{556}\x{10A0}-\x{10C5}\x{13A0}-\x{13F5}\x{13F8}-\x{13FD}\x{1C90}-\x{1CBA}"
    r"\x{1CBD}-\x{1CBF}\x{1D00}-\x{1D2B}\x{1D6B}-\x{1D77}\x{1D79}-\x{1D9A}"
    r"\x{1E00}-\x{1F15}\x{1F18}-\x{1F1D}\x{1F20}-\x{1F45}\x{1F48}-\x{1F4D}"
    r"\x{1F50}-\x{1F57}\x{1F59}\x{1F5B}\x{1F5D}\x{1F5F}-\x{1F7D}\x{1F80}-\x{1FB4}"
    r"\x{1FB6}-\x{1FBC}\x{1FBE}\x{1FC2}-\x{1FC4}\x{1FC6}-\x{1FCC}\x{1FD0}-\x{1FD3}"
    r"\x{1FD6}-\x{1FDB}\x{1FE0}-\x{1FEC}\x{1FF2}-\x{1FF4}\x{1FF6}-\x{1FFC}\x{2102}\x{2107}"
    r"\x{210A}-\x{2113}\x{2115}\x{2119}-\x{211D}\x{2124}\x{2126}\x{2128}\x{212A}-\x{212D}"
    r"\x{212F}-\x{2134}\x{2139}\x{213C}-\x{213F}\x{2145}-\x{2149}\x{214E}\x{2183}\x{2184}"
    r"\x{2C00}-\x{2C7B}\x{2C7E}-\x{2CE4}\x{2CEB}-\x{2CEE}\x{2CF2}\x{2CF3}\x{A640}-\x{A66D}"
    r"\x{A680}-\x{A69B}\x{A722}-\x{A76F}\x{A771}-\x{A787}\x{A78B}-\x{A78E}"
    r"\x{AB70}-\x{ABBF}\x{FB00}-\x{FB06}\x{FB13}-\x{FB17}\x{FF21}-\x{FF3A}"
    r"\x{FF41}-\x{FF5A}\x{10400}-\x{1044F}\x{104B0}-\x{104D3}\x{104D8}-\x{104FB}"
    r"\x{10C80}-\x{10CB2}\x{10CC0}-\x{10CF2}\x{118A0}-\x{118DF}\x{1E900}-\x{1E943}"
)
EASTERN_DEEPSEEK: Final = r"[[\x{800}-\x{9FA5}\x{AC00}-\x{D7FF}]&&\S]+"

# Digits in threes counted from the right.  llama.cpp leaves what stands before the digits
# in one piece with the first of them, and later patterns part them again.
THREES_FROM_THE_RIGHT: Final = r"\P{N}*+(?:\p{N}{1,3}(?=(?:\p{N}{3})*(?!\p{N}))|\z)"
EASTERN_AFMOE: Final = (
    r"[\x{4E00}-\x{9FFF}\x{3400}-\x{4DBF}\x{8C48}-\x{FAFF}\x{3040}-\x{309F}\x{30A0}-\x{30FF}"
    r"\x{FF65}-\x{FF9F}\x{2F00}-\x{2FDF}\x{E40}-\x{E7F}\x{E80}-\x{EFF}\x{1780}-\x{17FF}"
    r"\x{1000}-\x{109F}\x{AA60}-\x{AA7F}\x{A9E0}-\x{A9FF}\x{AC00}-\x{D7AF}\x{1100}-\x{11FF}]+"
)
EASTERN_YOUTU: Final = (
    r"[\x{AC00}-\x{D7A3}\x{3131}-\x{318E}]+"
    r"|[\x{FF01}\x{2026}\x{201C}\x{201D}\x{2018}\x{2019}\x{2014}\x{FF1A}\x{FF1B}\x{FF0C}"
    r"\x{3001}-\x{303F}\x{FE30}-\x{FE4F}]+"
    r"|[\x{3105}-\x{312F}]+"
    rf"|[{KANA_AND_HAN}]+"
)
HAN: Final = (
    r"\x{4E00}-\x{9FFF}\x{3400}-\x{4DBF}\x{20000}-\x{2A6DF}\x{2A700}-\x{2EBEF}"
    r"\x{F900}-\x{FAFF}\x{2F800}-\x{2FA1F}"
)
KIMI_K2: Final = "|".join(
    [
        rf"[{HAN}]+",
        rf"[^\r\n\p{{L}}\p{{N}}]?[\p{{L}}&&[^{HAN}]]+(?:{CONTRACTIONS})?",
        r"\p{N}{1,3}",
        r" ?[^\s\p{L}\p{N}]+[\r\n]*",
        r"\s*[\r\n]+",
        BLANKS,
    ]
)
SENTENCE_PARTS: Final = r" ?[^(\s|.,!?\x{2026}\x{3002}\x{FF0C}\x{3001}\x{964}\x{6D4}\x{60C})]+"
BAILING: Final = "|".join(
    [
        r"'(?:[sSdDmMtT]|[lL][lL]|[vV][eE]|[rR][eE])",
        r"[^\r\n\p{L}\p{N}]?\p{L}+",
        r"\p{N}",
        r" ?[^\s\p{L}\p{N}]+[\r\n]*",
        r"\s*[\r\n]",
        BLANKS,
    ]
)
SEED_CODER: Final = "|".join(
    [
        CONTRACTIONS,
        r"[^\r\n\p{L}\p{N}]?\p{L}+",
        r"\p{N}",
        r" ?[^\s\p{L}\p{N}\r\n]+",
        r"\s*[\r\n]+",
        BLANKS,
    ]
)
EXAONE_MOE: Final = "|".join(
    [
        CONTRACTIONS,
        r"[^\r\n\p{L}\p{N}]?(?:\p{L}\p{M}*(?: \p{L}\p{M}*)*)+",
        r"\p{N}",
        r" ?[^\s\p{L}\p{N}]+[\r\n/]?",
        r"\s*[\r\n]",
        BLANKS,
    ]
)
HALVED_BLANKS: Final = "|".join(
    [*(rf"\s{{{2**power}}}(?!\S)" for power in range(9, 1, -1)), r"\s{1,2}(?!\S)", r"\s"]
)
DEEPSEEK_V3: Final = (
    r"\p{N}{1,3}",
    rf"[{KANA_AND_HAN}]+",
    marked_words(after_marks=r"[\r\n]*", lines=r"\s*[\r\n]+"),
)

RULES: Final[tuple[tuple[str, Splitting], ...]] = (
    (
        "default",
        Splitting(patterns=(r"[\p{P}$+<=>^~|]+", GPT2, r"\p{N}+", r"[0-9][0-9][0-9]")),
    ),
    (
        "gpt-2 phi-2 gigachat a.x-4.0 mellum mpt olmo jais exaone4 trillion granite-docling",
        Splitting(patterns=(GPT2,)),
    ),
    (
        "starcoder refact command-r smollm codeshell exaone minerva-7b mellum2",
        Splitting(patterns=(r"\p{N}", GPT2)),
    ),
    ("falcon", Splitting(patterns=(r"[\p{P}$+<=>^~|`]+", GPT2, r"[0-9][0-9][0-9]"))),
    (
        "llama3 llama-v3 llama-bpe falcon3 falcon-h1 pixtral midm-2.0 lfm2",
        Splitting(patterns=(words(digits=r"\p{N}{1,3}"),), takes_whole_pieces=True, adds_bos=True),
    ),
    ("dbrx smaug-bpe chatglm-bpe", Splitting(patterns=(words(digits=r"\p{N}{1,3}"),))),
    (
        "glm4 glm5",
        Splitting(patterns=(words(digits=r"\p{N}{1,3}"),), takes_whole_pieces=True),
    ),
    (
        "minicpm5",
        Splitting(patterns=(r"\p{N}{1,3}", words(digits=r"\p{N}+")), takes_whole_pieces=True),
    ),
    (
        "qwen2 deepseek-r1-qwen kormo megrez stablelm2 hunyuan solar-open grok-2",
        Splitting(patterns=(words(digits=r"\p{N}"),)),
    ),
    ("qwen35", Splitting(patterns=(words(digits=r"\p{N}", letters=r"\p{L}\p{M}"),))),
    ("ufakzeka", Splitting(patterns=(words(digits=r"\p{N}", contractions=""),))),
    ("laguna", Splitting(patterns=(LINES, words(digits=r"\p{N}")))),
    (
        "deepseek-llm",
        Splitting(
            patterns=(
                r"[\r\n]",
                rf"\s?[{CASED_LETTERS}]+",
                r"\s?[!-/:-~\x{FF01}-\x{FF0F}\x{FF1A}-\x{FF5E}\x{2018}-\x{201F}\x{3001}\x{3002}]+",
                r"\s+\z",
                EASTERN_DEEPSEEK,
                r"\p{N}+",
            )
        ),
    ),
    (
        "deepseek-coder",
        Splitting(patterns=(r"[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+", EASTERN_DEEPSEEK, r"\p{N}")),
    ),
    ("deepseek-v3 hunyuan-dense joyai-llm hy_v4", Splitting(patterns=DEEPSEEK_V3)),
    (
        "spark2_5",
        Splitting(
            patterns=(
                *DEEPSEEK_V3[:2],
                marked_words(after_marks="", lines=r"[\r\n]"),
                r"\p{N}",
            )
        ),
    ),
    (
        "youtu",
        Splitting(
            patterns=(EASTERN_YOUTU, mixed_letters(digits=r"\p{N}")), takes_whole_pieces=True
        ),
    ),
    ("poro-chat bloom gpt3-finnish", Splitting(patterns=(SENTENCE_PARTS,))),
    ("viking", Splitting(patterns=(SENTENCE_PARTS, r"\p{N}"))),
    (
        "tekken",
        Splitting(
            patterns=(cased_words(digits=r"\p{N}", letters=r"\p{L}", contractions=""),),
            takes_whole_pieces=True,
            adds_bos=True,
        ),
    ),
    (
        "gpt-4o llama4 kanana2 talkie minimax-m2",
        Splitting(
            patterns=(
                cased_words(digits=r"\p{N}{1,3}", letters=r"\p{L}", contractions=CONTRACTIONS),
            )
        ),
    ),
    (
        "chameleon",
        Splitting(
            patterns=(
                r"<sentinel:[0-9]+>",
                r"IMGIMG[A-I]{1,4}Z",
                r"[\t\n]|    |  ",
                r"\p{N}",
                r"[\p{P}!-/:-@\[-`{-~]",
                GPT2,
            ),
            adds_bos=True,
        ),
    ),
    (
        "tiny_aya cohere2moe",
        Splitting(patterns=(THREES_FROM_THE_RIGHT, mixed_letters(digits=r"\p{N}{1,3}"))),
    ),
    (
        "afmoe",
        Splitting(patterns=(THREES_FROM_THE_RIGHT, EASTERN_AFMOE, DEEPSEEK_V3[2])),
    ),
    ("kimi-k2", Splitting(patterns=(KIMI_K2,))),
    ("superbpe", Splitting(patterns=(r"\p{N}+", r"(?=(?:[0-9]{3})+(?![0-9]))"))),
    ("bailingmoe bailingmoe2 llada-moe", Splitting(patterns=(BAILING,))),
    ("seed-coder", Splitting(patterns=(SEED_CODER,))),
    ("exaone-moe", Splitting(patterns=(EXAONE_MOE,))),
    (
        "jais-2",
        Splitting(patterns=(words(digits=r"\p{N}{1,3}").replace(BLANKS, HALVED_BLANKS),)),
    ),
    ("gemma4", Splitting(patterns=(LINES,), alphabet=Alphabet.TEXT, adds_bos=True)),
    ("sarvam-moe", Splitting(patterns=(LINES,), alphabet=Alphabet.TEXT)),
)


def named_splittings() -> Iterator[tuple[str, Splitting]]:
    """Each name with its rule."""
    for names, splitting in RULES:
        for name in names.split():
            yield name, splitting


SPLITTINGS: Final[Mapping[str, Splitting]] = dict(named_splittings())
