"""What a manifest must say to fulfil a contract (HV-01, HV-02, HV-19 to HV-21).

`check_manifest` looks at the manifest alone: every index, name and extent in bounds.
`check_agreement` compares it with the contract it claims to execute.
"""

from __future__ import annotations

from typing import Final

from prepared.consistency import PAGED
from prepared.contract import (
    ELEMENT_BYTES,
    GraphContract,
    ModelContract,
    Operation,
    ValueSource,
)
from prepared.fields import ContractError, check_unique
from prepared.manifest import (
    Buffer,
    BufferRole,
    CompletionField,
    CompletionLayout,
    Delivery,
    ExecutionManifest,
    Launch,
    Program,
    SubmissionHeader,
    Target,
    Transport,
)

ADDRESS_NBYTES: Final = 8

EVERY_RECORD: Final = frozenset(CompletionField) - {
    CompletionField.LANE_LOGPROB,
    CompletionField.LANE_TOP_IDS,
    CompletionField.LANE_TOP_LOGPROBS,
    CompletionField.TOKEN_LOGPROB,
    CompletionField.TOKEN_TOP_IDS,
    CompletionField.TOKEN_TOP_LOGPROBS,
}
"""Fields that no completion record may lack."""


def check_manifest(manifest: ExecutionManifest, *, at: str) -> None:
    """Refuse a manifest with an index, a name or an extent out of bounds."""
    if manifest.rank >= manifest.ranks:
        raise ContractError(f"{at}.rank", manifest.rank, expected=f"below {manifest.ranks}")
    check_names(manifest, at=at)
    for index, buffer in enumerate(manifest.buffers):
        if (buffer.role is BufferRole.WEIGHT) != (buffer.resource is not None):
            raise ContractError(
                f"{at}.buffers[{index}].resource",
                buffer.resource,
                expected="a resource exactly with WEIGHT",
            )
    check_kernels(manifest, at=at)
    for index, launch in enumerate(manifest.launches):
        check_launch(launch, manifest, at=f"{at}.launches[{index}]")
    for group, programs in (("programs", manifest.programs), ("tuning", manifest.tuning)):
        for index, program in enumerate(programs):
            where = f"{at}.{group}[{index}]"
            if (program.operation is Operation.TUNE) != (group == "tuning"):
                raise ContractError(
                    f"{where}.operation",
                    program.operation.name,
                    expected="TUNE exactly in the tuning catalog (HV-20)",
                )
            check_program(program, manifest, at=where)
    if manifest.target in (Target.CPU, Target.CUDA) and not manifest.images:
        raise ContractError(f"{at}.images", "none", expected="compiled kernels")
    buffers = {buffer.name: buffer for buffer in manifest.buffers}
    for index, transport in enumerate(manifest.transports):
        check_transport(transport, buffers, at=f"{at}.transports[{index}]")
    check_completion(manifest.completion, buffers, at=f"{at}.completion")
    check_header(manifest.header, buffers, at=f"{at}.header")


def check_names(manifest: ExecutionManifest, *, at: str) -> None:
    """Everything that is looked up by name is named once."""
    check_unique((buffer.name for buffer in manifest.buffers), at=f"{at}.buffers")
    check_unique((kernel.symbol for kernel in manifest.kernels), at=f"{at}.kernels")
    check_unique(
        (program.name for program in (*manifest.programs, *manifest.tuning)), at=f"{at}.programs"
    )
    check_unique((transport.name for transport in manifest.transports), at=f"{at}.transports")


def check_kernels(manifest: ExecutionManifest, *, at: str) -> None:
    """Every parameter lies within its kernel's block."""
    for index, kernel in enumerate(manifest.kernels):
        for place, parameter in enumerate(kernel.parameters):
            if parameter.offset + parameter.nbytes > kernel.parameter_bytes:
                raise ContractError(
                    f"{at}.kernels[{index}].parameters[{place}].offset",
                    parameter.offset,
                    expected=f"a place within {kernel.parameter_bytes} bytes",
                )


