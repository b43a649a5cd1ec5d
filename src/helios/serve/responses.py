"""POST /v1/responses: turns as OpenAI's response items, streamed and whole.

Nothing is stored: a client sends the whole conversation, reasoning included.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import AsyncIterator
from typing import Any, Final

from helios.respond.pipeline import Usage
from helios.serve.answers import Answers, Turn
from helios.serve.response_asks import IGNORED, RESPONSE, ResponseRequest
from helios.serve.response_items import Items, Told
from helios.serve.route import OpenAIErrors, Reply, Service
from helios.serve.translated import prepare
from helios.serve.wire import decode, encode, typed_event
from helios.values import STATUS, HeliosError

SERVER_FAULT: Final = 500


class ResponseFormat(OpenAIErrors):
    """The responses route's format."""

    def __init__(self, service: Service) -> None:
        self._service = service

    async def reply(self, body: bytes) -> Reply:
        """See `Format`."""
        service = self._service
        request = decode(body, RESPONSE, ignored=IGNORED)
        service.check_model(request.model)
        prepared = await prepare(service, request.translated())
        return ResponseReply(service, request, Answers(service.front, service.frontend, prepared))


class ResponseReply:
    """One response."""

    def __init__(self, service: Service, request: ResponseRequest, answers: Answers) -> None:
        self._request, self._answers = request, answers
        self._items = Items(seals=request.seals)
        self._head = {
            "id": f"resp_{secrets.token_hex(12)}",
            "object": "response",
            "created_at": int(time.time()),
            "model": service.model,
        }
        self._told = told_back(request, answers)

    @property
    def streams(self) -> bool:
        """See `Reply`."""
        return bool(self._request.stream)

    def failed(self, error: HeliosError) -> bytes:
        """See `Reply`."""
        self._items.leave()
        fault = STATUS[type(error)] >= SERVER_FAULT
        code = "server_error" if fault else "invalid_prompt"
        response = self._response("failed", error={"code": code, "message": str(error)})
        return typed_event(self._items.told("failed", response=response))

    async def events(self) -> AsyncIterator[bytes]:
        """See `Reply`."""
        begun = False
        async for turns in self._answers.turns():
            told: list[Told] = []
            if not begun:
                response = self._response("in_progress")
                told = [self._items.told(kind, response=response) for kind in BEGINNINGS]
                begun = True
            for turn in turns:
                told += self._turn(turn)
            if told:
                yield b"".join(typed_event(one) for one in told)

    async def whole(self) -> bytes:
        """See `Reply`."""
        response: Told = {}
        async for turns in self._answers.turns():
            for turn in turns:
                told = self._turn(turn)
                if turn.finish is not None:
                    response = told[-1]["response"]
        return encode(response)

    def _turn(self, turn: Turn) -> list[Told]:
        """The events of a turn."""
        told = [one for made in turn.events for one in self._items.take(made)]
        return told if turn.finish is None else [*told, *self._last(turn.finish)]

    def _last(self, finish: str) -> list[Told]:
        """The ending: of what is open, and of the response."""
        status = "incomplete" if finish == "length" else "completed"
        told = list(self._items.close(status=status))
        cut = {"reason": "max_output_tokens"} if finish == "length" else None
        response = self._response(
            status,
            incomplete_details=cut,
            completed_at=None if cut else int(time.time()),
            usage=usage_of(self._answers.usage()),
        )
        return [*told, self._items.told(status, response=response)]

    def _response(self, status: str, **more: Any) -> Told:
        """The response as it is now."""
        return {
            **self._head,
            "status": status,
            "output": list(self._items.output),
            "error": None,
            "incomplete_details": None,
            "completed_at": None,
            "usage": None,
            **self._told,
            **more,
        }


BEGINNINGS: Final = ("created", "in_progress")


def told_back(request: ResponseRequest, answers: Answers) -> Told:
    """What a response says of its request."""
    sampling = answers.prepared.requests[0].sampling
    reasoning, text = request.reasoning, request.text
    return {
        "background": False,
        "instructions": request.instructions,
        "max_output_tokens": request.max_output_tokens,
        "metadata": request.metadata or {},
        "parallel_tool_calls": request.parallel_tool_calls is not False,
        "previous_response_id": None,
        "reasoning": {"effort": reasoning.effort if reasoning else None, "summary": None},
        "store": False,
        "temperature": sampling.temperature,
        "text": {"format": (text.format if text else None) or {"type": "text"}},
        "tool_choice": request.tool_choice or "auto",
        "tools": request.tools or [],
        "top_p": sampling.top_p,
        "truncation": "disabled",
    }


def usage_of(usage: Usage) -> Told:
    """Token counts as OpenAI's clients read them."""
    return {
        "input_tokens": usage.prompt_tokens,
        "input_tokens_details": {"cached_tokens": usage.reused_tokens, "cache_write_tokens": 0},
        "output_tokens": usage.completion_tokens,
        "output_tokens_details": {"reasoning_tokens": usage.reasoning_tokens},
        "total_tokens": usage.prompt_tokens + usage.completion_tokens,
    }
