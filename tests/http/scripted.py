"""Real servers that say what tests wrote: small tokenizers, templates and scripts by syntax.

A `Stage` is a syntax on a tokenizer of its own.  Tests write its lines while they are collected,
so that one server has them all; `Playing` then goes to the line that a test wants, using up the
lines between by short completions.  Every line is played several times over: cut into tokens
differently, arriving in groups, streamed and whole.
"""

from __future__ import annotations

import json
import os
import re
import signal
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Final
from unittest.mock import patch

import httpx
import pytest
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

from ignition.cli import parser
from tests.http.answers import Said, Stream
from tests.serving import RealServer

CHAT: Final = "/v1/chat/completions"
COMPLETIONS: Final = "/v1/completions"
MOST_CHOICES: Final = 16
QUESTION: Final = [{"role": "user", "content": "How is it?"}]
OPTIONS: Final = ("--max-active", "16", "--queue-capacity", "8", "--cache-memory", "64M")

CHATML: Final = """\
{%- for m in messages %}
{{- '<|im_start|>' + m.role + '\\n' }}
{%- if m.reasoning_content and loop.last %}
    {{- '<think>\\n' + m.reasoning_content + '\\n</think>\\n\\n' }}
{%- endif %}
{{- m.content or '' }}
{%- for c in m.tool_calls or [] %}{{- '[' ~ c.id ~ '=' ~ c.function.name ~ ':' }}
{{- c.function.arguments | tojson }}{{- ']' }}{%- endfor %}
{{- '<|im_end|>\\n' }}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}
{%- if enable_thinking %}{{- '<think>\\n' }}{%- endif %}{%- endif %}"""

FRAMES: Final = """\
{%- for m in messages %}
{{- '<|start|>' + m.role + '<|message|>' + (m.content or '') + 'END' }}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|start|>assistant' }}{%- endif %}"""

XTML: Final = """\
{%- for m in messages %}
{{- '<|open|>message role="' + m.role + '"<|sep|>' + (m.content or '') }}
{{- '<|close|>message<|sep|><|end_of_msg|>' }}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|open|>message role="assistant"<|sep|>' }}
{{- '<|open|>think<|sep|>' if enable_thinking is not false else '<|open|>response<|sep|>' }}
{%- endif %}"""

CORPUS: Final = (
    "the weather in Paris is fine and the time is three o'clock in the afternoon, thinking twice "
    '<tool_call> <function=get_weather> <parameter=city> </parameter> </function> {"name": "get", '
    '"arguments": {"city": "Paris"}} <think> </think> <arg_key> <invoke name="get_time"> tool_calls'
) * 4


@dataclass(slots=True, weakref_slot=True)
class Stage:
    """A syntax, a tokenizer and a script, and the server that plays it once somebody looks."""

    name: str
    tools: str = "none"
    reasoning: str = "none"
    added: Sequence[str] = ()
    special: Sequence[str] = ("<|im_start|>",)
    ends: Sequence[str] = ("<|im_end|>",)
    template: str = CHATML
    sizes: Sequence[str] = ()  # of the core, as `ignition scripted` takes them
    options: Sequence[str] = OPTIONS
    defaults: Mapping[str, object] = field(default_factory=dict)  # of chat requests
    lines: list[Mapping[str, object]] = field(default_factory=list)

    def line(self, text: str | None = None, **written: object) -> int:
        """Add a line to the script; returns its number."""
        said = written if text is None else {"text": text, **written}
        self.lines.append(said)
        return len(self.lines) - 1

    def pair(self, text: str | None = None, **written: object) -> int:
        """A line for an answer that is asked for whole and streamed."""
        first = self.line(text, **written)
        self.line(text, **written)
        return first

    def ways(self, text: str, **written: object) -> tuple[int, ...]:
        """A text cut and grouped in several ways, a pair of lines each."""
        return (
            self.pair(text, **written),
            self.pair(text, group=5, **written),
            self.pair(text, group=64, **written),
            self.pair(segments=self.cut(text, every=1), group=3, **written),
            self.pair(segments=self.cut(text, every=3), group=2, **written),
        )

    def cut(self, text: str, *, every: int) -> list[dict[str, object]]:
        """The text in segments of so many characters; added tokens stay whole."""
        markers = sorted({*self.added, *self.special, *self.ends}, key=len, reverse=True)
        parts = re.split("(" + "|".join(map(re.escape, markers)) + ")", text)
        return [
            {"text": piece, "plain": part not in markers}
            for part in parts
            for piece in ([part] if part in markers else pieces(part, every))
        ]


def pieces(text: str, every: int) -> list[str]:
    """A text in pieces of so many characters."""
    return [text[at : at + every] for at in range(0, len(text), every)]


def tokenizer_of(stage: Stage) -> Tokenizer:
    """Bytes, a few words and the stage's own added tokens."""
    made = Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    made.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=400,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
        max_token_length=6,
    )
    made.train_from_iterator([CORPUS], trainer)
    made.add_tokens(list(stage.added))
    made.add_special_tokens([*stage.special, *stage.ends])
    return made


