"""Publishers that are not accepted, and trust files that say nothing of the kind."""

from __future__ import annotations

from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from prepared.body import SignedEnvelope
from prepared.envelope import sign
from prepared.trust import TrustStore, check_publisher, read_trust, write_trust
from tests.treaty.carriers import KEY, NAMESPACE
from tests.treaty.paths import put
from tests.treaty.refusals import attack, refused

OTHER = Ed25519PrivateKey.from_private_bytes(bytes(32))
OURS = KEY.public_key().public_bytes_raw()
THEIRS = OTHER.public_key().public_bytes_raw()
ENVELOPE = sign(b"the body of a core", namespace=NAMESPACE, key=KEY)
KNOWN = TrustStore().accepting(NAMESPACE, OURS)

REFUSED = [
    attack(
        "a forged signature, though accepted",
        put(ENVELOPE, {"body": b"another body"}),
        KNOWN,
        NAMESPACE,
        "core.signature: found a signature of other bytes, expected one over this body",
    ),
    attack(
        "nobody is accepted",
        ENVELOPE,
        TrustStore(),
        None,
        "core.publisher_namespace: found 'acme.example', expected an accepted publisher: "
        "see `helios trust add` or --accept acme.example",
    ),
    attack(
        "another namespace is accepted",
        ENVELOPE,
        KNOWN,
        "acme",
        "core.publisher_namespace: found 'acme.example', expected exactly the accepted 'acme'",
    ),
    *(
        attack(
            f"a known namespace with another key, accepted as {acceptance}",
            sign(b"the body of a core", namespace=NAMESPACE, key=OTHER),
            KNOWN,
            acceptance,
            f"core.public_key: found {THEIRS.hex()}, expected the accepted {OURS.hex()}",
        )
        for acceptance in (None, NAMESPACE)
    ),
]


@pytest.mark.clause("OB-21")
@pytest.mark.parametrize(("envelope", "trust", "acceptance", "sentence"), REFUSED)
def test_a_publisher_that_is_not_accepted_is_refused(
    envelope: SignedEnvelope, trust: TrustStore, acceptance: str | None, sentence: str
) -> None:
    with refused(sentence):
        check_publisher(envelope, trust, acceptance=acceptance, at="core")


@pytest.mark.clause("OB-21")
@pytest.mark.parametrize(
    ("trust", "acceptance"), [(KNOWN, None), (KNOWN, NAMESPACE), (TrustStore(), NAMESPACE)]
)
def test_an_accepted_publisher_passes(trust: TrustStore, acceptance: str | None) -> None:
    check_publisher(ENVELOPE, trust, acceptance=acceptance, at="core")


def test_a_known_namespace_does_not_change_its_key() -> None:
    assert KNOWN.accepting(NAMESPACE, OURS) == KNOWN
    with refused(
        f"trust.acme.example: found {THEIRS.hex()}, expected the accepted key {OURS.hex()}"
    ):
        KNOWN.accepting(NAMESPACE, THEIRS)


def test_only_an_accepted_publisher_can_be_taken_out() -> None:
    assert KNOWN.without(NAMESPACE) == TrustStore()
    with refused("trust: found 'acme', expected an accepted publisher"):
        KNOWN.without("acme")


def test_a_missing_file_accepts_nobody(tmp_path: Path) -> None:
    assert read_trust(tmp_path / "trust.json") == TrustStore()


def test_what_is_written_is_read_and_nothing_is_left_beside_it(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "trust.json"
    store = KNOWN.accepting("caf\u00e9", THEIRS)
    for _ in range(2):
        write_trust(path, store)
        assert read_trust(path) == store
    assert list(path.parent.iterdir()) == [path]


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{",
        b"[]",
        b'"acme.example"',
        b'{"acme.example": 5}',
        b'{"acme.example": null}',
        b'{"acme.example": "not hexadecimal"}',
        b"\xff\xfe\xff",
        b"[" * 100_000,
    ],
    ids=range(9),
)
def test_a_file_of_something_else_is_refused(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "trust.json"
    path.write_bytes(data)
    with refused(f"{path}: found another text, expected a JSON object of namespaces and keys"):
        read_trust(path)
