"""One core file, written front to back.

Always: a resource's commitments are computed from the very bytes that were written, and the
file appears under its name only when it is complete.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType
from typing import BinaryIO

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from prepared.body import (
    CHUNK_NBYTES,
    CoreBody,
    ExecutableResource,
    FrontendAsset,
    Location,
    LocationSet,
    ResourceKind,
    StoredFrame,
    WeightResource,
)
from prepared.carrier import HEADER, PAYLOAD_ALIGNMENT, Header, pack_header
from prepared.encode import encode
from prepared.envelope import sign
from prepared.frames import compress


class ChunkDigests:
    """SHA-256 of consecutive chunks of a stream."""

    def __init__(self) -> None:
        self.digests: list[bytes] = []
        self._hash = hashlib.sha256()
        self._room = CHUNK_NBYTES

    def update(self, data: memoryview) -> None:
        """Take the next bytes."""
        while len(data):
            piece = data[: self._room]
            self._hash.update(piece)
            self._room -= len(piece)
            data = data[len(piece) :]
            if not self._room:
                self.close()

    def close(self) -> None:
        """End the last chunk, if it has any bytes."""
        if self._room < CHUNK_NBYTES:
            self.digests.append(self._hash.digest())
        self._hash = hashlib.sha256()
        self._room = CHUNK_NBYTES


class CoreWriter:
    """A core file being written; leaving the block without `finish` removes it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._unfinished = path.with_name(f".{path.name}.{os.getpid()}")
        self._locations: list[Location] = []
        self._file: BinaryIO

    def __enter__(self) -> CoreWriter:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self._file = self._unfinished.open("wb")
        self._file.write(bytes(HEADER.size))
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._file.close()
        self._unfinished.unlink(missing_ok=True)

    def _begin(self, resource: str) -> None:
        self._file.write(bytes(-self._file.tell() % PAYLOAD_ALIGNMENT))
        self._locations.append(
            Location(resource=resource, offset=self._file.tell(), file=None, url=None)
        )

    def frame(self, resource: str, data: bytes) -> StoredFrame:
        """Write a compressed frame."""
        frame, stored = compress(data)
        self._begin(resource)
        self._file.write(frame)
        return stored

    def executable(self, resource: str, kind: ResourceKind, data: bytes) -> ExecutableResource:
        """Write code."""
        return ExecutableResource(id=resource, kind=kind, stored=self.frame(resource, data))

    def asset(self, resource: str, kind: ResourceKind, data: bytes) -> FrontendAsset:
        """Write a frontend asset."""
        return FrontendAsset(id=resource, kind=kind, stored=self.frame(resource, data))

    def weights(self, resource: str, pieces: Iterable[memoryview]) -> WeightResource:
        """Write raw bytes, piece by piece."""
        self._begin(resource)
        digests, nbytes = ChunkDigests(), 0
        for piece in pieces:
            self._file.write(piece)
            digests.update(piece)
            nbytes += len(piece)
        digests.close()
        return WeightResource(
            id=resource,
            nbytes=nbytes,
            alignment=PAYLOAD_ALIGNMENT,
            chunk_nbytes=CHUNK_NBYTES,
            chunk_sha256=tuple(digests.digests),
        )

    def finish(self, body: CoreBody, *, namespace: str, key: Ed25519PrivateKey) -> None:
        """Sign the body, close the file and give it its name."""
        self.seal(encode(body), namespace=namespace, key=key)

    def seal(self, body: bytes, *, namespace: str, key: Ed25519PrivateKey) -> None:
        """Sign these very bytes, whatever they say; see `finish`."""
        envelope = encode(sign(body, namespace=namespace, key=key))
        locations = encode(LocationSet(locations=tuple(self._locations)))
        start = self._file.tell()
        self._file.write(envelope)
        self._file.write(locations)
        self._file.seek(0)
        self._file.write(
            pack_header(
                Header(
                    envelope_offset=start,
                    envelope_nbytes=len(envelope),
                    locations_offset=start + len(envelope),
                    locations_nbytes=len(locations),
                )
            )
        )
        self._file.flush()
        os.fsync(self._file.fileno())
        self._unfinished.replace(self.path)
