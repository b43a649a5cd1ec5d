"""Signing keys of this machine: one Ed25519 key a publisher namespace."""

from __future__ import annotations

from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

LOCAL_NAMESPACE = "local"


class KeyProblem(Exception):
    """A key is missing or already there: what was found, and what to do."""


def key_path(home: Path, namespace: str) -> Path:
    """Where the key of a namespace is kept."""
    if (
        not namespace
        or any(not (letter.isalnum() or letter in "-._/") for letter in namespace)
        or ".." in namespace
    ):
        raise KeyProblem(
            f"publisher {namespace!r}: expected letters, digits, '-', '_', '.' and '/'"
        )
    return home / "keys" / f"{namespace.replace('/', '+')}.key"


def new_key(home: Path, namespace: str) -> Ed25519PrivateKey:
    """Make a key; never over an existing one."""
    path = key_path(home, namespace)
    if path.exists():
        raise KeyProblem(f"publisher {namespace}: has a key already, {path}")
    key = Ed25519PrivateKey.generate()
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    path.touch(mode=0o600)
    path.write_bytes(key.private_bytes_raw())
    return key


def read_key(home: Path, namespace: str) -> Ed25519PrivateKey:
    """The key of a namespace; the local one is made when first needed."""
    path = key_path(home, namespace)
    if not path.exists():
        if namespace == LOCAL_NAMESPACE:
            return new_key(home, namespace)
        raise KeyProblem(
            f"publisher {namespace}: no key in {path.parent}; make one with `ignition keys new`"
        )
    return Ed25519PrivateKey.from_private_bytes(path.read_bytes())


def list_keys(home: Path) -> list[tuple[str, bytes]]:
    """Namespaces and public keys."""
    folder = home / "keys"
    if not folder.is_dir():
        return []
    return [
        (
            path.stem.replace("+", "/"),
            Ed25519PrivateKey.from_private_bytes(path.read_bytes()).public_key().public_bytes_raw(),
        )
        for path in sorted(folder.glob("*.key"))
    ]
