"""The outside of a core file: a short header that says where envelope and locations lie.

    0   8  magic "HELIOSCR"
    8   4  version of this header, little-endian, 1
   12   4  zero
   16   8  offset of the envelope      24  8  its length
   32   8  offset of the locations     40  8  their length

Payloads follow, each at a multiple of `PAYLOAD_ALIGNMENT`; envelope and locations close
the file.  Nothing in the header is trusted: every extent is checked against the file.
"""

from __future__ import annotations

import struct
from typing import Final

from prepared.fields import ContractError, Shape

MAGIC: Final = b"HELIOSCR"
HEADER_VERSION: Final = 1
HEADER: Final = struct.Struct("<8sIIQQQQ")
PAYLOAD_ALIGNMENT: Final = 4096
MOST_ENVELOPE_NBYTES: Final = 256 << 20
MOST_LOCATIONS_NBYTES: Final = 16 << 20


class Header(Shape, frozen=True, kw_only=True):
    """Where envelope and locations lie, in bytes from the start of the file."""

    envelope_offset: int
    envelope_nbytes: int
    locations_offset: int
    locations_nbytes: int


def pack_header(header: Header) -> bytes:
    """The header's bytes."""
    return HEADER.pack(
        MAGIC,
        HEADER_VERSION,
        0,
        header.envelope_offset,
        header.envelope_nbytes,
        header.locations_offset,
        header.locations_nbytes,
    )


def unpack_header(data: bytes, *, file_nbytes: int) -> Header:
    """Read a header and check its extents against the file's length."""
    if len(data) < HEADER.size:
        raise ContractError("header", f"{len(data)} bytes", expected=f"{HEADER.size} bytes")
    magic, version, zero, *extents = HEADER.unpack_from(data)
    if magic != MAGIC:
        raise ContractError("header.magic", repr(magic), expected=f"{MAGIC!r}: a core file")
    if version != HEADER_VERSION:
        raise ContractError("header.version", version, expected=f"{HEADER_VERSION}")
    if zero:
        raise ContractError("header.reserved", zero, expected="0")
    header = Header(
        envelope_offset=extents[0],
        envelope_nbytes=extents[1],
        locations_offset=extents[2],
        locations_nbytes=extents[3],
    )
    check_extent(
        header.envelope_offset,
        header.envelope_nbytes,
        file_nbytes=file_nbytes,
        most=MOST_ENVELOPE_NBYTES,
        at="header.envelope",
    )
    check_extent(
        header.locations_offset,
        header.locations_nbytes,
        file_nbytes=file_nbytes,
        most=MOST_LOCATIONS_NBYTES,
        at="header.locations",
    )
    return header


def check_extent(offset: int, nbytes: int, *, file_nbytes: int, most: int, at: str) -> None:
    """Refuse an extent outside the file or over its bound."""
    if nbytes > most:
        raise ContractError(f"{at}_nbytes", nbytes, expected=f"at most {most}")
    if offset < HEADER.size or offset + nbytes > file_nbytes:
        raise ContractError(
            f"{at}_offset",
            f"{offset} with {nbytes} bytes",
            expected=f"an extent within the file's {file_nbytes} bytes",
        )
