"""Text and tokens without generating: /tokenize, /detokenize, /apply-template, input_tokens.

They go the way of a generating request as far as the prompt: a permit, and a preparation thread.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Annotated, Any, Final

import msgspec

from helios.frontend.prepare import schemas_of
from helios.frontend.prompt import Conversation, Prompt
from helios.serve.asks import CHAT, Object
from helios.serve.route import OpenAIErrors, Reply, Service
from helios.serve.wire import WITHOUT_EFFECT, decode, encode
from helios.values import HeliosError, RequestInvalid

MOST_CHARACTERS: Final = 4 << 20
MOST_TOKENS: Final = 1 << 20

Text = Annotated[str, msgspec.Meta(max_length=MOST_CHARACTERS)]
Token = Annotated[int, msgspec.Meta(ge=0, le=(1 << 32) - 1)]


class PromptRequest(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """What of a chat request makes its prompt."""

    model: str | None = None
    messages: Annotated[list[Object], msgspec.Meta(min_length=1)] | None = None
    tools: list[Object] | None = None
    documents: list[Object] | None = None
    reasoning_effort: str | None = None
    chat_template_kwargs: Object | None = None
    add_generation_prompt: bool | None = None
    continue_final_message: bool | str | None = None

    def conversation(self) -> Conversation:
        """What is asked about."""
        if self.messages is None:
            raise RequestInvalid("messages", "nothing", expected="a conversation")
        schemas_of(self.tools)  # errors name the tool's field, not the template's trouble with it
        return Conversation(
            messages=self.messages,
            tools=self.tools,
            documents=self.documents,
            add_generation_prompt=self.add_generation_prompt,
            continue_final_message=self.continue_final_message or False,
            template_variables=self.chat_template_kwargs or {},
            reasoning_effort=self.reasoning_effort,
        )


class ApplyTemplateRequest(PromptRequest, kw_only=True):
    """POST /apply-template."""


class TokenizeRequest(PromptRequest, kw_only=True):
    """POST /tokenize: a text, or a conversation."""

    prompt: Text | None = None
    add_special_tokens: bool | None = None
    with_pieces: bool | None = None

    def text(self) -> str | None:
        """The text, or None for a conversation; fields of the other are refused."""
        if (self.prompt is None) == (self.messages is None):
            found = "nothing" if self.prompt is None else "a text beside messages"
            raise RequestInvalid("prompt", found, expected="one of prompt and messages")
        if self.prompt is None:
            if self.add_special_tokens is not None:
                raise RequestInvalid(
                    "add_special_tokens",
                    encode(self.add_special_tokens).decode(),
                    expected="nothing beside messages: the template writes its own",
                )
            return None
        for name in PromptRequest.__struct_fields__:
            if name not in ("model", "messages") and getattr(self, name) is not None:
                raise RequestInvalid(name, "a value", expected="nothing beside prompt")
        return self.prompt


class DetokenizeRequest(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """POST /detokenize."""

    tokens: Annotated[list[Token], msgspec.Meta(max_length=MOST_TOKENS)]
    model: str | None = None
    skip_special_tokens: bool | None = None


TOKENIZE: Final = msgspec.json.Decoder(TokenizeRequest)
DETOKENIZE: Final = msgspec.json.Decoder(DetokenizeRequest)
APPLY_TEMPLATE: Final = msgspec.json.Decoder(ApplyTemplateRequest)


class Whole:
    """An answer that is one object."""

    streams = False

    def __init__(self, value: object) -> None:
        self._value = value

    async def whole(self) -> bytes:
        """See `Reply`."""
        return encode(self._value)

    async def events(self) -> AsyncIterator[bytes]:
        """See `Reply`; there are none."""
        return
        yield b""

    def failed(self, error: HeliosError) -> bytes:
        """See `Reply`; no stream can fail."""
        raise error


Work = Callable[[Service, bytes], object]


class TextFormat(OpenAIErrors):
    """A route whose whole work is done in a preparation thread."""

    def __init__(self, service: Service, work: Work) -> None:
        self._service, self._work = service, work

    async def reply(self, body: bytes) -> Reply:
        """See `Format`."""
        loop = asyncio.get_running_loop()
        return Whole(
            await loop.run_in_executor(self._service.preparers, self._work, self._service, body)
        )


# -------------------------------------------------------------------- work


def tokenize(service: Service, body: bytes) -> object:
    """The tokens of a text or a conversation, and how many there are."""
    request = decode(body, TOKENIZE, ignored=())
    service.check_model(request.model)
    tokenizer = service.frontend.tokenizer
    text = request.text()
    if text is None:
        tokens = list(rendered(service, request.conversation()).tokens)
    else:
        tokens = tokenizer.encode(text, special=bool(request.add_special_tokens))
    answer: dict[str, Any] = {
        "tokens": tokens,
        "count": len(tokens),
        "max_model_len": service.frontend.context_tokens,
    }
    if request.with_pieces:
        answer["pieces"] = [piece_of(tokenizer.spell(token)) for token in tokens]
    return answer


def detokenize(service: Service, body: bytes) -> object:
    """The text of tokens."""
    request = decode(body, DETOKENIZE, ignored=())
    service.check_model(request.model)
    tokens = service.frontend.given(request.tokens, "tokens")
    skip = bool(request.skip_special_tokens)
    return {"prompt": service.frontend.tokenizer.decode(tokens, special=not skip)}


def apply_template(service: Service, body: bytes) -> object:
    """A conversation as the model is given it, and which of it the template wrote."""
    request = decode(body, APPLY_TEMPLATE, ignored=())
    service.check_model(request.model)
    prompt = rendered(service, request.conversation())
    return {
        "prompt": prompt.text.text,
        "template_spans": prompt.text.template_spans,
        "tokens": prompt.tokens,
        "count": len(prompt.tokens),
    }


def input_tokens(service: Service, body: bytes) -> object:
    """How many tokens the prompt of a chat request has."""
    request = decode(body, CHAT, ignored=WITHOUT_EFFECT)
    service.check_model(request.model)
    schemas_of(request.tools)
    prompt = rendered(service, request.conversation())
    return {"object": "response.input_tokens", "input_tokens": len(prompt.tokens)}


def rendered(service: Service, conversation: Conversation) -> Prompt:
    """The prompt of a conversation."""
    if service.frontend.prompts is None:
        raise RequestInvalid("messages", "a conversation", expected="a model with a chat template")
    return service.frontend.prompts.prompt(conversation)


def piece_of(spelled: bytes) -> str | list[int]:
    """A token's text; its bytes where they are part of a character."""
    try:
        return spelled.decode()
    except UnicodeDecodeError:
        return list(spelled)
