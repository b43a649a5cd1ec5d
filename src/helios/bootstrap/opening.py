"""What every process of a start goes by: the core, opened once, and the limits it obeys."""

from __future__ import annotations

import ctypes
import gc
import sys

import msgspec

from helios.artifact.core_file import OpenCore, open_core
from helios.options import Limits, Options, resolve
from helios.values import HeliosError
from prepared.fields import ContractError
from prepared.trust import read_trust

REFUSALS = (ContractError, HeliosError, OSError)
"""What a start may end with that is not our mistake."""


class Opened(msgspec.Struct, frozen=True, kw_only=True):
    """A core that may be served, and what the user wants of it."""

    options: Options
    core: OpenCore
    limits: Limits
    began: int  # time.monotonic_ns() when the user's command started


def open_for(options: Options, *, began: int) -> Opened:
    """Open the core and resolve the limits, or raise one of `REFUSALS`."""
    trust = read_trust(options.home / "trust.json")
    core = open_core(options.core, trust, acceptance=options.accept)
    limits = resolve(core.deployment.contract, options)
    return Opened(options=options, core=core, limits=limits, began=began)


def sentence(error: BaseException, options: Options) -> str:
    """Why a start is refused; what is wrong with a core is said with its path."""
    return f"{options.core}: {error}" if isinstance(error, ContractError) else str(error)


def refuse(error: BaseException, options: Options) -> int:
    """Tell the user why a start is refused; returns the exit status."""
    print(f"helios: {sentence(error, options)}", file=sys.stderr, flush=True)
    return 1


def settle_memory() -> None:
    """What lives after loading lives for ever: nobody looks at it again, and the rest goes back."""
    gc.freeze()
    gc.enable()
    # A part of glibc: readers of tokenizers and bodies leave it holding tens of megabytes.
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)
