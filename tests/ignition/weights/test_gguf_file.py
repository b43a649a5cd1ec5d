"""Reading GGUF files that the `gguf` package wrote, and refusing damaged ones."""

from __future__ import annotations

import struct
from pathlib import Path

import gguf
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ignition.weights.checkpoint import CheckpointError, Format, Kind, open_checkpoint
from ignition.weights.gguf_file import SCALARS
from weights.written import refusal_of, write_gguf

DAMAGED = "the file is damaged or incomplete: fetch it again"
WRITABLE = ("F32", "F16", "BF16", "Q8_0", "Q4_0", "Q4_1")


def numbers(rows: int, columns: int) -> np.ndarray:
    return np.random.default_rng(1).standard_normal((rows, columns)).astype(np.float32)


def setting(key: str, kind: int, value: bytes) -> bytes:
    """A setting as it is stored."""
    return struct.pack("<Q", len(key)) + key.encode() + struct.pack("<I", kind) + value


def text(value: bytes) -> bytes:
    return struct.pack("<Q", len(value)) + value


ARCHITECTURE = setting("general.architecture", gguf.GGUFValueType.STRING, text(b"llama"))


def tensor(
    name: str, *, dimensions: tuple[int, ...] = (32,), kind: int = 0, offset: int = 0
) -> bytes:
    """An entry of the tensor list as it is stored."""
    return (
        text(name.encode())
        + struct.pack(f"<I{len(dimensions)}Q", len(dimensions), *dimensions)
        + struct.pack("<IQ", kind, offset)
    )


def hand_made(
    *settings: bytes, tensors: tuple[bytes, ...] = (), data: int = 4096, version: int = 3
) -> bytes:
    header = b"GGUF" + struct.pack("<IQQ", version, len(tensors), len(settings))
    return header + b"".join(settings) + b"".join(tensors) + bytes(data)


def refused(path: Path, content: bytes) -> str:
    path.write_bytes(content)
    return refusal_of(path)


@pytest.mark.parametrize("name", WRITABLE)
def test_tensors_are_found_with_their_shape_format_and_numbers(tmp_path: Path, name: str) -> None:
    stored = gguf.GGMLQuantizationType[name]
    wanted = {"a.weight": numbers(3, 64), "b.weight": numbers(5, 32)}
    checkpoint = open_checkpoint(write_gguf(tmp_path / "m.gguf", tensors=wanted, stored=stored))
    for key, values in wanted.items():
        source = checkpoint.tensors[key]
        assert source.shape == values.shape
        assert source.format is Format[name]
        packed = gguf.quants.quantize(values, stored)
        assert source.raw().tobytes() == packed.tobytes()
        assert source.floats().tobytes() == gguf.quants.dequantize(packed, stored).tobytes()


@pytest.mark.parametrize("name", ["Q4_K", "Q6_K"])
def test_tensors_of_nested_blocks_are_found_with_their_numbers(tmp_path: Path, name: str) -> None:
    stored = gguf.GGMLQuantizationType[name]
    columns, nbytes = gguf.GGML_QUANT_SIZES[stored]
    packed = np.random.default_rng(2).integers(0, 120, (3, 2 * nbytes), np.uint8)
    writer = gguf.GGUFWriter(tmp_path / "m.gguf", "llama")
    writer.add_tensor("w", packed, raw_dtype=stored)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    source = open_checkpoint(tmp_path / "m.gguf").tensors.take("w", shape=(3, 2 * columns))
    assert source.format is Format[name]
    assert source.raw().tobytes() == packed.tobytes()
    assert source.floats().tobytes() == gguf.quants.dequantize(packed, stored).tobytes()


def test_settings_keep_their_keys_and_values(tmp_path: Path) -> None:
    path = write_gguf(
        tmp_path / "m.gguf",
        settings={
            "llama.block_count": 30,
            "llama.rope.freq_base": 0.5,
            "x.flag": True,
            "x.text": "\u00e9\u4e2d",
            "x.texts": ["a", "", "\U0001f600"],
            "x.numbers": [1, -2, 3],
            "x.floats": [0.25, -0.5],
            "x.flags": [True, False],
        },
    )
    checkpoint = open_checkpoint(path)
    settings = checkpoint.settings
    assert checkpoint.architecture == "llama"
    assert checkpoint.kind is Kind.GGUF
    assert settings.take("llama.block_count", int) == 30
    assert settings.take("llama.rope.freq_base", float) == 0.5
    assert settings.take("x.flag", bool) is True
    assert settings.take("x.text", str) == "\u00e9\u4e2d"
    assert settings.take_list("x.texts", str) == ("a", "", "\U0001f600")
    assert settings.take_list("x.numbers", int) == (1, -2, 3)
    assert settings.take_list("x.floats", float) == (0.25, -0.5)
    assert settings.take_list("x.flags", bool) == (True, False)
    assert settings.untaken() == ()


