"""A server of a scripted core so small that it starts in a second or two."""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.frontend.conversations import byte_tokenizer_file
from tests.serving import free_port

CHAT = "/v1/chat/completions"
QUESTION = [{"role": "user", "content": "hello"}]
ANSWER = "hello there"
MARKERS = ("<|start|>", "<|end|>")
TEMPLATE = (
    "{%- for m in messages %}{{- '<|start|>' + m.role + '\\n' + m.content + '<|end|>' }}"
    "{%- endfor %}{%- if add_generation_prompt %}{{- '<|start|>assistant\\n' }}{%- endif %}"
)
READY_SECONDS = 60


class SmallServer:
    """`helios serve` of a scripted core, from its start to its end."""

    def __init__(self, folder: Path, *options: str, variables: Mapping[str, str] | None = None):
        self.home = folder / "home"
        core = folder / "small.core"
        if not core.exists():
            make_core(folder, core)
        self.port = free_port()
        self.origin = f"http://127.0.0.1:{self.port}"
        self.log = folder / f"{self.port}.log"
        command = ["serve", str(core), "--script", str(folder / "script.jsonl")]
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                [
                    *(sys.executable, "-c", "from helios.cli import main; main()", *command),
                    *("--port", str(self.port), "--cache-memory", "64M", *options),
                ],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log,
                env={**os.environ, **(variables or {}), "HELIOS_HOME": str(self.home)},
            )
        self._wait_until_ready()

    def _wait_until_ready(self) -> None:
        assert self.process.stdout is not None
        output, deadline = b"", time.monotonic() + READY_SECONDS
        while b"memory: " not in output:
            left = max(0.0, deadline - time.monotonic())
            ready, _, _ = select.select([self.process.stdout], [], [], left)
            piece = os.read(self.process.stdout.fileno(), 1 << 16) if ready else b""
            output += piece
            if not piece:
                pytest.fail(f"no start:\n{output.decode()}{self.log.read_text()}", pytrace=False)

    def entries(self) -> list[dict[str, Any]]:
        """The access log so far."""
        lines = self.log.read_text().splitlines()
        return [json.loads(line) for line in lines if line.startswith("{")]

    def entry(self, request_id: str) -> dict[str, Any]:
        """The line of one request, which is written soon after its end."""
        deadline = time.monotonic() + 10
        while time.monotonic() < deadline:
            for entry in self.entries():
                if entry.get("request_id") == request_id:
                    return entry
            time.sleep(0.02)
        raise AssertionError(f"no line of {request_id} in {self.entries()}")

    def stop(self) -> int:
        """Stop it as its user would; returns its exit status."""
        self.process.terminate()
        self.process.communicate(timeout=20)
        return self.process.returncode


def make_core(folder: Path, core: Path) -> None:
    """A scripted core of a byte tokenizer, and its script."""
    (folder / "tokenizer.json").write_text(json.dumps(byte_tokenizer_file(MARKERS)))
    (folder / "tokenizer_config.json").write_text(json.dumps({"eos_token": "<|end|>"}))
    (folder / "template.jinja").write_text(TEMPLATE)
    (folder / "script.jsonl").write_text(json.dumps({"text": ANSWER}) + "\n")
    subprocess.run(
        [
            *(sys.executable, "-c", "from ignition.cli import main; main()", "scripted"),
            *("--tokenizer", str(folder / "tokenizer.json")),
            *("--template", str(folder / "template.jinja")),
            *("--tools", "hermes", "--model-id", "acme/small", "--out", str(core)),
        ],
        env={**os.environ, "HELIOS_HOME": str(folder / "home")},
        check=True,
        capture_output=True,
    )
