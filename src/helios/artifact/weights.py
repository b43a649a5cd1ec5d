"""Weights into memory: read and checked chunk by chunk, by a few threads.

The bytes are checked where they will be used, in memory that nobody else can write, so that
a file changed underneath cannot slip in between check and use.
"""

from __future__ import annotations

import hashlib
import os
from concurrent.futures import ThreadPoolExecutor

from helios.artifact.core_file import OpenCore
from prepared.body import CHUNK_NBYTES
from prepared.fields import ContractError


def read_weights(core: OpenCore, resource: str, memory: memoryview, *, threads: int = 2) -> None:
    """Fill `memory` with a weight resource; raises ContractError on the first wrong chunk."""
    weight = core.weight(resource)
    start = core.located(resource, weight.nbytes, at=f"weights.{resource}")

    def read_chunk(index: int) -> None:
        begin = index * CHUNK_NBYTES
        chunk = memory[begin : min(begin + CHUNK_NBYTES, weight.nbytes)]
        done = 0
        while done < len(chunk):
            got = os.preadv(core.file, [chunk[done:]], start + begin + done)
            if not got:
                raise ContractError(
                    f"weights.{resource}", "a shorter file", expected=f"{weight.nbytes} bytes"
                )
            done += got
        if hashlib.sha256(chunk).digest() != weight.chunk_sha256[index]:
            raise ContractError(
                f"weights.{resource}.chunk_sha256[{index}]",
                "another digest",
                expected="the signed one",
            )

    with ThreadPoolExecutor(threads) as pool:
        for _ in pool.map(read_chunk, range(len(weight.chunk_sha256))):
            pass
