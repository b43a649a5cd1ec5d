"""The `ignition` command: prepare, inspect, verify, keys."""

from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from rich.console import Console

from ignition.build.cpu import CompilerError
from ignition.export.reopen import check_resources, reopen
from ignition.keys import LOCAL_NAMESPACE, KeyProblem, list_keys, new_key, read_key
from ignition.plan.launches import LoweringError
from ignition.preparation.frontend import SamplingAdvice
from ignition.preparation.images import IMAGES
from ignition.preparation.syntaxes import REASONING, TOOLS, UnknownSyntax
from ignition.prepare import PrepareOptions, prepare
from ignition.progress import MODES, reporter
from ignition.report import described, mebibytes, print_page
from ignition.scripted import LEAST_CONTEXT, ScriptedOptions, scripted
from ignition.weights.checkpoint import CheckpointError
from prepared.fields import ContractError
from prepared.manifest import Target
from prepared.trust import read_trust, write_trust


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


def parser() -> argparse.ArgumentParser:
    """Every command with its options."""
    root = argparse.ArgumentParser(
        prog="ignition", description="Prepare a model into a signed core.", allow_abbrev=False
    )
    commands = root.add_subparsers(metavar="COMMAND", required=True)
    add_prepare(
        commands.add_parser(
            "prepare", help="prepare a checkpoint: a GGUF file, or a Hugging Face folder"
        )
    )
    add_scripted(
        commands.add_parser("scripted", help="make a core without weights, for the scripted device")
    )
    inspecting = commands.add_parser("inspect", help="show what a core is")
    inspecting.add_argument("core", type=Path, help="the core file")
    inspecting.add_argument("--json", action="store_true", help="print JSON instead of a page")
    inspecting.set_defaults(run=run_inspect)
    verifying = commands.add_parser(
        "verify", help="check signature, treaty, and the digest of every byte"
    )
    verifying.add_argument("core", type=Path, help="the core file")
    verifying.set_defaults(run=run_verify)
    add_keys(commands.add_parser("keys", help="signing keys of this machine"))
    return root


def add_prepare(command: argparse.ArgumentParser) -> None:
    """Options of `ignition prepare`."""
    command.add_argument("checkpoint", type=Path, help="the GGUF file or the folder")
    command.add_argument("--out", type=Path, required=True, help="the core to write")
    command.add_argument(
        "--target", choices=("cpu", "reference"), default="cpu", help="what the core runs on"
    )
    command.add_argument(
        "--publisher",
        default=LOCAL_NAMESPACE,
        metavar="NAMESPACE",
        help="who signs; its key is made by `ignition keys new`",
    )
    command.add_argument("--model-id", help="what clients call the model")
    for name, default, text in (
        ("--context", None, "most tokens of a request; the checkpoint's own by default"),
        ("--concurrency", 16, "most requests at once"),
        ("--prefill", 512, "most prompt tokens in one submission"),
    ):
        command.add_argument(name, type=int, default=default, metavar="N", help=text)
    advice = command.add_argument_group(
        "sampling advice", "the publisher's, for requests that say nothing"
    )
    for name in ("--temperature", "--top-p", "--min-p", "--repetition-penalty"):
        advice.add_argument(name, type=float, metavar="X")
    advice.add_argument("--top-k", type=int, metavar="N")
    command.add_argument(
        "--progress", choices=MODES, default="auto", help="bars, plain lines or JSON"
    )
    command.set_defaults(run=run_prepare)


def add_scripted(command: argparse.ArgumentParser) -> None:
    """Options of `ignition scripted`."""
    command.add_argument(
        "--tokenizer", type=Path, required=True, help="a tokenizer.json, or a GGUF file"
    )
    command.add_argument(
        "--template", type=Path, help="the chat template; what lies beside the tokenizer if none"
    )
    command.add_argument(
        "--tools", default="none", metavar="NAME", help=f"one of {', '.join(sorted(TOOLS))}"
    )
    command.add_argument(
        "--reasoning", default="none", metavar="NAME", help=f"one of {', '.join(sorted(REASONING))}"
    )
    command.add_argument(
        "--images", default="none", metavar="NAME", help=f"one of {', '.join(sorted(IMAGES))}"
    )
    command.add_argument("--out", type=Path, required=True, help="the core to write")
    command.add_argument(
        "--publisher", default=LOCAL_NAMESPACE, metavar="NAMESPACE", help="who signs"
    )
    command.add_argument("--model-id", help="what clients call the model; the core's name if none")
    for name, default, text in (
        ("--context", 8192, "most tokens of a request"),
        ("--concurrency", 16, "most requests at once"),
    ):
        command.add_argument(name, type=int, default=default, metavar="N", help=text)
    command.set_defaults(run=run_scripted)


