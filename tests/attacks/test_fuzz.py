"""Whatever the bytes, `decode` gives a shape or a ContractError, soon and in little memory."""

from __future__ import annotations

import time
import tracemalloc
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from prepared.agreement import check_agreement, check_manifest
from prepared.body import LocationSet
from prepared.consistency import check_contract
from prepared.contract import ServingContract
from prepared.decode import WIRE, decode
from prepared.encode import encode
from prepared.fields import ContractError
from prepared.manifest import ExecutionManifest
from tests.treaty.anything import shapes
from tests.treaty.carriers import MANIFESTS, STANDING
from tests.treaty.paths import put_one, walk
from tests.treaty.schema import said_by
from tests.treaty.specimens import CONTRACTS

VALID = {shape: [encode(s) for s in STANDING.values() if type(s) is shape] for shape in WIRE}
QUIET = settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])
SOON_SECONDS = 5.0


def read_or_refuse(data: bytes, shape: type) -> None:
    """Decode; what is accepted must be canonical."""
    began = time.monotonic()
    with suppress(ContractError):
        value: Any = decode(data, shape, at="core")
        assert encode(value) == data
    assert time.monotonic() - began < SOON_SECONDS


@pytest.mark.parametrize("shape", WIRE, ids=lambda shape: shape.__name__)
@QUIET
@given(data=st.binary(max_size=200))
def test_random_bytes_are_read_or_refused(shape: type, data: bytes) -> None:
    read_or_refuse(data, shape)


@st.composite
def mutated(draw: st.DrawFn, shape: type) -> bytes:
    """Valid bytes with up to four cuts, flips, insertions or repetitions."""
    data = bytearray(draw(st.sampled_from(VALID[shape])))
    for _ in range(draw(st.integers(1, 4))):
        start = draw(st.integers(0, len(data)))
        end = min(len(data), start + draw(st.integers(0, 8)))
        piece = bytes(data[start:end])
        data[start:end] = draw(st.binary(max_size=8) | st.just(piece * 2))
    return bytes(data)


@pytest.mark.parametrize("shape", WIRE, ids=lambda shape: shape.__name__)
@QUIET
@given(data=st.data())
def test_damaged_bytes_are_read_or_refused(shape: type, data: st.DataObject) -> None:
    read_or_refuse(data.draw(mutated(shape)), shape)


@pytest.mark.parametrize("shape", WIRE, ids=lambda shape: shape.__name__)
def test_every_truncation_is_read_or_refused(shape: type) -> None:
    data = min(VALID[shape], key=len)
    for end in range(0, len(data), max(1, len(data) // 500)):
        read_or_refuse(data[:end], shape)


@pytest.mark.parametrize(
    "data",
    [b"\x0a\x00" * 200_000, b"\x0a\x80\x80\x80\x08" + bytes(1 << 20), b"\x1b" * 1_000_000],
    ids=["empty messages", "a length without bytes", "open groups"],
)
def test_a_megabyte_of_nonsense_is_refused_soon_and_in_little_memory(data: bytes) -> None:
    tracemalloc.start()
    try:
        with pytest.raises(ContractError):
            decode(data, LocationSet, at="core")
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 64 << 20


# ------------------------------------------------------ after decoding


@st.composite
def altered(draw: st.DrawFn, specimen: Any) -> Any:
    """A specimen with one to three parts replaced by others of the same shape."""
    for _ in range(draw(st.integers(1, 3))):
        path, part = draw(st.sampled_from(list(walk(specimen, at="x"))))
        name = draw(st.sampled_from(list(said_by(type(part)))))
        kind: type = type(part)
        other = getattr(draw(shapes(kind)), name)
        specimen = put_one(specimen, f"{path}.{name}".removeprefix("x."), other)
    return specimen


def checks(contract: ServingContract, manifest: ExecutionManifest) -> None:
    """Everything that start-up asks of a deployment, in its order."""
    check_contract(contract)
    check_manifest(manifest, at="manifest")
    check_agreement(contract.model, manifest, at="contract.model")


@pytest.mark.clause("OB-12")
@pytest.mark.parametrize("name", CONTRACTS)
@QUIET
@given(data=st.data())
def test_an_altered_deployment_is_sound_or_refused(name: str, data: st.DataObject) -> None:
    contract, manifest = CONTRACTS[name], MANIFESTS[name]
    if data.draw(st.booleans()):
        contract = data.draw(altered(contract))
    else:
        manifest = data.draw(altered(manifest))
    with suppress(ContractError):
        checks(contract, manifest)
