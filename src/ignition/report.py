"""What a core is, for people and for programs: `ignition inspect`."""

from __future__ import annotations

from collections import Counter
from typing import Any

from rich.console import Console
from rich.table import Table

from ignition.export.reopen import Reopened, frames_of
from prepared.body import WeightCatalog
from prepared.decode import decode
from prepared.manifest import BufferRole, ExecutionManifest

UNITS = {
    BufferRole.CACHE_PLANE: "a page",
    BufferRole.STATE: "a slot",
    BufferRole.SNAPSHOT: "a snapshot",
    BufferRole.STAGING: "a frame",
    BufferRole.COMPLETION: "a frame",
    BufferRole.THREAD_SCRATCH: "a thread",
}
"""What a buffer's bytes are counted by, where that is not the whole."""


def described(core: Reopened) -> dict[str, Any]:
    """Everything that a reader might ask, as plain values."""
    deployment = core.body.deployments[0]
    contract, manifest = deployment.contract, deployment.manifests[0]
    return {
        "file": {"path": str(core.path), "nbytes": core.nbytes},
        "publisher": core.envelope.publisher_namespace,
        "public_key": core.envelope.public_key.hex(),
        "model": {
            "id": contract.model_id,
            "aliases": list(contract.aliases),
            "cache_identity": contract.cache_identity.hex(),
            "context_tokens": contract.context_tokens,
            "prefill_tokens": contract.prefill_tokens,
            "concurrency": contract.concurrency,
            "vocabulary": contract.model.vocabulary.tokens,
            "contract_version": contract.model.version,
            "eos_token_ids": list(contract.model.frontend.eos_token_ids),
            "sampling": {
                name: getattr(contract.model.frontend.sampling, name)
                for name in contract.model.frontend.sampling.__struct_fields__
            },
        },
        "target": manifest.target.name,
        "images": [
            {"name": image.name, "features": list(image.features)} for image in manifest.images
        ],
        "programs": [
            {
                "name": program.name,
                "operation": program.operation.name,
                "rows": program.batch_capacity,
                "packed_tokens": program.packed_token_capacity,
                "launches": len(program.launches),
            }
            for program in manifest.programs
        ],
        "buffers": [
            {
                "name": buffer.name,
                "role": buffer.role.name,
                "nbytes": buffer.nbytes,
                "per": UNITS.get(buffer.role, "all"),
            }
            for buffer in manifest.buffers
        ],
        "resources": resources_of(core),
        "layouts": layouts_of(core),
        "distinct_launches": len(manifest.launches),
        "kernels": kernels_of(manifest),
    }


def resources_of(core: Reopened) -> list[dict[str, Any]]:
    """Stored resources with their sizes."""
    found = [
        {"id": name, "stored": stored.nbytes, "decoded": stored.decoded_nbytes}
        for name, stored in frames_of(core.body)
    ]
    found += [
        {"id": weight.id, "stored": weight.nbytes, "decoded": weight.nbytes}
        for weight in core.body.weights
    ]
    return found


def layouts_of(core: Reopened) -> list[dict[str, Any]]:
    """What became of the checkpoint's tensors, by stored format and layout."""
    counts: Counter[tuple[str, str]] = Counter()
    for data in core.body.catalogs:
        catalog = decode(data, WeightCatalog, at="catalog")
        counts.update((view.source_format, view.layout) for view in catalog.views)
    return [
        {"format": stored, "layout": layout, "tensors": count}
        for (stored, layout), count in sorted(counts.items())
    ]


def kernels_of(manifest: ExecutionManifest) -> dict[str, int]:
    """How often each kernel is launched, over all distinct launches."""
    counts = Counter(manifest.kernels[launch.kernel].symbol for launch in manifest.launches)
    return dict(sorted(counts.items()))


def print_page(core: Reopened, console: Console) -> None:
    """The description as a page."""
    facts = described(core)
    console.print(f"[bold]{facts['model']['id']}[/]  {core.path}, {mebibytes(core.nbytes)}")
    console.print(f"publisher {facts['publisher']}, key {facts['public_key']}")
    console.print(f"target {facts['target']}: " + ", ".join(i["name"] for i in facts["images"]))
    print_table(console, "model", [facts["model"]], rows_are_fields=True)
    for name in ("programs", "buffers", "resources", "layouts"):
        print_table(console, name, facts[name])


def print_table(
    console: Console, title: str, rows: list[dict[str, Any]], *, rows_are_fields: bool = False
) -> None:
    """Plain values as a table."""
    table = Table(title=title, title_justify="left")
    if rows_are_fields:
        table.add_column("field")
        table.add_column("value")
        for name, value in rows[0].items():
            table.add_row(name, str(value))
    elif rows:
        for name in rows[0]:
            table.add_column(name, justify="right" if isinstance(rows[0][name], int) else "left")
        for row in rows:
            table.add_row(*(f"{v:,}" if isinstance(v, int) else str(v) for v in row.values()))
    console.print(table)


def mebibytes(nbytes: int) -> str:
    """A size for people."""
    return f"{nbytes / 2**20:.1f} MiB"
