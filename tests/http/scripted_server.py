"""A real server of a scripted core, whose model says what a test wants next.

The core has a tokenizer of bytes, a template in ChatML, calls as JSON and reasoning in tags.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import httpx
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

from tests.frontend.templates import CHATML
from tests.serving import free_port

START_SECONDS: Final = 60
STOP_SECONDS: Final = 20
END: Final = "<|im_end|>"
SPECIAL: Final = ("<|im_start|>", END)
MARKERS: Final = ("<think>", "</think>", "<tool_call>", "</tool_call>")


def write_tokenizer(folder: Path) -> Path:
    """A tokenizer whose every token is a byte, or a marker."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = Tokenizer(
        models.BPE(vocab={letter: index for index, letter in enumerate(alphabet)}, merges=[])
    )
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken(text, special=True) for text in SPECIAL])
    tokenizer.add_tokens([AddedToken(text, normalized=False) for text in MARKERS])
    path = folder / "tokenizer.json"
    tokenizer.save(str(path))
    (folder / "tokenizer_config.json").write_text(json.dumps({"eos_token": END}))
    (folder / "template.jinja").write_text(CHATML)
    return path


class ScriptedServer:
    """`helios serve` of a scripted core; `say` turns its script to a line."""

    def __init__(self, folder: Path, lines: Mapping[str, Mapping[str, Any]]) -> None:
        self._names = list(lines)
        self._environment = {**os.environ, "HELIOS_HOME": str(folder / "home")}
        tokenizer = write_tokenizer(folder)
        core, script = folder / "scripted.core", folder / "script.jsonl"
        script.write_text("".join(json.dumps(line) + "\n" for line in lines.values()))
        made_of = [f"--tokenizer={tokenizer}", f"--template={folder / 'template.jinja'}"]
        making = ["scripted", *made_of, "--tools=hermes", "--reasoning=think", f"--out={core}"]
        subprocess.run([command("ignition"), *making], check=True, env=self._environment)
        port = free_port()
        self.origin = f"http://127.0.0.1:{port}"
        self.log = folder / "log"
        self._process = self._start("serve", core, "--script", script, "--port", str(port))
        self.http = httpx.Client(base_url=self.origin, timeout=30)
        self._wait()

    def _start(self, *words: str | Path) -> subprocess.Popen[bytes]:
        with self.log.open("wb") as log:
            return subprocess.Popen(
                [command("helios"), *words], stdout=log, stderr=log, env=self._environment
            )

    def _wait(self) -> None:
        deadline = time.monotonic() + START_SECONDS
        while self._process.poll() is None and time.monotonic() < deadline:
            try:
                if self.http.get("/health").status_code == 200:
                    return
            except httpx.TransportError:
                time.sleep(0.05)
        self.stop()
        raise AssertionError(f"the server did not start:\n{self.log.read_text()}")

    def started(self) -> int:
        """Requests that have reached the model."""
        found = re.search(r"^flare_requests_started_total (\S+)$", self._metrics(), re.MULTILINE)
        assert found is not None
        return int(float(found[1]))

    def _metrics(self) -> str:
        return self.http.get("/metrics").text

    def say(self, name: str) -> None:
        """The next request gets this line."""
        before = (self._names.index(name) - self.started()) % len(self._names)
        for _ in range(before):
            self.http.post("/v1/completions", json={"prompt": "x", "max_tokens": 1})

    def stop(self) -> None:
        """End it."""
        self.http.close()
        self._process.terminate()
        try:
            self._process.wait(STOP_SECONDS)
        finally:
            self._process.kill()
            self._process.wait()


@contextmanager
def scripted_server(
    folder: Path, lines: Mapping[str, Mapping[str, Any]]
) -> Iterator[ScriptedServer]:
    """A server for a while."""
    server = ScriptedServer(folder, lines)
    try:
        yield server
    finally:
        server.stop()


def command(name: str) -> Path:
    """A console command of this environment."""
    return Path(sys.executable).with_name(name)


def call(name: str, arguments: object) -> str:
    """How the model writes a call."""
    written = json.dumps({"name": name, "arguments": arguments})
    return f"<tool_call>\n{written}\n</tool_call>"


ONE_CALL: Final = call("get_weather", {"city": "Paris", "days": 3})

LINES: Final[dict[str, dict[str, Any]]] = {
    "text": {"text": "Hello there."},
    "grouped": {"text": "<think>\nhmm\n</think>\n\nHi. " + ONE_CALL, "group": 16},
    "thought": {"text": "<think>\nLet me think.\n</think>\n\nIt is four."},
    "long thought": {"text": "<think>\nLet me think a long time.", "end": "length"},
    "one call": {"text": ONE_CALL},
    "two calls": {"text": f"{ONE_CALL}\n{call('get_time', {})}"},
    "everything": {"text": f"<think>\nhmm\n</think>\n\nI look. {ONE_CALL}"},
    "document": {"text": '{"word": "sun", "count": 2}'},
    "nothing": {"text": ""},
    "no end": {"text": "x" * 9000, "group": 64},
    "fails": {"text": "Hello there.", "fail_at": 5},
    "fails in a call": {"text": ONE_CALL, "fail_at": 45},
    "fails at once": {"text": "Hello there.", "fail_at": 0},
}
