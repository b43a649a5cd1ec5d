"""What the user set, and every number the runtime obeys, resolved once.

The contract's defaults fill what the command line leaves open; what cannot be is an error
that names the option.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from helios.values import StartRefused

if TYPE_CHECKING:  # the launcher reads options without loading the treaty
    from prepared.contract import ServingContract


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """What the user set; None where nothing was said."""

    core: Path
    host: str = "127.0.0.1"
    port: int = 8000
    accept: str | None = None
    max_active: int | None = None
    queue_capacity: int | None = None
    frontend_workers: int | None = None
    cache_memory: int | None = None  # bytes
    host_cache_memory: int | None = None  # bytes
    token_gap_ms: int | None = None
    threads: int | None = None
    affinity: str | None = None
    huge_pages: str | None = None
    device: str | None = None
    script: Path | None = None
    speculative_width: int | None = None
    api_key_file: Path | None = None
    cors_origins: tuple[str, ...] = ()
    access_log: str = "on"
    log_level: str = "info"
    home: Path


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """Every number that the runtime obeys; nothing reads options after this."""

    max_active: int
    queue_capacity: int
    frontend_workers: int
    context_tokens: int
    output_tokens: int
    threads: int
    processors: tuple[int, ...]  # that the threads may run on
    huge_pages: bool
    cache_memory: int
    host_cache_memory: int
    token_gap_ns: int
    speculative_width: int = 1  # tokens of a lane that one round may propose and check

    @property
    def permits(self) -> int:
        """Requests that may be inside the server at once (TO-26)."""
        return self.queue_capacity + self.max_active


KEY_VARIABLES: Final = ("HELIOS_API_KEY", "HELIOS_API_KEYS")
"""One key; several with commas between them.  Only the front reads them."""
HUGE_PAGES: Final = Path("/sys/kernel/mm/transparent_hugepage/enabled")
NEVER: Final = "never"
SPAN: Final = re.compile(r"([0-9]{1,5})(?:-([0-9]{1,5}))?", re.ASCII)
MOST_PORT: Final = 65535
TOKEN_GAP_MS: Final = 100
"""How long lanes that decode may wait for a round that feeds a prompt, unless an option says."""
CACHE_SHARE: Final = 4
"""One part in so many of the free memory goes to the cache, unless an option says more."""


def home_folder() -> Path:
    """Where keys and accepted publishers are kept."""
    if folder := os.environ.get("HELIOS_HOME"):
        return Path(folder)
    base = os.environ.get("XDG_CONFIG_HOME")
    return (Path(base) if base else Path.home() / ".config") / "helios"


def free_memory(meminfo: Path = Path("/proc/meminfo")) -> int:
    """Bytes that the system could give."""
    for line in meminfo.read_text().splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * 1024
    raise StartRefused(f"{meminfo}: no MemAvailable; say --cache-memory")


def huge_pages_state(file: Path = HUGE_PAGES) -> str:
    """What the system does about huge pages: always, madvise or never."""
    try:
        return file.read_text().partition("[")[2].partition("]")[0]
    except OSError:  # a kernel without them
        return NEVER


def with_huge_pages(asked: str | None, state: str) -> bool:
    """Whether memory is asked for in huge pages: where they can be had, unless an option says."""
    if asked == "on" and state == NEVER:
        raise StartRefused(
            f"--huge-pages: found on, expected off: {HUGE_PAGES} says that there are none"
        )
    return asked != "off" and state != NEVER


def chosen_processors(asked: str | None, usable: Collection[int]) -> tuple[int, ...]:
    """The processors of a list such as 0,2-5; all that this process may use if none is given."""
    if asked is None:
        return tuple(sorted(usable))
    chosen: set[int] = set()
    for part in asked.split(","):
        match = SPAN.fullmatch(part.strip())
        if match is None:
            raise StartRefused(f"--affinity: found {asked!r}, expected processors, such as 0,2-5")
        first, last = int(match[1]), int(match[2] or match[1])
        if last < first:
            raise StartRefused(f"--affinity: found {part.strip()}, expected the lower one first")
        chosen.update(range(first, last + 1))
    if missing := chosen.difference(usable):
        raise StartRefused(
            f"--affinity: found {min(missing)}, expected some of those that this process may use: "
            + ",".join(map(str, sorted(usable)))
        )
    return tuple(sorted(chosen))


def bounded(name: str, value: int | None, *, default: int, most: int | None = None) -> int:
    """An option's number, its default, or a refusal that names the option."""
    if value is None:
        return default
    if value < 1 or (most is not None and value > most):
        span = f"1 to {most}" if most is not None else "at least 1"
        raise StartRefused(f"{name}: found {value}, expected {span}")
    return value


def resolve(contract: ServingContract, options: Options) -> Limits:
    """Every number the runtime obeys, decided here and nowhere else."""
    if not 0 <= options.port <= MOST_PORT:
        raise StartRefused(f"--port: found {options.port}, expected 0 to {MOST_PORT}")
    processors = chosen_processors(options.affinity, os.sched_getaffinity(0))
    defaults = contract.defaults
    return Limits(
        max_active=bounded(
            "--max-active",
            options.max_active,
            default=contract.concurrency,
            most=contract.concurrency,
        ),
        queue_capacity=bounded(
            "--queue-capacity", options.queue_capacity, default=defaults.queue_capacity
        ),
        frontend_workers=bounded(
            "--frontend-workers", options.frontend_workers, default=defaults.frontend_workers
        ),
        context_tokens=contract.context_tokens,
        output_tokens=defaults.output_tokens,
        threads=bounded(
            "--threads", options.threads, default=len(processors), most=len(processors)
        ),
        processors=processors,
        huge_pages=with_huge_pages(options.huge_pages, huge_pages_state()),
        cache_memory=free_memory() // CACHE_SHARE
        if options.cache_memory is None
        else bounded("--cache-memory", options.cache_memory, default=0),
        host_cache_memory=bounded("--host-cache-memory", options.host_cache_memory, default=0),
        token_gap_ns=bounded("--token-gap", options.token_gap_ms, default=TOKEN_GAP_MS) * 1_000_000,
        speculative_width=narrowed(contract.speculative_widths, options.speculative_width),
    )


def narrowed(widths: Sequence[int], asked: int | None) -> int:
    """The widest speculation: the contract's, or a narrower one of its own (SM-02)."""
    if asked is None:
        return max(widths, default=1)
    if asked != 1 and asked not in widths:
        declared = ", ".join(str(width) for width in sorted({1, *widths}))
        raise StartRefused(
            f"--speculative-width: found {asked}, expected one of the core's: {declared}"
        )
    return asked
