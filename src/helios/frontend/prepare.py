"""What a client asks becomes `PreparedRequest`s, or a `RequestInvalid` that names the field.

Runs in a preparation thread: rendering, tokenising and compiling grammars may take a while.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from helios.frontend.grammar.constraint import Constraint
from helios.frontend.grammar.envelope import Opened
from helios.frontend.grammar.front import Grammars
from helios.frontend.grammar.wish import tools_of
from helios.frontend.images.front import Illustrated, Images, check_tensors
from helios.frontend.images.source import image_sources
from helios.frontend.prompt import Conversation, PromptPath
from helios.frontend.request import PreparedRequest
from helios.frontend.stops import StopSpec, stop_spec
from helios.frontend.syntax.opening import Opening, Place
from helios.frontend.syntax.resolve import Syntax
from helios.frontend.text import Tokenizer
from helios.rounds import MOST_LOGIT_BIAS, Sampling
from helios.values import RequestId, RequestInvalid
from prepared.contract import SamplingDefaults

SEED_BITS: Final = 64


class Sampled(msgspec.Struct, frozen=True, kw_only=True):
    """How a client wants tokens drawn; None where it said nothing."""

    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    min_p: float | None = None
    repetition_penalty: float | None = None
    presence_penalty: float | None = None
    frequency_penalty: float | None = None
    seed: int | None = None
    logit_bias: Mapping[str, float] | None = None


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """What a client asks, whatever the route: exactly one of the prompts, and what to do."""

    conversation: Conversation | None = None
    text: str | None = None
    tokens: Sequence[int] | None = None
    sampled: Sampled = msgspec.field(default_factory=Sampled)
    output_limit: int | None = None
    fitted: bool = False  # a limit beyond the context is cut to what the context holds
    limit_field: str = "max_tokens"
    prompt_field: str = "messages"
    minimum_output: int | None = None
    ignore_eos: bool = False
    stop: object = None
    stop_token_ids: object = None
    stop_token_sequences: object = None
    tools: object = None
    tool_choice: object = None
    parallel_calls: bool = True
    response_format: object = None
    structured_outputs: object = None
    logprobs: int | None = None
    score_prompt: bool = False
    timed: bool = False
    salt: str | None = None
    choices: int = 1


class Prepared(msgspec.Struct, frozen=True, kw_only=True):
    """A client's request, ready for the model, and what reading its answer needs."""

    requests: tuple[PreparedRequest, ...]  # one a choice
    prompt: tuple[int, ...]
    opened: Opening
    tools: Mapping[str, Mapping[str, object]]  # that may be called: schemas by name
    opaque: bool  # the answer is a document
    parallel_calls: bool


