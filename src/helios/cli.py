"""The `helios` command: serve, chat, bench, doctor, trust."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Annotated

import cyclopts
from cyclopts import App, Parameter

from helios.doctor import BAD, examine
from helios.options import Options, home_folder
from helios.processes import become_server, become_terminal
from helios.values import HeliosError
from prepared.fields import ContractError
from prepared.trust import read_trust, write_trust

BEGAN = time.monotonic_ns()

app = App(name="helios", help="Serve a core.", version_flags=[])
trust = App(name="trust", help="Publishers whose cores this machine accepts.")
app.command(trust)


def nbytes_of(type_: object, tokens: object) -> int:
    """A size such as 512M or 2G."""
    del type_
    text = str(tokens[0].value)  # type: ignore[index]
    units = {"K": 10, "M": 20, "G": 30}
    unit = text[-1:].upper()
    number = text[:-1] if unit in units else text
    if not number.isdigit():
        raise ValueError(f"{text}: expected bytes, or a number with K, M or G")
    return int(number) << units.get(unit, 0)


Bytes = Annotated[int, Parameter(converter=nbytes_of)]


@app.command
def serve(
    core: Path,
    *,
    host: str = "127.0.0.1",
    port: int = 8000,
    accept: str | None = None,
    max_active: int | None = None,
    queue_capacity: int | None = None,
    frontend_workers: int | None = None,
    cache_memory: Bytes | None = None,
    threads: int | None = None,
) -> None:
    """Serve a core over HTTP, with the page at /.

    Parameters
    ----------
    core: Path
        The core file.
    accept: str
        Accept this publisher for this start; it must be exactly the core's namespace.
    max_active: int
        Requests that run at once; at most what the core was prepared for.
    queue_capacity: int
        Requests that may wait.
    frontend_workers: int
        Threads that render and tokenise prompts.
    cache_memory: int
        Memory of the cache, such as 512M or 2G; a quarter of the free memory by default.
    threads: int
        Processors to use; all of them by default.
    """
    become_server(
        Options(
            core=core,
            host=host,
            port=port,
            accept=accept,
            max_active=max_active,
            queue_capacity=queue_capacity,
            frontend_workers=frontend_workers,
            cache_memory=cache_memory,
            threads=threads,
            home=home_folder(),
        ),
        began=BEGAN,
    )


@app.command
def chat(
    core: Path,
    *,
    accept: str | None = None,
    cache_memory: Bytes | None = None,
    threads: int | None = None,
) -> None:
    """Chat with a core in the terminal.

    Parameters
    ----------
    core: Path
        The core file.
    accept: str
        Accept this publisher for this start; it must be exactly the core's namespace.
    cache_memory: int
        Memory of the cache, such as 512M or 2G; a quarter of the free memory by default.
    threads: int
        Processors to use; all of them by default.
    """
    options = Options(
        core=core,
        accept=accept,
        max_active=1,
        cache_memory=cache_memory,
        threads=threads,
        home=home_folder(),
    )
    become_terminal(options, began=BEGAN)


@app.command
def doctor(core: Path | None = None) -> None:
    """Tell what this machine can run, and why not.

    Parameters
    ----------
    core: Path
        A core to look at as well.
    """
    worst = 0
    for finding in examine(core, home_folder()):
        advice = f": {finding.advice}" if finding.advice else ""
        print(f"{finding.verdict:<8} {finding.check:<14} {finding.found}{advice}")
        worst |= finding.verdict == BAD
    if worst:
        sys.exit(1)


@trust.command(name="list")
def trust_list() -> None:
    """List accepted publishers and their keys."""
    for namespace, key in read_trust(home_folder() / "trust.json").keys.items():
        print(f"{namespace}  {key.hex()}")


@trust.command(name="add")
def trust_add(namespace: str, key: str) -> None:
    """Accept a publisher.

    Parameters
    ----------
    namespace: str
        The publisher's namespace.
    key: str
        Its public key, 64 hexadecimal digits.
    """
    try:
        found = bytes.fromhex(key)
    except ValueError:
        found = b""
    if len(found) != 32:  # noqa: PLR2004 - an Ed25519 public key
        raise ContractError("key", repr(key), expected="64 hexadecimal digits")
    path = home_folder() / "trust.json"
    write_trust(path, read_trust(path).accepting(namespace, found))


@trust.command(name="remove")
def trust_remove(namespace: str) -> None:
    """Accept a publisher no longer."""
    path = home_folder() / "trust.json"
    write_trust(path, read_trust(path).without(namespace))


def main() -> None:
    """Run the command; 0 done, 1 failed, 2 wrong usage."""
    try:
        app(exit_on_error=False, print_error=True)
    except cyclopts.CycloptsError:
        sys.exit(2)
    except (HeliosError, ContractError, OSError) as error:
        print(f"helios: {error}", file=sys.stderr)
        sys.exit(1)
    except KeyboardInterrupt:
        sys.exit(1)
