"""An option of the device is for a core that has such a device, or it is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from helios.bootstrap.devices import check_device
from helios.options import Options
from helios.values import StartRefused
from prepared.manifest import Target


def options(**said: Any) -> Options:
    return Options(core=Path("x.core"), home=Path("home"), **said)


@pytest.mark.parametrize(
    ("said", "target", "sentence"),
    [
        ({"threads": 1}, Target.REFERENCE, "--threads: found 1, expected none: the core is "),
        ({"affinity": "0"}, Target.SCRIPTED, "--affinity: found 0, expected none: the core is "),
        ({"huge_pages": "off"}, Target.REFERENCE, "--huge-pages: found off, expected none: the"),
        ({"device": "cpu"}, Target.REFERENCE, "--device: found cpu, expected reference, which"),
        ({"script": Path("s")}, Target.CPU, "--script: found s, expected none: the core has a"),
    ],
)
def test_what_the_cores_device_cannot_honour_is_refused(
    said: dict[str, Any], target: Target, sentence: str
) -> None:
    with pytest.raises(StartRefused) as refusal:
        check_device(options(**said), target)
    assert str(refusal.value).startswith(sentence)


def test_what_it_can_honour_is_taken() -> None:
    check_device(options(threads=1, affinity="0", huge_pages="on", device="cpu"), Target.CPU)