@pytest.mark.parametrize("kind", sorted(SCALARS))
def test_every_type_of_number_is_read(tmp_path: Path, kind: int) -> None:
    path = tmp_path / "m.gguf"
    path.write_bytes(hand_made(ARCHITECTURE, setting("x", kind, SCALARS[kind].pack(1))))
    settings = open_checkpoint(path).settings
    match gguf.GGUFValueType(kind):
        case gguf.GGUFValueType.BOOL:
            assert settings.take("x", bool) is True
        case gguf.GGUFValueType.FLOAT32 | gguf.GGUFValueType.FLOAT64:
            assert settings.take("x", float) == 1.0
        case _:
            assert settings.take("x", int) == 1


def test_the_whole_file_is_the_checkpoints_only_input(tmp_path: Path) -> None:
    path = write_gguf(tmp_path / "m.gguf", tensors={"a": numbers(2, 32)})
    (found,) = open_checkpoint(path).inputs
    assert (found.name, found.nbytes) == ("m.gguf", path.stat().st_size)
    assert len(found.sha256()) == 64


def test_another_alignment_is_followed(tmp_path: Path) -> None:
    writer = gguf.GGUFWriter(tmp_path / "m.gguf", "llama")
    writer.add_custom_alignment(256)
    values = {"a": numbers(1, 4), "b": numbers(2, 4)}
    for name, array in values.items():
        writer.add_tensor(name, array)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    tensors = open_checkpoint(tmp_path / "m.gguf").tensors
    assert all(tensors[name].offset % 256 == 0 for name in values)
    assert all(tensors[name].floats().tolist() == values[name].tolist() for name in values)


