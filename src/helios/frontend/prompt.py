"""The prompt path: a conversation becomes text with its origins, and tokens.

Owns what a client may say about a prompt besides messages: tools, documents, template
variables, reasoning effort, and whether the last message is to be continued.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec

from helios.frontend.messages import Shaped, Taste, shaped
from helios.frontend.provenance import PromptText, Traced, piece, spans_of, traced_values
from helios.frontend.template import ChatTemplate, Message
from helios.frontend.text import Tokenizer
from helios.values import RequestInvalid
from prepared.contract import EffortLevel, MessageRole, PrefixBoundaryRule

CONTINUED: Final = "CONTINUED_HERE_5b0e3d "
"""Put behind a message that is continued, to find the place; templates may trim its blank."""
CONTINUABLE: Final = {
    "content": ("content",),
    "reasoning": ("reasoning_content", "reasoning", "thinking"),
    "reasoning_content": ("reasoning_content", "reasoning", "thinking"),
}
MOST_BOUNDARIES: Final = 8
ROLE_NAMES: Final = {role.name.lower(): role for role in MessageRole}


class Conversation(msgspec.Struct, frozen=True, kw_only=True):
    """What a client asks about; messages, tools and documents in OpenAI's form."""

    messages: Sequence[Message]
    tools: Sequence[Mapping[str, Any]] | None = None
    documents: Sequence[Mapping[str, Any]] | None = None
    add_generation_prompt: bool | None = None  # by default, unless a message is continued
    continue_final_message: bool | str = False  # True means its content
    template_variables: Mapping[str, Any] = msgspec.field(default_factory=dict)
    reasoning_effort: str | None = None


class Prompt(msgspec.Struct, frozen=True, kw_only=True):
    """A conversation, rendered and encoded."""

    text: PromptText
    tokens: tuple[int, ...]


class PromptPath:
    """A core's template and tokenizer, and what its contract declares about prompts."""

    def __init__(
        self,
        template: ChatTemplate,
        tokenizer: Tokenizer,
        *,
        efforts: Sequence[EffortLevel] = (),
        boundaries: Sequence[PrefixBoundaryRule] = (),
    ) -> None:
        self._template, self._tokenizer = template, tokenizer
        self._efforts = {level.effort: level for level in efforts}
        self._values = {level.effort: traced_values(json.loads(level.value)) for level in efforts}
        self._boundaries = {rule.role: rule for rule in boundaries}
        self.taste = Taste.of(template)
        self.efforts = frozenset(self._efforts)

    def prompt(self, conversation: Conversation) -> Prompt:
        """The tokens that the model is given, or RequestInvalid naming the field."""
        text = self.render(conversation)
        return Prompt(text=text, tokens=tuple(self._tokenizer.encode_prompt(text)))

    def render(self, conversation: Conversation) -> PromptText:
        """The text of a conversation."""
        continued = continued_fields(conversation)
        messages = shaped(conversation.messages, self.taste)
        if continued is not None:
            mark(messages[-1], continued)
        generate = conversation.add_generation_prompt
        text = self._rendered(
            conversation,
            messages,
            generate=continued is None if generate is None else generate,
        )
        return text if continued is None else cut_at_mark(text)

    def _rendered(
        self, conversation: Conversation, messages: Sequence[Message], *, generate: bool
    ) -> PromptText:
        return self._template.render(
            messages,
            tools=conversation.tools or None,
            documents=conversation.documents,
            add_generation_prompt=generate,
            variables=self.variables(conversation),
        )

    def variables(self, conversation: Conversation) -> dict[str, Any]:
        """Template variables: as the client set them, and as the effort sets them."""
        given = dict(conversation.template_variables)
        for name in given:
            if name in self._template.reserved:
                raise RequestInvalid(
                    f"chat_template_kwargs.{name}",
                    "a name that the server sets itself",
                    expected="a variable of the model's chat template",
                )
        effort = conversation.reasoning_effort
        if effort is None:
            return given
        level = self._efforts.get(effort)
        if level is None:
            declared = ", ".join(self._efforts) or "nothing: this model declares no efforts"
            raise RequestInvalid("reasoning_effort", repr(effort), expected=declared)
        value = self._values[effort]
        if given.get(level.variable, value) != value:
            raise RequestInvalid(
                f"chat_template_kwargs.{level.variable}",
                repr(given[level.variable]),
                expected=f"what reasoning_effort says ({level.value}), or one of the two",
            )
        return {**given, level.variable: value}

    def prefix_boundaries(self, conversation: Conversation, prompt: Prompt) -> tuple[int, ...]:
        """Tokens of the prompt after which it stays a prefix of the next turn's (FI-12).

        The contract's rules say after which messages to look; each place is verified by
        rendering: what was rendered up to there begins this prompt and the next turn's, and so
        do its tokens.  At most the last few places are looked at.
        """
        if not self._boundaries or continued_fields(conversation) is not None:
            return ()
        messages = shaped(conversation.messages, self.taste)
        found: set[int] = set()
        following: PromptText | None = None
        for messages_before, generate in self._candidates(messages):
            try:
                head = self._rendered(conversation, messages_before, generate=generate)
                following = following or self._rendered(
                    conversation, [*messages, *next_turn(messages, self.taste)], generate=True
                )
            except RequestInvalid:
                continue  # the template takes no such part of a conversation
            if begins(head, prompt.text) and begins(head, following):
                tokens = tuple(self._tokenizer.encode_prompt(head))
                if prompt.tokens[: len(tokens)] == tokens:
                    found.add(len(tokens))
        return tuple(sorted(found - {0}))

    def _candidates(self, messages: Sequence[Shaped]) -> Iterator[tuple[list[Shaped], bool]]:
        """Beginnings of the conversation after which a rule applies, the last ones."""
        places = [
            (index, self._boundaries[role])
            for index, message in enumerate(messages, 1)
            if (role := ROLE_NAMES[str(message["role"])]) in self._boundaries
        ]
        for index, rule in places[-MOST_BOUNDARIES:]:
            yield list(messages[:index]), rule.needs_generation_prompt


