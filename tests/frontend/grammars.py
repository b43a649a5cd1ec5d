"""A made tokenizer, syntaxes, and random walks under masks."""

from __future__ import annotations

import random
from collections.abc import Sequence

import tokenizers
from msgspec.structs import replace
from tokenizers import AddedToken, decoders, models, pre_tokenizers

from helios.frontend.grammar.constraint import Constraint
from helios.frontend.grammar.envelope import Envelope, Opened
from helios.frontend.grammar.front import Grammars
from helios.frontend.grammar.lark import Spelling
from helios.frontend.grammar.matcher import GrammarTokenizer, Impossible, Matcher
from ignition.preparation.frontend import no_reasoning, no_tools
from prepared.contract import (
    ArgumentTyping,
    FrameSyntax,
    Marker,
    ReasoningParser,
    ReasoningSyntax,
    ToolParser,
    ToolSyntax,
)

ADDED = (
    "<think>", "</think>", "<tool_call>", "</tool_call>", "<arg_key>", "</arg_key>",
    "<arg_value>", "</arg_value>", "｜DSML｜", "<|open|>", "<|close|>", "<|sep|>", "<|start|>",
    "<|message|>", "<|eom|>", "<|channel|>", "<|constrain|>", "[TOOL_CALLS]", "[ARGS]",
)  # fmt: skip
MERGED = (
    '{"', '":', '",', '"}', "</", "in", "th", "he", "an", " {", ": ", ", ", '": ', "},", "\n\n",
)  # fmt: skip
END = "<|end|>"


def byte_level(added: Sequence[str], *, special: bool) -> tokenizers.Tokenizer:
    """A byte-level tokenizer with a few merges."""
    spell = pre_tokenizers.ByteLevel(add_prefix_space=False)
    vocabulary = {c: i for i, c in enumerate(sorted(pre_tokenizers.ByteLevel.alphabet()))}
    merges: list[tuple[str, str]] = []
    for text in MERGED:
        letters = spell.pre_tokenize_str(text)
        whole = "".join(part for part, _ in letters)
        for end in range(2, len(whole) + 1):
            if whole[:end] not in vocabulary:
                merges.append((whole[: end - 1], whole[end - 1]))
                vocabulary[whole[:end]] = len(vocabulary)
    made = tokenizers.Tokenizer(models.BPE(vocab=vocabulary, merges=merges))
    made.pre_tokenizer, made.decoder = spell, decoders.ByteLevel()
    made.add_tokens([AddedToken(text, special=special, normalized=False) for text in added])
    made.add_tokens([AddedToken(END, special=True, normalized=False)])
    return made


