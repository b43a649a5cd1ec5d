"""Which publishers this machine accepts: a namespace and the key that signs for it.

A known namespace is accepted only with its own key.  Acceptance records trust and license
terms (OB-21); it is a small JSON file that people may read.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import msgspec

from prepared.body import SignedEnvelope
from prepared.envelope import authenticate, authorize
from prepared.fields import ContractError


class TrustStore(msgspec.Struct, frozen=True):
    """Accepted namespaces and their public keys."""

    keys: Mapping[str, bytes] = msgspec.field(default_factory=dict)

    def accepting(self, namespace: str, key: bytes) -> TrustStore:
        """The store with one more publisher; another key for a known one is refused."""
        known = self.keys.get(namespace)
        if known is not None and known != key:
            raise ContractError(
                f"trust.{namespace}", key.hex(), expected=f"the accepted key {known.hex()}"
            )
        return TrustStore({**self.keys, namespace: key})

    def without(self, namespace: str) -> TrustStore:
        """The store without a publisher."""
        if namespace not in self.keys:
            raise ContractError("trust", repr(namespace), expected="an accepted publisher")
        return TrustStore({name: key for name, key in self.keys.items() if name != namespace})


def read_trust(path: Path) -> TrustStore:
    """Read the file; a missing one accepts nobody."""
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return TrustStore()
    try:
        found = json.loads(data)
        return TrustStore({str(name): bytes.fromhex(key) for name, key in found.items()})
    except (ValueError, AttributeError, TypeError, RecursionError):
        raise ContractError(
            str(path), "another text", expected="a JSON object of namespaces and keys"
        ) from None


def write_trust(path: Path, store: TrustStore) -> None:
    """Replace the file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    text = json.dumps({name: key.hex() for name, key in sorted(store.keys.items())}, indent=1)
    fresh = path.with_suffix(".new")
    fresh.write_text(text + "\n")
    fresh.replace(path)


def check_publisher(
    envelope: SignedEnvelope, trust: TrustStore, *, acceptance: str | None, at: str
) -> None:
    """Refuse an envelope that is not signed by an accepted publisher.

    `acceptance` is what the user accepts for this start; without it the namespace must be
    known here.  A known namespace needs its own key either way.
    """
    authenticate(envelope, at=at)
    namespace = envelope.publisher_namespace
    known = trust.keys.get(namespace)
    if acceptance is not None:
        authorize(envelope, acceptance=acceptance, at=at)
    elif known is None:
        raise ContractError(
            f"{at}.publisher_namespace",
            repr(namespace),
            expected=f"an accepted publisher: see `helios trust add` or --accept {namespace}",
        )
    if known is not None and known != envelope.public_key:
        raise ContractError(
            f"{at}.public_key", envelope.public_key.hex(), expected=f"the accepted {known.hex()}"
        )
