"""Publishers whose cores this machine accepts: `helios trust`."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from helios.options import home_folder
from prepared.fields import ContractError
from prepared.trust import read_trust, write_trust

KEY_NBYTES = 32


def list_publishers(path: Path) -> None:
    """Print namespaces and keys."""
    for namespace, key in read_trust(path).keys.items():
        print(f"{namespace}  {key.hex()}")


def accept(path: Path, namespace: str, digits: str) -> None:
    """Accept a publisher by its public key."""
    try:
        key = bytes.fromhex(digits)
    except ValueError:
        key = b""
    if len(key) != KEY_NBYTES:
        raise ContractError("key", repr(digits), expected=f"{2 * KEY_NBYTES} hexadecimal digits")
    write_trust(path, read_trust(path).accepting(namespace, key))


def remove(path: Path, namespace: str) -> None:
    """Accept a publisher no longer."""
    write_trust(path, read_trust(path).without(namespace))


ACTS: Final[Mapping[str, Callable[..., None]]] = {
    "list": list_publishers,
    "add": accept,
    "remove": remove,
}


def main() -> int:
    """Do what the arguments say; 1 when it is refused."""
    act, *words = sys.argv[1:]
    try:
        ACTS[act](home_folder() / "trust.json", *words)
    except (ContractError, OSError) as error:
        print(f"helios: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
