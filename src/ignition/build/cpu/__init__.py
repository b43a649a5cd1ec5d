"""C kernels and the small executor, as one freestanding shared object a level of instructions.

The objects need no libc and no system compiler: `ziglang` from PyPI builds them, the same
bytes on every machine.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Final

from ignition.ops.kernel import Kernel

HERE: Final = Path(__file__).parent
OPS: Final = HERE.parent.parent / "ops"
SOURCES: Final = (
    HERE / "executor.c",
    *(
        OPS / name / "cpu.c"
        for name in (
            "attend",
            "commit",
            "embed",
            "history",
            "initialize",
            "lay_rows",
            "linear",
            "resume",
            "rms_norm",
            "sample",
            "snapshot",
            "score",
        )
    ),
)


@dataclass(frozen=True, slots=True)
class Level:
    """A set of instructions: what the compiler may use and what the machine must offer."""

    name: str
    processor: str  # zig's -mcpu
    features: tuple[str, ...]  # as Linux names them in /proc/cpuinfo


V3: Final = ("avx2", "fma", "f16c", "bmi2")

LEVELS: Final = (
    Level(
        "x86_64_v4_vnni",
        "x86_64_v4+avx512vnni",
        (*V3, "avx512f", "avx512bw", "avx512dq", "avx512vl", "avx512_vnni"),
    ),
    Level("x86_64_v3_vnni", "x86_64_v3+avxvnni", (*V3, "avx_vnni")),
    Level("x86_64_v3", "x86_64_v3", V3),
    Level("x86_64", "x86_64", ()),
)
"""Best first."""

FLAGS: Final = (
    "-std=c11",
    "-O3",
    "-ffreestanding",
    "-fno-builtin",
    "-nostdlib",
    "-shared",
    "-fPIC",
    "-fvisibility=hidden",
    "-ffp-contract=off",
    "-fno-math-errno",
    "-fno-stack-protector",
    "-fno-sanitize=all",
    "-g0",
    "-D__MM_MALLOC_H",  # the intrinsics' header would pull in malloc
    "-Wall",
    "-Wextra",
    "-Werror",
    "-Wno-psabi",  # vectors are passed between inlined functions only
    "-Wl,--build-id=none",
)


class CompilerError(Exception):
    """A kernel does not compile: the compiler's own words."""


def header_of(kernels: Sequence[Kernel]) -> str:
    """Declarations of the kernels' parameter blocks."""
    return "#pragma once\n#include <stdint.h>\n" + "".join(
        dict.fromkeys(kernel.structure() for kernel in kernels)
    )


def digest_of(level: Level, kernels: Sequence[Kernel]) -> str:
    """What names a shared object: its sources, its level, the compiler and how it is called."""
    digest = hashlib.sha256(
        "\0".join((level.processor, *FLAGS, version("ziglang"), header_of(kernels))).encode()
    )
    for path in sorted({*SOURCES, *HERE.glob("*.h")}):
        digest.update(path.name.encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()


def compiled(level: Level, kernels: Sequence[Kernel], *, cache: Path) -> bytes:
    """The shared object of one level, compiled once."""
    path = cache / f"{digest_of(level, kernels)}.so"
    if path.exists():
        return path.read_bytes()
    data = compile_level(level, kernels)
    cache.mkdir(parents=True, exist_ok=True)
    fresh = path.with_suffix(f".{os.getpid()}")
    fresh.write_bytes(data)
    fresh.replace(path)
    return data


def compile_level(level: Level, kernels: Sequence[Kernel]) -> bytes:
    """The shared object of one level."""
    with tempfile.TemporaryDirectory(prefix="ignition-") as folder:
        Path(folder, "parameters.h").write_text(header_of(kernels))
        out = Path(folder, "kernels.so")
        command = [
            sys.executable,
            "-m",
            "ziglang",
            "cc",
            "-target",
            "x86_64-linux-gnu.2.17",
            f"-mcpu={level.processor}",
            *FLAGS,
            f"-I{folder}",
            f"-I{HERE}",
            *map(str, SOURCES),
            "-o",
            str(out),
        ]
        done = subprocess.run(  # noqa: S603 - our own compiler, our own sources
            command,
            capture_output=True,
            text=True,
            check=False,
            env={**os.environ, "ZIG_LOCAL_CACHE_DIR": folder},
        )
        if done.returncode:
            raise CompilerError(f"{level.name}: {done.stderr.strip()}")
        return out.read_bytes()
