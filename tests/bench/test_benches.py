"""Every bench can be started; those of a peer's own environment only there."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

BENCH = Path(__file__).parents[2] / "bench"
BENCHES = sorted(
    path.stem
    for path in BENCH.glob("*.py")
    if "import argparse" in path.read_text() and not path.stem.startswith("openvino")
)


@pytest.mark.parametrize("name", BENCHES)
def test_a_bench_says_what_it_takes(name: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", f"bench.{name}", "--help"],
        capture_output=True,
        text=True,
        check=False,
        cwd=BENCH.parent,
    )
    assert done.returncode == 0, done.stderr
    assert "usage:" in done.stdout