def make_core(stage: Stage, folder: Path, home: Path) -> Path:
    """The stage's core and its script, as a user makes them."""
    folder.mkdir()
    made = tokenizer_of(stage)
    made.save(str(folder / "tokenizer.json"))
    ids = [made.token_to_id(end) for end in stage.ends]
    config = {"eos_token": stage.ends[0]}
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
    (folder / "generation_config.json").write_text(json.dumps({"eos_token_id": ids}))
    (folder / "template.jinja").write_text(stage.template.replace("END", stage.ends[0]))
    script = "".join(f"{json.dumps(line)}\n" for line in stage.lines)
    (folder / "script.jsonl").write_text(script)
    core = folder / f"{stage.name}.core"
    arguments = ["scripted", "--out", core, "--tokenizer", folder / "tokenizer.json"]
    arguments += ["--template", folder / "template.jinja"]
    arguments += ["--tools", stage.tools, "--reasoning", stage.reasoning, *stage.sizes]
    said = parser().parse_args(list(map(str, arguments)))
    with patch.dict(os.environ, HELIOS_HOME=str(home)):
        said.run(said)
    return core


class Playing:
    """A stage's server, and the line that comes next."""

    def __init__(self, stage: Stage, folder: Path, home: Path) -> None:
        self.stage = stage
        core = make_core(stage, folder, home)
        self.tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        script = str(folder / "script.jsonl")
        self.server = RealServer("--script", script, *stage.options, core=core, home=home)
        self.server.wait_until_ready()
        self.http = httpx.Client(base_url=self.server.origin, timeout=30)
        self.next = 0

    def ended(self) -> None:
        """The server was told to stop: wait for its end."""
        self.http.close()
        self.server.wait()

    def seek(self, line: int) -> None:
        """Use up lines until this one comes next."""
        lines = self.stage.lines
        while self.next != line:
            left = (line - self.next) % len(lines)
            ahead = lines[self.next : self.next + min(left, MOST_CHOICES)]
            fails = [place for place, written in enumerate(ahead) if "fail_at" in written]
            count = max(1, fails[0]) if fails else len(ahead)  # a failure ends its neighbours
            self.post(COMPLETIONS, prompt="a", max_tokens=1, n=count)

    def post(self, path: str, **body: Any) -> httpx.Response:
        """Send a request; counts the lines that it uses."""
        answer = self.http.post(path, json=body)
        self.used(body.get("n") or 1, status=answer.status_code)
        return answer

    def used(self, count: int, *, status: int) -> None:
        """Lines are used by requests that reach the model, and by no other."""
        if status in (200, 500):
            self.next = (self.next + count) % len(self.stage.lines)

    def ask(self, line: int, **changes: Any) -> httpx.Response:
        """A chat request that this line answers."""
        self.seek(line)
        return self.post(CHAT, **{"messages": QUESTION, **self.stage.defaults, **changes})

    def whole(self, line: int, **changes: Any) -> Said:
        """A line's answer as one object."""
        answer = self.ask(line, **changes)
        assert answer.status_code == 200, answer.text
        return Said.of_object(answer.json())

    def stream(self, line: int, **changes: Any) -> Stream:
        """A line's answer as a stream, read to its end."""
        answer = self.ask(line, stream=True, **changes)
        assert answer.status_code == 200, answer.text
        return Stream.read(answer.text)

    def both(self, pair: int, **changes: Any) -> Said:
        """A pair's answer, which is the same whole and streamed, usage included."""
        whole = self.whole(pair, **changes)
        changes.setdefault("stream_options", {"include_usage": True})
        streamed = self.stream(pair + 1, **changes)
        assert streamed.said() == whole
        assert streamed.done
        return whole

    def alike(self, pairs: Sequence[int], **changes: Any) -> Said:
        """What all these lines say, however they are cut."""
        first, *others = [self.both(pair, **changes) for pair in pairs]
        for other in others:
            assert replace(other, usage=None) == replace(first, usage=None)
        return first

    def metric(self, name: str) -> float:
        """A sample's value, labels summed."""
        text = self.http.get("/metrics").text
        found = re.findall(rf"^{name}(?:{{[^}}]*}})? (\S+)$", text, re.MULTILINE)
        assert found, name
        return sum(map(float, found))

    @cached_property
    def ends(self) -> set[int]:
        """Ids that end a sequence."""
        return {self.tokenizer.token_to_id(end) for end in self.stage.ends}


class Theatre:
    """Every stage's server, started when it is first wanted."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._playing: dict[str, Playing] = {}
        self._failed: set[str] = set()

    def __call__(self, stage: Stage) -> Playing:
        """The stage's server."""
        if stage.name in self._failed:
            pytest.fail(f"the server of {stage.name} did not start", pytrace=False)
        if stage.name not in self._playing:
            self._failed.add(stage.name)
            folder, home = self._folder / stage.name, self._folder / "home"
            self._playing[stage.name] = Playing(stage, folder, home)
            self._failed.remove(stage.name)
        return self._playing[stage.name]

    def stop(self) -> None:
        """Stop every server, all at the same time."""
        for playing in self._playing.values():
            os.kill(playing.server.pid, signal.SIGTERM)
        for playing in self._playing.values():
            playing.ended()


def theatre(folder: Path) -> Iterator[Theatre]:
    """A theatre that closes."""
    made = Theatre(folder)
    try:
        yield made
    finally:
        made.stop()
