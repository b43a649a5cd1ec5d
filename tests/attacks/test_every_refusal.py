"""One broken core a refusal: no `raise` of the reading path is there that no core reaches.

A core here is a whole file: header, stored bytes, envelope, locations.  Each is broken in
one place, by somebody who may hold the key, and read by what every reader calls in turn.
"""

from __future__ import annotations

import ast
import time
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any, Final

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from msgspec.structs import replace

from prepared import carrier, decode, envelope, frames
from prepared.body import CHUNK_NBYTES, CoreBody, Location, LocationSet, SignedEnvelope, StoredFrame
from prepared.carrier import HEADER, MAGIC, unpack_header
from prepared.completeness import check_body
from prepared.encode import encode, written
from prepared.envelope import authenticate, authorize, sign
from prepared.fields import ContractError
from prepared.frames import check_chunks, compress, decompress, digests_of
from tests.treaty.carriers import KEY, NAMESPACE, body
from tests.treaty.messages import bytes_of, message_of
from tests.treaty.paths import put

READING: Final = (carrier, decode, envelope, frames)
SOON_SECONDS: Final = 5.0
LITTLE_NBYTES: Final = 64 << 20

CODE, CODE_STORED = compress(b"compiled kernels")
SOUND: Final = put(body(), {"assets[1].stored": CODE_STORED})
WEIGHTS: Final = bytes(CHUNK_NBYTES + 1)
SOUND_BYTES: Final = encode(SOUND)
BEYOND: Final = 1 << 40
OTHER: Final = Ed25519PrivateKey.from_private_bytes(bytes(32))


def assemble(
    signed: bytes = SOUND_BYTES,
    *,
    code: bytes = CODE,
    moved: tuple[str, ...] = (),
    change: Callable[[SignedEnvelope], SignedEnvelope] = lambda whole: whole,
    sealed: bytes | None = None,
) -> bytes:
    """A core file around these signed bytes."""
    start = HEADER.size
    places = {"code": start, "tokenizer": start, "chat_template": start}
    places["weights.0"] = start + len(code)
    places |= dict.fromkeys(moved, BEYOND)
    outer = encode(change(sign(signed, namespace=NAMESPACE, key=KEY))) if sealed is None else sealed
    hints = encode(
        LocationSet(
            locations=tuple(
                Location(resource=name, offset=offset, file=None, url=None)
                for name, offset in places.items()
            )
        )
    )
    end = start + len(code) + len(WEIGHTS)
    header = HEADER.pack(MAGIC, 1, 0, end, len(outer), end + len(outer), len(hints))
    return header + code + WEIGHTS + outer + hints


def read(data: bytes) -> None:
    """Everything that a reader asks of a core, in its order."""
    header = unpack_header(data[: HEADER.size], file_nbytes=len(data))
    first, second = header.envelope_offset, header.locations_offset
    outer = data[first : first + header.envelope_nbytes]
    whole = decode.decode(outer, SignedEnvelope, at="envelope")
    authenticate(whole, at="envelope")
    authorize(whole, acceptance=NAMESPACE, at="envelope")
    inner = decode.decode(whole.body, CoreBody, at="body")
    check_body(inner)
    hints = data[second : second + header.locations_nbytes]
    found = decode.decode(hints, LocationSet, at="locations")
    places = {location.resource: location.offset or 0 for location in found.locations}
    view = memoryview(data)
    for part in (*inner.executables, *inner.assets):
        start = places[part.id]
        decompress(view[start : start + part.stored.nbytes], part.stored, at=part.id)
    for weight in inner.weights:
        start = places[weight.id]
        check_chunks(view[start : start + weight.nbytes], weight.chunk_sha256, at=weight.id)


def with_header(**changes: Any) -> bytes:
    """The sound core under another header."""
    names = ("magic", "version", "zero", "outer", "outer_nbytes", "hints", "hints_nbytes")
    data = assemble()
    fields = dict(zip(names, HEADER.unpack_from(data), strict=True)) | changes
    return HEADER.pack(*fields.values()) + data[HEADER.size :]


def with_message(change: Callable[[Any], object]) -> bytes:
    """A core whose body's message was changed, then signed."""
    message = message_of(SOUND)
    change(message)
    return assemble(bytes_of(message))


def with_frame(frame: bytes, *, decoded_nbytes: int) -> bytes:
    """A core whose publisher committed to these stored bytes."""
    stored = StoredFrame(
        nbytes=len(frame),
        decoded_nbytes=decoded_nbytes,
        chunk_nbytes=CHUNK_NBYTES,
        chunk_sha256=digests_of(frame),
    )
    places = ("executables[0].stored", "assets[0].stored", "assets[1].stored")
    return assemble(encode(put(SOUND, dict.fromkeys(places, stored))), code=frame)


