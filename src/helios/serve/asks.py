"""What clients may send to the OpenAI routes, typed, and what each request asks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Final

import msgspec

from helios.frontend.prepare import Asked, Sampled
from helios.frontend.prompt import Conversation
from helios.serve.wire import (
    Alternatives,
    Bias,
    Choices,
    Count,
    Least,
    Penalty,
    Positive,
    Probability,
    Repetition,
    Salt,
    Seed,
    Temperature,
)
from helios.values import RequestInvalid

Object = dict[str, Any]
MOST_PROMPTS: Final = 64


class StreamOptions(msgspec.Struct, forbid_unknown_fields=True):
    """What a stream says besides the answer."""

    include_usage: bool | None = None


class Sampling(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """How tokens are drawn, and when to stop: what both OpenAI routes take."""

    model: str | None = None
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    temperature: Temperature | None = None
    top_p: Probability | None = None
    top_k: Count | None = None
    min_p: Least | None = None
    presence_penalty: Penalty | None = None
    frequency_penalty: Penalty | None = None
    repetition_penalty: Repetition | None = None
    logit_bias: dict[str, Bias] | None = None
    seed: Seed | None = None
    n: Choices | None = None
    min_tokens: Count | None = None
    ignore_eos: bool | None = None
    stop: Any = None
    stop_token_ids: Any = None
    stop_token_sequences: Any = None
    structured_outputs: Object | None = None
    response_format: Object | None = None
    return_token_ids: bool | None = None
    cache_salt: Salt | None = None

    def sampled(self) -> Sampled:
        """How tokens are drawn."""
        return Sampled(
            temperature=self.temperature,
            top_p=self.top_p,
            top_k=self.top_k,
            min_p=self.min_p,
            repetition_penalty=self.repetition_penalty,
            presence_penalty=self.presence_penalty,
            frequency_penalty=self.frequency_penalty,
            seed=self.seed,
            logit_bias=self.logit_bias,
        )

    def common(self) -> Mapping[str, Any]:
        """What both routes ask in the same way."""
        return {
            "sampled": self.sampled(),
            "minimum_output": self.min_tokens,
            "ignore_eos": bool(self.ignore_eos),
            "stop": self.stop,
            "stop_token_ids": self.stop_token_ids,
            "stop_token_sequences": self.stop_token_sequences,
            "structured_outputs": self.structured_outputs,
            "response_format": self.response_format,
            "salt": self.cache_salt,
            "choices": self.n or 1,
        }

    def shows_usage(self) -> bool:
        """Whether the stream ends with a usage event."""
        return bool(self.stream_options and self.stream_options.include_usage)


class ChatRequest(Sampling, kw_only=True):
    """POST /v1/chat/completions."""

    messages: Annotated[list[Object], msgspec.Meta(min_length=1)]
    max_tokens: Positive | None = None
    max_completion_tokens: Positive | None = None
    logprobs: bool | None = None
    top_logprobs: Alternatives | None = None
    tools: list[Object] | None = None
    tool_choice: Any = None
    parallel_tool_calls: bool | None = None
    reasoning_effort: str | None = None
    chat_template_kwargs: Object | None = None
    documents: list[Object] | None = None
    add_generation_prompt: bool | None = None
    continue_final_message: bool | str | None = None
    return_token_timestamps: bool | None = None

    def conversation(self) -> Conversation:
        """What is asked about."""
        return Conversation(
            messages=self.messages,
            tools=None if self.tool_choice == "none" else self.tools,
            documents=self.documents,
            add_generation_prompt=self.add_generation_prompt,
            continue_final_message=self.continue_final_message or False,
            template_variables=self.chat_template_kwargs or {},
            reasoning_effort=self.reasoning_effort,
        )

    def asked(self) -> Asked:
        """What the client asks; fields that exclude each other are refused."""
        if None not in (self.max_tokens, self.max_completion_tokens):
            raise RequestInvalid(
                "max_tokens",
                "both names of the limit",
                expected="max_tokens or max_completion_tokens",
            )
        if self.top_logprobs is not None and not self.logprobs:
            raise RequestInvalid(
                "top_logprobs", self.top_logprobs, expected="nothing without logprobs: true"
            )
        if self.return_token_timestamps and not self.return_token_ids:
            raise RequestInvalid(
                "return_token_timestamps", "true", expected="return_token_ids: true beside it"
            )
        return Asked(
            conversation=self.conversation(),
            output_limit=self.max_completion_tokens or self.max_tokens,
            limit_field="max_tokens" if self.max_tokens else "max_completion_tokens",
            tools=self.tools,
            tool_choice=self.tool_choice,
            parallel_calls=self.parallel_tool_calls is not False,
            logprobs=(self.top_logprobs or 0) if self.logprobs else None,
            timed=bool(self.return_token_timestamps),
            **self.common(),
        )


class CompletionRequest(Sampling, kw_only=True):
    """POST /v1/completions."""

    prompt: str | list[Any]
    max_tokens: Count | None = None
    logprobs: Alternatives | None = None
    echo: bool | None = None
    best_of: Choices | None = None

    def asked(self, prompt: str | list[int], *, at: str) -> Asked:
        """What the client asks about one of its prompts."""
        if self.best_of not in (None, self.n or 1):
            raise RequestInvalid(
                "best_of", self.best_of, expected=f"n, which is {self.n or 1}, or nothing"
            )
        # A prompt that is only scored still needs one row to be fed; its token is not shown.
        limit = DEFAULT_TOKENS if self.max_tokens is None else max(1, self.max_tokens)
        if self.max_tokens == 0 and not self.echo:
            raise RequestInvalid("max_tokens", 0, expected="at least 1, or echo: true")
        return Asked(
            text=prompt if isinstance(prompt, str) else None,
            tokens=None if isinstance(prompt, str) else prompt,
            prompt_field=at,
            output_limit=limit,
            logprobs=self.logprobs,
            score_prompt=bool(self.echo) and self.logprobs is not None,
            **self.common(),
        )

    def prompts(self) -> list[tuple[str, str | list[int]]]:
        """Every prompt with its field: a text, texts, ids, or lists of ids."""
        whole = self.prompt
        if isinstance(whole, str):
            return [("prompt", whole)]
        if whole and all(is_id(item) for item in whole):
            return [("prompt", whole)]
        if not 1 <= len(whole) <= MOST_PROMPTS:
            raise RequestInvalid("prompt", f"{len(whole)} prompts", expected=f"1 to {MOST_PROMPTS}")
        for index, item in enumerate(whole):
            ids = isinstance(item, list) and all(is_id(token) for token in item)
            if not isinstance(item, str) and not ids:
                raise RequestInvalid(
                    f"prompt[{index}]",
                    type(item).__name__,
                    expected="a text or a list of token ids, as the others are",
                )
        return [(f"prompt[{index}]", item) for index, item in enumerate(whole)]


DEFAULT_TOKENS: Final = 16
"""Tokens of a completion whose request says nothing, as OpenAI has it."""


def is_id(value: object) -> bool:
    """Whether a JSON value is an integer."""
    return isinstance(value, int) and not isinstance(value, bool)


CHAT: Final = msgspec.json.Decoder(ChatRequest)
COMPLETION: Final = msgspec.json.Decoder(CompletionRequest)
