"""Compressed frames: one zstd level-3 frame a resource, committed chunk by chunk.

Always: nothing is decoded before every chunk's digest has been checked, and no more is
decoded than was signed (OB-14, OB-20, OB-21).
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import Final

import zstandard

from prepared.body import CHUNK_NBYTES, StoredFrame
from prepared.fields import ContractError

LEVEL: Final = 3
WINDOW_NBYTES: Final = 8 << 20
READABLE: Final = "a zstd frame with a window of 8 MiB at most"
FEED_NBYTES: Final = 1 << 10
"""Input given to the decoder at once, so that a bomb is noticed after 32 MiB at most."""


def chunks_of(data: bytes | memoryview, *, nbytes: int = CHUNK_NBYTES) -> Iterator[memoryview]:
    """Consecutive pieces of `nbytes`, the last one shorter."""
    view = memoryview(data)
    for start in range(0, len(view), nbytes):
        yield view[start : start + nbytes]


def digests_of(data: bytes | memoryview) -> tuple[bytes, ...]:
    """SHA-256 of each chunk."""
    return tuple(hashlib.sha256(chunk).digest() for chunk in chunks_of(data))


def compress(data: bytes) -> tuple[bytes, StoredFrame]:
    """The frame of `data`, and what a signature must say about it."""
    parameters = zstandard.ZstdCompressionParameters.from_level(
        LEVEL, source_size=len(data), write_content_size=True, write_checksum=True, threads=0
    )
    frame = zstandard.ZstdCompressor(compression_params=parameters).compress(data)
    return frame, StoredFrame(
        nbytes=len(frame),
        decoded_nbytes=len(data),
        chunk_nbytes=CHUNK_NBYTES,
        chunk_sha256=digests_of(frame),
    )


def check_chunks(data: memoryview, chunk_sha256: tuple[bytes, ...], *, at: str) -> None:
    """Refuse bytes whose chunks are not the committed ones."""
    expected = -(-len(data) // CHUNK_NBYTES)
    if len(chunk_sha256) != expected:
        raise ContractError(
            f"{at}.chunk_sha256", f"{len(chunk_sha256)} digests", expected=f"{expected} (OB-20)"
        )
    for index, chunk in enumerate(chunks_of(data)):
        if hashlib.sha256(chunk).digest() != chunk_sha256[index]:
            raise ContractError(
                f"{at}.chunk_sha256[{index}]", "another digest", expected="the signed one"
            )


def check_format(frame: memoryview, *, at: str) -> None:
    """Refuse what is no zstd frame, or would need a window over 8 MiB.

    The decoder alone lets both through: it takes a skippable frame for an empty one, and
    does not look at the window of a frame that fits its output buffer.
    """
    try:
        window_nbytes = zstandard.get_frame_parameters(frame).window_size
    except zstandard.ZstdError:
        window_nbytes = None
    if (
        frame[: len(zstandard.FRAME_HEADER)] != zstandard.FRAME_HEADER
        or window_nbytes is None
        or window_nbytes > WINDOW_NBYTES
    ):
        raise ContractError(at, "an unreadable frame", expected=READABLE)


def decompress(frame: memoryview, stored: StoredFrame, *, at: str) -> bytes:
    """Decode a stored frame after checking it against its commitments.

    Raises ContractError for a wrong length or digest, a window over 8 MiB, a truncated
    frame, a second frame, trailing bytes or a decoded length that was not signed.
    """
    if len(frame) != stored.nbytes:
        raise ContractError(f"{at}.nbytes", len(frame), expected=f"{stored.nbytes} stored bytes")
    check_chunks(frame, stored.chunk_sha256, at=at)
    check_format(frame, at=at)
    decoder = zstandard.ZstdDecompressor(max_window_size=WINDOW_NBYTES).decompressobj()
    decoded = bytearray()
    for position in range(0, len(frame), FEED_NBYTES):
        try:
            decoded += decoder.decompress(frame[position : position + FEED_NBYTES])
        except zstandard.ZstdError:
            raise ContractError(at, "an unreadable frame", expected=READABLE) from None
        if len(decoded) > stored.decoded_nbytes:
            break
        if decoder.eof:
            rest = len(frame) - position - FEED_NBYTES + len(decoder.unused_data)
            if decoder.unused_data or rest > 0:
                raise ContractError(at, "bytes after the frame", expected="one frame")
    if len(decoded) != stored.decoded_nbytes:
        raise ContractError(
            f"{at}.decoded_nbytes",
            "more" if len(decoded) > stored.decoded_nbytes else len(decoded),
            expected=f"{stored.decoded_nbytes} decoded bytes",
        )
    if not decoder.eof:
        raise ContractError(at, "a truncated frame", expected="a whole frame")
    return bytes(decoded)
