"""Frames and submissions: pack, launch, and read what came back, in order.

Always: a frame's staging and completion belong to its submission until that is finished.
"""

from __future__ import annotations

import struct
from collections import deque
from collections.abc import Iterator

from helios.device.api import Device
from helios.execute.completion import CompletionReader
from helios.execute.pack import Packing, resolve_packing
from helios.rounds import Completion, ProgramView, Submission
from helios.values import ProgramId
from prepared.contract import ModelContract


class Executor:
    """One device's frames."""

    def __init__(self, model: ModelContract, device: Device) -> None:
        self.device = device
        manifest = device.manifest
        graphs = {graph.name: (index, graph) for index, graph in enumerate(model.graphs)}
        self.programs: list[ProgramView] = []
        self._packings: list[Packing] = []
        for number, program in enumerate(manifest.programs):
            index, graph = graphs[program.name]
            self._packings.append(
                resolve_packing(graph, model, device, at=f"contract.model.graphs[{index}]")
            )
            self.programs.append(
                ProgramView(
                    id=ProgramId(number),
                    operation=program.operation,
                    rows=program.batch_capacity,
                    row_tokens=program.token_capacity,
                    packed_tokens=program.packed_token_capacity,
                )
            )
        frames = range(manifest.frames)
        self._headers = [device.staging(manifest.header.buffer, frame) for frame in frames]
        self._readers = [CompletionReader(device, frame) for frame in frames]
        self._in_flight: deque[Submission] = deque()  # oldest first
        self._finished = device.finished()  # what ran before is not ours

    @property
    def in_flight(self) -> int:
        """Submissions that have not been read back."""
        return len(self._in_flight)

    def free_frames(self) -> list[int]:
        """Frames that hold no submission."""
        held = {submission.frame for submission in self._in_flight}
        return [frame for frame in range(len(self._headers)) if frame not in held]

    # hot
    def submit(self, submission: Submission) -> None:
        """Pack a round into its frame and start it."""
        assert not self._masks_in_flight(submission), "a mask in use would be overwritten"
        header, staging = self.device.manifest.header, self._headers[submission.frame]
        self._packings[submission.program].pack(submission)
        struct.pack_into("<Q", staging, header.sequence_offset, submission.sequence)
        struct.pack_into("<I", staging, header.frame_offset, submission.frame)
        struct.pack_into("<I", staging, header.program_offset, submission.program)
        if not self._in_flight:
            self._finished = self.device.finished()  # whatever else ran on it is not ours
        self._in_flight.append(submission)
        self.device.submit(submission.program, submission.frame)

    def _masks_in_flight(self, submission: Submission) -> bool:
        """Whether a lane that brings a mask is still in another frame, which reads the old one."""
        constrained = {lane.slot for lane in submission.lanes if lane.mask is not None}
        return bool(constrained) and any(
            lane.slot in constrained for other in self._in_flight for lane in other.lanes
        )

    def finished(self) -> Iterator[Completion]:
        """Records of finished submissions that were not read yet, oldest first."""
        done = self.device.finished()
        while self._finished != done:
            self._finished += 1
            submission = self._in_flight.popleft()
            yield self._readers[submission.frame].read(submission.lanes)

    def wait(self, *, nanoseconds: int) -> None:
        """Wait until another submission finishes, or for so long."""
        self.device.wait(self._finished, nanoseconds=nanoseconds)
