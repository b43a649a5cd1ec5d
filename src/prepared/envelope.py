"""Signed envelopes: who publishes a core, and whether we accept that publisher.

The exact bytes that were signed are kept and verified, never a re-serialisation.  Two
questions, both answered before anything in the body is looked at: is the signature right
(`authenticate`), and is this publisher accepted (`authorize`, OB-21)?
"""

from __future__ import annotations

import struct
from typing import Final

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import (
    Ed25519PrivateKey,
    Ed25519PublicKey,
)

from prepared.body import SignedEnvelope
from prepared.fields import ContractError

DOMAIN: Final = b"helios core body 2\n"


def signed_bytes(body: bytes, namespace: str) -> bytes:
    """What the signature covers: the domain, the namespace and the body."""
    name = namespace.encode()
    return DOMAIN + struct.pack("<I", len(name)) + name + body


def sign(body: bytes, *, namespace: str, key: Ed25519PrivateKey) -> SignedEnvelope:
    """Sign a body under a publisher namespace."""
    return SignedEnvelope(
        body=body,
        publisher_namespace=namespace,
        public_key=key.public_key().public_bytes_raw(),
        signature=key.sign(signed_bytes(body, namespace)),
    )


def authenticate(envelope: SignedEnvelope, *, at: str) -> None:
    """Refuse an envelope whose signature does not cover its body and namespace."""
    key = Ed25519PublicKey.from_public_bytes(envelope.public_key)
    try:
        key.verify(envelope.signature, signed_bytes(envelope.body, envelope.publisher_namespace))
    except InvalidSignature:
        raise ContractError(
            f"{at}.signature", "a signature of other bytes", expected="one over this body"
        ) from None


def authorize(envelope: SignedEnvelope, *, acceptance: str, at: str) -> None:
    """Refuse a publisher that was not accepted by exactly its namespace."""
    if acceptance != envelope.publisher_namespace:
        raise ContractError(
            f"{at}.publisher_namespace",
            repr(envelope.publisher_namespace),
            expected=f"exactly the accepted {acceptance!r}",
        )
