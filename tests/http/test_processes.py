"""Starting and stopping: signals, lost workers, and what the processes have loaded."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import httpx
import pytest

from tests.serving import RealServer

FRAMEWORKS = {"torch", "triton", "jax", "transformers", "tensorflow", "ignition"}
SMALL = ("--max-active", "2", "--cache-memory", "128M")


@pytest.fixture
def own() -> RealServer:
    server = RealServer(*SMALL)
    server.wait_until_ready()
    return server


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_both_processes_cleanly(own: RealServer, number: int) -> None:
    worker = own.worker_pid()
    assert own.stop(number) == 0
    assert not Path(f"/proc/{worker}").exists()
    assert b"Traceback" not in own.output


def test_a_signal_lets_an_open_answer_finish(own: RealServer) -> None:
    def stop_soon() -> None:
        os.kill(own.pid, signal.SIGTERM)

    with httpx.stream(
        "POST",
        f"{own.origin}/v1/chat/completions",
        json={"messages": [{"role": "user", "content": "Hello"}], "max_tokens": 30, "stream": True},
        timeout=30,
    ) as answer:
        lines = answer.iter_lines()
        next(lines)
        threading.Timer(0.05, stop_soon).start()
        rest = [line for line in lines if line]
    assert rest[-1] == "data: [DONE]"
    assert own.wait() == 0


def test_a_killed_worker_ends_streams_with_an_error_and_the_front_with_failure(
    own: RealServer,
) -> None:
    with httpx.stream(
        "POST",
        f"{own.origin}/v1/chat/completions",
        json={
            "messages": [{"role": "user", "content": "Hello"}],
            "max_tokens": 4000,
            "temperature": 1.5,
            "stream": True,
        },
        timeout=30,
    ) as answer:
        lines = answer.iter_lines()
        next(lines)
        os.kill(own.worker_pid(), signal.SIGKILL)
        rest = [line for line in lines if line]
    assert '"error"' in rest[-1]
    assert "[DONE]" not in rest[-1]
    assert own.wait() == 1
    assert b"worker ended" in own.output


@pytest.mark.clause("OB-11")
@pytest.mark.parametrize("module", ["helios.bootstrap.front", "helios.bootstrap.worker"])
def test_a_serving_process_imports_no_framework_and_no_ignition(module: str) -> None:
    program = f"import {module}, sys; print(*sorted({{m.split('.')[0] for m in sys.modules}}))"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert FRAMEWORKS.isdisjoint(done.stdout.split())


def test_running_processes_have_no_framework_mapped(server: RealServer) -> None:
    for pid in (server.pid, server.worker_pid()):
        maps = Path(f"/proc/{pid}/maps").read_text()
        assert not any(f"/{name}/" in maps for name in FRAMEWORKS)


def test_an_address_in_use_is_told_in_a_sentence(server: RealServer) -> None:
    helios = Path(sys.executable).with_name("helios")
    core = Path(__file__).parents[2] / "build" / "smollm2-135m.core"
    port = server.origin.rpartition(":")[2]
    done = subprocess.run(
        [helios, "serve", core, "--port", port], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 1
    assert f"--port {port}: Address already in use" in done.stderr
    assert "Traceback" not in done.stderr
