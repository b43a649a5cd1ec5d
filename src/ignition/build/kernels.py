"""Every kernel of the CPU target."""

from __future__ import annotations

from typing import Final

from ignition.ops.attend import ATTEND
from ignition.ops.commit import COMMIT
from ignition.ops.embed import EMBED
from ignition.ops.history import ROTATE_AND_STORE
from ignition.ops.initialize import INITIALIZE
from ignition.ops.lay_rows import LAY_ROWS
from ignition.ops.linear import GATED_LINEAR, LINEAR, NUMBER_LINEAR, SILU_GATE
from ignition.ops.resume import RESUME
from ignition.ops.rms_norm import NORM, NORM_QUANTISE, QUANTISE
from ignition.ops.sample import SAMPLE
from ignition.ops.score import SCORE
from ignition.ops.snapshot import PUBLISH, RESTORE

CPU_KERNELS: Final = (
    NORM,
    NORM_QUANTISE,
    QUANTISE,
    *LINEAR.values(),
    *GATED_LINEAR.values(),
    *NUMBER_LINEAR.values(),
    SILU_GATE,
    *EMBED.values(),
    LAY_ROWS,
    ROTATE_AND_STORE,
    ATTEND,
    SAMPLE,
    SCORE,
    COMMIT,
    INITIALIZE,
    RESTORE,
    PUBLISH,
    RESUME,
)