def check_launch(launch: Launch, manifest: ExecutionManifest, *, at: str) -> None:
    """A launch names a kernel, fits its parameters and points into buffers."""
    if launch.kernel >= len(manifest.kernels):
        raise ContractError(
            f"{at}.kernel", launch.kernel, expected=f"an index below {len(manifest.kernels)}"
        )
    size = manifest.kernels[launch.kernel].parameter_bytes
    if len(launch.parameters) != size:
        raise ContractError(
            f"{at}.parameters", f"{len(launch.parameters)} bytes", expected=f"{size} bytes"
        )
    for index, relocation in enumerate(launch.relocations):
        where = f"{at}.relocations[{index}]"
        if relocation.offset + ADDRESS_NBYTES > size:
            raise ContractError(
                f"{where}.offset", relocation.offset, expected=f"a place within {size} bytes"
            )
        if relocation.buffer >= len(manifest.buffers):
            raise ContractError(
                f"{where}.buffer",
                relocation.buffer,
                expected=f"an index below {len(manifest.buffers)}",
            )
        nbytes = manifest.buffers[relocation.buffer].nbytes
        if relocation.addend >= nbytes:
            raise ContractError(
                f"{where}.addend", relocation.addend, expected=f"a place within {nbytes} bytes"
            )


def check_program(program: Program, manifest: ExecutionManifest, *, at: str) -> None:
    """A program launches what exists."""
    for index, launch in enumerate(program.launches):
        if launch >= len(manifest.launches):
            raise ContractError(
                f"{at}.launches[{index}]",
                launch,
                expected=f"an index below {len(manifest.launches)}",
            )
    tuned = {buffer.name for buffer in manifest.buffers if buffer.role is BufferRole.TUNED}
    for index, name in enumerate(program.tuned_buffers):
        if name not in tuned:
            raise ContractError(
                f"{at}.tuned_buffers[{index}]", repr(name), expected="a TUNED buffer"
            )


def check_transport(transport: Transport, buffers: dict[str, Buffer], *, at: str) -> None:
    """A destination lies within a buffer that the host may write."""
    buffer = buffers.get(transport.buffer)
    role = BufferRole.STAGING if transport.delivery is Delivery.STAGED else BufferRole.STATE
    if buffer is None or buffer.role is not role:
        raise ContractError(
            f"{at}.buffer", repr(transport.buffer), expected=f"a {role.name} buffer"
        )
    row = transport.row_elements * ELEMENT_BYTES[transport.element]
    if transport.row_stride < row:
        raise ContractError(f"{at}.row_stride", transport.row_stride, expected=f"at least {row}")
    # A resident transport has one row a slot, and a STATE buffer is counted by the slot.
    rows = transport.rows if transport.delivery is Delivery.STAGED else 1
    end = transport.offset + (rows - 1) * transport.row_stride + row
    if end > buffer.nbytes:
        raise ContractError(
            f"{at}.offset", transport.offset, expected=f"an extent within {buffer.nbytes} bytes"
        )


def check_completion(layout: CompletionLayout, buffers: dict[str, Buffer], *, at: str) -> None:
    """A completion record has every field once, within its buffer."""
    buffer = buffers.get(layout.buffer)
    if buffer is None or buffer.role is not BufferRole.COMPLETION:
        raise ContractError(f"{at}.buffer", repr(layout.buffer), expected="a COMPLETION buffer")
    check_unique((slot.field.name for slot in layout.slots), at=f"{at}.slots")
    missing = EVERY_RECORD - {slot.field for slot in layout.slots}
    if missing:
        raise ContractError(f"{at}.slots", "too few", expected=f"also {min(missing).name}")
    for index, slot in enumerate(layout.slots):
        row = slot.row_elements * ELEMENT_BYTES[slot.element]
        rows = rows_of(slot.field, layout)
        if rows > 1 and slot.row_stride < row:
            raise ContractError(
                f"{at}.slots[{index}].row_stride", slot.row_stride, expected=f"at least {row}"
            )
        if slot.offset + (rows - 1) * slot.row_stride + row > buffer.nbytes:
            raise ContractError(
                f"{at}.slots[{index}].offset",
                slot.offset,
                expected=f"an extent within {buffer.nbytes} bytes",
            )


def rows_of(field: CompletionField, layout: CompletionLayout) -> int:
    """How often a record says it."""
    if field.per_token:
        return max(1, layout.token_rows)
    return layout.rows if field.per_lane else 1


