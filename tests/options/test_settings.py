"""An option is said on the command line, in a file or in the environment, and in one way."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from helios.cli import CORE, SERVING
from helios.options import Options, home_folder
from helios.settings import WrongUsage, described, settle

OPTIONS = (CORE, *SERVING)


def settled(
    said: dict[str, object] | None = None,
    *,
    file: Path | None = None,
    variables: dict[str, str] | None = None,
) -> dict[str, object]:
    found = settle(OPTIONS, said or {}, file=file, environment=variables or {})
    return {name: setting.value for name, setting in found.items()}


def written(folder: Path, text: str) -> Path:
    path = folder / "helios.toml"
    path.write_text(text)
    return path


def test_each_place_says_an_option_in_its_own_way(tmp_path: Path) -> None:
    file = written(
        tmp_path, 'port = 1\ncache-memory = "2G"\ncors-origin = ["https://a", "b://c"]\n'
    )
    expected = {"port": 1, "cache_memory": 2 << 30, "cors_origins": ("https://a", "b://c")}
    assert settled(file=file) == expected
    said = {"port": 1, "cache-memory": 2 << 30, "cors-origin": ["https://a", "b://c"]}
    assert settled(dict(said)) == expected
    variables = {
        "HELIOS_PORT": "1",
        "HELIOS_CACHE_MEMORY": "2G",
        "HELIOS_CORS_ORIGIN": "https://a, b://c",
    }
    assert settled(variables=variables) == expected


def test_places_that_agree_are_no_clash(tmp_path: Path) -> None:
    file = written(tmp_path, "port = 9\ncache-memory = 1024\n")
    variables = {"HELIOS_PORT": "9", "HELIOS_CACHE_MEMORY": "1K"}
    assert settled({"port": 9}, file=file, variables=variables)["port"] == 9


def test_a_clash_names_both_places(tmp_path: Path) -> None:
    file = written(tmp_path, "port = 9\n")
    for said, variables, places in (
        ({"port": 8}, {}, ("8 in the command line", f"9 in {file}")),
        ({}, {"HELIOS_PORT": "7"}, (f"9 in {file}", "7 in HELIOS_PORT")),
    ):
        with pytest.raises(WrongUsage) as refusal:
            settled(dict(said), file=file, variables=variables)
        assert str(refusal.value) == (
            f"port: found {places[0]} and {places[1]}, expected one value"
        )


BAD = [
    ("port = 'x'", "port: found 'x', expected a number"),
    ("port = true", "port: found True, expected a number"),
    ("port = 1.5", "port: found 1.5, expected a number"),
    ("host = 5", "host: found 5, expected a text"),
    ("cache-memory = '2X'", "cache-memory: found '2X', expected bytes, or a number with K, M or G"),
    ("cache-memory = -1", "cache-memory: found '-1', expected bytes"),
    ("cors-origin = 'x'", "cors-origin: found 'x', expected a list"),
    ("cors-origin = [1]", "cors-origin[0]: found 1, expected a text"),
    ("device = 'abacus'", "device: found 'abacus', expected one of cpu, reference, scripted"),
    ("history-drafting = true", "found 'history-drafting', expected one of core, "),
    ("api-keys = ['x']", "found 'api-keys', expected one of core, "),
    ("port = ", "--config: "),
]


@pytest.mark.parametrize(("text", "sentence"), BAD, ids=[case[0] for case in BAD])
def test_a_file_that_says_what_cannot_be_is_refused_by_name(
    tmp_path: Path, text: str, sentence: str
) -> None:
    with pytest.raises(WrongUsage) as refusal:
        settled(file=written(tmp_path, text))
    assert sentence in str(refusal.value)


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(WrongUsage, match="none.toml: No such file"):
        settled(file=tmp_path / "none.toml")


@pytest.mark.parametrize("value", ["tcp://10.0.0.1:80", "", "1.5"])
def test_a_variable_that_says_what_cannot_be_is_refused_by_name(value: str) -> None:
    with pytest.raises(WrongUsage) as refusal:
        settled(variables={"HELIOS_PORT": value})
    assert str(refusal.value) == f"HELIOS_PORT: found {value!r}, expected a number"


def test_variables_of_others_are_left_alone() -> None:
    assert settled(variables={"HELIOS_HOME": "x", "HELIOS_SERVICE_HOST": "10.0.0.1"}) == {}


def test_every_option_sets_a_field() -> None:
    fields = set(Options.__struct_fields__) - {"home"}
    assert {option.attribute for option in OPTIONS} == fields


def test_what_is_printed_can_be_read_again(tmp_path: Path) -> None:
    said = {
        "core": tmp_path / 'a "core"',
        "port": 9,
        "cors-origin": ["https://a"],
        "cache-memory": 7,
        "token-gap": 5,
    }
    first = settle(OPTIONS, said, file=None, environment={})
    text = described(OPTIONS, first, {"host": "127.0.0.1"})
    again = settled(file=written(tmp_path, text))
    assert again == {name: setting.value for name, setting in first.items()} | {"host": "127.0.0.1"}


# ------------------------------------------------------------- the command


def command(*words: str, **variables: str) -> subprocess.CompletedProcess[str]:
    kept = {name: text for name, text in os.environ.items() if not name.startswith("HELIOS_")}
    return subprocess.run(
        [sys.executable, "-c", "from helios.cli import main; main()", "serve", *words],
        env={**kept, "HELIOS_HOME": str(home_folder()), **variables},
        capture_output=True,
        text=True,
        check=False,
    )


def test_print_config_shows_everything_but_keys(tmp_path: Path) -> None:
    keys = tmp_path / "keys"
    keys.write_text("# ours\nsecret-1\nsecret-2\n")
    done = command("--print-config", "x.core", "--api-key-file", str(keys), HELIOS_PORT="99")
    assert done.returncode == 0, done.stderr
    assert "port = 99  # HELIOS_PORT" in done.stdout
    assert 'core = "x.core"  # the command line' in done.stdout
    assert 'host = "127.0.0.1"  # default' in done.stdout
    assert "# API keys: 2, hidden" in done.stdout
    assert "secret" not in done.stdout + done.stderr


@pytest.mark.parametrize(
    ("words", "variables", "status", "sentence"),
    [
        ((), {}, 2, "core: found nothing, expected the core file"),
        (("x.core", "--port", "1"), {"HELIOS_PORT": "2"}, 2, "expected one value"),
        (("x.core", "--history-drafting"), {}, 2, "unrecognized arguments: --history-drafting"),
        (("x.core", "--api-key", "secret"), {}, 2, "unrecognized arguments"),
        (("no-such.core",), {}, 1, "no-such.core"),
        (("x.core", "--print-config", "--api-key-file", "none"), {}, 1, "none: No such file"),
    ],
)
def test_wrong_usage_is_two_and_failure_is_one(
    words: tuple[str, ...], variables: dict[str, str], status: int, sentence: str
) -> None:
    done = command(*words, **variables)
    assert done.returncode == status
    assert sentence in done.stderr


def test_the_launcher_reads_no_toml_and_no_keys_that_nobody_wants() -> None:
    code = "import sys, helios.cli; print({'tomllib', 'helios.keys', 'hashlib'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"