def add_keys(command: argparse.ArgumentParser) -> None:
    """The commands of `ignition keys`."""
    commands = command.add_subparsers(metavar="COMMAND", required=True)
    making = commands.add_parser("new", help="make a key for a publisher namespace")
    making.add_argument("namespace")
    making.set_defaults(run=run_keys_new)
    listing = commands.add_parser("list", help="list namespaces and public keys")
    listing.set_defaults(run=run_keys_list)
    exporting = commands.add_parser("export", help="print a public key, for `helios trust add`")
    exporting.add_argument("namespace")
    exporting.set_defaults(run=run_keys_export)


# --------------------------------------------------------------- commands


def run_prepare(said: argparse.Namespace) -> None:
    """Prepare a core, read it back, accept its publisher here."""
    for name, value in (("--concurrency", said.concurrency), ("--prefill", said.prefill)):
        if value < 1:
            raise CheckpointError(name, str(value), expected="at least 1", remedy="ask for more")
    home = home_folder()
    key = read_key(home, said.publisher)
    report = reporter(said.progress)
    options = PrepareOptions(
        checkpoint=said.checkpoint,
        out=said.out,
        target=Target[said.target.upper()],
        model_id=said.model_id,
        namespace=said.publisher,
        context_tokens=said.context,
        lanes=said.concurrency,
        prefill_tokens=said.prefill,
        advice=SamplingAdvice(
            temperature=said.temperature,
            top_p=said.top_p,
            top_k=said.top_k,
            min_p=said.min_p,
            repetition_penalty=said.repetition_penalty,
        ),
        cache=cache_folder(),
    )
    prepare(options, key, report)
    core = reopen(said.out)
    with report.stage("verify", len(core.locations)) as stage:
        for _ in check_resources(core):
            stage.advance()
    accept(home, said.publisher, key)
    report.say(f"{said.out}: {mebibytes(core.nbytes)}, signed by {said.publisher}, accepted here")


def accept(home: Path, namespace: str, key: Ed25519PrivateKey) -> None:
    """Cores signed with this key may be served on this machine."""
    trust = home / "trust.json"
    write_trust(trust, read_trust(trust).accepting(namespace, key.public_key().public_bytes_raw()))


def run_scripted(said: argparse.Namespace) -> None:
    """Make a scripted core, accept its publisher here."""
    for name, value, least in (
        ("--concurrency", said.concurrency, 1),
        ("--context", said.context, LEAST_CONTEXT),
    ):
        if value < least:
            raise CheckpointError(
                name, str(value), expected=f"at least {least}", remedy="ask for more"
            )
    home = home_folder()
    key = read_key(home, said.publisher)
    scripted(
        ScriptedOptions(
            tokenizer=said.tokenizer,
            template=said.template,
            out=said.out,
            tools=said.tools,
            reasoning=said.reasoning,
            images=said.images,
            model_id=said.model_id or said.out.stem,
            namespace=said.publisher,
            context_tokens=said.context,
            lanes=said.concurrency,
            advice=SamplingAdvice(),
        ),
        key,
    )
    accept(home, said.publisher, key)
    print(f"{said.out}: scripted, signed by {said.publisher}, accepted here")


def run_inspect(said: argparse.Namespace) -> None:
    """Show contract, programs, buffers and resources."""
    found = reopen(said.core)
    if said.json:
        print(json.dumps(described(found), indent=1))
    else:
        print_page(found, Console())


def run_verify(said: argparse.Namespace) -> None:
    """Check a core, resource by resource."""
    found = reopen(said.core)
    for resource in check_resources(found):
        print(f"{resource}: right")
    programs = len(found.body.deployments[0].manifests[0].programs)
    envelope = found.envelope
    print(
        f"{said.core}: signed by {envelope.publisher_namespace} ({envelope.public_key.hex()}), "
        f"{programs} programs, whole"
    )


def run_keys_new(said: argparse.Namespace) -> None:
    """Make a key and print its public half."""
    print(new_key(home_folder(), said.namespace).public_key().public_bytes_raw().hex())


def run_keys_list(_said: argparse.Namespace) -> None:
    """Print namespaces and public keys."""
    for namespace, key in list_keys(home_folder()):
        print(f"{namespace}  {key.hex()}")


def run_keys_export(said: argparse.Namespace) -> None:
    """Print one public key."""
    print(read_key(home_folder(), said.namespace).public_key().public_bytes_raw().hex())


def main() -> None:
    """Run the command; 0 done, 1 failed, 2 wrong usage."""
    said = parser().parse_args()
    try:
        said.run(said)
    except (
        CheckpointError,
        CompilerError,
        ContractError,
        KeyProblem,
        LoweringError,
        OSError,
        UnknownSyntax,
    ) as error:
        print(f"ignition: {error}", file=sys.stderr)
        sys.exit(1)
    except KeyboardInterrupt:
        sys.exit(1)