def check_header(header: SubmissionHeader, buffers: dict[str, Buffer], *, at: str) -> None:
    """Sequence, frame and program have their places in a staging buffer."""
    buffer = buffers.get(header.buffer)
    if buffer is None or buffer.role is not BufferRole.STAGING:
        raise ContractError(f"{at}.buffer", repr(header.buffer), expected="a STAGING buffer")
    for name, nbytes in (("sequence_offset", 8), ("frame_offset", 4), ("program_offset", 4)):
        offset = getattr(header, name)
        if offset % nbytes or offset + nbytes > buffer.nbytes:
            raise ContractError(
                f"{at}.{name}",
                offset,
                expected=f"an aligned place within {buffer.nbytes} bytes",
            )


# -------------------------------------------------------------- agreement


def check_agreement(model: ModelContract, manifest: ExecutionManifest, *, at: str) -> None:
    """Refuse a manifest that does not execute what the contract declares."""
    programs = {program.name: program for program in manifest.programs}
    for index, graph in enumerate(model.graphs):
        where = f"{at}.graphs[{index}]"
        program = programs.get(graph.name)
        if program is None:
            raise ContractError(
                f"{where}.name", repr(graph.name), expected="a program of the manifest (HV-01)"
            )
        check_program_agrees(graph, program, at=where)
        check_tuned(graph, program, manifest, at=where)
        check_completion_rows(graph, manifest.completion, at=where)
        check_completion_scores(graph, manifest.completion, at=where)
    declared = {graph.name for graph in model.graphs}
    for index, program in enumerate(manifest.programs):
        if program.name not in declared:
            raise ContractError(
                f"manifest.programs[{index}].name",
                repr(program.name),
                expected="a program that the contract declares",
            )
    buffers = {buffer.name: buffer for buffer in manifest.buffers}
    check_destinations(model, manifest, at=at)
    check_storage(model, buffers, at=at)


def check_program_agrees(graph: GraphContract, program: Program, *, at: str) -> None:
    """Operation and capacities are the same on both sides (HV-02, SG-05)."""
    for name in ("operation", "batch_capacity", "token_capacity", "packed_token_capacity"):
        ours, theirs = getattr(graph, name), getattr(program, name)
        if ours != theirs:
            raise ContractError(f"{at}.{name}", ours, expected=f"the program's, {theirs}")
    drafts = graph.speculation.draft_tokens if graph.speculation else 0
    if drafts != program.draft_tokens:
        raise ContractError(
            f"{at}.speculation.draft_tokens",
            drafts,
            expected=f"the program's, {program.draft_tokens}",
        )


def check_tuned(
    graph: GraphContract, program: Program, manifest: ExecutionManifest, *, at: str
) -> None:
    """Tuned buffers and their producers are those of the manifest (HV-19 to HV-21)."""
    ours = [tuned.buffer for tuned in graph.tuned_bindings]
    if ours != list(program.tuned_buffers):
        raise ContractError(
            f"{at}.tuned_bindings", ours, expected=f"{list(program.tuned_buffers)} (HV-19)"
        )
    producers = {producer.name: producer for producer in manifest.tuning}
    for index, tuned in enumerate(graph.tuned_bindings):
        producer = producers.get(tuned.producer)
        if producer is None or tuned.buffer not in producer.tuned_buffers:
            raise ContractError(
                f"{at}.tuned_bindings[{index}].producer",
                repr(tuned.producer),
                expected=f"a tuning program that fills {tuned.buffer!r}",
            )


def check_completion_rows(graph: GraphContract, layout: CompletionLayout, *, at: str) -> None:
    """A record holds every lane, and every token a lane may emit."""
    if graph.batch_capacity > layout.rows:
        raise ContractError(
            f"{at}.batch_capacity",
            graph.batch_capacity,
            expected=f"at most the completion's {layout.rows} rows",
        )
    tokens = max(
        (s.row_elements for s in layout.slots if s.field is CompletionField.LANE_TOKENS), default=0
    )
    most = graph.speculation.draft_tokens + 1 if graph.speculation else 1
    if most > tokens:
        raise ContractError(
            f"{at}.speculation.draft_tokens",
            most - 1,
            expected=f"at most {tokens - 1}: the completion holds {tokens} tokens",
        )


