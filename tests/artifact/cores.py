"""Small signed cores, and ways of damaging them."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from msgspec.structs import replace

from helios.artifact.core_file import OpenCore, open_core
from helios.artifact.weights import read_weights
from ignition.export.core_file import CoreWriter
from prepared.body import (
    CHUNK_NBYTES,
    CoreBody,
    DeploymentBody,
    Location,
    LocationSet,
    ResourceKind,
)
from prepared.carrier import HEADER, Header, pack_header, unpack_header
from prepared.decode import decode
from prepared.encode import encode, written
from prepared.fields import ContractError
from prepared.trust import TrustStore
from tests.treaty.carriers import KEY, NAMESPACE, manifest_of
from tests.treaty.paths import put
from tests.treaty.specimens import CONTRACTS

TRUST: Final = TrustStore().accepting(NAMESPACE, KEY.public_key().public_bytes_raw())


def noise(nbytes: int) -> bytes:
    """Bytes that no compressor makes shorter."""
    return hashlib.shake_128(b"noise").digest(nbytes)


PARTS: Final = {
    "code": b"compiled kernels" + noise(3000),
    "tokenizer": b'{"tokens": []}' + noise(5000),
    "chat_template": b"{{ messages }}",
}
SMALL: Final = noise(20_000)
LARGE: Final = noise(CHUNK_NBYTES) + noise(20_000)
"""Weights of one chunk, and of two."""


def make_core(
    path: Path,
    *,
    weights: bytes = SMALL,
    changes: Mapping[str, object] | None = None,
    namespace: str = NAMESPACE,
    key: Ed25519PrivateKey = KEY,
) -> Path:
    """A core of one rank; its body may be changed before it is signed."""
    contract = CONTRACTS["plain"]
    deployment = DeploymentBody(
        name="default", contract=contract, manifests=(manifest_of(contract, ranks=1),)
    )
    with CoreWriter(path) as core:
        body = CoreBody(
            format_version=2,
            deployments=(deployment,),
            executables=(core.executable("code", ResourceKind.SHARED_OBJECT, PARTS["code"]),),
            assets=(
                core.asset("tokenizer", ResourceKind.TOKENIZER, PARTS["tokenizer"]),
                core.asset("chat_template", ResourceKind.CHAT_TEMPLATE, PARTS["chat_template"]),
            ),
            weights=(core.weights("weights.0", [memoryview(weights)]),),
            rebuild=None,
            catalogs=(),
        )
        core.seal(written(put(body, changes or {})), namespace=namespace, key=key)
    return path


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """Where everything lies in a core file."""

    header: Header
    offsets: Mapping[str, int]


def layout_of(data: bytes) -> Layout:
    """The layout of a sound core."""
    header = unpack_header(data, file_nbytes=len(data))
    start = header.locations_offset
    locations = decode(data[start : start + header.locations_nbytes], LocationSet, at="locations")
    offsets = {found.resource: found.offset or 0 for found in locations.locations}
    return Layout(header=header, offsets=offsets)


def flipped(data: bytes, offset: int, *, bit: int = 0) -> bytes:
    """The bytes with one bit turned."""
    changed = bytearray(data)
    changed[offset] ^= 1 << bit
    return bytes(changed)


def relocated(data: bytes, change: Callable[[tuple[Location, ...]], tuple[Location, ...]]) -> bytes:
    """The core with other locations, which nobody signed."""
    header = layout_of(data).header
    start = header.locations_offset
    found = decode(data[start : start + header.locations_nbytes], LocationSet, at="locations")
    locations = encode(LocationSet(locations=change(found.locations)))
    fresh = replace(header, locations_nbytes=len(locations))
    return pack_header(fresh) + data[HEADER.size : start] + locations


def read_all(path: Path, *, trust: TrustStore = TRUST) -> dict[str, bytes]:
    """Open a core and read everything in it."""
    core = open_core(path, trust, acceptance=None)
    return {
        **{executable.id: core.executable(executable.id) for executable in core.body.executables},
        **{asset.id: core.asset(asset.id) for asset in core.body.assets},
        **{weight.id: weights_of(core, weight.id) for weight in core.body.weights},
    }


def weights_of(core: OpenCore, name: str) -> bytes:
    """A weight resource, read as a device reads it."""
    memory = bytearray(core.weight(name).nbytes)
    read_weights(core, name, memoryview(memory))
    return bytes(memory)


def refusal_of(path: Path, *, trust: TrustStore = TRUST) -> str:
    """Why a core is refused; a core that is not refused gives no sentence."""
    try:
        read_all(path, trust=trust)
    except ContractError as error:
        return str(error)
    return ""
