"""The `helios` command: serve, chat, doctor, trust.

It only reads what was asked and becomes the process that does it, so that nothing is loaded
that is not needed.  The standard library's parser: a richer one would be a quarter of the
time in which a server starts (docs/log.md, 2026-11-30).
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

from helios.options import Options, home_folder
from helios.processes import DOCTOR, PUBLISHERS, become_module, become_server, become_terminal

BEGAN = time.monotonic_ns()
UNITS = {"K": 10, "M": 20, "G": 30}


def nbytes(text: str) -> int:
    """A size such as 512M or 2G."""
    unit = text[-1:].upper()
    number = text[:-1] if unit in UNITS else text
    if not number.isdigit():
        raise argparse.ArgumentTypeError(
            f"found {text!r}, expected bytes, or a number with K, M or G"
        )
    return int(number) << UNITS.get(unit, 0)


def parser() -> argparse.ArgumentParser:
    """Every command with its options."""
    root = argparse.ArgumentParser(prog="helios", description="Serve a core.", allow_abbrev=False)
    commands = root.add_subparsers(metavar="COMMAND", required=True)
    add_serve(commands.add_parser("serve", help="serve a core over HTTP, with the page at /"))
    add_chat(commands.add_parser("chat", help="chat with a core in the terminal"))
    doctor = commands.add_parser("doctor", help="tell what this machine can run, and why not")
    doctor.add_argument("core", type=Path, nargs="?", help="a core to look at as well")
    doctor.set_defaults(run=run_doctor)
    add_trust(commands.add_parser("trust", help="publishers whose cores this machine accepts"))
    return root


def add_loading(command: argparse.ArgumentParser) -> None:
    """What serving and chatting both take."""
    command.add_argument("core", type=Path, help="the core file")
    command.add_argument(
        "--accept",
        metavar="NAMESPACE",
        help="accept this publisher for this start; exactly the core's namespace",
    )
    command.add_argument(
        "--cache-memory",
        type=nbytes,
        metavar="BYTES",
        help="memory of the cache, such as 512M or 2G; a quarter of the free memory by default",
    )
    command.add_argument(
        "--threads", type=int, metavar="N", help="processors to use; all of them by default"
    )


def add_serve(command: argparse.ArgumentParser) -> None:
    """Options of `helios serve`."""
    add_loading(command)
    command.add_argument("--host", default="127.0.0.1", help="address to listen at")
    command.add_argument("--port", type=int, default=8000, help="port to listen at")
    command.add_argument("--max-active", type=int, metavar="N", help="requests that run at once")
    command.add_argument("--queue-capacity", type=int, metavar="N", help="requests that may wait")
    command.add_argument(
        "--frontend-workers",
        type=int,
        metavar="N",
        help="threads that render and tokenise prompts",
    )
    command.set_defaults(run=run_serve)


def add_chat(command: argparse.ArgumentParser) -> None:
    """Options of `helios chat`."""
    add_loading(command)
    command.set_defaults(run=run_chat)


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
    """Become a server."""
    options = Options(
        core=said.core,
        host=said.host,
        port=said.port,
        accept=said.accept,
        max_active=said.max_active,
        queue_capacity=said.queue_capacity,
        frontend_workers=said.frontend_workers,
        cache_memory=said.cache_memory,
        threads=said.threads,
        home=home_folder(),
    )
    become_server(options, began=BEGAN)


def run_chat(said: argparse.Namespace) -> None:
    """Become a chat in the terminal."""
    options = Options(
        core=said.core,
        accept=said.accept,
        max_active=1,
        cache_memory=said.cache_memory,
        threads=said.threads,
        home=home_folder(),
    )
    become_terminal(options, began=BEGAN)


def run_doctor(said: argparse.Namespace) -> None:
    """Become the doctor."""
    become_module(DOCTOR, *([str(said.core)] if said.core else []))


def run_trust(said: argparse.Namespace) -> None:
    """Become the keeper of accepted publishers."""
    become_module(PUBLISHERS, *(word for word in (said.act, said.namespace, said.key) if word))


def main() -> None:
    """Become what was asked for; 2 on wrong usage."""
    said = parser().parse_args()
    said.run(said)
