"""Scripted cores: a tokenizer, a template and a syntax with no model behind them.

Such a core runs on the scripted device alone, which plays back what a script says; everything
above the device is as real as with any other core.  Histories are next to nothing, so that
caches behave as they do elsewhere and cost no memory.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from ignition.export.core_file import CoreWriter
from ignition.plan.assemble import Machine, assemble
from ignition.plan.launches import LaunchList
from ignition.preparation.frontend import SamplingAdvice, frontend_of
from ignition.preparation.images import images_named, seeing, with_images
from ignition.preparation.programs import variants_of
from ignition.preparation.serving import text_contract
from ignition.preparation.storage import TextExtents, text_storage
from ignition.preparation.syntaxes import syntax_named
from ignition.preparation.tokenizer import TokenizerAsset, beside
from ignition.prepare import write_assets
from prepared.body import FORMAT_VERSION, CoreBody, DeploymentBody
from prepared.completeness import check_body
from prepared.contract import ElementType
from prepared.encode import encode
from prepared.manifest import ExecutionManifest, Target

PAGE_TOKENS: Final = 64
LEAST_CONTEXT: Final = 4096
MOST_GROUP: Final = 64
"""Tokens that a script may let arrive at once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScriptedOptions:
    """What the user asked for."""

    tokenizer: Path
    template: Path | None
    out: Path
    tools: str
    reasoning: str
    images: str
    model_id: str
    namespace: str
    context_tokens: int
    lanes: int
    advice: SamplingAdvice


def scripted(options: ScriptedOptions, key: Ed25519PrivateKey) -> CoreBody:
    """Make a scripted core; the file exists only when everything went well."""
    asset = beside(options.tokenizer, options.template)
    syntax = syntax_named(options.tools, options.reasoning, asset.added)
    frontend = frontend_of(asset, options.advice, syntax=syntax)
    images = images_named(options.images)
    if images is not None:
        frontend = with_images(frontend, images, asset.added)
    extents = TextExtents(
        lanes=options.lanes,
        prefill_tokens=512,
        context_tokens=options.context_tokens,
        page_tokens=PAGE_TOKENS,
        vocabulary=asset.vocabulary,
        layers=1,
        key_heads=1,
        width=16,
        history=ElementType.FLOAT32,
        speculative_tokens=MOST_GROUP,
        images=images is not None,
        position_axes=images.axes if images else 1,
    )
    manifest = scripted_manifest(extents)
    contract = text_contract(
        extents,
        frontend,
        model_id=options.model_id,
        cache_identity=identity_of(asset, manifest),
    )
    with CoreWriter(options.out) as core:
        body = CoreBody(
            format_version=FORMAT_VERSION,
            deployments=(
                DeploymentBody(
                    name="default",
                    contract=seeing(contract, images, extents) if images else contract,
                    manifests=(manifest,),
                ),
            ),
            executables=(),
            weights=(),
            assets=write_assets(core, asset),
            rebuild=b"",
            catalogs=(),
        )
        check_body(body)
        core.finish(body, namespace=options.namespace, key=key)
    return body


def scripted_manifest(extents: TextExtents) -> ExecutionManifest:
    """Every program of a text model, launching nothing."""
    variants = variants_of(extents)
    return assemble(
        Machine(target=Target.SCRIPTED, images=(), thread_scratch_nbytes=0),
        text_storage(extents),
        {variant.operation: LaunchList() for variant in variants},
        variants,
        {},
        0,
    )


def identity_of(asset: TokenizerAsset, manifest: ExecutionManifest) -> bytes:
    """Only tokenizer and programs tell one scripted model from another."""
    digest = hashlib.sha256(b"helios scripted core\n" + asset.json + encode(manifest))
    return digest.digest()
