"""The Llama recipe against transformers' own Llama, on tiny checkpoints and the real one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM

from ignition.recipes.llama import llama
from ignition.weights.checkpoint import CheckpointError, open_checkpoint
from tests.recording.world import World

SIZES: dict[str, Any] = {
    "vocab_size": 256,
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "max_position_embeddings": 128,
    "rms_norm_eps": 1e-5,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
TOKENS = [int(token) for token in np.random.default_rng(5).integers(0, 256, 37)]

ROTARY: dict[str, dict[str, Any]] = {
    "plain": {"rope_type": "default", "rope_theta": 10000.0},
    "linear": {"rope_type": "linear", "factor": 4.0, "rope_theta": 10000.0},
    "llama3": {
        "rope_type": "llama3",
        "factor": 8.0,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "original_max_position_embeddings": 16,
        "rope_theta": 500000.0,
    },
    "yarn": {
        "rope_type": "yarn",
        "factor": 4.0,
        "original_max_position_embeddings": 16,
        "rope_theta": 10000.0,
    },
}


def save_tiny(folder: Path, **changes: Any) -> LlamaForCausalLM:
    """A tiny random model, every parameter away from its initial value."""
    torch.manual_seed(3)
    model = LlamaForCausalLM(LlamaConfig(**{**SIZES, **changes})).float().eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.05)
    model.save_pretrained(folder, safe_serialization=True)
    return model


def oracle(model: LlamaForCausalLM, tokens: list[int]) -> np.ndarray:
    with torch.no_grad():
        logits: np.ndarray = model(torch.tensor([tokens])).logits[0].numpy()
    return logits


@pytest.mark.parametrize("rotary", ROTARY)
@pytest.mark.parametrize("tied", [True, False])
def test_the_recording_computes_the_model(tmp_path: Path, rotary: str, tied: bool) -> None:
    model = save_tiny(tmp_path, rope_parameters=ROTARY[rotary], tie_word_embeddings=tied)
    world = World(llama(open_checkpoint(tmp_path), context_tokens=None))
    expected = oracle(model, TOKENS)
    world.admit(0)
    for start, end in ((0, 5), (5, 6), (6, 20)):
        found = world.prefill({0: TOKENS[start:end]})
        np.testing.assert_allclose(found[0], expected[end - 1], rtol=2e-4, atol=2e-5)


def test_decoding_continues_what_was_prefilled(tmp_path: Path) -> None:
    model = save_tiny(tmp_path, rope_parameters=ROTARY["plain"])
    world = World(llama(open_checkpoint(tmp_path), context_tokens=None))
    world.admit(1)
    tokens = TOKENS[:9]
    tokens.append(int(world.prefill({1: tokens})[0].argmax()))
    for _ in range(20):
        found = world.decode(1)
        np.testing.assert_allclose(found[0], oracle(model, tokens)[-1], rtol=2e-4, atol=2e-5)
        tokens.append(int(found[0].argmax()))


def test_requests_together_are_requests_alone(tmp_path: Path) -> None:
    model = save_tiny(tmp_path, rope_parameters=ROTARY["plain"])
    world = World(llama(open_checkpoint(tmp_path), context_tokens=None))
    world.admit(3, 0, 2)
    prompts = {3: TOKENS[:7], 0: TOKENS[7:8], 2: TOKENS[8:30]}
    found = world.prefill(prompts)
    for row, prompt in zip(found, prompts.values(), strict=True):
        np.testing.assert_allclose(row, oracle(model, prompt)[-1], rtol=2e-4, atol=2e-5)


@pytest.mark.parametrize("tied", [True, False])
def test_a_scored_prefill_scores_every_row_and_goes_on_as_any_other(
    tmp_path: Path, tied: bool
) -> None:
    model = save_tiny(tmp_path, rope_parameters=ROTARY["plain"], tie_word_embeddings=tied)
    recipe = llama(open_checkpoint(tmp_path), context_tokens=None)
    scored, plain = World(recipe), World(recipe)
    for world in (scored, plain):
        world.admit(1, 2, logprobs=3)
    prompts = {1: TOKENS[:9], 2: TOKENS[9:14]}
    targets = {1: [*TOKENS[1:9], -1], 2: [*TOKENS[10:14], -1]}
    scored.prefill(prompts, targets=targets)
    plain.prefill(prompts)
    for name in ("lane_tokens", "logprob", "top_ids", "top_logprobs", "pending", "consumed"):
        np.testing.assert_array_equal(scored.memory[name], plain.memory[name])
    row = 0
    for slot, prompt in prompts.items():
        wide = torch.log_softmax(torch.tensor(oracle(model, prompt)).double(), -1).numpy()
        for place, target in enumerate(targets[slot]):
            if target >= 0:
                found = scored.memory["token_logprob"][row]
                assert found == pytest.approx(wide[place, target], abs=1e-4)
                best = np.argsort(-wide[place], kind="stable")[:3]
                assert scored.memory["token_top_ids"][row, :4].tolist() == [*best, -1]
            row += 1


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "biases": ({"attention_bias": True}, "attention_bias: found true, expected false"),
    "another activation": ({"hidden_act": "gelu"}, "hidden_act: found gelu, expected silu"),
    "dynamic scaling": (
        {"rope_parameters": {"rope_type": "dynamic", "factor": 2.0, "rope_theta": 1e4}},
        "rope_parameters.rope_type: found dynamic, expected default, linear, llama3 or yarn",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_the_recipe_cannot_express_is_refused_by_name(tmp_path: Path, case: str) -> None:
    changes, sentence = REFUSED[case]
    save_tiny(tmp_path, **changes)
    with pytest.raises(CheckpointError, match=sentence.replace(".", r"\.")):
        llama(open_checkpoint(tmp_path), context_tokens=None)


def test_a_tensor_that_nothing_uses_is_refused_by_name(tmp_path: Path) -> None:
    from safetensors.torch import load_file, save_file

    save_tiny(tmp_path)
    path = tmp_path / "model.safetensors"
    tensors = load_file(path)
    tensors["model.layers.0.self_attn.q_norm.weight"] = torch.ones(16)
    save_file(tensors, path, metadata={"format": "pt"})
    with pytest.raises(CheckpointError, match="q_norm"):
        llama(open_checkpoint(tmp_path), context_tokens=None)


def test_a_setting_that_nothing_knows_is_refused_by_name(tmp_path: Path) -> None:
    save_tiny(tmp_path, logit_softcap_nobody_knows=3.0)
    with pytest.raises(CheckpointError, match="logit_softcap_nobody_knows"):
        llama(open_checkpoint(tmp_path), context_tokens=None)
