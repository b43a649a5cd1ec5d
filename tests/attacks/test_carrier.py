"""Headers of files that are no core, of another version, or that point outside."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prepared.carrier import (
    HEADER,
    HEADER_VERSION,
    MAGIC,
    MOST_ENVELOPE_NBYTES,
    MOST_LOCATIONS_NBYTES,
    PAYLOAD_ALIGNMENT,
    Header,
    pack_header,
    unpack_header,
)
from prepared.fields import ContractError
from tests.treaty.paths import put
from tests.treaty.refusals import attack, refused

FILE_NBYTES = 10_000
SOUND = Header(
    envelope_offset=8192, envelope_nbytes=1000, locations_offset=9192, locations_nbytes=808
)
BIG = 1 << 40

EXTENTS = [
    attack(
        "an envelope in the header",
        {"envelope_offset": 47},
        "header.envelope_offset: found 47 with 1000 bytes, "
        "expected an extent within the file's 10000 bytes",
    ),
    attack(
        "an envelope behind the end",
        {"envelope_offset": 9001},
        "header.envelope_offset: found 9001 with 1000 bytes, "
        "expected an extent within the file's 10000 bytes",
    ),
    attack(
        "an envelope that is too long",
        {"envelope_nbytes": MOST_ENVELOPE_NBYTES + 1},
        f"header.envelope_nbytes: found {MOST_ENVELOPE_NBYTES + 1}, "
        f"expected at most {MOST_ENVELOPE_NBYTES}",
    ),
    attack(
        "an extent that wraps around",
        {"envelope_offset": (1 << 64) - 1},
        f"header.envelope_offset: found {(1 << 64) - 1} with 1000 bytes, "
        "expected an extent within the file's 10000 bytes",
    ),
    attack(
        "locations in the header",
        {"locations_offset": 0},
        "header.locations_offset: found 0 with 808 bytes, "
        "expected an extent within the file's 10000 bytes",
    ),
    attack(
        "locations behind the end",
        {"locations_nbytes": 809},
        "header.locations_offset: found 9192 with 809 bytes, "
        "expected an extent within the file's 10000 bytes",
    ),
    attack(
        "locations that are too long",
        {"locations_nbytes": MOST_LOCATIONS_NBYTES + 1},
        f"header.locations_nbytes: found {MOST_LOCATIONS_NBYTES + 1}, "
        f"expected at most {MOST_LOCATIONS_NBYTES}",
    ),
]


@pytest.mark.parametrize(("changes", "sentence"), EXTENTS)
def test_an_extent_out_of_bounds_is_refused(changes: dict[str, object], sentence: str) -> None:
    with refused(sentence):
        unpack_header(pack_header(put(SOUND, changes)), file_nbytes=FILE_NBYTES)


def test_the_widest_extents_are_accepted() -> None:
    widest = Header(
        envelope_offset=HEADER.size,
        envelope_nbytes=256 << 20,
        locations_offset=BIG - (16 << 20),
        locations_nbytes=16 << 20,
    )
    assert (MOST_ENVELOPE_NBYTES, MOST_LOCATIONS_NBYTES) == (256 << 20, 16 << 20)
    assert unpack_header(pack_header(widest), file_nbytes=BIG) == widest


def test_payloads_can_be_mapped() -> None:
    assert PAYLOAD_ALIGNMENT == 4096


def packed(
    *, magic: bytes = MAGIC, version: int = HEADER_VERSION, zero: int = 0, extent: int = 48
) -> bytes:
    """A header's bytes, each field free."""
    return HEADER.pack(magic, version, zero, extent, 0, extent, 0)


FIELDS = [
    attack("nothing", b"", "header: found 0 bytes, expected 48 bytes"),
    attack("half a header", packed()[:47], "header: found 47 bytes, expected 48 bytes"),
    attack(
        "another file",
        packed(magic=b"\x7fELF\x02\x01\x01\0"),
        "header.magic: found b'\\x7fELF\\x02\\x01\\x01\\x00', expected b'HELIOSCR': a core file",
    ),
    attack(
        "another case",
        packed(magic=b"helioscr"),
        "header.magic: found b'helioscr', expected b'HELIOSCR': a core file",
    ),
    attack(
        "version zero", packed(version=0), "header.version: found 0, expected 1", clauses=("SM-20",)
    ),
    attack(
        "version two", packed(version=2), "header.version: found 2, expected 1", clauses=("SM-20",)
    ),
    attack("reserved bits", packed(zero=256), "header.reserved: found 256, expected 0"),
]


@pytest.mark.parametrize(("data", "sentence"), FIELDS)
def test_a_broken_header_is_refused(data: bytes, sentence: str) -> None:
    with refused(sentence):
        unpack_header(data, file_nbytes=BIG)


@pytest.mark.parametrize("changes", [{}, {"envelope_offset": 48}, {"envelope_nbytes": 1808}])
def test_a_sound_header_comes_back_and_what_follows_it_is_ignored(
    changes: dict[str, object],
) -> None:
    header = put(SOUND, changes)
    assert unpack_header(pack_header(header), file_nbytes=FILE_NBYTES) == header
    assert unpack_header(pack_header(header) + b"payload", file_nbytes=FILE_NBYTES) == header


@given(data=st.binary(max_size=64), file_nbytes=st.integers(0, 1 << 64))
def test_any_header_is_read_or_refused(data: bytes, file_nbytes: int) -> None:
    for candidate in (data, MAGIC + data, packed()[:16] + data):
        try:
            header = unpack_header(candidate, file_nbytes=file_nbytes)
        except ContractError:
            continue
        assert header.envelope_offset + header.envelope_nbytes <= file_nbytes
        assert header.locations_offset + header.locations_nbytes <= file_nbytes
        assert pack_header(header) == candidate[: HEADER.size]