SCORES: Final = {
    ValueSource.LOGPROB_COUNT: (
        CompletionField.LANE_LOGPROB,
        CompletionField.LANE_TOP_IDS,
        CompletionField.LANE_TOP_LOGPROBS,
    ),
    ValueSource.SCORED_TARGET_TOKENS: (
        CompletionField.TOKEN_LOGPROB,
        CompletionField.TOKEN_TOP_IDS,
        CompletionField.TOKEN_TOP_LOGPROBS,
    ),
}
"""Who asks for log-probabilities, and where a record answers."""


def check_completion_scores(graph: GraphContract, layout: CompletionLayout, *, at: str) -> None:
    """Log-probabilities that a program is asked for have their places."""
    slots = {slot.field: slot for slot in layout.slots}
    for index, value in enumerate(graph.values):
        answers = SCORES.get(value.source, ())
        missing = [field.name for field in answers if field not in slots]
        if missing:
            raise ContractError(
                f"{at}.values[{index}].source",
                value.source.name,
                expected=f"a completion that has {missing[0]}",
            )
        if answers and slots[answers[1]].row_elements != slots[answers[2]].row_elements:
            raise ContractError(
                f"{at}.values[{index}].source",
                value.source.name,
                expected=f"as many {answers[1].name} as {answers[2].name}",
            )
    scores = any(value.source is ValueSource.SCORED_TARGET_TOKENS for value in graph.values)
    if scores and graph.operation is not Operation.SCORED_PREFILL:
        raise ContractError(
            f"{at}.values",
            "SCORED_TARGET_TOKENS",
            expected="it only in a scored prefill",
        )
    if scores and graph.packed_token_capacity > layout.token_rows:
        raise ContractError(
            f"{at}.packed_token_capacity",
            graph.packed_token_capacity,
            expected=f"at most the completion's {layout.token_rows} token rows",
        )


def check_destinations(model: ModelContract, manifest: ExecutionManifest, *, at: str) -> None:
    """Every bound value has a registered destination (HV-03)."""
    transports = {transport.name: transport for transport in manifest.transports}
    for index, graph in enumerate(model.graphs):
        for place, value in enumerate(graph.values):
            if value.destination not in transports:
                raise ContractError(
                    f"{at}.graphs[{index}].values[{place}].destination",
                    repr(value.destination),
                    expected="a registered transport",
                )
    for index, view in enumerate(model.cache.page_tables):
        transport = transports.get(view.destination)
        if transport is None or (transport.element, transport.row_elements) != (
            view.element,
            view.row_pages,
        ):
            raise ContractError(
                f"{at}.cache.page_tables[{index}].destination",
                repr(view.destination),
                expected=f"a transport of {view.row_pages} {view.element.name} a row",
            )


def check_storage(model: ModelContract, buffers: dict[str, Buffer], *, at: str) -> None:
    """Planes, rows and states lie in buffers of their role and size (HV-28, AH-03)."""
    for index, region in enumerate(model.cache.histories):
        where = f"{at}.cache.histories[{index}]"
        if region.kind in PAGED:
            for place, plane in enumerate(region.planes):
                expect_buffer(
                    buffers,
                    plane.buffer,
                    BufferRole.CACHE_PLANE,
                    plane.page_stride_bytes,
                    at=f"{where}.planes[{place}].buffer",
                )
            continue
        end = (
            max(
                (field.offset + (field.rows - 1) * field.stride + field.nbytes)
                for field in region.fields
            )
            if region.fields
            else 1
        )
        for name, role in (
            ("row_buffer", BufferRole.STATE),
            ("snapshot_buffer", BufferRole.SNAPSHOT),
        ):
            buffer = getattr(region, name)
            if buffer is not None:
                expect_buffer(buffers, buffer, role, end, at=f"{where}.{name}")
    for index, state in enumerate(model.states):
        expect_buffer(
            buffers,
            state.buffer,
            BufferRole.STATE,
            state.row_stride,
            at=f"{at}.states[{index}].buffer",
        )


def expect_buffer(
    buffers: dict[str, Buffer], name: str, role: BufferRole, nbytes: int, *, at: str
) -> None:
    """A buffer of this role exists and one unit of it holds `nbytes`."""
    buffer = buffers.get(name)
    if buffer is None or buffer.role is not role:
        raise ContractError(at, repr(name), expected=f"a {role.name} buffer")
    if buffer.nbytes < nbytes:
        raise ContractError(at, f"{buffer.nbytes} bytes", expected=f"at least {nbytes}")
