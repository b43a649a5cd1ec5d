"""POST /v1/completions: text in, text out, with echo and prompt log-probabilities."""

from __future__ import annotations

import secrets
import time
from collections.abc import AsyncIterator
from typing import Any

from helios.frontend.syntax.events import Content
from helios.respond.pipeline import Usage
from helios.rounds import Score
from helios.serve.answers import Answers, Turn
from helios.serve.asks import COMPLETION, CompletionRequest
from helios.serve.chunks import usage_of
from helios.serve.route import OpenAIErrors, Reply, Service
from helios.serve.wire import DONE, decode, encode, error_of, event
from helios.values import STATUS, HeliosError


class CompletionFormat(OpenAIErrors):
    """The completions route's format."""

    def __init__(self, service: Service) -> None:
        self._service = service

    async def reply(self, body: bytes) -> Reply:
        """See `Format`."""
        service = self._service
        request = decode(body, COMPLETION)
        service.check_model(request.model)
        answers = []
        for at, prompt in request.prompts():
            prepared = await service.prepare(request.asked(prompt, at=at))
            answers.append(Answers(service.front, service.frontend, prepared, raw=True))
        return CompletionReply(service, request, answers)


class Scores:
    """Log-probabilities of one choice in the completions shape."""

    def __init__(self, service: Service, count: int) -> None:
        self._spell, self._count = service.frontend.tokenizer.spell, count
        self.tokens: list[str] = []
        self.token_logprobs: list[float | None] = []
        self.top_logprobs: list[dict[str, float] | None] = []
        self.text_offset: list[int] = []
        self._offset = 0
        self._fed = 0  # rows of the prompt

    def add(self, token: int, score: Score | None) -> None:
        """One more token; the first of a prompt has no score."""
        text = self._spell(token).decode("utf-8", "replace")
        self.tokens.append(text)
        self.text_offset.append(self._offset)
        self._offset += len(text)
        self.token_logprobs.append(None if score is None else score.logprob)
        tops = None
        if score is not None and self._count:
            tops = {self._spell(t).decode("utf-8", "replace"): value for t, value in score.top}
            tops.setdefault(text, score.logprob)
        self.top_logprobs.append(tops)

    def add_prompt(self, prompt: tuple[int, ...], scores: tuple[Score | None, ...]) -> None:
        """The scores of rows just fed: each is of the prompt token that follows its row."""
        if not self._fed:
            self.add(prompt[0], None)
        following = prompt[self._fed + 1 : self._fed + 1 + len(scores)]
        for token, score in zip(following, scores, strict=False):
            self.add(token, score)
        self._fed += len(scores)

    def taken(self) -> dict[str, Any]:
        """What was added since it was last taken."""
        found = {
            "tokens": self.tokens,
            "token_logprobs": self.token_logprobs,
            "top_logprobs": self.top_logprobs,
            "text_offset": self.text_offset,
        }
        self.tokens, self.token_logprobs, self.top_logprobs, self.text_offset = [], [], [], []
        return found


class Prompted:
    """One prompt of a request: its answers, its first choice's number, and what was written."""

    def __init__(self, answers: Answers, scores: list[Scores | None], *, first: int) -> None:
        self.answers, self.scores, self.first = answers, scores, first
        self.begun: set[int] = set()  # choices that have had their echo


