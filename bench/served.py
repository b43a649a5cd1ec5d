"""Servers under measurement: how each is started, when it is ready, and what memory it takes."""

from __future__ import annotations

import http.client
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

PATIENCE_SECONDS = 120
SLOTS = 16
CONTEXT = 24_576  # tokens of history: 16 streams, or 8 streams beside two prompts of 4,000


class NotStarted(RuntimeError):
    """A server ended, or took too long, before it was ready."""


@dataclass
class Server:
    """A server: how it is started, and its process while it runs."""

    name: str
    version: str
    command: Callable[[int], list[str]]
    process: subprocess.Popen[bytes] | None = None
    port: int = 0

    def start(self) -> float:
        """Start it and wait until it is ready: seconds that it took."""
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        command = self.command(self.port)
        began = time.monotonic()
        self.process = subprocess.Popen(
            command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        while not self.healthy():
            if self.process.poll() is not None or time.monotonic() - began > PATIENCE_SECONDS:
                self.stop()
                raise NotStarted(f"{self.name} does not start: {' '.join(command)}")
            time.sleep(0.005)
        return time.monotonic() - began

    def healthy(self) -> bool:
        """Whether it says that it is ready."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=5)
        try:
            connection.request("GET", "/health", headers={"connection": "close"})
            return connection.getresponse().status == 200
        except (OSError, http.client.HTTPException):
            return False
        finally:
            connection.close()

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


def printed(*command: str) -> str:
    """What a command prints, on one line; or why it prints nothing."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    except OSError as error:
        return str(error)
    return "; ".join((done.stdout + done.stderr).split("\n")).strip("; ")


def helios(core: Path) -> Server:
    """Ours."""
    command = str(Path(sys.executable).with_name("helios"))
    return Server(
        "helios",
        version("helios-ignition"),
        lambda port: [command, "serve", str(core), "--port", str(port)],
    )


def llama(binary: Path, gguf: Path) -> Server:
    """llama-server on one file; its histories share one cache, as ours do."""
    return Server(
        f"llama-server {gguf.stem.rpartition('.')[2]}",
        printed(str(binary), "--version"),
        lambda port: [
            *(str(binary), "-m", str(gguf), "-t", str(len(os.sched_getaffinity(0)))),
            *("-np", str(SLOTS), "--kv-unified", "-c", str(CONTEXT), "--port", str(port)),
        ],
    )


def openvino(python: Path, gguf: Path) -> Server:
    """OpenVINO GenAI behind `bench/openvino_server.py`, in an environment of its own."""
    script = Path(__file__).with_name("openvino_server.py")
    return Server(
        "openvino",
        printed(str(python), "-c", "import openvino_genai as g; print('genai', g.__version__)"),
        lambda port: [
            *(str(python), str(script), "--model", str(gguf), "--port", str(port)),
            *("--threads", str(len(os.sched_getaffinity(0)))),
        ],
    )