ALIGNMENT = ("general.alignment", gguf.GGUFValueType.UINT32)
REFUSALS = {
    "not a GGUF file": (
        b"PK\x03\x04" + bytes(64),
        "m.gguf: magic: found b'PK\\x03\\x04', expected b'GGUF': a GGUF file; "
        "give a .gguf file or a Hugging Face folder",
    ),
    "an empty file": (b"", f"m.gguf: found 0 bytes, expected a GGUF file; {DAMAGED}"),
    "an old version": (
        hand_made(version=1),
        "m.gguf: version: found 1, expected one of [2, 3], little-endian; "
        "convert the model again with a current converter",
    ),
    "the other byte order": (
        hand_made(version=3 << 24),
        "m.gguf: version: found a big-endian file, expected one of [2, 3], little-endian; "
        "convert the model again with a current converter",
    ),
    "no architecture": (
        hand_made(),
        "m.gguf: general.architecture: found nothing, expected text; "
        "the checkpoint is damaged or needs a newer Ignition",
    ),
    "a part of a split model": (
        hand_made(ARCHITECTURE, setting("split.count", 2, struct.pack("<H", 3))),
        "m.gguf: split.count: found 3, expected a whole model in one file; "
        "join the parts with `llama-gguf-split --merge`",
    ),
    "a key twice": (
        hand_made(ARCHITECTURE, ARCHITECTURE),
        f"m.gguf: general.architecture: found the key twice, expected each key once; {DAMAGED}",
    ),
    "a value of no known type": (
        hand_made(setting("x", 77, bytes(8))),
        "m.gguf: x: found value type 77, expected one of "
        f"[0, 1, 2, 3, 4, 5, 6, 7, 10, 11, 12], text, or an array of them; {DAMAGED}",
    ),
    "an array of arrays": (
        hand_made(setting("x", 9, struct.pack("<IQ", 9, 1))),
        "m.gguf: x: found value type 9, expected one of "
        f"[0, 1, 2, 3, 4, 5, 6, 7, 10, 11, 12], text, or an array of them; {DAMAGED}",
    ),
    "a text that is no text": (
        hand_made(setting("x", 8, text(b"\xff")), data=0),
        "m.gguf: x: found invalid UTF-8 ('utf-8' codec can't decode byte 0xff in position 0: "
        f"invalid start byte), expected text; {DAMAGED}",
    ),
    "a text longer than the file": (
        hand_made(setting("x", 8, struct.pack("<Q", 1 << 60)), data=0),
        "m.gguf: x: found a count of 1152921504606846976, expected at most 0: "
        f"what the file can hold; {DAMAGED}",
    ),
    "more numbers than the file": (
        hand_made(setting("x", 9, struct.pack("<IQ", 4, 1 << 62)), data=8),
        "m.gguf: x: found a count of 4611686018427387904, expected at most 2: "
        f"what the file can hold; {DAMAGED}",
    ),
    "more texts than the file": (
        hand_made(setting("x", 9, struct.pack("<IQ", 8, 1 << 62)), data=8),
        "m.gguf: x: found a count of 4611686018427387904, expected at most 1: "
        f"what the file can hold; {DAMAGED}",
    ),
    "more settings than the file": (
        b"GGUF" + struct.pack("<IQQ", 3, 0, 1 << 63),
        "m.gguf: setting count: found a count of 9223372036854775808, expected at most 0: "
        f"what the file can hold; {DAMAGED}",
    ),
    "more tensors than the file": (
        b"GGUF" + struct.pack("<IQQ", 3, 1 << 63, 0),
        "m.gguf: tensor count: found a count of 9223372036854775808, expected at most 0: "
        f"what the file can hold; {DAMAGED}",
    ),
    "an alignment that is none": (
        hand_made(ARCHITECTURE, setting(*ALIGNMENT, struct.pack("<I", 24))),
        f"m.gguf: general.alignment: found 24, expected a power of two; {DAMAGED}",
    ),
    "a format that we do not read": (
        hand_made(ARCHITECTURE, tensors=(tensor("w", dimensions=(256,), kind=13),)),
        "m.gguf: w: found format Q5_K, expected one of F32, F16, BF16, Q8_0, Q4_0, Q4_1, Q4_K, "
        "Q6_K; use a file quantised to one of these, or the original weights",
    ),
    "a format that nobody knows": (
        hand_made(ARCHITECTURE, tensors=(tensor("w", kind=999),)),
        "m.gguf: w: found format 999, expected one of F32, F16, BF16, Q8_0, Q4_0, Q4_1, Q4_K, "
        "Q6_K; use a file quantised to one of these, or the original weights",
    ),
    "rows that are no whole blocks": (
        hand_made(ARCHITECTURE, tensors=(tensor("w", dimensions=(33, 2), kind=8),)),
        f"m.gguf: w: found 33 columns of Q8_0, expected a multiple of 32; {DAMAGED}",
    ),
    "too many dimensions": (
        hand_made(ARCHITECTURE, tensors=(tensor("w", dimensions=(1, 1, 1, 1, 1)),)),
        f"m.gguf: w: found 5 dimensions, expected 1 to 4; {DAMAGED}",
    ),
    "an offset between alignments": (
        hand_made(ARCHITECTURE, tensors=(tensor("w", offset=8),)),
        f"m.gguf: w: found offset 8, expected a multiple of 32; {DAMAGED}",
    ),
    "a tensor twice": (
        hand_made(ARCHITECTURE, tensors=(tensor("w"), tensor("w"))),
        f"m.gguf: w: found the tensor twice, expected each tensor once; {DAMAGED}",
    ),
    "a tensor behind the end": (
        hand_made(ARCHITECTURE, tensors=(tensor("w", offset=1 << 40),), data=64),
        "m.gguf: w: found the file's end at byte 166, expected 128 bytes from byte "
        f"1099511627904; {DAMAGED}",
    ),
    "a tensor as large as the sky": (
        hand_made(ARCHITECTURE, tensors=(tensor("w", dimensions=(1 << 40, 1 << 40)),), data=8),
        "m.gguf: w: found the file's end at byte 118, expected 4835703278458516698824704 bytes "
        f"from byte 128; {DAMAGED}",
    ),
}


@pytest.mark.parametrize("fault", REFUSALS)
def test_a_broken_file_is_refused_with_a_sentence(tmp_path: Path, fault: str) -> None:
    content, sentence = REFUSALS[fault]
    assert refused(tmp_path / "m.gguf", content) == sentence


def test_every_truncation_is_refused(tmp_path: Path) -> None:
    whole = write_gguf(
        tmp_path / "whole.gguf",
        tensors={"a": numbers(1, 32)},
        settings={"x": ["a", "b"], "y": 1.5, "z": [1, 2]},
    ).read_bytes()
    for nbytes in range(len(whole)):
        assert refused(tmp_path / "m.gguf", whole[:nbytes]).startswith("m.gguf: ")


@given(data=st.data())
@settings(
    max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_any_damage_is_refused_or_harmless(tmp_path: Path, data: st.DataObject) -> None:
    whole = bytearray(
        write_gguf(
            tmp_path / "whole.gguf",
            tensors={"a": numbers(1, 32)},
            settings={"x": ["a", "b"], "y": 1.5, "z": [1, 2]},
        ).read_bytes()
    )
    for _ in range(data.draw(st.integers(1, 4))):
        whole[data.draw(st.integers(0, len(whole) - 1))] = data.draw(st.integers(0, 255))
    path = tmp_path / "m.gguf"
    path.write_bytes(whole)
    try:
        checkpoint = open_checkpoint(path)
    except CheckpointError:
        return
    for name in checkpoint.tensors:
        assert checkpoint.tensors[name].floats().size <= 32
