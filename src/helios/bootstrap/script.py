"""Scripts: what the models of requests "generate" on the scripted device, a line a request.

A line is a JSON object with one of `text` (tokenised by the core, its added tokens recognised),
`tokens` (ids) and `segments` (pieces of text, a plain one without added tokens); and, if wanted,
`delay_ms` a token, `group` (tokens that arrive at once), `fail_at` (the index of the token at
which execution fails) and `end`.  docs/scripted.md is the user's page.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Final, Literal

import msgspec

from helios.device.scripted import Line
from helios.frontend.text import Tokenizer
from helios.values import StartRefused

MOST_GROUP: Final = 64

Count = Annotated[int, msgspec.Meta(ge=0)]


class Segment(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A piece of text."""

    text: str
    plain: bool = False  # its spellings of added tokens stay text


class ScriptLine(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One line as it is written."""

    text: str | None = None
    tokens: tuple[Count, ...] | None = None
    segments: tuple[Segment, ...] | None = None
    delay_ms: Annotated[float, msgspec.Meta(ge=0)] = 0
    group: Annotated[int, msgspec.Meta(ge=1, le=MOST_GROUP)] = 1
    fail_at: Count | None = None
    end: Literal["eos", "length"] | None = None


DECODER: Final = msgspec.json.Decoder(ScriptLine)


def read_script(path: Path, tokenizer: Tokenizer, *, vocabulary: int) -> list[Line]:
    """Every line of a script, or a refusal that names the line and what is wrong with it."""
    lines = []
    for number, text in enumerate(path.read_text("utf-8").splitlines(), start=1):
        if not text.strip():
            continue
        at = f"{path}:{number}"
        try:
            written = DECODER.decode(text)
        except msgspec.DecodeError as error:
            raise StartRefused(f"{at}: {error}") from None
        lines.append(line_of(written, tokenizer, vocabulary=vocabulary, at=at))
    if not lines:
        raise StartRefused(f"{path}: found no line, expected one a request")
    return lines


def line_of(written: ScriptLine, tokenizer: Tokenizer, *, vocabulary: int, at: str) -> Line:
    """A line in tokens."""
    given = [name for name in ("text", "tokens", "segments") if getattr(written, name) is not None]
    if len(given) != 1:
        raise StartRefused(
            f"{at}: found {' and '.join(given) or 'neither'}, expected one of text, tokens and "
            "segments"
        )
    tokens = tokens_of(written, tokenizer)
    for place, token in enumerate(tokens):
        if token >= vocabulary:
            raise StartRefused(
                f"{at}: tokens[{place}]: found {token}, expected an id below {vocabulary}"
            )
    return Line(
        tokens=tokens,
        end=written.end or "eos",
        delay_ns=int(written.delay_ms * 1e6),
        group=written.group,
        fail_at=written.fail_at,
    )


def tokens_of(written: ScriptLine, tokenizer: Tokenizer) -> tuple[int, ...]:
    """The tokens that a line says in one of three ways."""
    if written.tokens is not None:
        return written.tokens
    segments = written.segments or (Segment(text=written.text or ""),)
    return tuple(
        token
        for segment in segments
        for token in (
            tokenizer.encode_plain(segment.text)
            if segment.plain
            else tokenizer.encode(segment.text)
        )
    )
