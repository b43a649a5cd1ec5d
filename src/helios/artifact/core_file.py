"""One core file, opened: its authenticated body, and where its resources lie.

Always: the body was signed by an accepted publisher and obeys the treaty; stored bytes are
checked against their commitments before anyone sees them.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from prepared.agreement import check_agreement, check_manifest
from prepared.body import (
    CHUNK_NBYTES,
    CoreBody,
    DeploymentBody,
    LocationSet,
    SignedEnvelope,
    StoredFrame,
    WeightResource,
)
from prepared.carrier import HEADER, PAYLOAD_ALIGNMENT, unpack_header
from prepared.consistency import check_contract
from prepared.decode import decode
from prepared.fields import ContractError
from prepared.frames import decompress
from prepared.manifest import BufferRole
from prepared.trust import TrustStore, check_publisher


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenCore:
    """A core whose body is authentic; resources are read on demand."""

    path: Path
    file: int  # descriptor, open for the process's life
    file_nbytes: int
    namespace: str
    body: CoreBody
    offsets: Mapping[str, int]

    @property
    def deployment(self) -> DeploymentBody:
        """What is served."""
        return self.body.deployments[0]

    def asset(self, name: str) -> bytes:
        """A frontend asset, checked and decoded."""
        for asset in self.body.assets:
            if asset.id == name:
                return self.frame(name, asset.stored, at=f"assets.{name}")
        raise ContractError("assets", "nothing", expected=f"an asset {name!r}")

    def executable(self, name: str) -> bytes:
        """An executable resource, checked and decoded."""
        for executable in self.body.executables:
            if executable.id == name:
                return self.frame(name, executable.stored, at=f"executables.{name}")
        raise ContractError("executables", "nothing", expected=f"an executable {name!r}")

    def weight(self, name: str) -> WeightResource:
        """A weight resource's commitments."""
        for weight in self.body.weights:
            if weight.id == name:
                return weight
        raise ContractError("weights", "nothing", expected=f"a weight resource {name!r}")

    def frame(self, resource: str, stored: StoredFrame, *, at: str) -> bytes:
        """A stored frame, checked and decoded."""
        offset = self.located(resource, stored.nbytes, at=at)
        return decompress(memoryview(os.pread(self.file, stored.nbytes, offset)), stored, at=at)

    def located(self, resource: str, nbytes: int, *, at: str) -> int:
        """Where a resource lies in this file; its extent is inside the file."""
        offset = self.offsets.get(resource)
        if offset is None:
            raise ContractError(at, "no location", expected="an offset in this file")
        if offset < HEADER.size or offset + nbytes > self.file_nbytes:
            raise ContractError(
                f"{at}.location",
                f"{offset} with {nbytes} bytes",
                expected=f"an extent within the file's {self.file_nbytes} bytes",
            )
        return offset


def open_core(path: Path, trust: TrustStore, *, acceptance: str | None) -> OpenCore:
    """Open a core, or say what is wrong with it and where (ContractError)."""
    try:
        file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError as error:
        raise ContractError(
            "file", error.strerror, expected="a core file: see `ignition prepare`"
        ) from None
    try:
        return read_core(path, file, trust, acceptance=acceptance)
    except BaseException:
        os.close(file)
        raise


def read_core(path: Path, file: int, trust: TrustStore, *, acceptance: str | None) -> OpenCore:
    """A core from its open file."""
    file_nbytes = os.fstat(file).st_size
    header = unpack_header(os.pread(file, HEADER.size, 0), file_nbytes=file_nbytes)
    envelope = decode(
        os.pread(file, header.envelope_nbytes, header.envelope_offset),
        SignedEnvelope,
        at="envelope",
    )
    check_publisher(envelope, trust, acceptance=acceptance, at="envelope")
    body = decode(envelope.body, CoreBody, at="body")
    check_body(body)
    locations = decode(
        os.pread(file, header.locations_nbytes, header.locations_offset),
        LocationSet,
        at="locations",
    )
    return OpenCore(
        path=path,
        file=file,
        file_nbytes=file_nbytes,
        namespace=envelope.publisher_namespace,
        body=body,
        offsets=offsets_of(locations),
    )


def offsets_of(locations: LocationSet) -> dict[str, int]:
    """Offsets in this file by resource; other places are not read yet, and refused."""
    offsets: dict[str, int] = {}
    for index, location in enumerate(locations.locations):
        at = f"locations[{index}]"
        if location.file is not None or location.url is not None or location.offset is None:
            raise ContractError(at, "another place", expected="an offset in this file")
        if location.resource in offsets:
            raise ContractError(at, repr(location.resource), expected="each resource once")
        offsets[location.resource] = location.offset
    return offsets


def check_body(body: CoreBody) -> None:
    """Contract, manifests and resources agree (OB-12)."""
    if len(body.deployments) != 1:
        raise ContractError("body.deployments", len(body.deployments), expected="one deployment")
    deployment = body.deployments[0]
    check_contract(deployment.contract)
    if not deployment.manifests:
        raise ContractError("manifests", "none", expected="one manifest a rank")
    for rank, manifest in enumerate(deployment.manifests):
        at = f"manifests[{rank}]"
        if manifest.rank != rank or manifest.ranks != len(deployment.manifests):
            raise ContractError(
                f"{at}.rank",
                f"{manifest.rank} of {manifest.ranks}",
                expected=f"{rank} of {len(deployment.manifests)}",
            )
        check_manifest(manifest, at=at)
        check_agreement(deployment.contract.model, manifest, at="contract.model")
        weights = {weight.id: weight.nbytes for weight in body.weights}
        for index, buffer in enumerate(manifest.buffers):
            if buffer.role is not BufferRole.WEIGHT or buffer.resource is None:
                continue
            end = buffer.resource_offset + buffer.nbytes
            if end > weights.get(buffer.resource, 0):
                raise ContractError(
                    f"{at}.buffers[{index}].resource",
                    f"{buffer.resource!r} up to {end}",
                    expected="an extent of a weight resource",
                )
    for index, weight in enumerate(body.weights):
        chunks = -(-weight.nbytes // CHUNK_NBYTES)
        if len(weight.chunk_sha256) != chunks:
            raise ContractError(
                f"body.weights[{index}].chunk_sha256",
                len(weight.chunk_sha256),
                expected=f"{chunks} digests",
            )


assert PAYLOAD_ALIGNMENT % 4096 == 0  # weights may be read with direct page access
