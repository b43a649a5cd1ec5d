"""What a measurement was made on: processor, versions, and the placement that the probe sees."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
PROBE = ROOT / "build" / "probe"


def build_probe() -> Path:
    """The bandwidth probe, compiled once by the compiler that makes our kernels."""
    source = Path(__file__).with_name("probe.c")
    if not PROBE.exists() or PROBE.stat().st_mtime < source.stat().st_mtime:
        PROBE.parent.mkdir(exist_ok=True)
        command = [sys.executable, "-m", "ziglang", "cc", "-O3", "-mcpu=native", str(source)]
        subprocess.run([*command, "-o", str(PROBE)], check=True)
    return PROBE


def bandwidth(threads: int) -> float:
    """Gigabytes a second that so many threads read together."""
    done = subprocess.run(
        [str(build_probe()), str(threads), "256", "5"], capture_output=True, text=True, check=True
    )
    return float(done.stdout)


def placement() -> dict[str, float]:
    """What the probe says now: cores that share a memory path read no faster together."""
    cores = len(os.sched_getaffinity(0))
    return {f"read_{threads}": bandwidth(threads) for threads in sorted({1, cores})}


def described() -> dict[str, Any]:
    """The machine, and what was measured on it."""
    cpu = next(
        line.partition(":")[2].strip()
        for line in Path("/proc/cpuinfo").read_text().splitlines()
        if line.startswith("model name")
    )
    flags = next(
        line for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("flags")
    ).split()
    known = ("avx2", "avx_vnni", "avx512f", "avx512_vnni", "avx512_bf16", "amx_int8")
    return {
        "date": time.strftime("%Y-%m-%d"),
        "cpu": cpu,
        "cores": os.cpu_count(),
        "instructions": [name for name in known if name in flags],
        "kernel": platform.release(),
        "python": platform.python_version(),
        "commit": subprocess.run(
            ["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=False
        ).stdout.strip(),
        "load": os.getloadavg(),
    }
