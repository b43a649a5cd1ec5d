"""One checkpoint to one core: the trip of ARCHITECTURE.md, in order."""

from __future__ import annotations

import hashlib
import platform
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Final, Protocol

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from ignition.build.cpu import LEVELS, compiled
from ignition.build.kernels import CPU_KERNELS
from ignition.export.core_file import CoreWriter
from ignition.export.weights import catalog_of, weight_pieces
from ignition.plan.cpu import cpu_extents, plan_cpu
from ignition.plan.model import PlannedModel
from ignition.plan.reference import plan_reference, reference_extents
from ignition.preparation.frontend import (
    TEMPLATE,
    TOKENIZER,
    SamplingAdvice,
    advice_of,
    frontend_of,
)
from ignition.preparation.programs import Recipe
from ignition.preparation.serving import text_contract
from ignition.preparation.tokenizer import TokenizerAsset, tokenizer_of
from ignition.progress import Reporter, Stage
from ignition.recipes.llama import llama
from ignition.weights.checkpoint import Checkpoint, CheckpointError, open_checkpoint
from prepared.body import (
    FORMAT_VERSION,
    CoreBody,
    DeploymentBody,
    ExecutableResource,
    FrontendAsset,
    RebuildInput,
    RebuildManifest,
    RebuildOption,
    ResourceKind,
    WeightResource,
)
from prepared.completeness import check_body
from prepared.encode import encode
from prepared.manifest import CodeImage, ExecutionManifest, Target


class MakeRecipe(Protocol):
    """A recipe's entry: refuses what it cannot express."""

    def __call__(self, checkpoint: Checkpoint, *, context_tokens: int | None) -> Recipe:
        """The recipe of this checkpoint."""


RECIPES: Final[Mapping[str, MakeRecipe]] = {"llama": llama}
"""By the architecture that a checkpoint declares."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PrepareOptions:
    """What the user asked for."""

    checkpoint: Path
    out: Path
    target: Target
    model_id: str | None
    namespace: str
    context_tokens: int | None
    lanes: int
    prefill_tokens: int
    advice: SamplingAdvice
    cache: Path  # of compiled kernels


def recipe_of(checkpoint: Checkpoint, *, context_tokens: int | None) -> Recipe:
    """The recipe of the declared architecture."""
    make = RECIPES.get(checkpoint.architecture)
    if make is None:
        raise CheckpointError(
            "architecture",
            checkpoint.architecture,
            expected=f"one of {sorted(RECIPES)}",
            remedy="no recipe expresses this architecture yet",
        )
    return make(checkpoint, context_tokens=context_tokens)


def prepare(options: PrepareOptions, key: Ed25519PrivateKey, report: Reporter) -> CoreBody:
    """Prepare a core; the file exists only when everything went well."""
    checkpoint = open_checkpoint(options.checkpoint)
    recipe = recipe_of(checkpoint, context_tokens=options.context_tokens)
    asset = tokenizer_of(checkpoint)
    with report.stage("record programs", 1) as stage:
        planned = plan_model(options, recipe)
        stage.advance()
    images = compile_images(planned.manifest.images, options.cache, report)
    with CoreWriter(options.out) as core:
        executables = tuple(
            core.executable(name, ResourceKind.SHARED_OBJECT, data) for name, data in images.items()
        )
        assets = write_assets(core, asset)
        with report.stage("pack weights", planned.weights.nbytes) as stage:
            pieces = weight_pieces(
                planned.weights, recipe.weights, positions=planned.extents.context_tokens
            )
            weights = core.weights("weights", counted(pieces, stage))
        contract = text_contract(
            planned.extents,
            frontend_of(asset, options.advice.over(advice_of(checkpoint))),
            model_id=options.model_id or options.checkpoint.stem,
            cache_identity=identity_of(executables, weights, planned.manifest),
        )
        body = CoreBody(
            format_version=FORMAT_VERSION,
            deployments=(
                DeploymentBody(name="default", contract=contract, manifests=(planned.manifest,)),
            ),
            executables=executables,
            weights=(weights,),
            assets=assets,
            rebuild=encode(rebuild_of(options, checkpoint)),
            catalogs=(encode(catalog_of(planned.weights, recipe.weights)),),
        )
        check_body(body)
        with report.stage("sign", 1) as stage:
            core.finish(body, namespace=options.namespace, key=key)
            stage.advance()
    return body


def plan_model(options: PrepareOptions, recipe: Recipe) -> PlannedModel:
    """The plan for the target."""
    if options.target is Target.REFERENCE:
        return plan_reference(
            recipe,
            reference_extents(recipe, lanes=options.lanes, prefill_tokens=options.prefill_tokens),
        )
    return plan_cpu(
        recipe, cpu_extents(recipe, lanes=options.lanes, prefill_tokens=options.prefill_tokens)
    )


def compile_images(
    images: Sequence[CodeImage], cache: Path, report: Reporter
) -> Mapping[str, bytes]:
    """Every image's shared object by its resource."""
    levels = {level.name: level for level in LEVELS}
    with report.stage("compile kernels", len(images)) as stage, ThreadPoolExecutor(2) as pool:

        def compile_one(image: CodeImage) -> bytes:
            data = compiled(levels[image.name], CPU_KERNELS, cache=cache)
            stage.advance()
            return data

        return dict(
            zip((image.resource for image in images), pool.map(compile_one, images), strict=True)
        )


def counted(pieces: Iterator[memoryview], stage: Stage) -> Iterator[memoryview]:
    """Pieces, with progress."""
    for piece in pieces:
        yield piece
        stage.advance(len(piece))


def write_assets(core: CoreWriter, asset: TokenizerAsset) -> tuple[FrontendAsset, ...]:
    """Tokenizer and template."""
    assets = [core.asset(TOKENIZER, ResourceKind.TOKENIZER, asset.json)]
    if asset.template is not None:
        assets.append(core.asset(TEMPLATE, ResourceKind.CHAT_TEMPLATE, asset.template.encode()))
    return tuple(assets)


def identity_of(
    executables: tuple[ExecutableResource, ...],
    weights: WeightResource,
    manifest: ExecutionManifest,
) -> bytes:
    """Equal kernels, weights and programs write equal cache bytes."""
    digest = hashlib.sha256(b"helios cache identity\n")
    for executable in executables:
        for chunk in executable.stored.chunk_sha256:
            digest.update(chunk)
    for chunk in weights.chunk_sha256:
        digest.update(chunk)
    digest.update(encode(manifest))
    return digest.digest()


def rebuild_of(options: PrepareOptions, checkpoint: Checkpoint) -> RebuildManifest:
    """What was read, asked for and used: enough to make the same bytes again."""
    settings = {
        "target": options.target.name.lower(),
        "context": options.context_tokens,
        "concurrency": options.lanes,
        "prefill": options.prefill_tokens,
        "model-id": options.model_id,
    }
    tools = {name: version(name) for name in ("numpy", "protobuf", "zstandard", "ziglang")} | {
        "python": platform.python_version()
    }
    return RebuildManifest(
        catalog_version=1,
        inputs=tuple(
            RebuildInput(name=file.name, nbytes=file.nbytes, sha256=bytes.fromhex(file.sha256()))
            for file in checkpoint.inputs
        ),
        options=tuple(
            RebuildOption(name=name, value=str(value))
            for name, value in settings.items()
            if value is not None
        ),
        tools=tuple(RebuildOption(name=name, value=value) for name, value in tools.items()),
    )
