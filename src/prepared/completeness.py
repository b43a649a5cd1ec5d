"""A core's body as a whole: everything that it names is in it, once (OB-12, OB-20).

The one place where contract, manifests and resources meet.  Whoever makes, opens or reads
back a core asks here, so that all of them refuse the same cores with the same sentences.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from prepared.agreement import check_agreement, check_manifest
from prepared.body import (
    CHUNK_NBYTES,
    CoreBody,
    DeploymentBody,
    ExecutableResource,
    FrontendAsset,
    ResourceKind,
)
from prepared.consistency import check_contract
from prepared.contract import EngramTable, FrontendContract, ServingContract
from prepared.fields import ContractError, check_unique
from prepared.manifest import BufferRole, ExecutionManifest, Target

CONFIDENCE_FRAMES: Final = 2
CONFIDENCE_NBYTES: Final = 4

CODE: Final = frozenset({ResourceKind.SHARED_OBJECT, ResourceKind.CUBIN, ResourceKind.TENSOR_MAPS})
TEXT: Final = frozenset({ResourceKind.TOKENIZER, ResourceKind.CHAT_TEMPLATE})
IMAGE_KINDS: Final = {
    Target.CPU: ResourceKind.SHARED_OBJECT,
    Target.CUDA: ResourceKind.CUBIN,
}
"""What a target's code images are; other targets compile nothing."""


def check_body(body: CoreBody) -> None:
    """Refuse a body whose contracts, manifests and resources disagree."""
    if not body.deployments:
        raise ContractError("body.deployments", 0, expected="one deployment")
    check_unique((item.name for item in body.deployments), at="body.deployments")
    check_resources(body)
    for deployment in body.deployments:
        check_deployment(deployment, body)


def check_resources(body: CoreBody) -> None:
    """Every resource has an id of its own, a kind of its list and a digest a chunk (OB-20)."""
    ids = [item.id for item in body.executables]
    ids += [item.id for item in body.weights]
    ids += [item.id for item in body.assets]
    check_unique(ids, at="body.resources")
    for at, resource in frames_of(body):
        kinds = CODE if isinstance(resource, ExecutableResource) else TEXT
        if resource.kind not in kinds:
            raise ContractError(
                f"{at}.kind",
                resource.kind.name,
                expected=f"one of {sorted(kind.name for kind in kinds)}",
            )
        check_digests(
            resource.stored.nbytes, resource.stored.chunk_sha256, at=f"{at}.stored.chunk_sha256"
        )
    for index, weight in enumerate(body.weights):
        check_digests(weight.nbytes, weight.chunk_sha256, at=f"body.weights[{index}].chunk_sha256")


def frames_of(body: CoreBody) -> Iterator[tuple[str, ExecutableResource | FrontendAsset]]:
    """Every compressed resource with its path."""
    for index, executable in enumerate(body.executables):
        yield f"body.executables[{index}]", executable
    for index, asset in enumerate(body.assets):
        yield f"body.assets[{index}]", asset


