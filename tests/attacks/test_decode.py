"""Bytes that are no message, or whose fields break a rule of their own."""

from __future__ import annotations

from typing import Any

import pytest

from prepared.body import LocationSet, ProtectedIndex, SignedEnvelope, WeightCatalog
from prepared.contract import ServingContract
from prepared.decode import WIRE, decode
from prepared.encode import encode, written
from prepared.fields import Finite, Length, OneOf, PowerOfTwo, Rule, Shape, Since, Within
from prepared.manifest import ExecutionManifest
from tests.treaty.carriers import STANDING, locations, protected_index, weight_catalog
from tests.treaty.messages import bytes_of, message_of, walk_messages
from tests.treaty.paths import put, walk
from tests.treaty.refusals import attack, refused
from tests.treaty.rewriting import BYTES, VARINT, Entry, varint
from tests.treaty.schema import SHAPES, is_optional, said_by

# ------------------------------------------------------------------ bytes

WHOLE = encode(weight_catalog())


def entry(number: int, payload: bytes, *, wire: int = BYTES) -> bytes:
    """One field's bytes."""
    return Entry(number=number, wire=wire, payload=payload).spelled()


def groups(depth: int) -> bytes:
    """An unknown group in an unknown group in ..."""
    return b"\x1b" * depth + b"\x1c" * depth


UNREADABLE = [
    attack("a lone tag", LocationSet, b"\x0a"),
    attack("a tag that never ends", LocationSet, b"\xff" * 12),
    attack("field number zero", LocationSet, b"\x02\x00"),
    attack("a length beyond the end", LocationSet, b"\x0a\x7f"),
    attack("a truncated message", WeightCatalog, WHOLE[:-1]),
    attack("a group without an end", LocationSet, b"\x1b"),
    attack("an end without a group", LocationSet, b"\x1c"),
    attack("groups a thousand deep", LocationSet, groups(1000)),
    attack("text that is not UTF-8", LocationSet, entry(1, entry(1, b"\xc3\x28"))),
    attack("text with a surrogate", LocationSet, entry(1, entry(1, b"\xed\xa0\x80"))),
]


@pytest.mark.parametrize(("shape", "data"), UNREADABLE)
def test_bytes_that_are_no_message_are_refused(shape: type, data: bytes) -> None:
    with refused(f"core: found {len(data)} bytes, expected a {shape.__name__}"):
        decode(data, shape, at="core")


@pytest.mark.parametrize("shape", WIRE, ids=lambda shape: shape.__name__)
def test_a_lone_byte_is_no_shape(shape: type) -> None:
    with refused(f"core: found 1 bytes, expected a {shape.__name__}"):
        decode(b"\xff", shape, at="core")


SPELLINGS = [
    attack("fields in disorder", entry(4, b"u") + entry(1, b"r")),
    attack("a field twice", entry(1, b"r") * 2),
    attack("an empty text that is said", entry(1, b"")),
    attack("an integer of three bytes", entry(2, b"\x81\x80\x00", wire=VARINT)),
    attack("a tag of two bytes", b"\x8a\x00\x01r"),
]


@pytest.mark.parametrize("location", SPELLINGS)
def test_another_spelling_is_refused(location: bytes) -> None:
    with refused("core: found another encoding, expected the canonical encoding"):
        decode(entry(1, location), LocationSet, at="core")


UNKNOWN = [
    attack("a field of the set", entry(9, b""), "core: found field 9"),
    attack("a field of a location", entry(1, entry(8, b"")), "core.locations[0]: found field 8"),
    attack(
        "a field of the second location",
        entry(1, entry(1, b"r")) + entry(1, entry(1, b"r") + entry(8, b"")),
        "core.locations[1]: found field 8",
    ),
    attack(
        "a known number with another wire type",
        entry(1, varint(7), wire=VARINT),
        "core: found field 1",
    ),
    attack("a group", groups(2), "core: found field 3"),
]


@pytest.mark.parametrize(("data", "found"), UNKNOWN)
@pytest.mark.clause("SM-20")
def test_a_field_that_no_shape_has_is_refused(data: bytes, found: str) -> None:
    with refused(f"{found}, expected fields we know"):
        decode(data, LocationSet, at="core")


# --------------------------------------------------------------- presence


def needed() -> dict[tuple[str, str], tuple[str, str]]:
    """Every message that another one needs: where a specimen has it."""
    found: dict[tuple[str, str], tuple[str, str]] = {}
    for name, shape in STANDING.items():
        for path, part in walk_messages(message_of(shape), at=name):
            for field, _ in part.ListFields():
                alone = field.message_type is not None and not field.is_repeated
                if alone and not is_optional(field):
                    found.setdefault((part.DESCRIPTOR.name, field.name), (name, path))
    return found


