"""What a worker's judges are made with: made from the core when the first request wants it."""

from __future__ import annotations

from functools import cache

import tokenizers

from helios.artifact.core_file import OpenCore
from helios.frontend.grammar.lark import Spelling
from helios.frontend.grammar.matcher import GrammarTokenizer, LateGrammars
from helios.frontend.syntax.pieces import PieceStream, Vocabulary
from helios.judges import Tools
from prepared.contract import FrontendContract
from prepared.frontend import markers_of


def tools_of(core: OpenCore) -> Tools:
    """Tools that read the core's tokenizer."""
    model = core.deployment.contract.model
    frontend = model.frontend

    def make_grammars() -> GrammarTokenizer:
        return GrammarTokenizer(
            core.asset(frontend.tokenizer_asset),
            tokens=model.vocabulary.tokens,
            mask_words=model.vocabulary.mask_words,
            eos_ids=frontend.eos_token_ids,
            markers=marker_ids(frontend, vocabulary()),
        )

    @cache
    def vocabulary() -> Vocabulary:
        data = core.asset(frontend.tokenizer_asset)
        return Vocabulary(tokenizers.Tokenizer.from_buffer(data))

    def make_decoder() -> PieceStream:
        return vocabulary().pieces()

    return Tools(grammars=LateGrammars(make_grammars), make_decoder=make_decoder)


def marker_ids(frontend: FrontendContract, vocabulary: Vocabulary) -> frozenset[int]:
    """Every added token in any declared marker: structure, never free text."""
    spelling = Spelling(vocabulary.ids, tokens=0, eos_ids=())
    return frozenset(
        token for _, marker in markers_of(frontend) for token in spelling.ids(marker.text)
    )
