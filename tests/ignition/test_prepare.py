"""From a checkpoint to a core by the command line: the same bytes twice, errors in a sentence."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from tokenizers import Tokenizer, models, pre_tokenizers

from ignition.export.reopen import check_resources, reopen
from tests.recording.test_llama import save_tiny

WORDS = ("<unk>", "<s>", "</s>", "hello", "world", "a", "b", "c")
IGNITION = Path(sys.executable).with_name("ignition")
HELIOS = Path(sys.executable).with_name("helios")


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    """A tiny Hugging Face folder with a tokenizer and a template."""
    folder = tmp_path / "tiny"
    save_tiny(folder, eos_token_id=[2, 5], head_dim=32)
    words = {word: index for index, word in enumerate(WORDS)}
    words |= {f"w{index}": index for index in range(len(WORDS), 256)}
    tokenizer = Tokenizer(models.WordLevel(words, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer.save(str(folder / "tokenizer.json"))
    template = "{% for m in messages %}{{ m['content'] }} {% endfor %}"
    (folder / "tokenizer_config.json").write_text(
        json.dumps({"chat_template": template, "bos_token": "<s>", "eos_token": "</s>"})
    )
    return folder


def ignition(home: Path, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return run(home, IGNITION, *arguments)


def run(home: Path, *command: str | Path) -> subprocess.CompletedProcess[str]:
    environment = {
        "HELIOS_HOME": str(home),
        "PATH": "/usr/bin:/bin",
        "XDG_CACHE_HOME": str(Path(__file__).parents[2] / "build" / "cache"),
    }
    return subprocess.run(
        [str(part) for part in command],
        capture_output=True,
        text=True,
        env=environment,
        timeout=280,
        check=False,
    )


@pytest.mark.parametrize("target", ["cpu", "reference"])
def test_the_same_checkpoint_gives_the_same_bytes(
    tmp_path: Path, checkpoint: Path, target: str
) -> None:
    bodies = []
    for home in ("first", "second"):  # two homes, so two keys
        out = tmp_path / home / "tiny.core"
        done = ignition(
            tmp_path / home,
            "prepare",
            checkpoint,
            "--out",
            out,
            "--target",
            target,
            "--concurrency",
            "4",
            "--prefill",
            "32",
            "--progress",
            "plain",
        )
        assert done.returncode == 0, done.stderr
        found = reopen(out)
        assert set(check_resources(found)) == set(found.locations)
        bodies.append(found.envelope.body)
    assert bodies[0] == bodies[1]


@pytest.mark.parametrize("target", ["cpu", "reference"])
def test_a_tiny_core_answers(tmp_path: Path, checkpoint: Path, target: str) -> None:
    out = tmp_path / "tiny.core"
    done = ignition(
        tmp_path,
        "prepare",
        checkpoint,
        "--out",
        out,
        "--target",
        target,
        "--concurrency",
        "2",
        "--prefill",
        "32",
        "--temperature",
        "0",
        "--context",
        "64",
    )
    assert done.returncode == 0, done.stderr
    assert ignition(tmp_path, "verify", out).returncode == 0
    page = ignition(tmp_path, "inspect", out)
    assert "DECODE" in page.stdout
    facts = json.loads(ignition(tmp_path, "inspect", out, "--json").stdout)
    assert facts["model"]["eos_token_ids"] == [2, 5]
    chat = subprocess.run(
        [str(HELIOS), "chat", str(out), "--cache-memory", "8M"],
        input="hello world a\n",
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env={"HELIOS_HOME": str(tmp_path), "PATH": "/usr/bin:/bin"},
    )
    assert chat.returncode == 0, chat.stderr
    assert chat.stdout.strip()


def test_both_targets_give_the_same_answer(tmp_path: Path, checkpoint: Path) -> None:
    answers = []
    for target in ("cpu", "reference"):
        out = tmp_path / f"{target}.core"
        done = ignition(
            tmp_path,
            "prepare",
            checkpoint,
            "--out",
            out,
            "--target",
            target,
            "--concurrency",
            "2",
            "--prefill",
            "32",
            "--temperature",
            "0",
            "--context",
            "64",
        )
        assert done.returncode == 0, done.stderr
        chat = subprocess.run(
            [str(HELIOS), "chat", str(out), "--cache-memory", "8M"],
            input="hello world a b c\nworld\n",
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
            env={"HELIOS_HOME": str(tmp_path), "PATH": "/usr/bin:/bin"},
        )
        answers.append(chat.stdout)
    assert answers[0] == answers[1]


BAD = {
    "no such file": (["nothing.gguf"], "nothing.gguf: found No such file or directory"),
    "not a model": (["text.gguf"], "text.gguf: found"),
    "too long a context": (
        ["tiny", "--context", "99999"],
        "--context: found 99999, expected at most",
    ),
    "no lanes": (["tiny", "--concurrency", "0"], "--concurrency: found 0, expected at least 1"),
    "no key": (["tiny", "--publisher", "acme/models"], "publisher acme/models: no key in"),
}


@pytest.mark.parametrize("case", BAD)
def test_what_cannot_be_prepared_is_told_in_a_sentence(
    tmp_path: Path, checkpoint: Path, case: str
) -> None:
    arguments, sentence = BAD[case]
    (tmp_path / "text.gguf").write_text("once upon a time")
    paths = [str(tmp_path / arguments[0]), *arguments[1:]]
    done = ignition(tmp_path, "prepare", *paths, "--out", tmp_path / "x.core")
    assert done.returncode == 1
    assert sentence in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "x.core").exists()


def test_wrong_usage_is_status_two(tmp_path: Path) -> None:
    assert ignition(tmp_path, "prepare").returncode == 2
    assert ignition(tmp_path, "polish").returncode == 2
    assert run(tmp_path, HELIOS, "serve").returncode == 2


def test_another_publisher_is_accepted_by_its_key_alone(tmp_path: Path, checkpoint: Path) -> None:
    maker, user = tmp_path / "maker", tmp_path / "user"
    key = ignition(maker, "keys", "new", "acme/models").stdout.strip()
    out = tmp_path / "acme.core"
    done = ignition(
        maker,
        "prepare",
        checkpoint,
        "--out",
        out,
        "--publisher",
        "acme/models",
        "--concurrency",
        "2",
        "--prefill",
        "32",
    )
    assert done.returncode == 0, done.stderr
    assert f"acme/models  {key}" in ignition(maker, "keys", "list").stdout
    refused = run(user, HELIOS, "doctor", out)
    assert "expected an accepted publisher" in refused.stdout
    assert run(user, HELIOS, "trust", "add", "acme/models", "00" * 32).returncode == 0
    assert "expected the accepted" in run(user, HELIOS, "doctor", out).stdout
    assert run(user, HELIOS, "trust", "remove", "acme/models").returncode == 0
    assert run(user, HELIOS, "trust", "add", "acme/models", key).returncode == 0
    assert run(user, HELIOS, "doctor", out).returncode == 0