NEEDED = needed()


def test_every_needed_message_is_taken_away_once() -> None:
    every = {
        (name, field)
        for name, shape in SHAPES.items()
        for field, said in said_by(shape).items()
        if issubclass(said.kind, Shape) and not said.repeated and not said.optional
    }
    assert set(NEEDED) == every


@pytest.mark.clause("OB-12")
@pytest.mark.parametrize("key", NEEDED, ids=".".join)
def test_a_missing_message_is_refused(key: tuple[str, str]) -> None:
    name, path = NEEDED[key]
    message = message_of(STANDING[name])
    dict(walk_messages(message, at=name))[path].ClearField(key[1])
    with refused(f"{path}.{key[1]}: found nothing, expected a value"):
        decode(bytes_of(message), type(STANDING[name]), at=name)


# ------------------------------------------------------------------ rules


BREAKING: dict[tuple[Rule, type], tuple[Any, str, str]] = {
    (Within(1), int): (0, "0", "at least 1"),
    (Within(0, 0), int): (1, "1", "0 to 0"),
    (Within(1, 1), int): (2, "2", "1 to 1"),
    (Within(2, 2), int): (1, "1", "2 to 2"),
    (Within(1, 3), int): (4, "4", "1 to 3"),
    (Within(1, 128), int): (129, "129", "1 to 128"),
    (Within(4 << 20, 4 << 20), int): (4096, "4096", "4194304 to 4194304"),
    (OneOf((4, 6)), int): (5, "5", "one of [4, 6]"),
    (PowerOfTwo(), int): (96, "96", "a power of two"),
    (Length(1), str): ("", "''", "text"),
    (Length(1), bytes): (b"", "0 bytes", "at least 1 bytes"),
    (Length(12, 12), bytes): (bytes(13), "13 bytes", "12 bytes"),
    (Length(32, 32), bytes): (bytes(33), "33 bytes", "32 bytes"),
    (Length(64, 64), bytes): (b"", "0 bytes", "64 bytes"),
    (Finite(), float): (float("nan"), "nan", "a finite number"),
    (Finite(0.0), float): (-0.5, "-0.5", "a finite number, at least 0"),
}
"""For every rule in use: a value that breaks it, how it is shown, what is expected instead."""


def ruled() -> list[Any]:
    """Every field with a rule, broken in the first specimen that has it."""
    found = {}
    for name, specimen in STANDING.items():
        for path, part in walk(specimen, at=name):
            for field, said in said_by(type(part)).items():
                key = f"{type(part).__name__}.{field}"
                rules = [rule for rule in said.rules if not isinstance(rule, Since)]
                value = getattr(part, field)
                if key in found or not rules or value is None or value == ():
                    continue
                (rule,) = rules
                where = f"{path}.{field}[0]" if said.repeated else f"{path}.{field}"
                found[key] = attack(key, specimen, where, rule, said.kind)
    return list(found.values())


RULED = ruled()


def test_every_rule_is_broken_once() -> None:
    every = {
        f"{name}.{field}"
        for name, shape in SHAPES.items()
        for field, said in said_by(shape).items()
        if any(not isinstance(rule, Since) for rule in said.rules)
    }
    assert {case.id for case in RULED} == every - {"Speculation.parent_table"}


@pytest.mark.parametrize(("specimen", "where", "rule", "kind"), RULED)
def test_a_field_that_breaks_its_rule_is_refused(
    specimen: Any, where: str, rule: Rule, kind: type
) -> None:
    at, path = where.split(".", 1)
    value, found, expected = BREAKING[rule, kind]
    with refused(f"{where}: found {found}, expected {expected}"):
        decode(written(put(specimen, {path: value})), type(specimen), at=at)


