"""Which kernels a processor runs: the best of those whose instructions it has."""

from __future__ import annotations

from pathlib import Path

import pytest

from helios.device.cpu import choose_image, processor_features
from helios.values import StartRefused
from prepared.manifest import CodeImage

IMAGES = (
    CodeImage(name="best", resource="a", features=("avx512f", "avx512_vnni")),
    CodeImage(name="good", resource="b", features=("avx2",)),
    CodeImage(name="plain", resource="c", features=()),
)


@pytest.mark.parametrize(
    ("features", "name"),
    [
        ({"avx2", "avx512f", "avx512_vnni", "sse"}, "best"),
        ({"avx2", "avx512f"}, "good"),
        (set(), "plain"),
    ],
)
def test_the_first_image_that_runs_is_chosen(features: set[str], name: str) -> None:
    assert choose_image(IMAGES, frozenset(features)).name == name


def test_a_processor_that_runs_none_is_told_what_it_would_need() -> None:
    with pytest.raises(StartRefused) as refusal:
        choose_image(IMAGES[:2], frozenset({"sse"}))
    assert str(refusal.value) == (
        "this processor runs none of the core's kernels; it would need avx512f, avx512_vnni or avx2"
    )


def test_features_are_read_as_linux_names_them(tmp_path: Path) -> None:
    cpuinfo = tmp_path / "cpuinfo"
    cpuinfo.write_text("processor\t: 0\nflags\t\t: fpu avx2 sse\nprocessor\t: 1\n")
    assert processor_features(cpuinfo) == {"fpu", "avx2", "sse"}
    cpuinfo.write_text("nothing of the kind\n")
    assert processor_features(cpuinfo) == frozenset()
