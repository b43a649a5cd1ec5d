"""Llama and its relatives: pre-norm blocks, rotary positions, grouped heads, SwiGLU.

Sources: Touvron et al. 2023 (arXiv 2302.13971); the settings of GGUF files and of Hugging
Face's `config.json`.  What is not expressed here (biases, windows, experts, other
activations) is refused by the name of its setting or tensor.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from ignition.preparation.rotary import Banded, Divided, Linear, Rotary, Scaling, Unscaled, Yarn
from ignition.preparation.weights import ModelSizes, ModelWeights, WeightSource
from ignition.record.tape import Operand, Planes, Rows, Tape
from ignition.weights.checkpoint import Checkpoint, CheckpointError, Kind, Settings


@dataclass(frozen=True, slots=True, kw_only=True)
class Llama:
    """A model of this family: its sizes, its weights, and how it is recorded."""

    sizes: ModelSizes
    weights: ModelWeights
    epsilon: float

    def record(self, tape: Tape, rows: Rows, planes: Planes) -> Operand:
        """Logits of the rows that sample."""
        sizes = self.sizes
        table = tape.weight("embedding", sizes.vocabulary, sizes.hidden)
        hidden = tape.embed(rows.tokens, table)
        for layer in range(sizes.layers):
            with tape.scope(f"layer{layer}"):
                hidden = tape.add(hidden, self.attention(tape, hidden, rows, planes, layer=layer))
                hidden = tape.add(hidden, self.feed_forward(tape, hidden, layer=layer))
        last = tape.rms_norm(
            tape.pick(hidden, rows.sample_rows),
            tape.weight("final_norm", sizes.hidden),
            epsilon=self.epsilon,
        )
        if sizes.tied:
            return tape.linear(last, table)
        return tape.linear(last, tape.weight("head", sizes.vocabulary, sizes.hidden))

    def attention(
        self, tape: Tape, hidden: Operand, rows: Rows, planes: Planes, *, layer: int
    ) -> Operand:
        """Norm, query, key and value, rotation, history, attention, output."""
        sizes = self.sizes
        prefix = f"layer{layer}"
        normed = tape.rms_norm(
            hidden, tape.weight(f"{prefix}.attention_norm", sizes.hidden), epsilon=self.epsilon
        )
        wide, narrow = sizes.heads * sizes.width, sizes.key_heads * sizes.width
        query = tape.linear(normed, tape.weight(f"{prefix}.query", wide, sizes.hidden))
        key = tape.linear(normed, tape.weight(f"{prefix}.key", narrow, sizes.hidden))
        value = tape.linear(normed, tape.weight(f"{prefix}.value", narrow, sizes.hidden))
        turns = tape.weight("turns", sizes.context_tokens, sizes.width)
        query = tape.rotate(query, rows, turns, width=sizes.width)
        key = tape.rotate(key, rows, turns, width=sizes.width)
        tape.store(planes, rows, key, value, layer=layer)
        attended = tape.attend(planes, rows, query, layer=layer, scale=sizes.width**-0.5)
        return tape.linear(attended, tape.weight(f"{prefix}.output", sizes.hidden, wide))

    def feed_forward(self, tape: Tape, hidden: Operand, *, layer: int) -> Operand:
        """Norm, gate and up, down."""
        sizes = self.sizes
        prefix = f"layer{layer}"
        normed = tape.rms_norm(
            hidden, tape.weight(f"{prefix}.feed_forward_norm", sizes.hidden), epsilon=self.epsilon
        )
        gate = tape.linear(normed, tape.weight(f"{prefix}.gate", sizes.inner, sizes.hidden))
        up = tape.linear(normed, tape.weight(f"{prefix}.up", sizes.inner, sizes.hidden))
        down = tape.weight(f"{prefix}.down", sizes.hidden, sizes.inner)
        return tape.linear(tape.silu_gate(gate, up), down)


def llama(checkpoint: Checkpoint, *, context_tokens: int | None) -> Llama:
    """The recipe of a checkpoint; refuses what it cannot express."""
    read = read_gguf if checkpoint.kind is Kind.GGUF else read_hugging_face
    sizes, rotary, epsilon, names = read(checkpoint)
    context = context_tokens or sizes.context_tokens
    if context > sizes.context_tokens:
        raise CheckpointError(
            "--context",
            str(context),
            expected=f"at most the checkpoint's {sizes.context_tokens}",
            remedy="ask for a shorter context",
        )
    sizes = sizes.with_context(context)
    weights = take_weights(checkpoint, sizes, rotary, names)
    refuse_leftovers(checkpoint)
    return Llama(sizes=sizes, weights=weights, epsilon=epsilon)


# ---------------------------------------------------------------- tensors


@dataclass(frozen=True, slots=True, kw_only=True)
class Names:
    """How a publisher calls the tensors; `{0}` is the layer."""

    embedding: str
    final_norm: str
    head: str
    layer: Mapping[str, str]
    pairs_apart: bool  # rotary pairs lie half a head apart


GGUF_NAMES: Final = Names(
    embedding="token_embd.weight",
    final_norm="output_norm.weight",
    head="output.weight",
    layer={
        "attention_norm": "blk.{0}.attn_norm.weight",
        "query": "blk.{0}.attn_q.weight",
        "key": "blk.{0}.attn_k.weight",
        "value": "blk.{0}.attn_v.weight",
        "output": "blk.{0}.attn_output.weight",
        "feed_forward_norm": "blk.{0}.ffn_norm.weight",
        "gate": "blk.{0}.ffn_gate.weight",
        "up": "blk.{0}.ffn_up.weight",
        "down": "blk.{0}.ffn_down.weight",
    },
    pairs_apart=False,
)

HUGGING_FACE_NAMES: Final = Names(
    embedding="model.embed_tokens.weight",
    final_norm="model.norm.weight",
    head="lm_head.weight",
    layer={
        "attention_norm": "model.layers.{0}.input_layernorm.weight",
        "query": "model.layers.{0}.self_attn.q_proj.weight",
        "key": "model.layers.{0}.self_attn.k_proj.weight",
        "value": "model.layers.{0}.self_attn.v_proj.weight",
        "output": "model.layers.{0}.self_attn.o_proj.weight",
        "feed_forward_norm": "model.layers.{0}.post_attention_layernorm.weight",
        "gate": "model.layers.{0}.mlp.gate_proj.weight",
        "up": "model.layers.{0}.mlp.up_proj.weight",
        "down": "model.layers.{0}.mlp.down_proj.weight",
    },
    pairs_apart=True,
)


def take_weights(
    checkpoint: Checkpoint, sizes: ModelSizes, rotary: Rotary, names: Names
) -> ModelWeights:
    """Every tensor of the family, by our name."""
    wide, narrow = sizes.heads * sizes.width, sizes.key_heads * sizes.width
    shapes: Mapping[str, tuple[int, ...]] = {
        "attention_norm": (sizes.hidden,),
        "query": (wide, sizes.hidden),
        "key": (narrow, sizes.hidden),
        "value": (narrow, sizes.hidden),
        "output": (sizes.hidden, wide),
        "feed_forward_norm": (sizes.hidden,),
        "gate": (sizes.inner, sizes.hidden),
        "up": (sizes.inner, sizes.hidden),
        "down": (sizes.hidden, sizes.inner),
    }
    turning = {"query": sizes.heads, "key": sizes.key_heads} if names.pairs_apart else {}
    tensors = checkpoint.tensors
    table = (sizes.vocabulary, sizes.hidden)
    found = {
        "embedding": WeightSource(tensors.take(names.embedding, shape=table)),
        "final_norm": WeightSource(tensors.take(names.final_norm, shape=(sizes.hidden,))),
    }
    if not sizes.tied:
        found["head"] = WeightSource(tensors.take(names.head, shape=table))
    for layer in range(sizes.layers):
        for name, shape in shapes.items():
            source = tensors.take(names.layer[name].format(layer), shape=shape)
            found[f"layer{layer}.{name}"] = WeightSource(source, turning.get(name))
    return ModelWeights(
        matrices={name: source for name, source in found.items() if source.is_matrix},
        vectors={name: source for name, source in found.items() if not source.is_matrix},
        rotary=rotary,
    )


def refuse_leftovers(checkpoint: Checkpoint) -> None:
    """A tensor or setting that nothing took belongs to a model that we do not understand."""
    if left := checkpoint.tensors.untaken():
        raise CheckpointError(
            f"tensor {left[0]}",
            "a tensor that the llama recipe does not use",
            expected="the tensors of a Llama model",
            remedy="this architecture needs a recipe of its own",
        )
    prefix = f"{checkpoint.architecture}." if checkpoint.kind is Kind.GGUF else ""
    harmless = () if prefix else HARMLESS
    for key in checkpoint.settings.untaken(prefix):
        if key in harmless or key.split(".")[0] in harmless:
            continue
        raise CheckpointError(
            key,
            "a setting that the llama recipe does not know",
            expected="the settings of a Llama model",
            remedy="this architecture needs a recipe of its own",
        )


# ------------------------------------------------------------------- GGUF

Reading = tuple[ModelSizes, Rotary, float, Names]


def read_gguf(checkpoint: Checkpoint) -> Reading:
    """Sizes and rotary form of a GGUF file."""
    settings, prefix = checkpoint.settings, checkpoint.architecture
    heads = settings.take(f"{prefix}.attention.head_count", int)
    hidden = settings.take(f"{prefix}.embedding_length", int)
    width = settings.take(f"{prefix}.attention.key_length", int, default=hidden // heads)
    expect(settings, f"{prefix}.attention.value_length", width)
    expect(settings, f"{prefix}.expert_count", 0)
    expect(settings, f"{prefix}.expert_used_count", 0)
    table = checkpoint.tensors["token_embd.weight"].shape
    sizes = ModelSizes(
        layers=settings.take(f"{prefix}.block_count", int),
        hidden=hidden,
        inner=settings.take(f"{prefix}.feed_forward_length", int),
        heads=heads,
        key_heads=settings.take(f"{prefix}.attention.head_count_kv", int, default=heads),
        width=width,
        vocabulary=settings.take(f"{prefix}.vocab_size", int, default=table[0]),
        context_tokens=settings.take(f"{prefix}.context_length", int),
        tied="output.weight" not in checkpoint.tensors,
    )
    rotary = Rotary(
        width=width,
        turned=settings.take(f"{prefix}.rope.dimension_count", int, default=width),
        theta=settings.take(f"{prefix}.rope.freq_base", float, default=10000.0),
        scaling=gguf_scaling(checkpoint),
    )
    epsilon = settings.take(f"{prefix}.attention.layer_norm_rms_epsilon", float)
    return sizes, rotary, epsilon, GGUF_NAMES


def gguf_scaling(checkpoint: Checkpoint) -> Scaling:
    """The rotary scaling of a GGUF file."""
    settings, prefix = checkpoint.settings, f"{checkpoint.architecture}.rope"
    if "rope_freqs.weight" in checkpoint.tensors:
        source = checkpoint.tensors["rope_freqs.weight"]
        checkpoint.tensors.take(source.name, shape=source.shape)
        return Divided(factors=tuple(float(factor) for factor in source.floats()))
    kind = settings.take(f"{prefix}.scaling.type", str, default="none")
    if kind == "none":
        legacy = settings.take(f"{prefix}.scale_linear", float, default=1.0)
        return Unscaled() if legacy == 1.0 else Linear(factor=legacy)
    factor = settings.take(f"{prefix}.scaling.factor", float)
    original = settings.take(f"{prefix}.scaling.original_context_length", int, default=0)
    settings.take(f"{prefix}.scaling.finetuned", bool, default=True)
    if kind == "linear":
        return Linear(factor=factor)
    if kind == "yarn" and original:
        return Yarn(
            factor=factor,
            original_tokens=original,
            attention_factor=settings.take(f"{prefix}.scaling.attn_factor", float, default=None),
        )
    raise CheckpointError(
        f"{prefix}.scaling.type",
        kind,
        expected="none, linear or yarn with its original context length",
        remedy="this scaling is not implemented",
    )


def expect(settings: Settings, key: str, value: int) -> None:
    """Refuse a setting that changes the architecture."""
    found = settings.take(key, int, default=value)
    if found != value:
        raise CheckpointError(
            key,
            str(found),
            expected=str(value),
            remedy="the llama recipe does not express it",
        )


# ----------------------------------------------------------- Hugging Face

HARMLESS: Final = frozenset(
    {
        "_name_or_path",
        "architectures",
        "attention_dropout",
        "bos_token_id",
        "eos_token_id",
        "pad_token_id",
        "dtype",
        "initializer_range",
        "is_llama_config",
        "model_type",
        "torch_dtype",
        "transformers_version",
        "use_cache",
        "transformers.js_config",
        "transformers",
        "name_or_path",
        "unk_token_id",
        "output_attentions",
        "output_hidden_states",
        "return_dict",
        "chunk_size_feed_forward",
        "id2label",
        "label2id",
        "problem_type",
        "is_encoder_decoder",
        "tokenizer_class",
    }
)
"""Settings of a config.json that change nothing in a forward pass of this family."""

FIXED_TEXT: Final = {"hidden_act": "silu"}
FIXED_FALSE: Final = ("attention_bias", "mlp_bias", "rope_interleaved", "use_sliding_window")


def read_hugging_face(checkpoint: Checkpoint) -> Reading:
    """Sizes and rotary form of a config.json."""
    settings = checkpoint.settings
    for key, text in FIXED_TEXT.items():
        found = settings.take(key, str, default=text)
        if found != text:
            raise CheckpointError(
                key, found, expected=text, remedy="the llama recipe does not express it"
            )
    for key in FIXED_FALSE:
        if settings.take(key, bool, default=False):
            raise CheckpointError(
                key, "true", expected="false", remedy="the llama recipe does not express it"
            )
    expect(settings, "pretraining_tp", 1)
    if settings.take("sliding_window", int, default=None) is not None:
        raise CheckpointError(
            "sliding_window",
            "a window",
            expected="null",
            remedy="the llama recipe does not express it",
        )
    heads = settings.take("num_attention_heads", int)
    hidden = settings.take("hidden_size", int)
    width = settings.take("head_dim", int, default=hidden // heads)
    sizes = ModelSizes(
        layers=settings.take("num_hidden_layers", int),
        hidden=hidden,
        inner=settings.take("intermediate_size", int),
        heads=heads,
        key_heads=settings.take("num_key_value_heads", int, default=heads),
        width=width,
        vocabulary=settings.take("vocab_size", int),
        context_tokens=settings.take("max_position_embeddings", int),
        tied=settings.take("tie_word_embeddings", bool, default=False),
    )
    partial = settings.take("partial_rotary_factor", float, default=1.0)
    form = "rope_parameters" if "rope_parameters.rope_theta" in settings else "rope_scaling"
    theta = settings.take(
        f"{form}.rope_theta", float, default=settings.take("rope_theta", float, default=10000.0)
    )
    rotary = Rotary(
        width=width,
        turned=int(width * partial),
        theta=theta,
        scaling=hugging_face_scaling(settings, form, context=sizes.context_tokens),
    )
    epsilon = settings.take("rms_norm_eps", float, default=1e-6)
    return sizes, rotary, epsilon, HUGGING_FACE_NAMES


def hugging_face_scaling(settings: Settings, form: str, *, context: int) -> Scaling:
    """The rotary scaling of a config.json, older and newer spelling."""
    for key in ("rope_scaling", "rope_parameters"):
        if settings.is_null(key):
            settings.take(key, str, default=None)
    legacy = settings.take(f"{form}.type", str, default="default")
    kind = settings.take(f"{form}.rope_type", str, default=legacy)
    if kind == "default":
        return Unscaled()
    factor = settings.take(f"{form}.factor", float)
    original = settings.take(f"{form}.original_max_position_embeddings", int, default=context)
    match kind:
        case "linear":
            return Linear(factor=factor)
        case "llama3":
            return Banded(
                factor=factor,
                low=settings.take(f"{form}.low_freq_factor", float),
                high=settings.take(f"{form}.high_freq_factor", float),
                original_tokens=original,
            )
        case "yarn":
            return Yarn(
                factor=factor,
                original_tokens=original,
                beta_fast=settings.take(f"{form}.beta_fast", float, default=32.0),
                beta_slow=settings.take(f"{form}.beta_slow", float, default=1.0),
                attention_factor=settings.take(f"{form}.attention_factor", float, default=None),
                truncate=settings.take(f"{form}.truncate", bool, default=True),
            )
    raise CheckpointError(
        f"{form}.rope_type",
        kind,
        expected="default, linear, llama3 or yarn",
        remedy="this scaling is not implemented",
    )