class Frontend(msgspec.Struct, frozen=True, kw_only=True):
    """Assets, defaults and limits of a model, ready to prepare requests."""

    tokenizer: Tokenizer
    prompts: PromptPath | None  # none without a chat template
    images: Images | None  # none where the model takes no images
    syntax: Syntax
    grammars: Grammars
    defaults: SamplingDefaults
    eos_ids: tuple[int, ...]
    vocabulary: int
    context_tokens: int
    output_tokens: int
    cache_tokens: int  # that the whole cache holds
    scores: bool  # whether the device knows log-probabilities; a scripted one does not

    def prepare(self, next_id: Callable[[], RequestId], asked: Asked) -> Prepared:
        """The request as numbers; explicit values win over prepared defaults (FI-34)."""
        illustrated = self.prompt(asked)
        check_tensors(illustrated, choices=asked.choices)
        prompt = illustrated.tokens
        opened = self.syntax.opening(prompt) if asked.conversation else Opening()
        stops = self.stops(asked)
        constraint = self.constraint(asked, opened)
        self.check_scores(asked)
        request = PreparedRequest(
            id=RequestId(0),
            prompt=prompt,
            sampling=self.sampling(asked.sampled),
            output_limit=self.output_limit(asked, prompt=len(prompt)),
            minimum_output=self.minimum_output(asked, constraint),
            eos_ids=() if asked.ignore_eos else self.eos_ids,
            salt=asked.salt or "",
            spans=illustrated.spans,
            images=illustrated.images,
            logit_bias=self.bias(asked.sampled.logit_bias),
            logprobs=asked.logprobs,
            score_prompt=asked.score_prompt,
            observed=asked.timed,
            constraint=constraint,
            stops=stops,
        )
        allowed = asked.tool_choice != "none"
        return Prepared(
            requests=tuple(
                self.choice(request, next_id(), number) for number in range(asked.choices)
            ),
            prompt=prompt,
            opened=opened,
            tools=schemas_of(asked.tools) if allowed else {},
            opaque=bool(asked.structured_outputs) or is_document(asked.response_format),
            parallel_calls=asked.parallel_calls,
        )

    def choice(self, request: PreparedRequest, number: RequestId, choice: int) -> PreparedRequest:
        """One of several choices: each has a seed of its own."""
        seed = (request.sampling.seed + choice) % (1 << SEED_BITS)
        return replace(request, id=number, sampling=replace(request.sampling, seed=seed))

    # ------------------------------------------------------------- prompts

    def prompt(self, asked: Asked) -> Illustrated:
        """The tokens that the model is given, images in their places."""
        name = asked.prompt_field
        if asked.conversation is not None:
            found = self.conversed(asked.conversation, name)
        elif asked.tokens is not None:
            found = Illustrated(tokens=self.given(asked.tokens, name))
        else:
            found = Illustrated(tokens=tuple(self.tokenizer.encode(asked.text or "")))
        if not found.tokens:
            raise RequestInvalid(name, "an empty prompt", expected="some text")
        if len(found.tokens) >= self.context_tokens:
            raise RequestInvalid(
                name,
                f"{len(found.tokens)} tokens",
                expected=f"fewer than the context of {self.context_tokens}",
            )
        return found

    def conversed(self, conversation: Conversation, name: str) -> Illustrated:
        """A conversation's tokens and images; none is left out silently (I-03)."""
        if self.prompts is None:
            raise RequestInvalid(name, "a conversation", expected="a model with a chat template")
        sources = list(image_sources(conversation.messages))
        if sources and self.images is None:
            raise RequestInvalid(
                sources[0].at, "an image", expected="text: this model takes no images"
            )
        tokens = self.prompts.prompt(conversation).tokens
        if not sources or self.images is None:
            return Illustrated(tokens=tokens)
        return self.images.illustrated(tokens, sources)

    def given(self, tokens: Sequence[int], name: str) -> tuple[int, ...]:
        """Ids that the client brings."""
        for index, token in enumerate(tokens):
            if not 0 <= token < self.vocabulary:
                raise RequestInvalid(
                    f"{name}[{index}]", token, expected=f"a token id below {self.vocabulary}"
                )
        return tuple(tokens)

    # -------------------------------------------------------------- output

    def output_limit(self, asked: Asked, *, prompt: int) -> int:
        """Tokens that may be emitted: as asked if the context holds them, else what fits."""
        room = self.context_tokens - prompt
        if asked.output_limit is None:
            fits = self.cache_tokens - prompt + 1  # the last token is never kept
            return max(1, min(room, self.output_tokens, fits))
        if asked.fitted:
            return min(room, asked.output_limit)
        if asked.output_limit > room:
            raise RequestInvalid(
                asked.limit_field,
                asked.output_limit,
                expected=f"at most {room}: the prompt has {prompt} tokens of the context's "
                f"{self.context_tokens}",
            )
        return asked.output_limit

    def minimum_output(self, asked: Asked, constraint: Constraint | None) -> int:
        """Tokens before an end may come; a grammar alone says when its document ends."""
        least = asked.minimum_output or 0
        if constraint is not None and (least or asked.ignore_eos):
            raise RequestInvalid(
                "min_tokens" if least else "ignore_eos",
                least or True,
                expected="nothing beside structured output or a required call",
            )
        most = asked.output_limit
        if most is not None and least > most:
            raise RequestInvalid(
                "min_tokens", least, expected=f"at most {asked.limit_field}, {most}"
            )
        return least

    def stops(self, asked: Asked) -> StopSpec | None:
        """The declared stops."""
        return stop_spec(
            stop=asked.stop,
            stop_token_ids=asked.stop_token_ids,
            stop_token_sequences=asked.stop_token_sequences,
            structured=bool(asked.structured_outputs) or is_document(asked.response_format),
            vocabulary=self.vocabulary,
        )

    def constraint(self, asked: Asked, opened: Opening) -> Constraint | None:
        """The grammar of the whole output, if it has one."""
        return self.grammars.constraint(
            response_format=asked.response_format,
            structured_outputs=asked.structured_outputs,
            tools=asked.tools,
            tool_choice=asked.tool_choice,
            parallel_tool_calls=asked.parallel_calls,
            opened=opened_of(opened),
        )

    def check_scores(self, asked: Asked) -> None:
        """Log-probabilities only where there are any."""
        if self.scores or (asked.logprobs is None and not asked.score_prompt):
            return
        name = "logprobs" if asked.logprobs is not None else "echo"
        raise RequestInvalid(
            name, "log-probabilities", expected="none: a scripted model computes nothing"
        )

    # ------------------------------------------------------------ sampling

    def sampling(self, asked: Sampled) -> Sampling:
        """Complete sampling parameters."""
        defaults = self.defaults

        def of(name: str) -> Any:
            value = getattr(asked, name)
            return getattr(defaults, name) if value is None else value

        return Sampling(
            seed=secrets.randbits(SEED_BITS)
            if asked.seed is None
            else asked.seed % (1 << SEED_BITS),
            temperature=of("temperature"),
            top_p=of("top_p"),
            top_k=of("top_k"),
            min_p=of("min_p"),
            repetition_penalty=of("repetition_penalty"),
            presence_penalty=of("presence_penalty"),
            frequency_penalty=of("frequency_penalty"),
        )

    def bias(self, asked: Mapping[str, float] | None) -> tuple[tuple[int, float], ...]:
        """Biases by token id."""
        if not asked:
            return ()
        if len(asked) > MOST_LOGIT_BIAS:
            raise RequestInvalid(
                "logit_bias", f"{len(asked)} tokens", expected=f"at most {MOST_LOGIT_BIAS}"
            )
        found = []
        for name, value in asked.items():
            token = int(name) if name.isascii() and name.isdigit() else -1
            if not 0 <= token < self.vocabulary:
                raise RequestInvalid(
                    f"logit_bias.{name}", name, expected=f"a token id below {self.vocabulary}"
                )
            found.append((token, value))
        return tuple(found)


def opened_of(opening: Opening) -> Opened:
    """Where a grammar begins."""
    if opening.place is Place.REASONING:
        return Opened.REASONING
    return Opened.ANSWER if opening.reasoned else Opened.NOTHING


def schemas_of(tools: object) -> dict[str, Mapping[str, object]]:
    """Parameters' schemas by the names of tools; a schema that says nothing allows anything."""
    return {
        tool.name: tool.parameters if isinstance(tool.parameters, Mapping) else {}
        for tool in tools_of(tools)
    }


def is_document(response_format: object) -> bool:
    """Whether the answer is a document of a declared form."""
    return isinstance(response_format, Mapping) and response_format.get("type") != "text"
