"""What a core file lists: deployments, resources, assets and where they lie.

Every class mirrors the message of the same name in `proto/prepared/wire/core.proto`.
"""

from enum import IntEnum
from typing import Annotated

from prepared.contract import ServingContract
from prepared.fields import Alignment, Count, Digest, Length, Name, OneOf, Shape, Within
from prepared.manifest import ExecutionManifest

CHUNK_NBYTES = 4 << 20
FORMAT_VERSION = 2
INDEX_VERSIONS = (4, 6)

ChunkBytes = Annotated[int, Within(CHUNK_NBYTES, CHUNK_NBYTES)]


class ResourceKind(IntEnum):
    """What a resource's bytes are."""

    SHARED_OBJECT = 1
    CUBIN = 2
    TOKENIZER = 3
    CHAT_TEMPLATE = 4
    TENSOR_MAPS = 5


class StoredFrame(Shape, frozen=True, kw_only=True):
    """A compressed frame and its commitments (OB-20)."""

    nbytes: Count
    decoded_nbytes: int
    chunk_nbytes: ChunkBytes
    chunk_sha256: tuple[Digest, ...]


class ExecutableResource(Shape, frozen=True, kw_only=True):
    """Code that a device loads."""

    id: Name
    kind: ResourceKind
    stored: StoredFrame


class FrontendAsset(Shape, frozen=True, kw_only=True):
    """Tokenizer data or a chat template (FI-31)."""

    id: Name
    kind: ResourceKind
    stored: StoredFrame


class WeightResource(Shape, frozen=True, kw_only=True):
    """Raw bytes laid out for the device."""

    id: Name
    nbytes: Count
    alignment: Alignment
    chunk_nbytes: ChunkBytes
    chunk_sha256: tuple[Digest, ...]


class DeploymentBody(Shape, frozen=True, kw_only=True):
    """A contract and the manifests that fulfil it, one a rank."""

    name: Name
    contract: ServingContract
    manifests: tuple[ExecutionManifest, ...]


class RebuildInput(Shape, frozen=True, kw_only=True):
    """A file that preparation read."""

    name: Name
    nbytes: int
    sha256: Digest


class RebuildOption(Shape, frozen=True, kw_only=True):
    """A setting or a tool version of the preparation."""

    name: Name
    value: str


class RebuildManifest(Shape, frozen=True, kw_only=True):
    """How to make the core again (SM-07)."""

    catalog_version: int
    inputs: tuple[RebuildInput, ...]
    options: tuple[RebuildOption, ...]
    tools: tuple[RebuildOption, ...]


class WeightView(Shape, frozen=True, kw_only=True):
    """Where a checkpoint's tensor went, and what became of it."""

    tensor: Name
    resource: Name
    offset: int
    nbytes: int
    source_format: Name
    layout: Name


class WeightCatalog(Shape, frozen=True, kw_only=True):
    """One rank's tensors (SM-07)."""

    catalog_version: int
    rank: int
    views: tuple[WeightView, ...]


class CoreBody(Shape, frozen=True, kw_only=True):
    """The signed body of a payload core (OB-13)."""

    format_version: Annotated[int, Within(FORMAT_VERSION, FORMAT_VERSION)]
    deployments: tuple[DeploymentBody, ...]
    executables: tuple[ExecutableResource, ...]
    weights: tuple[WeightResource, ...]
    assets: tuple[FrontendAsset, ...]
    rebuild: bytes | None  # a RebuildManifest; serving never looks (SM-08, SM-09)
    catalogs: tuple[bytes, ...]  # WeightCatalogs; likewise


class SignedEnvelope(Shape, frozen=True, kw_only=True):
    """Exact body bytes and who signed them."""

    body: Annotated[bytes, Length(1)]
    publisher_namespace: Name
    public_key: Digest
    signature: Annotated[bytes, Length(64, 64)]


class Location(Shape, frozen=True, kw_only=True):
    """A hint where a resource's stored bytes lie."""

    resource: Name
    offset: int | None
    file: Name | None
    url: Name | None


class LocationSet(Shape, frozen=True, kw_only=True):
    """All hints; nothing here is trusted."""

    locations: tuple[Location, ...]


class SealedChunks(Shape, frozen=True, kw_only=True):
    """A resource as AES-GCM chunks (OB-19)."""

    decoded_nbytes: int
    chunk_nbytes: Count
    nonces: tuple[Annotated[bytes, Length(12, 12)], ...]


class LogicalResource(Shape, frozen=True, kw_only=True):
    """A resource of a logical-resource core, stored or sealed."""

    id: Name
    kind: ResourceKind
    stored: StoredFrame | None
    sealed: SealedChunks | None


class ModelIndex(Shape, frozen=True, kw_only=True):
    """Contract, manifests and resources of a logical-resource core (PM-02)."""

    contract: ServingContract
    manifests: tuple[ExecutionManifest, ...]
    resources: tuple[LogicalResource, ...]
    weights: tuple[WeightResource, ...]


class ProtectedIndex(Shape, frozen=True, kw_only=True):
    """A signed model index (OB-18)."""

    version: Annotated[int, OneOf(INDEX_VERSIONS)]
    index: Annotated[bytes, Length(1)]
    publisher_namespace: Name
    public_key: Digest
    signature: Annotated[bytes, Length(64, 64)]
