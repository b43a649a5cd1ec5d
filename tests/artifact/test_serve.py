"""`helios serve` on a core that is not right: one line that names the field, and status 1."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

from prepared.trust import TrustStore, write_trust
from tests.artifact.cores import TRUST, flipped, layout_of, make_core
from tests.artifact.test_prepared_core import CORE, trust_of
from tests.treaty.carriers import NAMESPACE

SECONDS: Final = 60


def serve(core: Path, home: Path, trust: TrustStore = TRUST) -> tuple[int, str, str]:
    """Start the server as a user does, and wait until it gives up."""
    write_trust(home / "trust.json", trust)
    done = subprocess.run(
        [
            *(sys.executable, "-c", "from helios.cli import main; main()", "serve", str(core)),
            *("--port", "0", "--threads", "1", "--cache-memory", "16M"),
        ],
        env={**os.environ, "HELIOS_HOME": str(home)},
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    return done.returncode, done.stdout, done.stderr


def sound(folder: Path) -> bytes:
    """The bytes of a small core."""
    return make_core(folder / "sound.core").read_bytes()


def damaged(folder: Path, data: bytes) -> Path:
    """The bytes as a file."""
    path = folder / "damaged.core"
    path.write_bytes(data)
    return path


def cut_short(folder: Path) -> tuple[Path, str]:
    """A download that broke off."""
    return damaged(folder, sound(folder)[:9000]), "header.envelope_offset: found "


def changed_body(folder: Path) -> tuple[Path, str]:
    """A bit of what was signed."""
    data = sound(folder)
    start = layout_of(data).header.envelope_offset
    return damaged(folder, flipped(data, start + 900)), "envelope.signature: found "


def changed_asset(folder: Path) -> tuple[Path, str]:
    """A bit of the tokenizer; the worker, which never looks at it, refuses something else."""
    data = sound(folder)
    offset = layout_of(data).offsets["tokenizer"] + 9
    return damaged(folder, flipped(data, offset)), "assets.tokenizer.chunk_sha256[0]: found "


def stranger(folder: Path) -> tuple[Path, str]:
    """A publisher that nobody accepted."""
    path = make_core(folder / "strange.core", namespace=f"not.{NAMESPACE}")
    return path, "envelope.publisher_namespace: found "


@pytest.mark.clause("OB-12")
@pytest.mark.parametrize("fault", [cut_short, changed_body, changed_asset, stranger])
def test_a_core_that_is_not_right_ends_the_start_with_one_line(
    tmp_path: Path, fault: Callable[[Path], tuple[Path, str]]
) -> None:
    core, sentence = fault(tmp_path)
    status, out, errors = serve(core, tmp_path / "home")
    assert (status, out) == (1, "")
    assert errors.startswith("helios: ")
    assert sentence in errors
    assert errors.count("\n") == 1


@pytest.mark.skipif(not CORE.exists(), reason="no core in build/; see README.md")
@pytest.mark.clause("OB-12")
def test_weights_that_changed_end_the_start_with_one_line(tmp_path: Path) -> None:
    path = tmp_path / "changed.core"
    shutil.copyfile(CORE, path)
    data = path.read_bytes()
    offset = layout_of(data).offsets["weights"] + 12_345_678
    with path.open("r+b") as file:
        file.seek(offset)
        file.write(bytes([data[offset] ^ 1]))
    status, out, errors = serve(path, tmp_path / "home", trust_of(CORE))
    assert (status, out) == (1, "")
    assert errors == (
        f"helios: {path}: weights.weights.chunk_sha256[2]: "
        "found another digest, expected the signed one\n"
    )
