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
        self._in_flight: deque[int] = deque()  # frames, oldest first
        self._finished = 0

    @property
    def in_flight(self) -> int:
        """Submissions that have not been read back."""
        return len(self._in_flight)

    def free_frames(self) -> list[int]:
        """Frames that hold no submission."""
        return [frame for frame in range(len(self._headers)) if frame not in self._in_flight]

    # hot
    def submit(self, submission: Submission) -> None:
        """Pack a round into its frame and start it."""
        header, staging = self.device.manifest.header, self._headers[submission.frame]
        self._packings[submission.program].pack(submission)
        struct.pack_into("<Q", staging, header.sequence_offset, submission.sequence)
        struct.pack_into("<I", staging, header.frame_offset, submission.frame)
        struct.pack_into("<I", staging, header.program_offset, submission.program)
        self._in_flight.append(submission.frame)
        self.device.submit(submission.program, submission.frame)

    def finished(self) -> Iterator[Completion]:
        """Records of finished submissions that were not read yet, oldest first."""
        done = self.device.finished()
        while self._finished != done:
            self._finished += 1
            yield self._readers[self._in_flight.popleft()].read()

    def wait(self, *, nanoseconds: int) -> None:
        """Wait until another submission finishes, or for so long."""
        self.device.wait(self._finished, nanoseconds=nanoseconds)
