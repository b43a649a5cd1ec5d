"""Servers under measurement: how each is started, when it is ready, and what memory it takes."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import httpx

PATIENCE_SECONDS = 120
SLOTS = 16
CONTEXT = 24_576  # tokens of history: 16 streams, or 8 streams beside two prompts of 4,000


@dataclass
class Server:
    """A server, and the figures taken from it."""

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
            if self.process.poll() is not None or time.monotonic() - began > PATIENCE_SECONDS:
                self.stop()
                raise RuntimeError(f"{self.name} does not start: {' '.join(self.process.args)}")  # type: ignore[arg-type]
            time.sleep(0.002)
        self.note("start to ready, s", time.monotonic() - began)
        self.note("resident when ready, MB", self.resident() / 1e6)

    def healthy(self) -> bool:
        """Whether it says that it is ready."""
        try:
            return httpx.get(f"http://127.0.0.1:{self.port}/health", timeout=1).status_code == 200
        except httpx.TransportError:
            return False

    def stop(self) -> None:
        """Stop it."""
        assert self.process is not None
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(timeout=20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def resident(self) -> int:
        """Bytes resident in all of its processes; shared pages count once."""
        assert self.process is not None
        return sum(proportional(pid) for pid in family(self.process.pid))

    def note(self, name: str, value: float) -> None:
        """Keep a figure."""
        self.figures.setdefault(name, []).append(value)


def family(pid: int) -> list[int]:
    """A process and its descendants."""
    try:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except OSError:
        return []
    return [pid, *(one for child in children for one in family(int(child)))]


def proportional(pid: int) -> int:
    """A process's share of the memory it has mapped."""
    try:
        text = Path(f"/proc/{pid}/smaps_rollup").read_text()
    except OSError:
        return 0
    return next(int(line.split()[1]) for line in text.splitlines() if line.startswith("Pss:")) << 10


def helios(core: Path) -> Server:
    """Ours."""
    command = str(Path(sys.executable).with_name("helios"))
    return Server("helios", lambda port: [command, "serve", str(core), "--port", str(port)])


def llama(binary: Path, gguf: Path) -> Server:
    """llama-server on one file; its histories share one cache, as ours do."""
    return Server(
        f"llama-server {gguf.stem.rpartition('.')[2]}",
        lambda port: [
            *(str(binary), "-m", str(gguf), "-t", str(os.cpu_count())),
            *("-np", str(SLOTS), "--kv-unified", "-c", str(CONTEXT), "--port", str(port)),
        ],
    )


def openvino(python: Path, gguf: Path) -> Server:
    """OpenVINO GenAI behind `bench/openvino_server.py`, in an environment of its own."""
    script = Path(__file__).with_name("openvino_server.py")
    return Server(
        "openvino",
        lambda port: [
            *(str(python), str(script), "--model", str(gguf), "--port", str(port)),
            *("--threads", str(os.cpu_count())),
        ],
    )
