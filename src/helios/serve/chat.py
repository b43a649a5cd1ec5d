"""POST /v1/chat/completions: turns as OpenAI's objects, streamed and whole (TO-01 to TO-19)."""

from __future__ import annotations

import secrets
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

from helios.frontend.syntax.events import Arguments, CallOpened, Content, Event, Reasoning
from helios.serve.answers import Answers, Turn
from helios.serve.asks import CHAT, ChatRequest
from helios.serve.chunks import Chunks, scored, told, usage_of
from helios.serve.route import OpenAIErrors, Reply, Service
from helios.serve.wire import DONE, decode, encode, error_of, event, new_call_id
from helios.values import STATUS, HeliosError

Delta = dict[str, Any]


class ChatFormat(OpenAIErrors):
    """The chat route's format."""

    def __init__(self, service: Service) -> None:
        self._service = service

    async def reply(self, body: bytes) -> Reply:
        """See `Format`."""
        request = decode(body, CHAT)
        ingress_ns = self._service.front.clock.now_ns()  # (TO-14)
        self._service.check_model(request.model)
        prepared = await self._service.prepare(request.asked())
        answers = Answers(self._service.front, self._service.frontend, prepared)
        return ChatReply(self._service, request, answers, ingress_ns)


@dataclass(slots=True)
class Choice:
    """A choice, collected for one object at the end."""

    content: str = ""
    reasoning: str = ""
    calls: list[dict[str, Any]] = field(default_factory=list)
    tokens: list[int] = field(default_factory=list)
    times: list[int] = field(default_factory=list)
    scores: list[Delta] = field(default_factory=list)
    finish: str = "stop"

    def take(self, made: Event) -> None:
        """Add what an event says."""
        match made:
            case Content(text):
                self.content += text
            case Reasoning(text):
                self.reasoning += text
            case CallOpened(_, name, call_id):
                self.calls.append(
                    {
                        "id": call_id or new_call_id(),
                        "type": "function",
                        "function": {"name": name, "arguments": ""},
                    }
                )
            case Arguments(index, text):
                self.calls[index]["function"]["arguments"] += text

    def message(self) -> dict[str, Any]:
        """The assistant's message; without any text its content is null where that says more."""
        rest: dict[str, Any] = {}
        if self.reasoning:
            rest["reasoning_content"] = self.reasoning
        if self.calls:
            rest["tool_calls"] = self.calls
        content = self.content or (None if rest else "")
        return {"role": "assistant", "content": content, "refusal": None, **rest}