class World:
    """A model's text side: tokenizer, envelope and both ends of the grammar."""

    def __init__(
        self,
        tools: ToolSyntax | None = None,
        reasoning: ReasoningSyntax | None = None,
        *,
        added: Sequence[str] = ADDED,
        special: bool = False,
        padding: int = 7,
    ) -> None:
        self.tokenizer = byte_level(added, special=special)
        known = self.tokenizer.get_added_tokens_decoder()
        self.ids = {token.content: number for number, token in known.items()}
        self.end = self.ids[END]
        size = self.tokenizer.get_vocab_size()
        spelling = Spelling(self.ids, tokens=size, eos_ids=(self.end,))
        envelope = Envelope(tools or no_tools(), reasoning or no_reasoning(), spelling)
        self.front = Grammars(envelope)
        self.words = -(-(size + padding) // 32) + 1
        self.worker = GrammarTokenizer(
            self.tokenizer.to_str().encode(),
            tokens=size + padding,
            mask_words=self.words,
            eos_ids=(self.end,),
            markers=[self.ids[text] for text in added],
        )

    def close(self) -> None:
        self.front.close()
        self.worker.close()

    def constraint(self, opened: Opened = Opened.NOTHING, /, **asked: object) -> Constraint:
        found = self.front.constraint(opened=opened, **asked)  # type: ignore[arg-type]
        assert found is not None
        return found

    def matcher(self, opened: Opened = Opened.NOTHING, /, **asked: object) -> Matcher:
        made = self.worker.compile(self.constraint(opened, **asked)).result()
        assert isinstance(made, Matcher), made
        return made

    def takes(self, matcher: Matcher, text: str) -> str | None:
        """Feed a text, markers as their tokens; what of it is not taken."""
        ids = self.tokenizer.encode(text, add_special_tokens=False).ids
        for index, token in enumerate(ids):
            if token not in self.allowed(matcher):
                return self.text(ids[index:])
            assert matcher.advance(token) is None
        return None

    def spelled(self, text: str) -> list[int]:
        """A text without any marker's token."""
        plain = byte_level((), special=False)
        return plain.encode(text, add_special_tokens=False).ids

    def text(self, ids: Sequence[int]) -> str:
        return self.tokenizer.decode(list(ids), skip_special_tokens=False)

    def allowed(self, matcher: Matcher) -> set[int]:
        (row,) = self.worker.fill([matcher]).result().rows
        assert not isinstance(row, Impossible), row
        assert len(row) == 4 * self.words
        bits = int.from_bytes(row, "little")
        return {index for index in range(bits.bit_length()) if bits >> index & 1}

    def walk(self, matcher: Matcher, seed: int, *, most: int = 400) -> str | None:
        """A random output of the grammar, or None if it does not end soon."""
        chance = random.Random(seed)
        tokens: list[int] = []
        likely = set(self.tokenizer.encode(' "}]>,:</', add_special_tokens=False).ids)
        while len(tokens) < most:
            allowed = self.allowed(matcher)
            if self.end in allowed and (allowed == {self.end} or chance.random() < 0.4):
                return self.text(tokens)
            allowed.discard(self.end)
            short = sorted(allowed & likely)
            markers = sorted(allowed & set(self.ids.values()))
            pool = next(
                (p for p in (markers, short) if p and chance.random() < 0.5), sorted(allowed)
            )
            tokens.append(chance.choice(pool))
            assert matcher.advance(tokens[-1]) is None
        return None


def marker(text: str) -> Marker:
    return Marker(text=text, token_id=None)


def think(**data: object) -> ReasoningSyntax:
    """Reasoning in tags."""
    return replace(
        no_reasoning(),
        parser=ReasoningParser.THINK_TAGS,
        open=marker("<think>"),
        close=marker("</think>"),
        answer_prefix="\n\n",
        **data,
    )


def tags(parser: ToolParser, **markers: object) -> ToolSyntax:
    """A tool syntax of these literals."""
    data = {
        name: marker(value) if isinstance(value, str) else value for name, value in markers.items()
    }
    plain = ("wrapping", "separator", "name_field", "arguments_field", "type_attribute")
    data |= {name: markers[name] for name in plain if name in markers}
    return replace(no_tools(), **({"typing": ArgumentTyping.TYPED_BY_SCHEMA} | data), parser=parser)


HERMES = tags(
    ToolParser.JSON_CALLS, call_open="<tool_call>", call_close="</tool_call>",
    name_field="name", arguments_field="arguments", typing=ArgumentTyping.TYPED_AS_JSON,
)  # fmt: skip
NAMED = tags(
    ToolParser.JSON_CALLS, call_open="[TOOL_CALLS]", name_close="[ARGS]",
    typing=ArgumentTyping.TYPED_AS_JSON,
)  # fmt: skip
QWEN = tags(
    ToolParser.QWEN_CODER_TAGS, section_open="<tool_call>", section_close="</tool_call>",
    call_open="<function=", name_close=">", call_close="</function>", key_open="<parameter=",
    key_close=">", value_close="</parameter>", wrapping="\n",
)  # fmt: skip
GLM = tags(
    ToolParser.GLM_ARGUMENT_TAGS, call_open="<tool_call>", call_close="</tool_call>",
    key_open="<arg_key>", key_close="</arg_key>", value_open="<arg_value>",
    value_close="</arg_value>",
)  # fmt: skip
DSML = tags(
    ToolParser.DSML, section_open="<｜DSML｜tool_calls>", section_close="</｜DSML｜tool_calls>",
    call_open="<｜DSML｜invoke", name_close=">", call_close="</｜DSML｜invoke>",
    key_open="<｜DSML｜parameter", key_close=">", value_close="</｜DSML｜parameter>",
    name_field="name", arguments_field="name", type_attribute="string",
    typing=ArgumentTyping.TYPED_BY_ATTRIBUTE,
)  # fmt: skip
XTML = tags(
    ToolParser.XTML_TOOLS, section_open="<|open|>tools<|sep|>",
    section_close="<|close|>tools<|sep|>",
    call_open="<|open|>call", name_close="<|sep|>", call_close="<|close|>call<|sep|>",
    key_open="<|open|>argument", key_close="<|sep|>", value_close="<|close|>argument<|sep|>",
    name_field="tool", arguments_field="key", type_attribute="type",
    typing=ArgumentTyping.TYPED_BY_ATTRIBUTE,
)  # fmt: skip
XTML_THINK = replace(
    no_reasoning(),
    parser=ReasoningParser.XTML_THINK,
    open=marker("<|open|>think<|sep|>"),
    close=marker("<|close|>think<|sep|>"),
    answer_open=marker("<|open|>response<|sep|>"),
    answer_close=marker("<|close|>response<|sep|>"),
)
ATEM = tags(
    ToolParser.ATEM, section_open="<atem:function_calls>", section_close="</atem:function_calls>",
    call_open="<atem:invoke", name_close=">", call_close="</atem:invoke>",
    key_open="<atem:parameter", key_close=">", value_close="</atem:parameter>",
    name_field="name", arguments_field="name",
)  # fmt: skip
RECIPIENT_FRAMES = FrameSyntax(
    open=marker("<|start|>"),
    header_close=marker("<|message|>"),
    closes=(marker("<|eom|>"),),
    recipient_prefix=" to=",
    channel_open=None,
)
RECIPIENTS = replace(
    no_reasoning(),
    parser=ReasoningParser.RECIPIENT_HEADERS,
    reasoning_recipients=("self",),
    content_recipients=("commentary", "user"),
    frames=RECIPIENT_FRAMES,
)
HARMONY = tags(
    ToolParser.HARMONY, name_open="functions.", value_open="<|constrain|>",
    typing=ArgumentTyping.TYPED_AS_JSON,
)  # fmt: skip
CHANNELS = replace(
    RECIPIENTS,
    parser=ReasoningParser.HARMONY_CHANNELS,
    reasoning_recipients=("analysis",),
    content_recipients=("final", "commentary"),
    frames=replace(RECIPIENT_FRAMES, channel_open=marker("<|channel|>")),
)
PYTHON = tags(ToolParser.PYTHON_CALLS, typing=ArgumentTyping.TYPED_BY_SCHEMA)
WEATHER = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "parameters": {
            "type": "object",
            "properties": {
                "city": {"type": "string"},
                "days": {"type": "integer", "minimum": 0, "maximum": 99},
                "unit": {"enum": ["celsius", "kelvin"]},
            },
            "required": ["city"],
        },
    },
}
CLOCK = {"type": "function", "function": {"name": "get_time"}}
TOOLS = [WEATHER, CLOCK]