CONTRACT = STANDING["contract_plain"]
SINGLE = [
    attack(
        "a digest of thirty one bytes",
        CONTRACT,
        {"cache_identity": bytes(31)},
        "contract.cache_identity: found 31 bytes, expected 32 bytes",
    ),
    attack(
        "an infinite temperature",
        CONTRACT,
        {"model.frontend.sampling.temperature": float("inf")},
        "contract.model.frontend.sampling.temperature: "
        "found inf, expected a finite number, at least 0",
    ),
    attack(
        "an undefined temperature",
        CONTRACT,
        {"model.frontend.sampling.temperature": float("nan")},
        "contract.model.frontend.sampling.temperature: "
        "found nan, expected a finite number, at least 0",
    ),
    attack(
        "an infinite penalty",
        CONTRACT,
        {"model.frontend.sampling.presence_penalty": float("-inf")},
        "contract.model.frontend.sampling.presence_penalty: found -inf, expected a finite number",
    ),
    attack(
        "no packed rows",
        CONTRACT,
        {"model.graphs[1].packed_token_capacity": 0},
        "contract.model.graphs[1].packed_token_capacity: found 0, expected at least 1",
        clauses=("SG-10",),
    ),
    attack(
        "two tokens a record and a half",
        CONTRACT,
        {"model.cache.histories[0].record_tokens_denominator": 2},
        "contract.model.cache.histories[0].record_tokens_denominator: found 2, expected 1 to 1",
    ),
    attack(
        "a replayed window",
        CONTRACT,
        {"model.cache.histories[0].replay_tokens": 64},
        "contract.model.cache.histories[0].replay_tokens: found 64, expected 0 to 0",
    ),
    attack(
        "an alignment of nothing",
        CONTRACT,
        {"model.cache.histories[0].planes[0].alignment": 0},
        "contract.model.cache.histories[0].planes[0].alignment: found 0, expected a power of two",
    ),
    attack(
        "three frames",
        STANDING["manifest_plain"],
        {"frames": 3},
        "contract.frames: found 3, expected 2 to 2",
    ),
    attack(
        "a body of format one",
        STANDING["body_plain"],
        {"format_version": 1},
        "contract.format_version: found 1, expected 2 to 2",
        clauses=("OB-13", "SM-20"),
    ),
    attack(
        "chunks of two mebibytes",
        STANDING["body_plain"],
        {"executables[0].stored.chunk_nbytes": 2 << 20},
        "contract.executables[0].stored.chunk_nbytes: found 2097152, expected 4194304 to 4194304",
        clauses=("OB-20",),
    ),
    attack(
        "one frame a table",
        STANDING["contract_engram"],
        {"model.engram_tables[0].frames": 1},
        "contract.model.engram_tables[0].frames: found 1, expected 2 to 2",
        clauses=("SG-34",),
    ),
    *(
        attack(
            f"an index of version {version}",
            STANDING["protected_index_6"],
            {"version": version},
            f"contract.version: found {version}, expected one of [4, 6]",
            clauses=("OB-18", "SM-20"),
        )
        for version in (0, 3, 5, 7)
    ),
]


@pytest.mark.parametrize(("specimen", "changes", "sentence"), SINGLE)
def test_a_value_out_of_range_is_refused(
    specimen: Any, changes: dict[str, object], sentence: str
) -> None:
    with refused(sentence):
        decode(written(put(specimen, changes)), type(specimen), at="contract")


@pytest.mark.clause("OB-15", "OB-16")
@pytest.mark.parametrize("label", [0, 1, 5, 7, (1 << 32) - 1])
def test_no_execution_abi_is_refused(label: int) -> None:
    manifest = put(STANDING["manifest_plain"], {"execution_abi": label})
    assert decode(encode(manifest), type(manifest), at="manifest").execution_abi == label


@pytest.mark.clause("OB-15")
@pytest.mark.parametrize("version", [4, 6])
def test_the_carriers_version_is_independent_of_the_contracts(version: int) -> None:
    index = protected_index(version=version)
    assert decode(encode(index), ProtectedIndex, at="index") == index


@pytest.mark.clause("SM-09")
@pytest.mark.parametrize("opaque", [None, b"", b"\xff", b"of a later catalog version"])
def test_what_serving_ignores_is_not_looked_at(opaque: bytes | None) -> None:
    catalogs = () if opaque is None else (opaque,)
    body = put(STANDING["body_plain"], {"rebuild": opaque, "catalogs": catalogs})
    decoded = decode(encode(body), type(body), at="body")
    assert decoded == body
    assert decoded.deployments == STANDING["body_plain"].deployments


def test_an_unset_optional_is_not_a_zero() -> None:
    first, second, third = decode(encode(locations()), LocationSet, at="at").locations
    assert (first.offset, second.offset, third.offset) == (4096, 0, None)


def test_a_key_of_thirty_one_bytes_is_refused() -> None:
    envelope = put(STANDING["envelope"], {"public_key": bytes(31)})
    with refused("core.public_key: found 31 bytes, expected 32 bytes"):
        decode(encode(envelope), SignedEnvelope, at="core")


@pytest.mark.clause("PM-02", "OB-13")
def test_both_carriers_hold_the_same_contract_and_manifests() -> None:
    for name in ("DeploymentBody", "ModelIndex"):
        said = said_by(SHAPES[name])
        assert said["contract"].kind is ServingContract
        assert said["manifests"].kind is ExecutionManifest
