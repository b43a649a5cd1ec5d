"""The prepared core and its oracle, loaded once."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from transformers import AutoModelForCausalLM

from tests.end_to_end.model import CORE, GGUF, Model, open_model


@pytest.fixture(scope="session")
def model() -> Model:
    assert CORE.exists(), f"{CORE} is missing: run `make core`"
    return open_model(CORE)


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
