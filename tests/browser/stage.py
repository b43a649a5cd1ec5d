"""A core without weights, whose answers are a script's: everything around them is real."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final
from unittest.mock import patch

from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

from ignition.cli import parser

TEMPLATE: Final = """\
{%- for m in messages %}{{ '<|im_start|>' + m.role + '\\n' + (m.content or '') }}
{%- for c in m.tool_calls or [] %}{{ c.function.name }}{{ c.function.arguments | tojson }}
{%- endfor %}{{ '<|im_end|>\\n' }}{%- endfor %}
{%- if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{%- endif %}"""


def make_core(folder: Path) -> None:
    """Write `stage.core`, and the keys to open it, into a folder."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=300,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        special_tokens=["<|im_start|>", "<|im_end|>"],
        show_progress=False,
    )
    tokenizer.train_from_iterator(["the weather is fine"], trainer)
    tokenizer.add_tokens(["<think>", "</think>", "<tool_call>", "</tool_call>"])
    tokenizer.save(str(folder / "tokenizer.json"))
    (folder / "tokenizer_config.json").write_text(json.dumps({"eos_token": "<|im_end|>"}))
    template = folder / "template.jinja"
    template.write_text(TEMPLATE)
    files = ["--tokenizer", str(folder / "tokenizer.json"), "--template", str(template)]
    syntax = ["--tools", "hermes", "--reasoning", "think"]
    options = parser().parse_args(
        ["scripted", *files, *syntax, "--out", str(folder / "stage.core")]
    )
    with patch.dict("os.environ", HELIOS_HOME=str(folder)):
        options.run(options)
