"""Compressed frames that are not the one that was signed, or not one at all."""

from __future__ import annotations

import struct
import tracemalloc
from collections.abc import Callable

import pytest
import zstandard
from msgspec.structs import replace

from prepared.body import CHUNK_NBYTES, StoredFrame
from prepared.frames import (
    FEED_NBYTES,
    WINDOW_NBYTES,
    check_chunks,
    compress,
    decompress,
    digests_of,
)
from tests.treaty.refusals import attack, refused

TEXT = b"what a kernel says " * 400
FRAME, STORED = compress(TEXT)
SKIPPABLE = struct.pack("<II", 0x184D2A50, 4) + b"note"
UNREADABLE = "core: found an unreadable frame, expected a zstd frame with a window of 8 MiB at most"
AFTER = "core: found bytes after the frame, expected one frame"


def signed(frame: bytes, *, decoded_nbytes: int) -> StoredFrame:
    """Commitments that agree with any bytes: the publisher itself is the attacker."""
    return StoredFrame(
        nbytes=len(frame),
        decoded_nbytes=decoded_nbytes,
        chunk_nbytes=CHUNK_NBYTES,
        chunk_sha256=digests_of(frame),
    )


def hand_made(
    *blocks: bytes, window_log: int = 17, decoded_nbytes: int | None = None, last: bool = True
) -> bytes:
    """A frame of raw blocks with any window, its decoded length said or not."""
    says_length = decoded_nbytes is not None
    head = bytes([0b1000_0000 if says_length else 0, (window_log - 10) << 3])
    head += struct.pack("<I", decoded_nbytes) if decoded_nbytes is not None else b""
    body = b""
    for index, block in enumerate(blocks):
        final = last and index == len(blocks) - 1
        body += ((len(block) << 3) | final).to_bytes(3, "little") + block
    return zstandard.FRAME_HEADER + head + body


