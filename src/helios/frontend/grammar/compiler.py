"""The child process of `check`: reads grammars, answers what is wrong with each."""

from __future__ import annotations

import resource
import signal
import struct
import sys
from typing import BinaryIO, Final

from llguidance import LLMatcher, LLParserLimits, LLTokenizer
from llguidance import TokenizerWrapper as Wrapped

from helios.frontend.grammar.limits import PARSER_LIMITS

LENGTH: Final = struct.Struct("<I")
MOST_SECONDS: Final = 1.0
"""Processor time of one grammar; at most four times as long on the clock."""
MOST_MEMORY_NBYTES: Final = 2 << 30
MOST_PROBLEM_CHARACTERS: Final = 400


class Bytes:
    """A vocabulary of single bytes and an end."""

    eos_token_id = 256
    bos_token_id = None
    tokens = (*(bytes((byte,)) for byte in range(256)), b"<end>")
    special_token_ids = (256,)

    def __call__(self, text: bytes) -> list[int]:
        """The bytes of a text."""
        return list(text)


TOKENS: Final = LLTokenizer(Wrapped(Bytes()))


def problem_of(grammar: str) -> str:
    """What is wrong with a grammar, in a line; nothing if it is right."""
    limits = LLParserLimits(**PARSER_LIMITS)
    is_error, messages = LLMatcher.validate_grammar_with_warnings(grammar, None, limits=limits)
    if is_error:
        return messages[0].split("\n", 1)[0][:MOST_PROBLEM_CHARACTERS]
    # Some grammars compile at once and then never give a mask.  Whether these tokens fit the
    # grammar is not asked: it may name others.
    LLMatcher(TOKENS, grammar, log_level=0, limits=limits).compute_bitmask()
    return ""


def run(inward: BinaryIO, outward: BinaryIO) -> None:
    """Answer until there is nothing to read; die of a grammar that takes too long."""
    resource.setrlimit(resource.RLIMIT_AS, (MOST_MEMORY_NBYTES, MOST_MEMORY_NBYTES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    while head := inward.read(LENGTH.size):
        grammar = inward.read(*LENGTH.unpack(head)).decode()
        signal.setitimer(signal.ITIMER_PROF, MOST_SECONDS)
        signal.setitimer(signal.ITIMER_REAL, 4 * MOST_SECONDS)
        answer = problem_of(grammar).encode()
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.setitimer(signal.ITIMER_REAL, 0)
        outward.write(LENGTH.pack(len(answer)) + answer)
        outward.flush()


if __name__ == "__main__":
    run(sys.stdin.buffer, sys.stdout.buffer)
