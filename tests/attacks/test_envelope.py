"""Envelopes that were changed, signed by somebody else, or by nobody we accept."""

from __future__ import annotations

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from prepared.body import CoreBody, SignedEnvelope
from prepared.decode import decode
from prepared.encode import encode
from prepared.envelope import DOMAIN, authenticate, authorize, sign, signed_bytes
from prepared.fields import ContractError
from tests.treaty.carriers import KEY, NAMESPACE, body
from tests.treaty.paths import put
from tests.treaty.refusals import attack, refused

BODY = b"the body of a core"
SMALL = sign(BODY, namespace=NAMESPACE, key=KEY)
OTHER = Ed25519PrivateKey.from_private_bytes(bytes(32))
FORGED = "core.signature: found a signature of other bytes, expected one over this body"


def test_what_was_signed_is_authentic_and_opens() -> None:
    envelope = sign(encode(body()), namespace=NAMESPACE, key=KEY)
    again = decode(encode(envelope), SignedEnvelope, at="core")
    authenticate(again, at="core")
    authorize(again, acceptance=NAMESPACE, at="core")
    assert decode(again.body, CoreBody, at="core.body") == body()


FORGERIES = [
    attack("another body", {"body": b"the body of a cord"}),
    attack("a longer body", {"body": BODY + b"\0"}),
    attack("another namespace", {"publisher_namespace": "acme.example.org"}),
    attack("another case", {"publisher_namespace": "Acme.example"}),
    attack("another key", {"public_key": OTHER.public_key().public_bytes_raw()}),
    attack("no key", {"public_key": bytes(32)}),
    attack("no signature", {"signature": bytes(64)}),
    attack("a signature by another key", {"signature": OTHER.sign(signed_bytes(BODY, NAMESPACE))}),
    attack("a signature of the body alone", {"signature": KEY.sign(BODY)}),
    attack("a signature without the domain", {"signature": KEY.sign(NAMESPACE.encode() + BODY)}),
    attack(
        "a signature of another domain",
        {
            "signature": KEY.sign(
                b"helios core body 3\n" + signed_bytes(BODY, NAMESPACE)[len(DOMAIN) :]
            )
        },
    ),
    attack(
        "the last letter of the namespace moved into the body",
        {"publisher_namespace": NAMESPACE[:-1], "body": NAMESPACE[-1:].encode() + BODY},
    ),
    attack(
        "the first letter of the body moved into the namespace",
        {"publisher_namespace": NAMESPACE + "t", "body": BODY[1:]},
    ),
]


@pytest.mark.clause("OB-13", "OB-21")
@pytest.mark.parametrize("changes", FORGERIES)
def test_a_forged_envelope_is_refused(changes: dict[str, object]) -> None:
    with refused(FORGED):
        authenticate(put(SMALL, changes), at="core")


@pytest.mark.clause("OB-13", "OB-21")
def test_a_flipped_bit_anywhere_is_refused() -> None:
    data = encode(SMALL)
    for position in range(len(data)):
        for bit in range(8):
            broken = bytearray(data)
            broken[position] ^= 1 << bit
            with pytest.raises(ContractError):
                authenticate(decode(bytes(broken), SignedEnvelope, at="core"), at="core")


LOOKALIKES = [
    attack("a prefix", "acme"),
    attack("a shorter prefix", "acme.exampl"),
    attack("a suffix", "example"),
    attack("a longer name", "acme.example.org"),
    attack("a longer host", "x.acme.example"),
    attack("upper case", "ACME.EXAMPLE"),
    attack("title case", "Acme.example"),
    attack("a space before", " acme.example"),
    attack("a space after", "acme.example "),
    attack("a newline after", "acme.example\n"),
    attack("a zero after", "acme.example\0"),
    attack("a zero width space", "acme\u200b.example"),
    attack("a cyrillic a", "\u0430cme.example"),
    attack("a fullwidth a", "\uff41cme.example"),
    attack("an accent", "acme\u0301.example"),
    attack("a wildcard", "*"),
    attack("a wildcard host", "*.example"),
    attack("a pattern", "acme.e.ample"),
    attack("nothing", ""),
]


@pytest.mark.clause("OB-21")
@pytest.mark.parametrize("acceptance", LOOKALIKES)
def test_a_namespace_is_accepted_by_its_exact_name_only(acceptance: str) -> None:
    with refused(
        f"core.publisher_namespace: found 'acme.example', "
        f"expected exactly the accepted {acceptance!r}"
    ):
        authorize(SMALL, acceptance=acceptance, at="core")


@pytest.mark.clause("OB-21")
@pytest.mark.parametrize(
    ("signed", "accepted"), [("caf\u00e9", "cafe\u0301"), ("\u212bngstrom", "\u00c5ngstrom")]
)
def test_equal_looking_spellings_are_different_names(signed: str, accepted: str) -> None:
    envelope = sign(BODY, namespace=signed, key=KEY)
    authenticate(envelope, at="core")
    authorize(envelope, acceptance=signed, at="core")
    with refused(
        f"core.publisher_namespace: found {signed!r}, expected exactly the accepted {accepted!r}"
    ):
        authorize(envelope, acceptance=accepted, at="core")