def begins(head: PromptText, whole: PromptText) -> bool:
    """Whether a text is how another begins."""
    return whole.text.startswith(head.text)


def next_turn(messages: Sequence[Shaped], taste: Taste) -> list[Shaped]:
    """What a conversation may go on with."""
    answer = {"role": "assistant", "content": "a"}
    question = {"role": "user", "content": "q"}
    answered = str(messages[-1]["role"]) == "assistant"
    return shaped([question] if answered else [answer, question], taste)


# ------------------------------------------------------------ continuation


def continued_fields(conversation: Conversation) -> tuple[str, ...] | None:
    """Names of the last message's field that is to be continued; None without such a wish."""
    asked = conversation.continue_final_message
    if asked is False:
        return None
    if conversation.add_generation_prompt:
        raise RequestInvalid(
            "continue_final_message",
            "true together with add_generation_prompt",
            expected="one of the two: continue a message, or begin one (C-01)",
        )
    names = CONTINUABLE.get("content" if asked is True else asked)
    if names is None:
        raise RequestInvalid(
            "continue_final_message", repr(asked), expected=f"true or one of {list(CONTINUABLE)}"
        )
    return names


def mark(message: Shaped, names: Sequence[str]) -> None:
    """Put the mark behind what is continued, under each of its names (C-02)."""
    if str(message["role"]) != "assistant":
        raise RequestInvalid(
            "continue_final_message",
            f"a last message of the role {message['role']}",
            expected="an assistant's message to continue",
        )
    if names[0] not in message:
        raise RequestInvalid(
            "continue_final_message",
            f"a last message without {names[0]}",
            expected=f"a message with {names[0]} to continue",
        )
    for name in names:
        value = message.get(name, [])
        if isinstance(value, str):
            message[name] = value + CONTINUED
            continue
        texts = [part for part in value if "text" in part]
        if texts:
            texts[-1]["text"] += CONTINUED


def cut_at_mark(prompt: PromptText) -> PromptText:
    """The prompt up to the last mark, which goes away with what follows it."""
    at = prompt.text.rfind(CONTINUED.strip())
    if at < 0:
        raise RequestInvalid(
            "continue_final_message",
            "a message that the model's chat template does not write",
            expected="a field that the template writes at the end",
        )
    kept = piece(Traced(prompt.text, prompt.template_spans), 0, at)
    if not prompt.text.startswith(CONTINUED, at):
        kept = kept.rstrip()  # the template trims what it writes
    return PromptText(text=str.__str__(kept), template_spans=spans_of(kept))
