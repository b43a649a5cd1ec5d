"""The worker's side: grammars compiled, one matcher a lane, masks filled while the device runs.

Masks are bits of token ids in 32-bit words, little endian, as wide as the contract says.  An end
of sequence is allowed where the grammar is satisfied and nowhere else; once nothing can follow,
only it is (G-03).  Ids beyond the tokenizer's own are never allowed.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, Final, Protocol

import msgspec

from helios.frontend.grammar.constraint import Constraint
from helios.frontend.grammar.limits import PARSER_LIMITS
from helios.values import StartRefused

if TYPE_CHECKING:  # loaded with the first grammar: a server without any starts without it
    from llguidance import LLMatcher

WORD_NBYTES: Final = 4
WORD_BITS: Final = 32


class Impossible(msgspec.Struct, frozen=True, kw_only=True):
    """A grammar that cannot go on: why."""

    why: str


class Matcher:
    """Where one lane's output stands in its grammar; used by one thread at a time."""

    def __init__(self, matcher: LLMatcher) -> None:
        self._matcher = matcher

    def advance(self, token: int) -> Impossible | None:
        """Take a generated token, an end of sequence included."""
        return None if self._matcher.consume_token(token) else self._problem(token)

    @property
    def finished(self) -> bool:
        """Whether only an end of sequence may follow."""
        return bool(self._matcher.is_stopped())

    @property
    def satisfied(self) -> bool:
        """Whether the output so far is one that the grammar has."""
        return bool(self._matcher.is_accepting())

    @property
    def problem(self) -> Impossible | None:
        """Why there is no mask, where a bound on the grammar's work was exceeded."""
        if not self._matcher.is_error():
            return None
        return Impossible(why=first_line(self._matcher.get_error()))

    def _problem(self, token: int) -> Impossible:
        return Impossible(why=f"token {token}: {first_line(self._matcher.get_error())}")

    @property
    def native(self) -> LLMatcher:
        """llguidance's own."""
        return self._matcher


def first_line(text: str) -> str:
    """The first line of a message."""
    return text.split("\n", 1)[0]


class Masks(msgspec.Struct, frozen=True):
    """Masks of several lanes, in the order asked for; a lane in trouble has its reason instead."""

    rows: tuple[bytes | Impossible, ...]


class GrammarTokenizer:
    """A model's tokens as grammars see them; built once, before the first request."""

    def __init__(
        self,
        tokenizer: bytes,
        *,
        tokens: int,
        mask_words: int,
        eos_ids: Sequence[int],
        markers: Collection[int],
        threads: int = 1,
    ) -> None:
        self._mask_nbytes = mask_words * WORD_NBYTES
        import llguidance

        self._library = llguidance
        data, size = marked(tokenizer, frozenset(markers))
        width = max(size, tokens)
        if not eos_ids:
            raise StartRefused("eos_token_ids: found none, expected one for grammars to end with")
        try:
            self._tokenizer = llguidance.LLTokenizer(data, n_vocab=width, eos_token=list(eos_ids))
        except ValueError as error:
            raise StartRefused(
                f"tokenizer: found what grammars cannot use ({first_line(str(error))}), "
                "expected a byte-level or byte-fallback decoder"
            ) from None
        self._row_nbytes = -(-width // WORD_BITS) * WORD_NBYTES
        self._filler = llguidance.LLExecutor(threads)
        self._compiling = ThreadPoolExecutor(threads, thread_name_prefix="grammar")
        self._filling = ThreadPoolExecutor(1, thread_name_prefix="masks")

    def compile(self, constraint: Constraint) -> Future[Matcher | Impossible]:
        """A lane's matcher, made in a thread: the loop goes on meanwhile."""
        return self._compiling.submit(self._compile, constraint)

    def fill(self, matchers: Sequence[Matcher]) -> Future[Masks]:
        """The masks for the next tokens, made in threads; let the matchers be until then."""
        return self._filling.submit(self._fill, tuple(matchers))

    def close(self) -> None:
        """End the threads."""
        self._compiling.shutdown(cancel_futures=True)
        self._filling.shutdown(cancel_futures=True)

    def _compile(self, constraint: Constraint) -> Matcher | Impossible:
        matcher = Matcher(
            self._library.LLMatcher(
                self._tokenizer,
                constraint.grammar,
                log_level=0,
                limits=self._library.LLParserLimits(**PARSER_LIMITS),
            )
        )
        return matcher.problem or matcher

    def _fill(self, matchers: tuple[Matcher, ...]) -> Masks:
        if not matchers:
            return Masks(())
        nbytes = self._row_nbytes
        rows = bytearray(nbytes * len(matchers))
        self._filler.unsafe_compute_mask_ptr(
            [(matcher.native, index) for index, matcher in enumerate(matchers)],
            ctypes.addressof(ctypes.c_char.from_buffer(rows)),
            nbytes,
            len(matchers),
        )
        return Masks(
            tuple(
                matcher.problem or self._row(rows[index * nbytes : (index + 1) * nbytes])
                for index, matcher in enumerate(matchers)
            )
        )

    def _row(self, row: bytearray) -> bytes:
        """A mask of the contract's width."""
        return bytes(row[: self._mask_nbytes]).ljust(self._mask_nbytes, b"\0")


class Grammars(Protocol):
    """Compiles grammars and fills masks, in threads."""

    def compile(self, constraint: Constraint) -> Future[Matcher | Impossible]:
        """A lane's matcher."""

    def fill(self, matchers: Sequence[Matcher]) -> Future[Masks]:
        """The masks for the next tokens."""


class LateGrammars:
    """A `GrammarTokenizer` that the first grammar makes, in its thread: that may take seconds."""

    def __init__(self, make: Callable[[], GrammarTokenizer]) -> None:
        self._make = make
        self._made: GrammarTokenizer | None = None
        self._compiling = ThreadPoolExecutor(1, thread_name_prefix="grammar")

    def compile(self, constraint: Constraint) -> Future[Matcher | Impossible]:
        """See `Grammars`."""
        return self._compiling.submit(self._compile, constraint)

    def _compile(self, constraint: Constraint) -> Matcher | Impossible:
        try:
            self._made = self._made or self._make()
        except StartRefused as refusal:  # this request's trouble, and nobody else's
            return Impossible(why=str(refusal))
        return self._made.compile(constraint).result()

    def fill(self, matchers: Sequence[Matcher]) -> Future[Masks]:
        """See `Grammars`."""
        assert self._made is not None, "a matcher comes from a tokenizer"
        return self._made.fill(matchers)


def marked(tokenizer: bytes, markers: frozenset[int]) -> tuple[str, int]:
    """The tokenizer with every declared marker special, and one more than its highest id.

    llguidance lets free text contain what it does not hold for special, and guesses by the
    spelling; a marker must never be free text, whatever its spelling and the tokenizer's flag.
    """
    whole: dict[str, Any] = msgspec.json.decode(tokenizer)
    added = whole.get("added_tokens") or []
    for token in added:
        token["special"] = bool(token["special"]) or token["id"] in markers
    vocabulary = whole["model"].get("vocab") or {}
    ids = vocabulary.values() if isinstance(vocabulary, dict) else range(len(vocabulary))
    size = 1 + max([*ids, *(token["id"] for token in added)], default=-1)
    return msgspec.json.encode(whole).decode(), size
