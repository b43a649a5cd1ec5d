"""What this machine can run, and why not: each check with what was found and what to do."""

from __future__ import annotations

import os
import platform
import resource
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from helios.artifact.core_file import open_core
from helios.device.cpu import choose_image, processor_features
from helios.options import HUGE_PAGES, NEVER, free_memory, home_folder, huge_pages_state
from helios.values import HeliosError
from prepared.fields import ContractError
from prepared.manifest import BufferRole, Target
from prepared.trust import read_trust

LEAST_FILES = 1024
GOOD, WARNING, BAD = "good", "warning", "bad"


@dataclass(frozen=True, slots=True)
class Finding:
    """One check: what was looked at, what was found, how bad it is, what to do."""

    check: str
    found: str
    verdict: str = GOOD
    advice: str = ""


def examine(core: Path | None, home: Path) -> Iterator[Finding]:
    """Every check, the core's own when one is given."""
    yield system()
    yield processors()
    yield memory()
    yield huge_pages()
    yield open_files()
    yield publishers(home)
    if core is not None:
        yield from core_findings(core, home)


def system() -> Finding:
    """Operating system and processor kind."""
    found = f"{platform.system()} {platform.machine()}, Python {platform.python_version()}"
    if platform.system() != "Linux" or platform.machine() != "x86_64":
        return Finding("system", found, BAD, "cores for the CPU run on Linux on x86_64")
    return Finding("system", found)


def processors() -> Finding:
    """Processors, and the instructions that matter for speed."""
    features = processor_features()
    wanted = ("avx2", "fma", "f16c", "avx_vnni", "avx512f", "avx512_vnni", "avx512_bf16")
    have = [name for name in wanted if name in features]
    found = f"{len(os.sched_getaffinity(0))} usable; {', '.join(have) or 'no vector extensions'}"
    if "avx2" not in features:
        return Finding(
            "processors", found, WARNING, "without AVX2 everything is several times slower"
        )
    return Finding("processors", found)


def memory() -> Finding:
    """Free memory."""
    free = free_memory()
    found = f"{free / 2**30:.1f} GiB free"
    if free < 1 << 30:
        return Finding("memory", found, WARNING, "small models need about 1 GiB")
    return Finding("memory", found)


def huge_pages() -> Finding:
    """Whether large memory can be had in huge pages."""
    chosen = huge_pages_state()
    if chosen == NEVER:
        return Finding(
            "huge pages",
            chosen,
            WARNING,
            f"echo madvise > {HUGE_PAGES}; decoding gains up to a third",
        )
    return Finding("huge pages", chosen)


def open_files() -> Finding:
    """How many connections the system allows."""
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    if limit < LEAST_FILES:
        return Finding("open files", str(limit), WARNING, "ulimit -n 65536, for many connections")
    return Finding("open files", str(limit))


def publishers(home: Path) -> Finding:
    """Whose cores are accepted."""
    names = ", ".join(sorted(read_trust(home / "trust.json").keys))
    if not names:
        return Finding(
            "publishers", "none accepted", WARNING, "prepare a core, or `helios trust add`"
        )
    return Finding("publishers", names)


def core_findings(path: Path, home: Path) -> Iterator[Finding]:
    """Whether this machine can serve a core."""
    try:
        core = open_core(path, read_trust(home / "trust.json"), acceptance=None)
        manifest = core.deployment.manifests[0]
        yield Finding("core", f"{core.deployment.contract.model_id}, by {core.namespace}")
        if manifest.target is Target.CPU:
            image = choose_image(manifest.images, processor_features())
            yield Finding("kernels", image.name)
        fixed = sum(
            buffer.nbytes
            for buffer in manifest.buffers
            if buffer.role in (BufferRole.WEIGHT, BufferRole.SCRATCH)
        )
        page = sum(
            buffer.nbytes for buffer in manifest.buffers if buffer.role is BufferRole.CACHE_PLANE
        )
    except (ContractError, HeliosError, OSError) as error:
        yield Finding("core", str(error), BAD, "prepare it again, or accept its publisher")
        return
    found = f"{fixed / 2**20:.0f} MiB, and {page / 2**20:.2f} MiB a page of cache"
    if free_memory() < fixed + page:
        yield Finding("core's memory", found, BAD, "free some memory")
    else:
        yield Finding("core's memory", found)


def main() -> int:
    """Print every finding; 1 when something is bad."""
    worst = 0
    for finding in examine(Path(sys.argv[1]) if sys.argv[1:] else None, home_folder()):
        advice = f": {finding.advice}" if finding.advice else ""
        print(f"{finding.verdict:<8} {finding.check:<14} {finding.found}{advice}")
        worst |= finding.verdict == BAD
    return int(worst)


if __name__ == "__main__":
    sys.exit(main())
