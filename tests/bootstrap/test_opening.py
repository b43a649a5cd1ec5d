"""A core is opened once for every process of a start, or the user is told why not."""

from __future__ import annotations

from pathlib import Path

import pytest

from helios.bootstrap.opening import REFUSALS, open_for, refuse
from helios.options import Options
from prepared.trust import write_trust
from tests.artifact.cores import TRUST, make_core


def test_an_opened_core_comes_with_its_options_and_limits(tmp_path: Path) -> None:
    write_trust(tmp_path / "trust.json", TRUST)
    options = Options(core=make_core(tmp_path / "small.core"), home=tmp_path, queue_capacity=3)
    opened = open_for(options, began=5)
    assert opened.core.path == options.core
    assert (opened.limits.queue_capacity, opened.began) == (3, 5)


@pytest.mark.parametrize(
    ("name", "port", "sentence"),
    [
        ("none.core", 0, "none.core: file: found No such file or directory"),
        ("short.core", 0, "short.core: header: found 5 bytes, expected 48 bytes"),
        ("small.core", -1, "helios: --port: found -1, expected 0 to 65535"),
    ],
)
def test_a_refusal_is_a_sentence_and_a_core_is_named_where_it_is_at_fault(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    name: str,
    port: int,
    sentence: str,
) -> None:
    write_trust(tmp_path / "trust.json", TRUST)
    (tmp_path / "short.core").write_bytes(b"short")
    make_core(tmp_path / "small.core")
    options = Options(core=tmp_path / name, home=tmp_path, port=port)
    with pytest.raises(REFUSALS) as caught:
        open_for(options, began=0)
    assert refuse(caught.value, options) == 1
    assert sentence in capsys.readouterr().err
