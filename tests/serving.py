"""A real server of a real core, as its user starts it."""

from __future__ import annotations

import os
import select
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
CORE = ROOT / "build" / "smollm2-135m.core"
READY_SECONDS = 60
STOP_SECONDS = 20


def free_port() -> int:
    """A port that nobody listens at."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port


class RealServer:
    """`helios serve`, from its start to its end."""

    def __init__(self, *options: str, core: Path = CORE, home: Path | None = None) -> None:
        if not core.exists():
            pytest.fail(f"{core.name} is missing: run `make core`", pytrace=False)
        port = free_port()
        self.origin = f"http://127.0.0.1:{port}"
        helios = Path(sys.executable).with_name("helios")
        self.output = b""
        self._process = subprocess.Popen(
            [helios, "serve", core, "--port", str(port), *options],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=os.environ if home is None else {**os.environ, "HELIOS_HOME": str(home)},
        )

    def wait_until_ready(self) -> None:
        """Return when it listens; fail with what it printed."""
        assert self._process.stdout is not None
        deadline = time.monotonic() + READY_SECONDS
        while b"worker: " not in self.output:
            left = max(0.0, deadline - time.monotonic())
            readable, _, _ = select.select([self._process.stdout], [], [], left)
            piece = os.read(self._process.stdout.fileno(), 1 << 16) if readable else b""
            self.output += piece
            if not piece:
                pytest.fail(f"the server did not start:\n{self.output.decode()}", pytrace=False)

    @property
    def pid(self) -> int:
        """The front's process."""
        return self._process.pid

    def worker_pid(self) -> int:
        """The worker's process, a child of the front."""
        children = Path(f"/proc/{self.pid}/task/{self.pid}/children").read_text().split()
        (child,) = children
        return int(child)

    def stop(self, number: int = signal.SIGTERM) -> int:
        """Stop it as its user would; returns its exit status."""
        self._process.send_signal(number)
        return self.wait()

    def wait(self) -> int:
        """Its exit status, once it has ended."""
        try:
            self.output += self._process.communicate(timeout=STOP_SECONDS)[0]
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.communicate()
        return self._process.returncode