def model_of(message: Any) -> Any:
    """The model contract within a body's message."""
    return message.deployments[0].contract.model


def flipped(data: bytes, place: int) -> bytes:
    """The bytes with one bit turned."""
    return data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :]


LONG = len(b"compiled kernels")
BROKEN: Final[dict[str, Callable[[], bytes]]] = {
    "a file of a few bytes": lambda: MAGIC,
    "another magic": lambda: with_header(magic=b"HELIOSCQ"),
    "another header version": lambda: with_header(version=2),
    "something where nothing belongs": lambda: with_header(zero=1),
    "an envelope of a gibibyte": lambda: with_header(outer_nbytes=1 << 30),
    "an envelope behind the file": lambda: with_header(outer=1 << 63),
    "locations within the header": lambda: with_header(hints=8),
    "an envelope that is no message": lambda: assemble(sealed=b"\xff" * 64),
    "an envelope with an unknown field": lambda: assemble(sealed=b"\xa2\x06\x00"),
    "a body of another encoding": lambda: assemble(SOUND_BYTES + b"\x08\x02"),
    "a body without a contract": lambda: with_message(
        lambda message: message.deployments[0].ClearField("contract")
    ),
    "a field before its version": lambda: with_message(
        lambda message: setattr(model_of(message), "version", 2)
    ),
    "a page of no tokens": lambda: with_message(
        lambda message: setattr(model_of(message).cache, "page_tokens", 0)
    ),
    "an enum that says nothing": lambda: with_message(
        lambda message: setattr(model_of(message).graphs[0], "operation", 0)
    ),
    "a body that does not fit together": lambda: assemble(written(replace(SOUND, assets=()))),
    "a signature by somebody else": lambda: assemble(
        change=lambda whole: replace(whole, signature=OTHER.sign(whole.body))
    ),
    "a publisher that nobody accepts": lambda: assemble(
        change=lambda whole: sign(whole.body, namespace="acme", key=KEY)
    ),
    "weights behind the file": lambda: assemble(moved=("weights.0",)),
    "stored bytes that were changed": lambda: flipped(assemble(), HEADER.size + 9),
    "stored bytes behind the file": lambda: assemble(moved=("tokenizer",)),
    "a frame that is none": lambda: with_frame(b"compiled kernels", decoded_nbytes=LONG),
    "a frame of a wrong checksum": lambda: with_frame(
        flipped(CODE, len(CODE) - 1), decoded_nbytes=LONG
    ),
    "two frames": lambda: with_frame(CODE * 2, decoded_nbytes=LONG),
    "a frame that is longer than it was said": lambda: with_frame(CODE, decoded_nbytes=3),
    "a frame without its end": lambda: with_frame(CODE[:-4], decoded_nbytes=LONG),
}


def raises(module: ModuleType) -> Iterator[tuple[str, range]]:
    """The lines of every `raise` in a module; a bare one passes on what was refused elsewhere."""
    assert module.__file__
    for node in ast.walk(ast.parse(Path(module.__file__).read_text())):
        if isinstance(node, ast.Raise) and node.exc is not None:
            assert node.end_lineno
            yield module.__file__, range(node.lineno, node.end_lineno + 1)


def refused_at(data: bytes) -> tuple[str, int]:
    """Where in the code a core is refused."""
    with pytest.raises(ContractError) as refusal:
        read(data)
    trace = refusal.tb
    while trace.tb_next is not None:
        trace = trace.tb_next
    return trace.tb_frame.f_code.co_filename, trace.tb_lineno


def test_the_core_that_is_broken_here_is_sound() -> None:
    read(assemble())


@pytest.mark.clause("OB-07", "OB-12", "OB-21")
@pytest.mark.parametrize("fault", BROKEN)
def test_a_broken_core_is_refused_soon_and_in_little_memory(fault: str) -> None:
    data = BROKEN[fault]()
    began = time.monotonic()
    tracemalloc.start()
    try:
        refused_at(data)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert time.monotonic() - began < SOON_SECONDS
    assert peak < LITTLE_NBYTES


@pytest.mark.clause("OB-12")
def test_every_refusal_of_the_reading_path_has_its_broken_core() -> None:
    reached = [refused_at(make()) for make in BROKEN.values()]
    missed = [
        f"{Path(file).name}:{lines.start}"
        for module in READING
        for file, lines in raises(module)
        if not any(where == file and line in lines for where, line in reached)
    ]
    assert missed == []
