"""The device that a core was prepared for, loaded: programs selected, memory chosen and filled."""

from __future__ import annotations

import time
from functools import partial

import msgspec

from helios.artifact.core_file import OpenCore
from helios.artifact.weights import read_weights
from helios.bootstrap.model import choose_geometry, select_programs
from helios.bootstrap.script import read_script
from helios.device.api import Device, Geometry, Resources
from helios.device.cpu import CpuDevice
from helios.device.reference import ReferenceDevice, find_meanings
from helios.device.scripted import Line, ScriptedDevice
from helios.frontend.text import Tokenizer
from helios.options import Limits, Options
from helios.schedule.roster import Roster
from helios.values import Clock, RequestId, Slot, StartRefused
from prepared.contract import ServingContract
from prepared.manifest import ExecutionManifest, Target


class Occupants(msgspec.Struct):
    """Whose each slot is: what a script goes by; known once the roster is."""

    roster: Roster | None = None

    def request_in(self, slot: Slot) -> RequestId:
        """Whose a slot is."""
        assert self.roster is not None
        return self.roster.request_in(slot)


def load_device(
    core: OpenCore, limits: Limits, options: Options, occupants: Occupants, clock: Clock
) -> tuple[Device, Geometry]:
    """The device of rank 0, with its resources read and its programs bound."""
    deployment = core.deployment
    if len(deployment.manifests) != 1:
        raise StartRefused(
            f"the core has {len(deployment.manifests)} ranks; this runtime serves one"
        )
    whole = deployment.manifests[0]
    check_device(options, whole.target)
    script = script_of(core, options) if whole.target is Target.SCRIPTED else []
    widest = limits.speculative_width
    manifest = select_programs(
        whole,
        max_active=limits.max_active,
        width=max((line.group for line in script), default=widest),
        widest=widest,
    )
    geometry = choose_geometry(deployment.contract, manifest, limits)
    if whole.target is Target.SCRIPTED:
        device = play(script, manifest, deployment.contract, geometry, occupants, clock)
        return device, geometry
    resources = Resources(
        executable=core.executable,
        weights=partial(read_weights, core, threads=limits.threads),
    )
    if whole.target is Target.CPU:
        processors = CpuDevice(
            manifest,
            geometry,
            resources,
            threads=limits.threads,
            processors=limits.processors,
            huge_pages=limits.huge_pages,
        )
        return processors, geometry
    if whole.target is Target.REFERENCE:
        perform = find_meanings()
        return ReferenceDevice(manifest, geometry, resources, perform=perform), geometry
    raise StartRefused(
        f"the core is prepared for {whole.target.name}; this runtime has no such device"
    )


def check_device(options: Options, target: Target) -> None:
    """Options are for the core's own device; a script goes with a scripted one."""
    of_processors = {
        "--threads": options.threads,
        "--affinity": options.affinity,
        "--huge-pages": options.huge_pages,
    }
    for name, value in of_processors.items():
        if value is not None and target is not Target.CPU:
            raise StartRefused(
                f"{name}: found {value}, expected none: the core is prepared for "
                f"{target.name.lower()}"
            )
    scripted = target is Target.SCRIPTED
    if options.device is not None and options.device != target.name.lower():
        raise StartRefused(
            f"--device: found {options.device}, expected {target.name.lower()}, which the core "
            "is prepared for"
        )
    if (options.script is not None) is not scripted:
        found = "nothing" if scripted else str(options.script)
        expected = "a script: the core has no model" if scripted else "none: the core has a model"
        raise StartRefused(f"--script: found {found}, expected {expected}")


def script_of(core: OpenCore, options: Options) -> list[Line]:
    """What the models of requests say."""
    assert options.script is not None
    model = core.deployment.contract.model
    tokenizer = Tokenizer(core.asset(model.frontend.tokenizer_asset))
    return read_script(options.script, tokenizer, vocabulary=model.vocabulary.tokens)


def play(
    script: list[Line],
    manifest: ExecutionManifest,
    contract: ServingContract,
    geometry: Geometry,
    occupants: Occupants,
    clock: Clock,
) -> ScriptedDevice:
    """A device that plays a script."""
    return ScriptedDevice(
        execution=manifest,
        model=contract.model,
        geometry=geometry,
        script=script,
        clock=clock,
        sleep=time.sleep,
        request_in=occupants.request_in,
    )
