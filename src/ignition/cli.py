"""The `ignition` command: prepare, inspect, verify, keys."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Literal

import cyclopts
from cyclopts import App
from rich.console import Console

from ignition.build.cpu import CompilerError
from ignition.export.reopen import check_resources, reopen
from ignition.keys import LOCAL_NAMESPACE, KeyProblem, list_keys, new_key, read_key
from ignition.plan.launches import LoweringError
from ignition.preparation.frontend import SamplingAdvice
from ignition.prepare import PrepareOptions, prepare
from ignition.progress import Mode, reporter
from ignition.report import described, mebibytes, print_page
from ignition.weights.checkpoint import CheckpointError
from prepared.fields import ContractError
from prepared.manifest import Target
from prepared.trust import read_trust, write_trust

app = App(name="ignition", help="Prepare a model into a signed core.", version_flags=[])
keys = App(name="keys", help="Signing keys of this machine.")
app.command(keys)


def home_folder() -> Path:
    """Where keys and accepted publishers are kept."""
    if folder := os.environ.get("HELIOS_HOME"):
        return Path(folder)
    base = os.environ.get("XDG_CONFIG_HOME")
    return (Path(base) if base else Path.home() / ".config") / "helios"


def cache_folder() -> Path:
    """Where compiled kernels are kept for the next core."""
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "ignition" / "kernels"


@app.command(name="prepare")
def prepare_core(
    checkpoint: Path,
    *,
    out: Path,
    target: Literal["cpu", "reference"] = "cpu",
    publisher: str = LOCAL_NAMESPACE,
    model_id: str | None = None,
    context: int | None = None,
    concurrency: int = 16,
    prefill: int = 512,
    temperature: float | None = None,
    top_p: float | None = None,
    top_k: int | None = None,
    min_p: float | None = None,
    repetition_penalty: float | None = None,
    progress: Mode = "auto",
) -> None:
    """Prepare a checkpoint: a GGUF file, or a Hugging Face folder.

    Parameters
    ----------
    checkpoint: Path
        The GGUF file or the folder.
    out: Path
        The core to write.
    target: str
        What the core runs on.
    publisher: str
        The namespace that signs; its key is made by `ignition keys new`.
    model_id: str
        What clients call the model; the checkpoint's name by default.
    context: int
        Most tokens of a request; the checkpoint's own by default.
    concurrency: int
        Most requests at once.
    prefill: int
        Most prompt tokens in one submission.
    temperature, top_p, top_k, min_p, repetition_penalty: float
        The publisher's sampling advice, for requests that say nothing.
    progress: str
        Bars, plain lines or JSON.
    """
    for name, value in (("--concurrency", concurrency), ("--prefill", prefill)):
        if value < 1:
            raise CheckpointError(name, str(value), expected="at least 1", remedy="ask for more")
    home = home_folder()
    key = read_key(home, publisher)
    report = reporter(progress)
    options = PrepareOptions(
        checkpoint=checkpoint,
        out=out,
        target=Target[target.upper()],
        model_id=model_id,
        namespace=publisher,
        context_tokens=context,
        lanes=concurrency,
        prefill_tokens=prefill,
        advice=SamplingAdvice(
            temperature=temperature,
            top_p=top_p,
            top_k=top_k,
            min_p=min_p,
            repetition_penalty=repetition_penalty,
        ),
        cache=cache_folder(),
    )
    prepare(options, key, report)
    core = reopen(out)
    with report.stage("verify", len(core.locations)) as stage:
        for _ in check_resources(core):
            stage.advance()
    trust = home / "trust.json"
    write_trust(trust, read_trust(trust).accepting(publisher, key.public_key().public_bytes_raw()))
    report.say(f"{out}: {mebibytes(core.nbytes)}, signed by {publisher}, accepted here")


@app.command
def inspect(core: Path, *, json_output: bool = False) -> None:  # noqa: FBT001, FBT002
    """Show what a core is: contract, programs, buffers, resources.

    Parameters
    ----------
    core: Path
        The core file.
    json_output: bool
        Print JSON instead of a page.
    """
    found = reopen(core)
    if json_output:
        print(json.dumps(described(found), indent=1))
    else:
        print_page(found, Console())


@app.command
def verify(core: Path) -> None:
    """Check a core: signature, treaty, and the digest of every byte.

    Parameters
    ----------
    core: Path
        The core file.
    """
    found = reopen(core)
    for resource in check_resources(found):
        print(f"{resource}: right")
    deployment = found.body.deployments[0]
    print(
        f"{core}: signed by {found.envelope.publisher_namespace} "
        f"({found.envelope.public_key.hex()}), "
        f"{len(deployment.manifests[0].programs)} programs, whole"
    )


@keys.command(name="new")
def keys_new(namespace: str) -> None:
    """Make a key for a publisher namespace."""
    print(new_key(home_folder(), namespace).public_key().public_bytes_raw().hex())


@keys.command(name="list")
def keys_list() -> None:
    """List namespaces and public keys."""
    for namespace, key in list_keys(home_folder()):
        print(f"{namespace}  {key.hex()}")


@keys.command(name="export")
def keys_export(namespace: str) -> None:
    """Print the public key of a namespace, for `helios trust add`."""
    print(read_key(home_folder(), namespace).public_key().public_bytes_raw().hex())


def main() -> None:
    """Run the command; 0 done, 1 failed, 2 wrong usage."""
    try:
        app(exit_on_error=False, print_error=True)
    except cyclopts.CycloptsError:
        sys.exit(2)
    except (
        CheckpointError,
        CompilerError,
        ContractError,
        KeyProblem,
        LoweringError,
        OSError,
    ) as error:
        print(f"ignition: {error}", file=sys.stderr)
        sys.exit(1)
    except KeyboardInterrupt:
        sys.exit(1)