class ChatReply:
    """One chat completion."""

    def __init__(
        self, service: Service, request: ChatRequest, answers: Answers, ingress_ns: int
    ) -> None:
        self._service, self._request, self._answers = service, request, answers
        self._ingress_ns = ingress_ns
        self._head = {
            "id": f"chatcmpl-{secrets.token_hex(12)}",
            "object": "chat.completion.chunk" if request.stream else "chat.completion",
            "created": int(time.time()),
            "model": service.model,
        }
        self._observed = bool(request.return_token_ids)
        self._begun: set[int] = set()  # choices of a stream
        self._tail: dict[str, Any] = {"usage": None} if request.shows_usage() else {}

    @property
    def streams(self) -> bool:
        """See `Reply`."""
        return bool(self._request.stream)

    def failed(self, error: HeliosError) -> bytes:
        """See `Reply`."""
        return event(error_of(error, status=STATUS[type(error)]))

    # ------------------------------------------------------------- streamed

    async def events(self) -> AsyncIterator[bytes]:
        """See `Reply`."""
        spell = self._service.frontend.tokenizer.spell if self._request.logprobs else None
        choices = len(self._answers.prepared.requests)
        writer = Chunks(self._head, self._tail, choices=choices, spell=spell)
        async for turns in self._answers.turns():
            pieces: list[bytes] = []
            for turn in turns:
                pieces += self._pieces(writer, turn)
            if pieces:
                yield b"".join(pieces)
        if self._request.shows_usage():
            yield event({**self._head, "choices": [], "usage": usage_of(self._answers.usage())})
        yield DONE

    # hot
    def _pieces(self, writer: Chunks, turn: Turn) -> list[bytes]:
        """What a turn is written as."""
        pieces = writer.deltas(turn)
        if turn.choice not in self._begun:
            pieces.insert(0, self._first(turn.choice, len(self._begun)))
            self._begun.add(turn.choice)
        if self._observed:
            pieces += self._observations(turn)
        if turn.finish is not None:
            pieces.append(self._last(turn))
        return pieces

    def _first(self, choice: int, begun: int) -> bytes:
        """The role, before anything else of a choice."""
        delta = {"role": "assistant", "content": ""}
        more = {}
        if self._observed and not begun:
            more = {"prompt_token_ids": self._answers.prepared.prompt}
        return event({**self._head, **more, "choices": [told(choice, delta)], **self._tail})

    def _observations(self, turn: Turn) -> list[bytes]:
        """One event a generated token, and nothing else in it (TO-03)."""
        pieces = []
        for place, token in enumerate(turn.tokens):
            seen: dict[str, Any] = {**told(turn.choice, {}), "token_ids": [token]}
            if self._request.return_token_timestamps:
                seen |= {"token_timestamps_ns": [turn.times[place]]}
            pieces.append(event({**self._head, "choices": [seen], **self._tail}))
        return pieces

    def _last(self, turn: Turn) -> bytes:
        """The ending of a choice."""
        told_last: dict[str, Any] = {
            **self._head,
            "choices": [told(turn.choice, {}, finish=turn.finish)],
        }
        told_last |= self._tail
        if self._observed:
            told_last |= self._terminal()
            if not self._request.shows_usage():
                told_last["usage"] = usage_of(self._answers.usage())  # (TO-17)
        return event(told_last)

    def _terminal(self) -> dict[str, Any]:
        """What an observed answer says at its end (TO-12, TO-13)."""
        reused = self._answers.reused_tokens
        found: dict[str, Any] = {"reused_prompt_tokens": reused}
        if self._request.return_token_timestamps:
            found["performance"] = {
                "ingress_ns": self._ingress_ns,
                "enqueue_ns": self._answers.enqueued_ns,
                "reused_prompt_tokens": reused,
            }
        return found

    # ---------------------------------------------------------------- whole

    async def whole(self) -> bytes:
        """See `Reply`."""
        choices = [Choice() for _ in self._answers.prepared.requests]
        async for turns in self._answers.turns():
            for turn in turns:
                choice = choices[turn.choice]
                for made in turn.events:
                    choice.take(made)
                choice.tokens += turn.tokens
                choice.times += turn.times
                choice.scores += self._scores(turn)
                choice.finish = turn.finish or choice.finish
        more: dict[str, Any] = {}
        if self._observed:
            more = {"prompt_token_ids": self._answers.prepared.prompt, **self._terminal()}
        return encode(
            {
                **self._head,
                "choices": [self._made(index, choice) for index, choice in enumerate(choices)],
                "usage": usage_of(self._answers.usage()),
                **more,
            }
        )

    def _made(self, index: int, choice: Choice) -> dict[str, Any]:
        """A choice as an object."""
        scored = self._request.logprobs
        made: dict[str, Any] = {
            "index": index,
            "message": choice.message(),
            "logprobs": {"content": choice.scores, "refusal": None} if scored else None,
            "finish_reason": choice.finish,
        }
        if self._observed:
            made["token_ids"] = choice.tokens
            if self._request.return_token_timestamps:
                made["token_timestamps_ns"] = choice.times
        return made

    def _scores(self, turn: Turn) -> list[Delta]:
        spell = self._service.frontend.tokenizer.spell
        return [
            scored(token, score, spell)
            for token, score in zip(turn.tokens, turn.scores, strict=False)
        ]
