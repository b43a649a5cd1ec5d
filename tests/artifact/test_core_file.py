"""Opening a core: what was signed is read, and nothing else is."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from helios.artifact.core_file import open_core
from helios.artifact.weights import read_weights
from prepared.body import CHUNK_NBYTES, Location
from prepared.carrier import HEADER
from prepared.contract import ValueSource
from prepared.fields import ContractError
from prepared.trust import TrustStore
from tests.artifact.cores import (
    LARGE,
    PARTS,
    SMALL,
    TRUST,
    flipped,
    layout_of,
    make_core,
    read_all,
    refusal_of,
    relocated,
    weights_of,
)
from tests.treaty.carriers import KEY, NAMESPACE
from tests.treaty.paths import put
from tests.treaty.refusals import refused
from tests.treaty.specimens import CONTRACTS

WHOLE: Final = {**PARTS, "weights.0": SMALL}
PATHS: Final = re.compile(
    r"(header|envelope|body|contract|manifests|locations|assets|executables|weights)[.:\[]"
)
OTHER: Final = Ed25519PrivateKey.from_private_bytes(bytes(reversed(range(32))))


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """A core with nothing wrong."""
    return make_core(tmp_path_factory.mktemp("core") / "sound.core").read_bytes()


def written(folder: Path, data: bytes) -> Path:
    """The bytes as a file."""
    path = folder / "tried.core"
    path.write_bytes(data)
    return path


@pytest.mark.clause("OB-13", "OB-20")
def test_everything_in_a_core_is_read_as_it_was_written(tmp_path: Path) -> None:
    assert read_all(make_core(tmp_path / "a.core")) == WHOLE
    large = make_core(tmp_path / "b.core", weights=LARGE)
    assert read_all(large) == {**PARTS, "weights.0": LARGE}


def test_a_core_says_who_signed_it_and_what_it_serves(tmp_path: Path) -> None:
    core = open_core(make_core(tmp_path / "a.core"), TRUST, acceptance=None)
    assert core.namespace == NAMESPACE
    assert core.deployment.contract == CONTRACTS["plain"]


def test_weights_may_be_read_by_any_number_of_threads(tmp_path: Path) -> None:
    core = open_core(make_core(tmp_path / "a.core", weights=LARGE), TRUST, acceptance=None)
    for threads in (1, 3):
        memory = bytearray(len(LARGE))
        read_weights(core, "weights.0", memoryview(memory), threads=threads)
        assert bytes(memory) == LARGE


@pytest.mark.parametrize(
    ("look", "sentence"),
    [
        ("asset", "assets: found nothing, expected an asset 'nope'"),
        ("executable", "executables: found nothing, expected an executable 'nope'"),
        ("weight", "weights: found nothing, expected a weight resource 'nope'"),
    ],
)
def test_what_a_core_does_not_have_is_refused_by_name(
    tmp_path: Path, look: str, sentence: str
) -> None:
    core = open_core(make_core(tmp_path / "a.core"), TRUST, acceptance=None)
    with refused(sentence):
        getattr(core, look)("nope")


def test_a_file_that_is_not_there_is_refused_with_what_makes_one(tmp_path: Path) -> None:
    assert refusal_of(tmp_path / "none.core") == (
        "file: found No such file or directory, expected a core file: see `ignition prepare`"
    )


def test_a_refused_core_leaves_no_file_open(tmp_path: Path, sound: bytes) -> None:
    path = written(tmp_path, sound[:100])
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(5):
        assert refusal_of(path)
    assert len(os.listdir("/proc/self/fd")) == before


# ------------------------------------------------------------------- damage


@pytest.mark.clause("OB-13")
def test_no_bit_of_the_header_may_be_turned(tmp_path: Path, sound: bytes) -> None:
    for offset in range(HEADER.size):
        for bit in range(8):
            path = written(tmp_path, flipped(sound, offset, bit=bit))
            assert PATHS.match(refusal_of(path)), f"byte {offset}, bit {bit}"


@pytest.mark.clause("OB-13", "OB-20", "OB-21")
@given(place=st.floats(0, 1, exclude_max=True), bit=st.integers(0, 7))
@settings(max_examples=150, deadline=None)
def test_a_turned_bit_is_refused_or_was_padding(
    place: float, bit: int, sound: bytes, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.getbasetemp() / "turned.core"
    path.write_bytes(flipped(sound, int(place * len(sound)), bit=bit))
    sentence = refusal_of(path)
    if sentence:
        assert PATHS.match(sentence)
        assert "\n" not in sentence
    else:
        assert read_all(path) == WHOLE


@pytest.mark.clause("OB-20")
@pytest.mark.parametrize(
    ("resource", "at"),
    [
        ("code", "executables.code"),
        ("tokenizer", "assets.tokenizer"),
        ("chat_template", "assets.chat_template"),
        ("weights.0", "weights.weights.0"),
    ],
)
def test_a_changed_resource_is_refused_by_name(
    tmp_path: Path, sound: bytes, resource: str, at: str
) -> None:
    path = written(tmp_path, flipped(sound, layout_of(sound).offsets[resource] + 11))
    assert refusal_of(path) == (
        f"{at}.chunk_sha256[0]: found another digest, expected the signed one"
    )


@pytest.mark.clause("OB-20")
def test_a_changed_chunk_of_weights_is_named(tmp_path: Path) -> None:
    data = make_core(tmp_path / "large.core", weights=LARGE).read_bytes()
    second = layout_of(data).offsets["weights.0"] + CHUNK_NBYTES + 5
    path = written(tmp_path, flipped(data, second))
    assert refusal_of(path) == (
        "weights.weights.0.chunk_sha256[1]: found another digest, expected the signed one"
    )


@pytest.mark.clause("OB-13")
def test_a_changed_body_is_refused(tmp_path: Path, sound: bytes) -> None:
    path = written(tmp_path, flipped(sound, layout_of(sound).header.envelope_offset + 500))
    assert refusal_of(path) == (
        "envelope.signature: found a signature of other bytes, expected one over this body"
    )


@pytest.mark.parametrize("left", [0, 1, HEADER.size - 1, HEADER.size, 5000, -600, -20, -1])
def test_a_core_that_was_cut_short_is_refused(tmp_path: Path, sound: bytes, left: int) -> None:
    assert refusal_of(written(tmp_path, sound[:left])).startswith("header")


def test_a_core_that_shrinks_after_it_was_opened_is_refused(tmp_path: Path, sound: bytes) -> None:
    path = written(tmp_path, sound)
    core = open_core(path, TRUST, acceptance=None)
    os.truncate(path, core.offsets["weights.0"] + 100)
    with refused("weights.weights.0: found a shorter file, expected 20000 bytes"):
        weights_of(core, "weights.0")
    os.truncate(path, core.offsets["code"] + 10)
    stored = core.body.executables[0].stored.nbytes
    with refused(f"executables.code.nbytes: found 10, expected {stored} stored bytes"):
        core.executable("code")


def test_weights_that_change_after_the_core_was_opened_are_refused(
    tmp_path: Path, sound: bytes
) -> None:
    path = written(tmp_path, sound)
    core = open_core(path, TRUST, acceptance=None)
    path.write_bytes(flipped(sound, core.offsets["weights.0"]))
    with refused(
        "weights.weights.0.chunk_sha256[0]: found another digest, expected the signed one"
    ):
        weights_of(core, "weights.0")


# ------------------------------------------------------------------ locations

LOCATED: Final[Mapping[str, tuple[Callable[[Location], Location], str]]] = {
    "elsewhere in the file": (
        lambda at: replace(at, offset=(at.offset or 0) + 1),
        "executables.code.chunk_sha256[0]: found another digest, expected the signed one",
    ),
    "in the header": (
        lambda at: replace(at, offset=0),
        "executables.code.location: found 0 with ",
    ),
    "past the end": (
        lambda at: replace(at, offset=1 << 40),
        "executables.code.location: found 1099511627776 with ",
    ),
    "past all numbers": (
        lambda at: replace(at, offset=(1 << 64) - 1),
        "executables.code.location: found 18446744073709551615 with ",
    ),
    "under another name": (
        lambda at: replace(at, resource="kode"),
        "executables.code: found no location, expected an offset in this file",
    ),
    "twice": (
        lambda at: replace(at, resource="tokenizer"),
        "locations[1]: found 'tokenizer', expected each resource once",
    ),
    "in another file": (
        lambda at: replace(at, file="code.bin"),
        "locations[0]: found another place, expected an offset in this file",
    ),
    "at an address": (
        lambda at: replace(at, url="https://acme.example/code"),
        "locations[0]: found another place, expected an offset in this file",
    ),
    "nowhere": (
        lambda at: replace(at, offset=None),
        "locations[0]: found another place, expected an offset in this file",
    ),
}


@pytest.mark.clause("OB-13")
@pytest.mark.parametrize("fault", LOCATED)
def test_a_location_is_a_hint_that_is_checked(tmp_path: Path, sound: bytes, fault: str) -> None:
    move, sentence = LOCATED[fault]
    path = written(tmp_path, relocated(sound, lambda found: (move(found[0]), *found[1:])))
    assert refusal_of(path).startswith(sentence)


# ------------------------------------------------------------------ publishers


@pytest.mark.clause("OB-21")
def test_a_publisher_that_nobody_accepted_is_refused(tmp_path: Path) -> None:
    path = make_core(tmp_path / "a.core", namespace="stranger", key=OTHER)
    assert refusal_of(path) == (
        "envelope.publisher_namespace: found 'stranger', expected an accepted publisher: "
        "see `helios trust add` or --accept stranger"
    )


@pytest.mark.clause("OB-21")
def test_a_known_name_with_another_key_is_refused(tmp_path: Path) -> None:
    path = make_core(tmp_path / "a.core", key=OTHER)
    ours, theirs = KEY.public_key(), OTHER.public_key()
    sentence = (
        f"envelope.public_key: found {theirs.public_bytes_raw().hex()}, "
        f"expected the accepted {ours.public_bytes_raw().hex()}"
    )
    assert refusal_of(path) == sentence
    with refused(sentence):
        open_core(path, TRUST, acceptance=NAMESPACE)


@pytest.mark.clause("OB-21")
def test_acceptance_is_the_whole_name_of_the_publisher(tmp_path: Path) -> None:
    path = make_core(tmp_path / "a.core", namespace="stranger", key=OTHER)
    assert open_core(path, TrustStore(), acceptance="stranger").namespace == "stranger"
    for acceptance in ("strange", "stranger ", "Stranger", ""):
        with refused(
            "envelope.publisher_namespace: found 'stranger', "
            f"expected exactly the accepted {acceptance!r}"
        ):
            open_core(path, TrustStore(), acceptance=acceptance)


# ------------------------------------------- signed, and against the treaty

DEPLOYMENT: Final = "deployments[0]"
MANIFEST: Final = f"{DEPLOYMENT}.manifests[0]"
MODEL: Final = f"{DEPLOYMENT}.contract.model"

BREACHES: Final[Mapping[str, tuple[Mapping[str, object], str]]] = {
    "another format": (
        {"format_version": 3},
        "body.format_version: found 3, expected 2 to 2",
    ),
    "a newer contract": (
        {f"{MODEL}.version": 4},
        f"body.{MODEL}.version: found 4, expected 1 to 3",
    ),
    "an unspecified enum": (
        {f"{MODEL}.graphs[0].operation": 0},
        f"body.{MODEL}.graphs[0].operation: found 0, expected one of "
        "[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12]",
    ),
    "an unknown enum": (
        {f"{MODEL}.graphs[0].values[0].source": 999},
        f"body.{MODEL}.graphs[0].values[0].source: found 999, expected one of "
        f"{sorted(int(source) for source in ValueSource)}",
    ),
    "no deployment": (
        {"deployments": ()},
        "body.deployments: found 0, expected one deployment",
    ),
    "no manifest": (
        {f"{DEPLOYMENT}.manifests": ()},
        "manifests: found none, expected one manifest a rank",
    ),
    "a manifest of another rank": (
        {f"{MANIFEST}.rank": 1},
        "manifests[0].rank: found 1 of 1, expected 0 of 1",
    ),
    "a manifest of more ranks": (
        {f"{MANIFEST}.ranks": 2},
        "manifests[0].rank: found 0 of 2, expected 0 of 1",
    ),
    "a contract at odds with itself": (
        {f"{DEPLOYMENT}.contract.prefill_tokens": 1025},
        "contract.prefill_tokens: found 1025, expected at most context_tokens, 1024",
    ),
    "a manifest at odds with itself": (
        {f"{MANIFEST}.images": ()},
        "manifests[0].images: found none, expected compiled kernels",
    ),
    "a manifest at odds with the contract": (
        {f"{MANIFEST}.programs[0].batch_capacity": 3},
        "contract.model.graphs[0].batch_capacity: found 4, expected the program's, 3",
    ),
    "weights past their resource": (
        {f"{MANIFEST}.buffers[0].resource_offset": 20_000},
        "manifests[0].buffers[0].resource: found 'weights.0' up to 24096, "
        "expected an extent of a weight resource",
    ),
    "weights of no resource": (
        {f"{MANIFEST}.buffers[0].resource": "weights.1"},
        "manifests[0].buffers[0].resource: found 'weights.1' up to 12288, "
        "expected an extent of a weight resource",
    ),
    "weights without digests": (
        {"weights[0].chunk_sha256": ()},
        "body.weights[0].chunk_sha256: found 0, expected 1 digests",
    ),
}


@pytest.mark.clause("OB-07", "OB-12", "SM-20")
@pytest.mark.parametrize("fault", BREACHES)
def test_a_signed_core_that_breaks_the_treaty_is_refused(tmp_path: Path, fault: str) -> None:
    changes, sentence = BREACHES[fault]
    path = make_core(tmp_path / "a.core", changes=changes)
    with refused(sentence):
        open_core(path, TRUST, acceptance=None)


def test_a_core_of_two_deployments_is_refused(tmp_path: Path) -> None:
    single = open_core(make_core(tmp_path / "a.core"), TRUST, acceptance=None).deployment
    changes = {"deployments": (single, put(single, {"name": "second"}))}
    path = make_core(tmp_path / "b.core", changes=changes)
    with refused("body.deployments: found 2, expected one deployment"):
        open_core(path, TRUST, acceptance=None)


@pytest.mark.clause("SM-08", "SM-09")
def test_what_only_preparation_reads_changes_nothing(tmp_path: Path) -> None:
    plain = make_core(tmp_path / "a.core")
    noted = make_core(
        tmp_path / "b.core", changes={"rebuild": b"not a manifest", "catalogs": (b"nor one",)}
    )
    first, second = (open_core(path, TRUST, acceptance=None) for path in (plain, noted))
    assert first.deployment == second.deployment
    assert read_all(noted) == read_all(plain)


@pytest.mark.clause("OB-15", "OB-16")
def test_the_label_of_the_execution_abi_does_not_gate_loading(tmp_path: Path) -> None:
    path = make_core(tmp_path / "a.core", changes={f"{MANIFEST}.execution_abi": 7})
    assert read_all(path) == WHOLE


def test_a_sentence_names_a_field_and_nothing_of_the_library(tmp_path: Path, sound: bytes) -> None:
    start = layout_of(sound).header.envelope_offset
    garbled = sound[:start] + b"\xff" * 40 + sound[start + 40 :]
    with pytest.raises(ContractError) as refusal:
        open_core(written(tmp_path, garbled), TRUST, acceptance=None)
    assert refusal.value.at == "envelope"


def test_a_folder_is_no_core(tmp_path: Path) -> None:
    with refused("file: found Is a directory, expected a core file"):
        open_core(tmp_path, TRUST, acceptance=None)