def incompressible(nbytes: int) -> bytes:
    """Bytes that take as much room compressed."""
    blocks = [digest for n in range(nbytes // 32) for digest in digests_of(struct.pack("<I", n))]
    return b"".join(blocks)


# ---------------------------------------------------- after the signature

STOLEN = [
    attack("truncated", FRAME[:-1], f"core.nbytes: found {len(FRAME) - 1}"),
    attack("a trailing byte", FRAME + b"\0", f"core.nbytes: found {len(FRAME) + 1}"),
    attack("a second frame", FRAME * 2, f"core.nbytes: found {2 * len(FRAME)}"),
    attack("nothing", b"", "core.nbytes: found 0"),
]


@pytest.mark.clause("OB-20", "OB-21")
@pytest.mark.parametrize(("frame", "found"), STOLEN)
def test_bytes_of_another_length_are_refused(frame: bytes, found: str) -> None:
    with refused(f"{found}, expected {len(FRAME)} stored bytes"):
        decompress(memoryview(frame), STORED, at="core")


@pytest.mark.clause("OB-14", "OB-20")
@pytest.mark.parametrize("position", range(len(FRAME)))
def test_a_flipped_byte_is_refused_before_it_is_decoded(position: int) -> None:
    broken = bytearray(FRAME)
    broken[position] ^= 0x40
    with refused("core.chunk_sha256[0]: found another digest, expected the signed one"):
        decompress(memoryview(broken), STORED, at="core")


@pytest.mark.clause("OB-14", "OB-20")
def test_the_chunk_that_differs_is_named() -> None:
    data = bytearray(2 * CHUNK_NBYTES + 1)
    digests = digests_of(bytes(data))
    data[CHUNK_NBYTES] ^= 1
    with refused("core.chunk_sha256[1]: found another digest, expected the signed one"):
        check_chunks(memoryview(data), digests, at="core")


@pytest.mark.clause("OB-20")
@pytest.mark.parametrize(
    ("nbytes", "expected"),
    [(0, 0), (1, 1), (CHUNK_NBYTES, 1), (CHUNK_NBYTES + 1, 2), (2 * CHUNK_NBYTES, 2)],
)
def test_a_digest_too_many_or_too_few_is_refused(nbytes: int, expected: int) -> None:
    data = memoryview(bytes(nbytes))
    digests = digests_of(data)
    assert len(digests) == expected
    check_chunks(data, digests, at="core")
    for wrong in {(*digests, bytes(32)), digests[:-1]} - {digests}:
        with refused(f"core.chunk_sha256: found {len(wrong)} digests, expected {expected} (OB-20)"):
            check_chunks(data, wrong, at="core")


# ----------------------------------------------------- signed by a liar

SMALL, _ = compress(b"hello")
EMPTY, _ = compress(b"")
FORMS = [
    attack("no bytes", b"", 0, UNREADABLE),
    attack("a magic number alone", zstandard.FRAME_HEADER, 0, UNREADABLE),
    attack("raw bytes", TEXT, len(TEXT), UNREADABLE),
    attack("a gzip member", b"\x1f\x8b\x08" + bytes(60), 0, UNREADABLE),
    attack("an lz4 frame", b"\x04\x22\x4d\x18" + bytes(60), 0, UNREADABLE),
    *(
        attack(
            f"a zstd frame of version 0.{7 - 0x27 + low}",
            bytes([low]) + b"\xb5\x2f\xfd" + bytes(60),
            0,
            UNREADABLE,
        )
        for low in range(0x22, 0x28)
    ),
    attack("a zstd frame of version 0.1", b"\xfd\x2f\xb5\x1e" + bytes(60), 0, UNREADABLE),
    attack("a dictionary", b"\x37\xa4\x30\xec" + bytes(60), 0, UNREADABLE),
    attack("a skippable frame alone", SKIPPABLE, 0, UNREADABLE),
    attack("a skippable frame before", SKIPPABLE + SMALL, 5, UNREADABLE),
    attack("a skippable frame after", SMALL + SKIPPABLE, 5, AFTER),
    attack("a frame after", SMALL + SMALL, 5, AFTER),
    attack("a frame after, both promised", SMALL + SMALL, 10, AFTER),
    attack("an empty frame after", SMALL + EMPTY, 5, AFTER),
    attack("a frame after an empty one", EMPTY + SMALL, 0, AFTER),
    attack("a trailing byte", SMALL + b"\0", 5, AFTER),
    attack("a reserved block type", hand_made(b"hello")[:6] + b"\x07\0\0", 0, UNREADABLE),
    attack("a wrong checksum", SMALL[:-1] + bytes([SMALL[-1] ^ 1]), 5, UNREADABLE),
    attack(
        "a truncated frame, all of it promised",
        hand_made(b"hello", b"world", last=False),
        10,
        "core: found a truncated frame, expected a whole frame",
    ),
    attack(
        "a frame without its checksum",
        SMALL[:-4],
        5,
        "core: found a truncated frame, expected a whole frame",
    ),
    attack(
        "a truncated frame",
        SMALL[:-6],
        5,
        "core.decoded_nbytes: found 3, expected 5 decoded bytes",
    ),
    attack("one byte less", SMALL, 6, "core.decoded_nbytes: found 5, expected 6 decoded bytes"),
    attack("one byte more", SMALL, 4, "core.decoded_nbytes: found more, expected 4 decoded bytes"),
    attack(
        "anything for nothing",
        SMALL,
        0,
        "core.decoded_nbytes: found more, expected 0 decoded bytes",
    ),
    attack(
        "nothing for anything", EMPTY, 1, "core.decoded_nbytes: found 0, expected 1 decoded bytes"
    ),
]


@pytest.mark.clause("OB-21")
@pytest.mark.parametrize(("frame", "decoded_nbytes", "sentence"), FORMS)
def test_what_is_not_one_whole_frame_is_refused(
    frame: bytes, decoded_nbytes: int, sentence: str
) -> None:
    stored = signed(frame, decoded_nbytes=decoded_nbytes)
    with refused(sentence):
        decompress(memoryview(frame), stored, at="core")


@pytest.mark.clause("OB-21")
@pytest.mark.parametrize("rest", [b"\0", SMALL, SKIPPABLE, bytes(5000)])
@pytest.mark.parametrize("ends_at", [-1, 0, 1])
def test_bytes_after_a_frame_are_seen_wherever_it_ends(rest: bytes, ends_at: int) -> None:
    """The decoder is fed piece by piece: the frame may end with a piece, or beside it."""
    decoded_nbytes = 2 * FEED_NBYTES + ends_at - 9
    frame = hand_made(incompressible(2 * FEED_NBYTES)[:decoded_nbytes])
    assert len(frame) == 2 * FEED_NBYTES + ends_at
    alone = signed(frame, decoded_nbytes=decoded_nbytes)
    assert len(decompress(memoryview(frame), alone, at="core")) == decoded_nbytes
    with refused(AFTER):
        stored = signed(frame + rest, decoded_nbytes=decoded_nbytes)
        decompress(memoryview(frame + rest), stored, at="core")


def streamed(window_log: int, data: bytes) -> bytes:
    """A frame of a window that does not say its decoded length."""
    parameters = zstandard.ZstdCompressionParameters(window_log=window_log)
    writer = zstandard.ZstdCompressor(compression_params=parameters).compressobj()
    return writer.compress(data) + writer.flush()


WINDOWS: list[tuple[str, Callable[[int], bytes]]] = [
    ("streamed", lambda log: streamed(log, b"hello")),
    ("long", lambda log: streamed(log, b"hello" * 200_000)),
    ("small with its length", lambda log: hand_made(b"hello", window_log=log, decoded_nbytes=5)),
    ("small without", lambda log: hand_made(b"hello", window_log=log)),
]


@pytest.mark.clause("OB-21")
@pytest.mark.parametrize("kind", WINDOWS, ids=lambda kind: kind[0])
def test_a_window_of_eight_mebibytes_is_the_widest(
    kind: tuple[str, Callable[[int], bytes]],
) -> None:
    name, make = kind
    decoded_nbytes = 1_000_000 if name == "long" else 5
    widest, wider = make(23), make(24)
    assert zstandard.get_frame_parameters(widest).window_size == WINDOW_NBYTES
    stored = signed(widest, decoded_nbytes=decoded_nbytes)
    assert decompress(memoryview(widest), stored, at="core")[:5] == b"hello"
    with refused(UNREADABLE):
        decompress(memoryview(wider), signed(wider, decoded_nbytes=decoded_nbytes), at="core")


def test_a_window_as_wide_as_its_one_segment_counts_too() -> None:
    """A frame of one segment has no window of its own: the whole content is the window."""
    head = zstandard.FRAME_HEADER + bytes([0b1010_0000]) + struct.pack("<I", WINDOW_NBYTES + 1)
    block = ((1 << 17 << 3) | 2).to_bytes(3, "little") + b"\0"
    frame = head + block * 64 + ((1 << 3) | 1).to_bytes(3, "little") + b"\0"
    assert zstandard.get_frame_parameters(frame).window_size == WINDOW_NBYTES + 1
    with refused(UNREADABLE):
        stored = signed(frame, decoded_nbytes=WINDOW_NBYTES + 1)
        decompress(memoryview(frame), stored, at="core")


BOMB_BLOCKS = 16_384


def bomb() -> bytes:
    """Two gibibytes of zeros in sixty-four kibibytes."""
    block = ((1 << 17) << 3 | 2).to_bytes(3, "little") + b"\0"
    last = ((1 << 17) << 3 | 3).to_bytes(3, "little") + b"\0"
    return hand_made() + block * (BOMB_BLOCKS - 1) + last


@pytest.mark.clause("OB-21")
@pytest.mark.parametrize("promised", [0, 1000, 1 << 20])
def test_a_bomb_is_put_out_within_its_first_pieces(promised: int) -> None:
    frame = bomb()
    stored = signed(frame, decoded_nbytes=promised)
    tracemalloc.start()
    try:
        with refused(f"core.decoded_nbytes: found more, expected {promised} decoded bytes"):
            decompress(memoryview(frame), stored, at="core")
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 80 << 20


def test_a_bomb_would_have_gone_off() -> None:
    reader = zstandard.ZstdDecompressor().stream_reader(bomb())
    assert sum(len(piece) for piece in iter(lambda: reader.read(1 << 20), b"")) == (
        BOMB_BLOCKS << 17
    )


def test_the_lengths_that_a_frame_says_itself_are_not_believed() -> None:
    frame = hand_made(b"hello", decoded_nbytes=6)
    with refused(UNREADABLE):
        decompress(memoryview(frame), signed(frame, decoded_nbytes=5), at="core")


def test_a_decoded_length_beyond_all_memory_costs_nothing() -> None:
    stored = replace(STORED, decoded_nbytes=(1 << 64) - 1)
    with refused(f"core.decoded_nbytes: found {len(TEXT)}, expected {(1 << 64) - 1} decoded bytes"):
        decompress(memoryview(FRAME), stored, at="core")
