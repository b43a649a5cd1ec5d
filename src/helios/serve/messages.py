"""POST /v1/messages and count_tokens: turns as Anthropic's blocks, streamed and whole."""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator
from typing import Final

from msgspec.structs import replace

from helios.respond.pipeline import Usage
from helios.serve.answers import Answers, Turn
from helios.serve.message_asks import COUNTED, IGNORED, MESSAGE, Counted, MessageRequest
from helios.serve.message_blocks import Blocks, Told
from helios.serve.route import Reply, Service
from helios.serve.translated import prepare
from helios.serve.wire import decode, encode, typed_event
from helios.values import STATUS, HeliosError

KINDS: Final = {
    400: "invalid_request_error",
    401: "authentication_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    503: "overloaded_error",
}


def message_error(error: Exception, *, status: int) -> Told:
    """An error in Anthropic's shape."""
    kind = KINDS.get(status, "api_error")
    return {"type": "error", "error": {"type": kind, "message": str(error)}}


class AnthropicErrors:
    """Errors in Anthropic's shape."""

    def refusal(self, error: HeliosError, *, status: int) -> object:
        """See `Format`."""
        return message_error(error, status=status)


class MessageFormat(AnthropicErrors):
    """The messages route's format."""

    def __init__(self, service: Service) -> None:
        self._service = service

    async def reply(self, body: bytes) -> Reply:
        """See `Format`."""
        service = self._service
        request = decode(body, MESSAGE, ignored=IGNORED)
        service.check_model(request.model)
        prepared = await prepare(service, request.translated(efforts=efforts_of(service)))
        return MessageReply(service, request, Answers(service.front, service.frontend, prepared))


class CountFormat(AnthropicErrors):
    """The format of counting a prompt's tokens."""

    def __init__(self, service: Service) -> None:
        self._service = service

    async def reply(self, body: bytes) -> Reply:
        """See `Format`."""
        request: Counted = decode(body, COUNTED, ignored=IGNORED)
        self._service.check_model(request.model)
        translated = request.translated(efforts=efforts_of(self._service))
        prepared = await prepare(self._service, translated)
        return CountReply(len(prepared.prompt))


def efforts_of(service: Service) -> frozenset[str]:
    """Efforts that the model declares."""
    prompts = service.frontend.prompts
    return frozenset() if prompts is None else prompts.efforts


class CountReply:
    """How many tokens a prompt has."""

    streams = False

    def __init__(self, tokens: int) -> None:
        self._tokens = tokens

    async def whole(self) -> bytes:
        """See `Reply`."""
        return encode({"input_tokens": self._tokens})

    async def events(self) -> AsyncIterator[bytes]:
        """See `Reply`."""
        yield await self.whole()

    def failed(self, error: HeliosError) -> bytes:
        """See `Reply`."""
        return typed_event(message_error(error, status=STATUS[type(error)]))


class MessageReply:
    """One message."""

    def __init__(self, service: Service, request: MessageRequest, answers: Answers) -> None:
        self._request, self._answers = request, answers
        self._blocks = Blocks(shows_thinking=request.shows_thinking)
        self._head = {
            "id": f"msg_{secrets.token_hex(12)}",
            "type": "message",
            "role": "assistant",
            "model": service.model,
        }

    @property
    def streams(self) -> bool:
        """See `Reply`."""
        return bool(self._request.stream)

    def failed(self, error: HeliosError) -> bytes:
        """See `Reply`."""
        return typed_event(message_error(error, status=STATUS[type(error)]))

    async def events(self) -> AsyncIterator[bytes]:
        """See `Reply`."""
        begun = False
        async for turns in self._answers.turns():
            told: list[Told] = []
            if not begun:
                told = [{"type": "message_start", "message": self._begun()}, {"type": "ping"}]
                begun = True
            for turn in turns:
                told += self._told(turn)
            if told:
                yield b"".join(typed_event(one) for one in told)

    def _told(self, turn: Turn) -> list[Told]:
        """The events of a turn."""
        told = [one for made in turn.events for one in self._blocks.take(made)]
        if turn.finish is not None:
            told += self._blocks.close()
            usage = usage_of(self._answers.usage())
            told.append({"type": "message_delta", "delta": self._end(turn), "usage": usage})
            told.append({"type": "message_stop"})
        return told

    async def whole(self) -> bytes:
        """See `Reply`."""
        end: Told = {}
        async for turns in self._answers.turns():
            for turn in turns:
                self._told(turn)
                if turn.finish is not None:
                    end = self._end(turn)
        usage = usage_of(self._answers.usage())
        return encode({**self._head, "content": self._blocks.content, **end, "usage": usage})

    def _begun(self) -> Told:
        """The message before its content."""
        usage = usage_of(replace(self._answers.usage(), completion_tokens=0, reasoning_tokens=0))
        ends = {"stop_reason": None, "stop_sequence": None}
        return {**self._head, "content": [], **ends, "usage": usage}

    def _end(self, turn: Turn) -> Told:
        """Why the message ended."""
        if turn.stop is not None:
            return {"stop_reason": "stop_sequence", "stop_sequence": turn.stop}
        reason = REASONS[turn.finish or "stop"]
        limit = self._answers.prepared.requests[0].output_limit
        full = limit < self._request.max_tokens
        if reason == "max_tokens" and full and self._answers.usage().completion_tokens >= limit:
            reason = "model_context_window_exceeded"
        return {"stop_reason": reason, "stop_sequence": None}


REASONS: Final = {"stop": "end_turn", "length": "max_tokens", "tool_calls": "tool_use"}


def usage_of(usage: Usage) -> Told:
    """Token counts as Anthropic's clients read them: what was reused is counted apart."""
    return {
        "input_tokens": usage.prompt_tokens - usage.reused_tokens,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": usage.reused_tokens,
        "output_tokens": usage.completion_tokens,
        "output_tokens_details": {"thinking_tokens": usage.reasoning_tokens},
    }