def check_digests(nbytes: int, digests: tuple[bytes, ...], *, at: str) -> None:
    """One digest a chunk of the stored bytes."""
    chunks = -(-nbytes // CHUNK_NBYTES)
    if len(digests) != chunks:
        raise ContractError(at, len(digests), expected=f"{chunks} digests")


def check_deployment(deployment: DeploymentBody, body: CoreBody) -> None:
    """A contract that holds together, and a manifest a rank that executes it from this body."""
    contract, manifests = deployment.contract, deployment.manifests
    check_contract(contract)
    check_assets(contract.model.frontend, body, at="contract.model.frontend")
    for index, table in enumerate(contract.model.engram_tables):
        check_table(table, body, ranks=len(manifests), at=f"contract.model.engram_tables[{index}]")
    if not manifests:
        raise ContractError("manifests", "none", expected="one manifest a rank")
    for rank, manifest in enumerate(manifests):
        at = f"manifests[{rank}]"
        if manifest.rank != rank or manifest.ranks != len(manifests):
            raise ContractError(
                f"{at}.rank",
                f"{manifest.rank} of {manifest.ranks}",
                expected=f"{rank} of {len(manifests)}",
            )
        check_manifest(manifest, at=at)
        check_agreement(contract.model, manifest, at="contract.model")
        check_confidence(contract, manifest, at="contract.model")
        check_images(manifest, body, at=at)
        check_weights(manifest, body, at=at)


def check_assets(frontend: FrontendContract, body: CoreBody, *, at: str) -> None:
    """Tokenizer and template are assets of their kind (FI-31)."""
    kinds = {asset.id: asset.kind for asset in body.assets}
    for name, kind in (
        ("tokenizer_asset", ResourceKind.TOKENIZER),
        ("template_asset", ResourceKind.CHAT_TEMPLATE),
    ):
        asset = getattr(frontend, name)
        if asset is not None and kinds.get(asset) is not kind:
            raise ContractError(f"{at}.{name}", repr(asset), expected=f"a {kind.name} asset")


def check_table(table: EngramTable, body: CoreBody, *, ranks: int, at: str) -> None:
    """An n-gram table's rows are a weight resource, read by ranks that exist."""
    weights = {weight.id: weight.nbytes for weight in body.weights}
    nbytes = table.rows * table.row_bytes
    if nbytes > weights.get(table.resource, 0):
        raise ContractError(
            f"{at}.resource",
            repr(table.resource),
            expected=f"a weight resource of at least {nbytes} bytes",
        )
    token_map = table.hash.token_map if table.hash is not None else None
    if token_map is not None and token_map not in weights:
        raise ContractError(f"{at}.hash.token_map", repr(token_map), expected="a weight resource")
    for index, shard in enumerate(table.shards):
        if shard.rank >= ranks:
            raise ContractError(f"{at}.shards[{index}].rank", shard.rank, expected=f"below {ranks}")


def check_confidence(contract: ServingContract, manifest: ExecutionManifest, *, at: str) -> None:
    """Confidence lies in FP32 [2, request slots, capacity], as wide as any output (SG-26)."""
    buffers = {buffer.name: buffer for buffer in manifest.buffers}
    for index, graph in enumerate(contract.model.graphs):
        spec = graph.speculation
        if spec is None or spec.confidence_buffer is None:
            continue
        where = f"{at}.graphs[{index}].speculation.confidence_buffer"
        buffer = buffers.get(spec.confidence_buffer)
        if buffer is None or buffer.role is not BufferRole.SCRATCH:
            raise ContractError(where, repr(spec.confidence_buffer), expected="a SCRATCH buffer")
        column = CONFIDENCE_FRAMES * contract.concurrency * CONFIDENCE_NBYTES
        capacity, rest = divmod(buffer.nbytes, column)
        if rest or capacity < spec.confidence_width or buffer.alignment < CONFIDENCE_NBYTES:
            raise ContractError(
                where,
                f"{buffer.nbytes} bytes aligned to {buffer.alignment}",
                expected=f"FP32 [{CONFIDENCE_FRAMES}, {contract.concurrency}, "
                f"{spec.confidence_width} or more] (SG-26)",
            )


def check_images(manifest: ExecutionManifest, body: CoreBody, *, at: str) -> None:
    """Compiled kernels are executables that the target can load."""
    kinds = {executable.id: executable.kind for executable in body.executables}
    for index, image in enumerate(manifest.images):
        kind = IMAGE_KINDS.get(manifest.target)
        found = kinds.get(image.resource)
        if found is None or (kind is not None and found is not kind):
            raise ContractError(
                f"{at}.images[{index}].resource",
                repr(image.resource),
                expected=f"a {kind.name if kind else 'code'} executable",
            )


def check_weights(manifest: ExecutionManifest, body: CoreBody, *, at: str) -> None:
    """Every weight buffer is an extent of a weight resource."""
    weights = {weight.id: weight.nbytes for weight in body.weights}
    for index, buffer in enumerate(manifest.buffers):
        if buffer.resource is None:
            continue
        end = buffer.resource_offset + buffer.nbytes
        if end > weights.get(buffer.resource, 0):
            raise ContractError(
                f"{at}.buffers[{index}].resource",
                f"{buffer.resource!r} up to {end}",
                expected="an extent of a weight resource",
            )
