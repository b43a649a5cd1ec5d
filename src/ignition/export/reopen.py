"""Reopen a core and check all of it: signature, treaty, every digest of every byte.

Uses the same `prepared` code that the server uses, and nothing of how the core was made.
"""

from __future__ import annotations

import mmap
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from prepared.body import CoreBody, LocationSet, SignedEnvelope, StoredFrame
from prepared.carrier import HEADER, unpack_header
from prepared.completeness import check_body
from prepared.decode import decode
from prepared.envelope import authenticate
from prepared.fields import ContractError
from prepared.frames import check_chunks, decompress


@dataclass(frozen=True, slots=True, kw_only=True)
class Reopened:
    """A core that was read back."""

    path: Path
    nbytes: int
    envelope: SignedEnvelope
    body: CoreBody
    locations: dict[str, int]


def reopen(path: Path) -> Reopened:
    """Read header, envelope, body and locations; the publisher need not be accepted."""
    with path.open("rb") as file:
        nbytes = path.stat().st_size
        header = unpack_header(file.read(HEADER.size), file_nbytes=nbytes)
        file.seek(header.envelope_offset)
        envelope = decode(file.read(header.envelope_nbytes), SignedEnvelope, at="envelope")
        file.seek(header.locations_offset)
        locations = decode(file.read(header.locations_nbytes), LocationSet, at="locations")
    authenticate(envelope, at="envelope")
    body = decode(envelope.body, CoreBody, at="body")
    check_body(body)
    offsets = {
        location.resource: location.offset
        for location in locations.locations
        if location.offset is not None
    }
    return Reopened(path=path, nbytes=nbytes, envelope=envelope, body=body, locations=offsets)


def check_resources(core: Reopened) -> Iterator[str]:
    """Check every stored byte against its commitments; yields each resource once it is right."""
    with (
        core.path.open("rb") as file,
        mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as whole,
    ):
        view = memoryview(whole)
        try:
            for frame_id, stored in frames_of(core.body):
                start = located(core, frame_id, stored.nbytes)
                decompress(view[start : start + stored.nbytes], stored, at=frame_id)
                yield frame_id
            for weight in core.body.weights:
                start = located(core, weight.id, weight.nbytes)
                check_chunks(view[start : start + weight.nbytes], weight.chunk_sha256, at=weight.id)
                yield weight.id
        finally:
            view.release()


def frames_of(body: CoreBody) -> Iterator[tuple[str, StoredFrame]]:
    """Every compressed resource."""
    for executable in body.executables:
        yield executable.id, executable.stored
    for asset in body.assets:
        yield asset.id, asset.stored


def located(core: Reopened, resource: str, nbytes: int) -> int:
    """Where a resource lies, inside the file."""
    offset = core.locations.get(resource)
    if offset is None or offset + nbytes > core.nbytes:
        raise ContractError(
            f"locations.{resource}", offset, expected=f"{nbytes} bytes inside the file"
        )
    return offset
