"""The prepared core and its oracle, loaded once."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from transformers import AutoModelForCausalLM

from tests.end_to_end.model import CORE, GGUF, Model, open_model


@pytest.fixture(scope="session")
def model() -> Iterator[Model]:
    assert CORE.exists(), f"{CORE} is missing: run `make core`"
    model = open_model(CORE)
    yield model
    model.device.close()


@pytest.fixture(scope="session")
def oracle() -> torch.nn.Module:
    """transformers' own Llama over the dequantised weights, in float32."""
    assert GGUF.exists(), f"{GGUF} is missing: run `make core`"
    loaded = AutoModelForCausalLM.from_pretrained(
        str(GGUF.parent), gguf_file=GGUF.name, dtype=torch.float32
    )
    found: torch.nn.Module = loaded.eval()
    return found


@pytest.fixture(scope="session")
def passages() -> str:
    return (Path(__file__).parent / "passages.txt").read_text()