class CompletionReply:
    """One completion request: every prompt's choices, numbered on."""

    def __init__(
        self, service: Service, request: CompletionRequest, answers: list[Answers]
    ) -> None:
        self._service, self._request, self._answers = service, request, answers
        self._head = {
            "id": f"cmpl-{secrets.token_hex(12)}",
            "object": "text_completion",
            "created": int(time.time()),
            "model": service.model,
        }
        self._silent = request.max_tokens == 0  # only the prompt is shown

    @property
    def streams(self) -> bool:
        """See `Reply`."""
        return bool(self._request.stream)

    def failed(self, error: HeliosError) -> bytes:
        """See `Reply`."""
        return event(error_of(error, status=STATUS[type(error)]))

    async def events(self) -> AsyncIterator[bytes]:
        """See `Reply`."""
        first = 0
        for answers in self._answers:
            prompted = Prompted(answers, self._scores(answers), first=first)
            async for turns in answers.turns():
                pieces = b"".join(self._piece(prompted, turn) for turn in turns)
                if pieces:
                    yield pieces
            first += len(answers.prepared.requests)
        if self._request.shows_usage():
            yield event({**self._head, "choices": [], "usage": usage_of(self._usage())})
        yield DONE

    async def whole(self) -> bytes:
        """See `Reply`."""
        choices: list[dict[str, Any]] = []
        for answers in self._answers:
            choices += await self._collected(answers, first=len(choices))
        return encode({**self._head, "choices": choices, "usage": usage_of(self._usage())})

    async def _collected(self, answers: Answers, *, first: int) -> list[dict[str, Any]]:
        """One prompt's choices."""
        scores = self._scores(answers)
        prompted = Prompted(answers, scores, first=first)
        made: list[dict[str, Any]] = [
            {"index": first + number, "text": "", "logprobs": None, "finish_reason": "stop"}
            for number in range(len(scores))
        ]
        tokens: list[list[int]] = [[] for _ in scores]
        async for turns in answers.turns():
            for turn in turns:
                choice = made[turn.choice]
                choice["text"] += self._echo(prompted, turn) + self._text(turn)
                self._score(prompted, turn)
                tokens[turn.choice] += turn.tokens
                choice["finish_reason"] = turn.finish or choice["finish_reason"]
        for number, found in enumerate(scores):
            if found is not None:
                made[number]["logprobs"] = found.taken()
            if self._request.return_token_ids:
                made[number]["token_ids"] = tokens[number]
                made[number]["prompt_token_ids"] = answers.prepared.prompt
        return made

    # ---------------------------------------------------------------- parts

    def _piece(self, prompted: Prompted, turn: Turn) -> bytes:
        """A turn as an event, if it says anything."""
        text = self._echo(prompted, turn) + self._text(turn)
        logprobs = self._logprobs(prompted, turn)
        if not (text or turn.finish or logprobs):
            return b""
        choice = {
            "index": prompted.first + turn.choice,
            "text": text,
            "logprobs": logprobs,
            "finish_reason": turn.finish,
        }
        if self._request.return_token_ids:
            choice["token_ids"] = turn.tokens
        tail: dict[str, Any] = {"usage": None} if self._request.shows_usage() else {}
        return event({**self._head, "choices": [choice], **tail})

    def _scores(self, answers: Answers) -> list[Scores | None]:
        count = self._request.logprobs
        return [
            None if count is None else Scores(self._service, count)
            for _ in answers.prepared.requests
        ]

    def _echo(self, prompted: Prompted, turn: Turn) -> str:
        """The prompt, before a choice's first text, if the client wants it."""
        if not self._request.echo or turn.choice in prompted.begun:
            return ""
        prompted.begun.add(turn.choice)
        return self._service.frontend.tokenizer.decode(prompted.answers.prepared.prompt)

    def _text(self, turn: Turn) -> str:
        if self._silent:
            return ""
        return "".join(made.text for made in turn.events if isinstance(made, Content))

    def _logprobs(self, prompted: Prompted, turn: Turn) -> dict[str, Any] | None:
        """What a turn adds to the log-probabilities of a stream."""
        scores = prompted.scores[turn.choice]
        if scores is None:
            return None
        self._score(prompted, turn)
        return scores.taken() if scores.tokens else None

    def _score(self, prompted: Prompted, turn: Turn) -> None:
        """Prompt tokens as they are scored, then generated ones."""
        scores = prompted.scores[turn.choice]
        if scores is None:
            return
        if self._request.echo and turn.prompt_scores:
            scores.add_prompt(prompted.answers.prepared.prompt, turn.prompt_scores)
        if not self._silent:
            for token, score in zip(turn.tokens, turn.scores, strict=False):
                scores.add(token, score)

    def _usage(self) -> Usage:
        """Tokens of all prompts."""
        parts = [answers.usage() for answers in self._answers]
        return Usage(
            prompt_tokens=sum(part.prompt_tokens for part in parts),
            completion_tokens=0 if self._silent else sum(part.completion_tokens for part in parts),
            reused_tokens=sum(part.reused_tokens for part in parts),
        )
