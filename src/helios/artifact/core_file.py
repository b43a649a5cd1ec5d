"""One core file, opened: its authenticated body, and where its resources lie.

Always: the body was signed by an accepted publisher and obeys the treaty; stored bytes are
checked against their commitments before anyone sees them.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import msgspec

from prepared.body import (
    CoreBody,
    DeploymentBody,
    LocationSet,
    SignedEnvelope,
    StoredFrame,
    WeightResource,
)
from prepared.carrier import HEADER, PAYLOAD_ALIGNMENT, unpack_header
from prepared.completeness import check_body
from prepared.decode import decode
from prepared.fields import ContractError
from prepared.frames import decompress
from prepared.trust import TrustStore, check_publisher


class OpenCore(msgspec.Struct, frozen=True, kw_only=True):
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
    except IsADirectoryError as error:
        os.close(file)
        raise ContractError("file", error.strerror, expected="a core file") from None
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
    if len(body.deployments) != 1:
        raise ContractError("body.deployments", len(body.deployments), expected="one deployment")
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


assert PAYLOAD_ALIGNMENT % 4096 == 0  # weights may be read with direct page access
