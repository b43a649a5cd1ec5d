"""What a measurement was made on: processor, versions, and the placement that the probes see."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
BUILD = ROOT / "build"
TOGETHER, APART, MOVED = "together", "apart", "moved"
GAIN_APART = 1.4  # cores with memory paths of their own read at least so much faster together


def tool(name: str) -> Path:
    """A C program beside this file, compiled once by the compiler that makes our kernels."""
    source, binary = Path(__file__).with_name(f"{name}.c"), BUILD / name
    if not binary.exists() or binary.stat().st_mtime < source.stat().st_mtime:
        BUILD.mkdir(exist_ok=True)
        command = [sys.executable, "-m", "ziglang", "cc", "-O3", "-mcpu=native", str(source)]
        subprocess.run([*command, "-o", str(binary)], check=True)
    return binary


def bandwidth(threads: int) -> float:
    """Gigabytes a second that so many threads read together."""
    command = [str(tool("probe")), str(threads), "256", "5"]
    return float(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def int8_peak() -> tuple[str, float, float]:
    """The instruction, and what all processors do together: GOPS with sums in 32 and in 16 bits."""
    started = [
        subprocess.Popen([str(tool("peak")), str(cpu)], stdout=subprocess.PIPE, text=True)
        for cpu in sorted(os.sched_getaffinity(0))
    ]
    said = [process.communicate()[0].split() for process in started]
    return said[0][0], sum(float(one[1]) for one in said), sum(float(one[2]) for one in said)


def placement() -> dict[str, float]:
    """What the probes say now; `state_of` reads it."""
    cores = len(os.sched_getaffinity(0))
    _, wide, narrow = int8_peak()
    return {
        "read_1": bandwidth(1),
        "read_all": bandwidth(cores),
        "int8_sums_32": wide,
        "int8_sums_16": narrow,
    }


def state_of(before: Mapping[str, float], after: Mapping[str, float]) -> str:
    """Whether cores shared a memory path during a turn, or moved meanwhile."""
    gains = [seen["read_all"] / seen["read_1"] for seen in (before, after)]
    states = {APART if gain >= GAIN_APART else TOGETHER for gain in gains}
    return states.pop() if len(states) == 1 else MOVED


def described() -> dict[str, Any]:
    """The machine, and what was measured on it."""
    facts = {
        name.strip(): value.strip()
        for name, _, value in (
            line.partition(":") for line in Path("/proc/cpuinfo").read_text().splitlines()
        )
    }
    known = ("avx2", "avx_vnni", "avx512f", "avx512_vnni", "avx512_bf16", "amx_int8")
    return {
        "date": time.strftime("%Y-%m-%d"),
        "cpu": facts["model name"],
        "family": f"{facts['cpu family']}, model {facts['model']}, stepping {facts['stepping']}",
        "cores": os.cpu_count(),
        "instructions": [name for name in known if name in facts["flags"].split()],
        "int8 by": int8_peak()[0],
        "kernel": platform.release(),
        "python": platform.python_version(),
        "commit": subprocess.run(
            ["git", "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"],
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=False,
        ).stdout.strip(),
        "load": [round(load, 2) for load in os.getloadavg()],
    }
