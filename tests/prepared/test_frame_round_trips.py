"""What is compressed comes back, and its commitments say what the specification wants."""

from __future__ import annotations

import hashlib

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from prepared.body import CHUNK_NBYTES
from prepared.frames import LEVEL, check_chunks, chunks_of, compress, decompress


@given(data=st.binary(max_size=5000), copies=st.integers(1, 200))
def test_what_goes_in_comes_out(data: bytes, copies: int) -> None:
    frame, stored = compress(data * copies)
    assert decompress(memoryview(frame), stored, at="core") == data * copies


@pytest.mark.clause("OB-14", "OB-20")
@pytest.mark.parametrize("nbytes", [0, 1, CHUNK_NBYTES, CHUNK_NBYTES + 1])
def test_a_frame_says_its_lengths_and_its_chunks(nbytes: int) -> None:
    # Text of digits barely compresses, so that the frame itself has more than one chunk.
    data = b"".join(hashlib.sha256(n.to_bytes(4, "big")).digest() for n in range(nbytes // 32 + 1))
    frame, stored = compress(data[:nbytes])
    assert (stored.nbytes, stored.decoded_nbytes) == (len(frame), nbytes)
    assert stored.chunk_nbytes == 4 << 20
    assert len(stored.chunk_sha256) == -(-len(frame) // (4 << 20))
    assert stored.chunk_sha256[0] == hashlib.sha256(frame[: 4 << 20]).digest()
    check_chunks(memoryview(frame), stored.chunk_sha256, at="core")
    assert decompress(memoryview(frame), stored, at="core") == data[:nbytes]


@pytest.mark.clause("OB-14")
def test_a_frame_is_of_level_three_with_its_length_and_a_checksum() -> None:
    data = b"what a kernel says " * 40_000
    frame, _ = compress(data)
    parameters = zstandard.get_frame_parameters(frame)
    assert LEVEL == 3
    assert parameters.content_size == len(data)
    assert parameters.has_checksum
    assert frame == zstandard.ZstdCompressor(level=3, write_checksum=True).compress(data)


def test_the_same_bytes_give_the_same_frame() -> None:
    data = bytes(range(256)) * 1000
    assert compress(data) == compress(data)


@pytest.mark.parametrize(("nbytes", "expected"), [(0, []), (5, [5]), (6, [6]), (13, [6, 6, 1])])
def test_chunks_are_full_but_for_the_last(nbytes: int, expected: list[int]) -> None:
    assert [len(chunk) for chunk in chunks_of(bytes(nbytes), nbytes=6)] == expected
