"""Logits of OpenVINO's own conversion of a GGUF file, for `bench/quality.py`.

Runs in an environment of its own, as the server does.  GenAI converts the file and keeps the model;
OpenVINO then runs it, with every position's logits at hand.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from pathlib import Path

import numpy as np
import openvino
import openvino_genai as genai


def converted(gguf: Path, folder: Path) -> openvino.Model:
    """The model that GenAI makes of a file and serves."""
    named = folder / gguf.name
    named.symlink_to(gguf.resolve())
    scheduler = genai.SchedulerConfig()
    scheduler.cache_size = 1
    properties = {"enable_save_ov_model": True}
    genai.ContinuousBatchingPipeline(str(named), scheduler, "CPU", properties)
    return openvino.Core().read_model(folder / "openvino_model.xml")


def main() -> None:
    """Read pieces of tokens, write the logits of their second halves."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--pieces", type=Path, required=True, help="JSON: a list of lists of ids")
    parser.add_argument("--out", type=Path, required=True, help="NPY: piece, position, token")
    said = parser.parse_args()
    found = []
    with tempfile.TemporaryDirectory() as folder:
        model = openvino.Core().compile_model(converted(said.model, Path(folder)), "CPU")
        for piece in json.loads(said.pieces.read_text()):
            ids = np.array([piece], np.int64)
            asked = model.create_infer_request()
            asked.infer(
                {
                    "input_ids": ids,
                    "attention_mask": np.ones_like(ids),
                    "position_ids": np.arange(len(piece))[None],
                    "beam_idx": np.zeros(1, np.int32),
                }
            )
            logits = asked.get_output_tensor().data[0]
            found.append(np.array(logits[len(piece) // 2 :], np.float32))
    np.save(said.out, np.stack(found))


if __name__ == "__main__":
    main()
