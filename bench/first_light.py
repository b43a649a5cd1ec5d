#!/usr/bin/env python3
"""Tokens a second, time to first token and start-up, beside llama-server on the same GGUF.

    .venv/bin/python bench/first_light.py --llama-server PATH [--rounds 5] [--out FILE.json]

Both servers are started afresh, asked in turn (A B A B ...), and stopped.  Through HTTP,
streaming, temperature 0.  Prints a table of medians with the spread, and writes JSON.
"""

from __future__ import annotations

import argparse
import asyncio
import http.client
import json
import os
import platform
import random
import signal
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

ROOT = Path(__file__).parents[1]
CORE = ROOT / "build" / "smollm2-135m.core"
GGUF = ROOT / "build" / "weights" / "SmolLM2-135M-Instruct.Q4_1.gguf"
TOKENS = 128
STREAMS = (1, 8)
PROMPT_WORDS = 480  # about 500 tokens with the template


@dataclass
class Server:
    """A server under measurement."""

    name: str
    command: Callable[[int], list[str]]
    figures: dict[str, list[float]] = field(default_factory=dict)
    process: subprocess.Popen[bytes] | None = None
    port: int = 0

    def start(self) -> None:
        """Start it and wait until it is ready; the time counts."""
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        began = time.monotonic()
        self.process = subprocess.Popen(
            self.command(self.port), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        while not self.healthy():
            time.sleep(0.002)
        self.note("start", time.monotonic() - began)

    def healthy(self) -> bool:
        """Whether it says that it is ready."""
        # The plainest client: one that loads certificates for every question would keep a
        # processor from the server that is starting.
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=1)
        try:
            connection.request("GET", "/health")
            return connection.getresponse().status == 200
        except (OSError, http.client.HTTPException):
            return False
        finally:
            connection.close()

    def stop(self) -> None:
        """Stop it."""
        assert self.process is not None
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(timeout=30)

    def note(self, name: str, value: float) -> None:
        """Keep a figure."""
        self.figures.setdefault(name, []).append(value)


async def stream(client: httpx.AsyncClient, prompt: str, tokens: int) -> tuple[float, float, int]:
    """Ask once: seconds to the first text, to the end, and events with text."""
    body = {
        "messages": [{"role": "user", "content": prompt}],
        "max_tokens": tokens,
        "temperature": 0,
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    began, first, count = time.monotonic(), 0.0, 0
    async with client.stream("POST", "/v1/chat/completions", json=body) as answer:
        answer.raise_for_status()
        async for line in answer.aiter_lines():
            if not line.startswith("data: {"):
                continue
            chunk = json.loads(line[6:])
            if chunk.get("usage"):
                count = chunk["usage"]["completion_tokens"]
            # The first token may have no text: then the ending is its event.
            choice = chunk["choices"][0] if chunk["choices"] else {}
            if not first and (
                choice.get("delta", {}).get("content") or choice.get("finish_reason")
            ):
                first = time.monotonic() - began
    return first, time.monotonic() - began, count


def words(count: int, seed: int) -> str:
    """A prompt that no cache has seen."""
    draw = random.Random(seed)
    vocabulary = ["river", "stone", "lamp", "window", "garden", "bread", "winter", "song", "road"]
    return " ".join(draw.choice(vocabulary) for _ in range(count))


async def measure(server: Server, number: int) -> None:
    """One round of every workload."""
    base = f"http://127.0.0.1:{server.port}"
    async with httpx.AsyncClient(base_url=base, timeout=300) as client:
        await stream(client, "Hello", 4)
        for streams in STREAMS:
            prompts = [
                f"Tell a long story about the {words(3, number * 100 + lane)}."
                for lane in range(streams)
            ]
            results = await asyncio.gather(*(stream(client, prompt, TOKENS) for prompt in prompts))
            # From the last first token to the end: decoding alone.
            start = max(first for first, _, _ in results)
            end = max(total for _, total, _ in results)
            emitted = sum(count for _, _, count in results) - streams
            server.note(f"decode {streams}", emitted / (end - start))
        first, _, _ = await stream(client, words(PROMPT_WORDS, number), 2)
        server.note("ttft 500", first)


def described(servers: list[Server]) -> dict[str, Any]:
    """Figures with the machine they were measured on."""
    cpu = next(
        line.partition(":")[2].strip()
        for line in Path("/proc/cpuinfo").read_text().splitlines()
        if line.startswith("model name")
    )
    return {
        "workload": "first_light",
        "date": time.strftime("%Y-%m-%d"),
        "machine": {"cpu": cpu, "cores": os.cpu_count(), "kernel": platform.release()},
        "load": os.getloadavg(),
        "commit": subprocess.run(
            ["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=False
        ).stdout.strip(),
        "figures": {server.name: server.figures for server in servers},
    }


def print_table(servers: list[Server]) -> None:
    """Medians, with the least and the most."""
    for name in servers[0].figures:
        print(name)
        for server in servers:
            values = server.figures[name]
            print(
                f"  {server.name:<14} {statistics.median(values):9.3f}"
                f"   ({min(values):.3f} to {max(values):.3f}, n={len(values)})"
            )


def main() -> int:
    """Measure and report."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--llama-server", type=Path)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    helios = str(Path(sys.executable).with_name("helios"))
    servers = [Server("helios", lambda port: [helios, "serve", str(CORE), "--port", str(port)])]
    if arguments.llama_server:
        servers.append(
            Server(
                "llama-server",
                lambda port: [
                    str(arguments.llama_server),
                    "-m",
                    str(GGUF),
                    "-t",
                    str(os.cpu_count()),
                    "-np",
                    "8",
                    "-c",
                    "16384",
                    "--port",
                    str(port),
                ],
            )
        )
    for number in range(arguments.rounds):
        for server in servers:
            server.start()
            try:
                asyncio.run(measure(server, number))
            finally:
                server.stop()
    print_table(servers)
    if arguments.out:
        arguments.out.write_text(json.dumps(described(servers), indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
