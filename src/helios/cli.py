"""The `helios` command: serve, chat, doctor, trust.

It only reads what was asked and becomes the process that does it, so that nothing is loaded
that is not needed.  The standard library's parser: a richer one would be a quarter of the
time in which a server starts (docs/log.md, 2026-11-30).
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import NODEFAULT
from msgspec.structs import fields, replace

from helios.options import Options, home_folder
from helios.processes import DOCTOR, PUBLISHERS, become_module, become_server, become_terminal
from helios.settings import Option, Setting, WrongUsage, described, nbytes, settle
from helios.values import StartRefused

BEGAN = time.monotonic_ns()

CORE = Option(name="core", kind=Path, help="the core file")
LOADING = (
    Option(
        name="accept",
        metavar="NAMESPACE",
        help="accept this publisher for this start; exactly the core's namespace",
    ),
    Option(
        name="cache-memory",
        kind=nbytes,
        metavar="BYTES",
        help="memory of the cache, such as 512M or 2G; a quarter of the free memory by default",
    ),
    Option(name="threads", kind=int, metavar="N", help="processors to use; all of them by default"),
    Option(
        name="affinity",
        metavar="LIST",
        help="processors that the model's threads run on, such as 0,2-5; all by default",
    ),
    Option(
        name="huge-pages",
        choices=("on", "off"),
        help="memory in huge pages; where they can be had by default",
    ),
)
"""What serving and chatting both take."""

SERVING = (
    *LOADING,
    Option(name="host", help="address to listen at; 127.0.0.1"),
    Option(name="port", kind=int, help="port to listen at; 8000"),
    Option(name="max-active", kind=int, metavar="N", help="requests that run at once"),
    Option(name="queue-capacity", kind=int, metavar="N", help="requests that may wait"),
    Option(
        name="frontend-workers",
        kind=int,
        metavar="N",
        help="threads that render and tokenise prompts",
    ),
    Option(
        name="host-cache-memory",
        kind=nbytes,
        metavar="BYTES",
        help="host memory for cached pages that leave the device; none by default",
    ),
    Option(
        name="token-gap",
        field="token_gap_ms",
        kind=int,
        metavar="MS",
        help="longest gap between tokens that a prompt of another request may cause; 100",
    ),
    Option(
        name="speculative-width",
        kind=int,
        metavar="N",
        help="most tokens of a request that a round may commit: 1, or a narrower width of the core",
    ),
    Option(
        name="device",
        choices=("cpu", "reference", "scripted"),
        help="the core's own if not said",
    ),
    Option(
        name="script",
        kind=Path,
        metavar="FILE",
        help="what a scripted core says, a line a request",
    ),
    Option(
        name="api-key-file",
        kind=Path,
        metavar="FILE",
        help="keys that clients must have, one a line; or HELIOS_API_KEY, HELIOS_API_KEYS",
    ),
    Option(
        name="cors-origin",
        field="cors_origins",
        many=True,
        metavar="ORIGIN",
        help="let pages of this origin use the server, such as https://example.org; repeatable",
    ),
    Option(
        name="access-log",
        choices=("on", "off"),
        help="whether to write a JSON line a request to standard error; on",
    ),
    Option(
        name="log-level",
        choices=("error", "warning", "info", "debug"),
        help="how much to write to standard error; info, which has the access log",
    ),
)
"""Every option of `helios serve`; the file and the environment have them by the same names."""


def parser() -> argparse.ArgumentParser:
    """Every command with its options; none can be abbreviated."""
    root = argparse.ArgumentParser(prog="helios", description="Serve a core.", allow_abbrev=False)
    commands = root.add_subparsers(metavar="COMMAND", required=True)

    def command(name: str, says: str) -> argparse.ArgumentParser:
        return commands.add_parser(name, help=says, allow_abbrev=False)

    add_serve(command("serve", "serve a core over HTTP, with the page at /"))
    add_chat(command("chat", "chat with a core in the terminal"))
    doctor = command("doctor", "tell what this machine can run, and why not")
    doctor.add_argument("core", type=Path, nargs="?", help="a core to look at as well")
    doctor.set_defaults(run=run_doctor)
    add_trust(command("trust", "publishers whose cores this machine accepts"))
    return root


def add_options(command: argparse.ArgumentParser, options: Sequence[Option]) -> None:
    """Options of a command; what is not said is None, and may be said elsewhere."""
    for option in options:
        command.add_argument(
            f"--{option.name}",
            dest=option.name,
            type=option.kind,
            metavar=option.metavar,
            choices=option.choices or None,
            action="append" if option.many else "store",
            help=option.help,
        )


def add_serve(command: argparse.ArgumentParser) -> None:
    """Options of `helios serve`."""
    command.add_argument("core", type=Path, nargs="?", help="the core file")
    add_options(command, SERVING)
    command.add_argument(
        "--config", type=Path, metavar="FILE", help="a TOML file with these options, by their names"
    )
    command.add_argument(
        "--print-config",
        action="store_true",
        help="print every option with its value and where it was said, and end",
    )
    command.set_defaults(run=run_serve, refuse=command.error)


def add_chat(command: argparse.ArgumentParser) -> None:
    """Options of `helios chat`."""
    command.add_argument("core", type=Path, nargs="?", help="the core file")
    add_options(command, LOADING)
    command.set_defaults(run=run_chat, refuse=command.error)


def add_trust(command: argparse.ArgumentParser) -> None:
    """The commands of `helios trust`."""
    commands = command.add_subparsers(metavar="COMMAND", required=True)
    listing = commands.add_parser("list", help="list accepted publishers and their keys")
    listing.set_defaults(act="list", namespace="", key="")
    adding = commands.add_parser("add", help="accept a publisher")
    adding.add_argument("namespace", help="the publisher's namespace")
    adding.add_argument("key", help="its public key, 64 hexadecimal digits")
    adding.set_defaults(act="add")
    removing = commands.add_parser("remove", help="accept a publisher no longer")
    removing.add_argument("namespace", help="the publisher's namespace")
    removing.set_defaults(act="remove", key="")
    command.set_defaults(run=run_trust)


# --------------------------------------------------------------- commands


def run_serve(said: argparse.Namespace) -> None:
    """Become a server, or print what it would be told."""
    options = (CORE, *SERVING)
    settled = settle(options, vars(said), file=said.config, environment=os.environ)
    if said.print_config:
        print_config(options, settled)
        return
    become_server(options_of(settled), began=BEGAN)


def run_chat(said: argparse.Namespace) -> None:
    """Become a chat in the terminal."""
    settled = settle((CORE, *LOADING), vars(said), file=None, environment=os.environ)
    become_terminal(replace(options_of(settled), max_active=1), began=BEGAN)


def options_of(settled: Mapping[str, Setting]) -> Options:
    """What was said, as one value."""
    if "core" not in settled:
        raise WrongUsage("core: found nothing, expected the core file")
    said: dict[str, Any] = {name: setting.value for name, setting in settled.items()}
    return Options(home=home_folder(), **said)


def print_config(options: Sequence[Option], settled: Mapping[str, Setting]) -> None:
    """Print every option, in the form of `--config`; of keys only how many there are."""
    from helios.keys import read_keys  # noqa: PLC0415 - only here: the launcher is measured

    defaults = {
        field.name: field.default for field in fields(Options) if field.default is not NODEFAULT
    }
    print(described(options, settled, defaults))
    file = settled.get("api_key_file")
    keys = read_keys(file.value if file and isinstance(file.value, Path) else None, os.environ)
    print(f"# API keys: {len(keys) or 'none'}{', hidden' if keys else ''}")


def run_doctor(said: argparse.Namespace) -> None:
    """Become the doctor."""
    become_module(DOCTOR, *([str(said.core)] if said.core else []))


def run_trust(said: argparse.Namespace) -> None:
    """Become the keeper of accepted publishers."""
    become_module(PUBLISHERS, *(word for word in (said.act, said.namespace, said.key) if word))


def main() -> None:
    """Become what was asked for; 2 on wrong usage."""
    said = parser().parse_args()
    try:
        said.run(said)
    except WrongUsage as error:
        said.refuse(str(error))
    except StartRefused as error:
        print(f"helios: {error}", file=sys.stderr)
        sys.exit(1)
