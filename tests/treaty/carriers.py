"""What executes a contract and what carries it: manifests, bodies, envelopes, indexes.

A manifest here is derived from the contract that it executes, so that changing one part
of a specimen changes its counterpart too.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from prepared.body import (
    CHUNK_NBYTES,
    CoreBody,
    DeploymentBody,
    ExecutableResource,
    FrontendAsset,
    Location,
    LocationSet,
    LogicalResource,
    ModelIndex,
    ProtectedIndex,
    RebuildInput,
    RebuildManifest,
    RebuildOption,
    ResourceKind,
    SealedChunks,
    SignedEnvelope,
    WeightCatalog,
    WeightResource,
    WeightView,
)
from prepared.contract import (
    ELEMENT_BYTES,
    ElementType,
    GraphContract,
    ModelContract,
    Operation,
    ServingContract,
)
from prepared.encode import encode
from prepared.envelope import sign
from prepared.frames import compress, digests_of
from prepared.manifest import (
    Buffer,
    BufferRole,
    CodeImage,
    CompletionField,
    CompletionLayout,
    CompletionSlot,
    Delivery,
    ExecutionManifest,
    Extent3,
    Kernel,
    Launch,
    Parameter,
    Program,
    Relocation,
    SubmissionHeader,
    Target,
    Transport,
)
from tests.treaty.specimens import CONTRACTS

KEY: Final = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
NAMESPACE: Final = "acme.example"
COMPLETION_ROWS: Final = 4
COMPLETION_TOKEN_ROWS: Final = 36
COMPLETION_TOKENS: Final = 8
STAGING_NBYTES: Final = 1 << 16

# --------------------------------------------------------------- manifest


def buffer(name: str, role: BufferRole, *, nbytes: int) -> Buffer:
    """Aligned memory that no resource fills."""
    return Buffer(
        name=name, role=role, nbytes=nbytes, alignment=64, resource=None, resource_offset=0
    )


def fixed_buffers() -> Iterator[Buffer]:
    """What every manifest here has, at indices 0 to 6."""
    yield Buffer(
        name="weights",
        role=BufferRole.WEIGHT,
        nbytes=4096,
        alignment=4096,
        resource="weights.0",
        resource_offset=8192,
    )
    yield buffer("scratch", BufferRole.SCRATCH, nbytes=1024)
    yield buffer("per_thread", BufferRole.THREAD_SCRATCH, nbytes=512)
    yield buffer("staging", BufferRole.STAGING, nbytes=STAGING_NBYTES)
    yield buffer("resident", BufferRole.STATE, nbytes=STAGING_NBYTES)
    yield buffer("records", BufferRole.COMPLETION, nbytes=1 << 14)
    yield buffer("confidence", BufferRole.SCRATCH, nbytes=2 * 4 * 7 * 4)


def declared_buffers(model: ModelContract) -> Iterator[Buffer]:
    """The storage that a contract names."""
    for region in model.cache.histories:
        for plane in region.planes:
            yield buffer(plane.buffer, BufferRole.CACHE_PLANE, nbytes=plane.page_stride_bytes)
        end = max((f.offset + (f.rows - 1) * f.stride + f.nbytes for f in region.fields), default=0)
        if region.row_buffer is not None:
            yield buffer(region.row_buffer, BufferRole.STATE, nbytes=end)
        if region.snapshot_buffer is not None:
            yield buffer(region.snapshot_buffer, BufferRole.SNAPSHOT, nbytes=end)
    for state in model.states:
        yield buffer(state.buffer, BufferRole.STATE, nbytes=state.row_stride)
    for name in sorted({tuned.buffer for graph in model.graphs for tuned in graph.tuned_bindings}):
        yield buffer(name, BufferRole.TUNED, nbytes=256)


def transports_of(model: ModelContract) -> Iterator[Transport]:
    """A destination for every bound value: page tables stay, the rest is staged."""
    tables = {view.destination: view for view in model.cache.page_tables}
    bound = {value.destination for graph in model.graphs for value in graph.values}
    offsets = {Delivery.STAGED: 0, Delivery.RESIDENT: 0}
    for name in sorted(bound | set(tables)):
        view = tables.get(name)
        delivery = Delivery.STAGED if view is None else Delivery.RESIDENT
        element = ElementType.INT32 if view is None else view.element
        width = 1 if view is None else view.row_pages
        stride = width * ELEMENT_BYTES[element]
        rows = 36 if view is None else 1
        yield Transport(
            name=name,
            buffer="staging" if view is None else "resident",
            delivery=delivery,
            offset=offsets[delivery],
            element=element,
            rows=rows,
            row_elements=width,
            row_stride=stride,
        )
        offsets[delivery] += rows * stride


def program_of(graph: GraphContract) -> Program:
    """The program that a graph contract names."""
    return Program(
        name=graph.name,
        operation=graph.operation,
        batch_capacity=graph.batch_capacity,
        token_capacity=graph.token_capacity,
        packed_token_capacity=graph.packed_token_capacity,
        draft_tokens=graph.speculation.draft_tokens if graph.speculation else 0,
        launches=(0, 1, 0),
        tuned_buffers=tuple(tuned.buffer for tuned in graph.tuned_bindings),
    )


def tuning_of(model: ModelContract) -> Iterator[Program]:
    """A producer for every tuned buffer."""
    bindings = {(t.producer, t.buffer) for graph in model.graphs for t in graph.tuned_bindings}
    for producer, name in sorted(bindings):
        yield Program(
            name=producer,
            operation=Operation.TUNE,
            batch_capacity=1,
            token_capacity=1,
            packed_token_capacity=1,
            draft_tokens=0,
            launches=(1,),
            tuned_buffers=(name,),
        )


def completion() -> CompletionLayout:
    """A record with every field, sixty-four bytes a value."""
    slots = []
    offset = 0
    for field in CompletionField:
        slots.append(
            CompletionSlot(
                field=field,
                offset=offset,
                element=ElementType.INT32,
                row_elements=COMPLETION_TOKENS if field is CompletionField.LANE_TOKENS else 1,
                row_stride=64 if field.per_lane or field.per_token else 0,
            )
        )
        rows = COMPLETION_TOKEN_ROWS if field.per_token else COMPLETION_ROWS
        offset += 64 * (rows if field.per_lane or field.per_token else 1)
    return CompletionLayout(
        buffer="records",
        rows=COMPLETION_ROWS,
        token_rows=COMPLETION_TOKEN_ROWS,
        slots=tuple(slots),
    )


def manifest_of(contract: ServingContract, *, rank: int = 0, ranks: int = 2) -> ExecutionManifest:
    """A manifest that executes the contract on one rank of two."""
    one = Extent3(x=1, y=1, z=1)
    count = Parameter(name="count", offset=0, nbytes=4)
    address = Parameter(name="out", offset=8, nbytes=8)
    launch = Launch(
        kernel=0,
        grid=Extent3(x=4, y=2, z=3),
        block=one,
        shared_bytes=2048,
        parameters=(7).to_bytes(16, "little"),
        relocations=(Relocation(offset=8, buffer=1, addend=16),),
    )
    second = Launch(kernel=1, grid=one, block=one, shared_bytes=0, parameters=b"\1", relocations=())
    return ExecutionManifest(
        execution_abi=6,
        target=Target.CPU,
        rank=rank,
        ranks=ranks,
        frames=2,
        buffers=(*fixed_buffers(), *declared_buffers(contract.model)),
        images=(CodeImage(name="x86_64_v4", resource="code", features=("avx512f",)),),
        kernels=(
            Kernel(symbol="fill", parameters=(count, address), parameter_bytes=16),
            Kernel(symbol="fence", parameters=(), parameter_bytes=1),
        ),
        launches=(launch, second),
        programs=tuple(program_of(graph) for graph in contract.model.graphs),
        tuning=tuple(tuning_of(contract.model)),
        transports=tuple(transports_of(contract.model)),
        completion=completion(),
        header=SubmissionHeader(
            buffer="staging",
            sequence_offset=STAGING_NBYTES - 16,
            frame_offset=STAGING_NBYTES - 8,
            program_offset=STAGING_NBYTES - 4,
        ),
    )


MANIFESTS: Final = {name: manifest_of(contract) for name, contract in CONTRACTS.items()}

# --------------------------------------------------------------- carriers


def weight_resource() -> WeightResource:
    """Two chunks of weights, the second one short."""
    data = bytes(CHUNK_NBYTES + 1)
    return WeightResource(
        id="weights.0",
        nbytes=len(data),
        alignment=4096,
        chunk_nbytes=CHUNK_NBYTES,
        chunk_sha256=digests_of(data),
    )


def table_resources(model: ModelContract) -> Iterator[WeightResource]:
    """What n-gram tables name; their bytes exist nowhere."""
    sizes = {table.resource: table.rows * table.row_bytes for table in model.engram_tables}
    maps = {table.hash.token_map for table in model.engram_tables if table.hash is not None}
    sizes |= {name: 4 * model.input_vocabulary.tokens for name in maps if name is not None}
    for name, nbytes in sizes.items():
        yield WeightResource(
            id=name,
            nbytes=nbytes,
            alignment=4096,
            chunk_nbytes=CHUNK_NBYTES,
            chunk_sha256=(bytes(32),) * -(-nbytes // CHUNK_NBYTES),
        )


def rebuild_manifest() -> RebuildManifest:
    """What preparation read and used."""
    return RebuildManifest(
        catalog_version=1,
        inputs=(RebuildInput(name="model.safetensors", nbytes=99, sha256=bytes(range(32))),),
        options=(RebuildOption(name="--context", value="1024"),),
        tools=(RebuildOption(name="ziglang", value="0.13.0"),),
    )


def weight_catalog() -> WeightCatalog:
    """Where one tensor went."""
    view = WeightView(
        tensor="model.embed_tokens.weight",
        resource="weights.0",
        offset=8192,
        nbytes=4096,
        source_format="Q4_1",
        layout="rows_16",
    )
    return WeightCatalog(catalog_version=1, rank=1, views=(view,))


def body(name: str = "plain") -> CoreBody:
    """The body of a payload core around a named contract, for two ranks."""
    contract = CONTRACTS[name]
    deployment = DeploymentBody(
        name="default",
        contract=contract,
        manifests=tuple(manifest_of(contract, rank=rank) for rank in (0, 1)),
    )
    _, stored = compress(b"compiled kernels")
    _, empty = compress(b"")
    return CoreBody(
        format_version=2,
        deployments=(deployment,),
        executables=(
            ExecutableResource(id="code", kind=ResourceKind.SHARED_OBJECT, stored=stored),
        ),
        weights=(weight_resource(), *table_resources(contract.model)),
        assets=(
            FrontendAsset(id="tokenizer", kind=ResourceKind.TOKENIZER, stored=stored),
            FrontendAsset(id="chat_template", kind=ResourceKind.CHAT_TEMPLATE, stored=empty),
        ),
        rebuild=encode(rebuild_manifest()),
        catalogs=(encode(weight_catalog()),),
    )


def envelope() -> SignedEnvelope:
    """A signed body."""
    return sign(encode(body()), namespace=NAMESPACE, key=KEY)


def locations() -> LocationSet:
    """One resource in this file, one in another, one elsewhere."""
    return LocationSet(
        locations=(
            Location(resource="code", offset=4096, file=None, url=None),
            Location(resource="weights.0", offset=0, file="weights.bin", url=None),
            Location(resource="tokenizer", offset=None, file=None, url="https://acme.example/t"),
        )
    )


def model_index() -> ModelIndex:
    """The index of a logical-resource core, with a stored and a sealed resource."""
    contract = CONTRACTS["plain"]
    _, stored = compress(b"compiled kernels")
    sealed = SealedChunks(decoded_nbytes=70_000, chunk_nbytes=65_536, nonces=(bytes(12), b"n" * 12))
    return ModelIndex(
        contract=contract,
        manifests=(manifest_of(contract, rank=0, ranks=1),),
        resources=(
            LogicalResource(id="code", kind=ResourceKind.SHARED_OBJECT, stored=stored, sealed=None),
            LogicalResource(id="maps", kind=ResourceKind.TENSOR_MAPS, stored=None, sealed=sealed),
        ),
        weights=(weight_resource(),),
    )


def protected_index(*, version: int = 6) -> ProtectedIndex:
    """A signed index."""
    signed = sign(encode(model_index()), namespace=NAMESPACE, key=KEY)
    return ProtectedIndex(
        version=version,
        index=signed.body,
        publisher_namespace=signed.publisher_namespace,
        public_key=signed.public_key,
        signature=signed.signature,
    )


STANDING: Final[dict[str, Any]] = {
    **{f"contract_{name}": contract for name, contract in CONTRACTS.items()},
    **{f"manifest_{name}": manifest for name, manifest in MANIFESTS.items()},
    **{f"body_{name}": body(name) for name in CONTRACTS},
    "envelope": envelope(),
    "locations": locations(),
    "model_index": model_index(),
    "protected_index_6": protected_index(),
    "protected_index_4": protected_index(version=4),
    "rebuild_manifest": rebuild_manifest(),
    "weight_catalog": weight_catalog(),
}
"""Every specimen that stands alone as bytes."""
