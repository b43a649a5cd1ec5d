"""Bodies whose contract, manifests and resources do not fit together."""

from __future__ import annotations

import pytest

from prepared.body import ResourceKind
from prepared.completeness import check_body
from prepared.manifest import BufferRole, Target
from tests.treaty.carriers import body
from tests.treaty.paths import put
from tests.treaty.refusals import attack, refused
from tests.treaty.specimens import CONTRACTS

BODIES = {name: body(name) for name in CONTRACTS}
PLAIN = BODIES["plain"]
CONTRACT = "deployments[0].contract"
MANIFEST = "deployments[0].manifests"
TABLE = f"{CONTRACT}.model.engram_tables[0]"
CONFIDENCE = next(
    f"{MANIFEST}[1].buffers[{index}]"
    for index, found in enumerate(BODIES["speculating"].deployments[0].manifests[1].buffers)
    if found.name == "confidence"
)
RANKED = "contract.model.graphs[7].speculation.confidence_buffer"

RESOURCES = [
    attack(
        "nothing is deployed",
        "plain",
        {"deployments": ()},
        "body.deployments: found 0, expected one deployment",
    ),
    attack(
        "two deployments have one name",
        "plain",
        {"deployments": PLAIN.deployments * 2},
        "body.deployments: found 'default', expected each name once",
    ),
    *(
        attack(
            f"an {kind} has the id of {other}",
            "plain",
            {f"{kind}s[0].id": other},
            f"body.resources: found {other!r}, expected each name once",
        )
        for kind, other in (("executable", "weights.0"), ("executable", "tokenizer"))
    ),
    attack(
        "an asset has the id of weights",
        "plain",
        {"assets[1].id": "weights.0"},
        "body.resources: found 'weights.0', expected each name once",
    ),
    attack(
        "an executable is a tokenizer",
        "plain",
        {"executables[0].kind": ResourceKind.TOKENIZER},
        "body.executables[0].kind: "
        "found TOKENIZER, expected one of ['CUBIN', 'SHARED_OBJECT', 'TENSOR_MAPS']",
        clauses=("OB-20",),
    ),
    attack(
        "an asset is code",
        "plain",
        {"assets[0].kind": ResourceKind.CUBIN},
        "body.assets[0].kind: found CUBIN, expected one of ['CHAT_TEMPLATE', 'TOKENIZER']",
        clauses=("FI-31",),
    ),
    attack(
        "a frame has a digest too many",
        "plain",
        {"executables[0].stored.chunk_sha256": (bytes(32),) * 2},
        "body.executables[0].stored.chunk_sha256: found 2, expected 1 digests",
        clauses=("OB-20",),
    ),
    attack(
        "an asset has no digest",
        "plain",
        {"assets[1].stored.chunk_sha256": ()},
        "body.assets[1].stored.chunk_sha256: found 0, expected 1 digests",
        clauses=("OB-20",),
    ),
    attack(
        "weights have a digest too few",
        "plain",
        {"weights[0].chunk_sha256": (bytes(32),)},
        "body.weights[0].chunk_sha256: found 1, expected 2 digests",
    ),
]

REFERENCES = [
    attack(
        "the tokenizer is not there",
        "plain",
        {f"{CONTRACT}.model.frontend.tokenizer_asset": "words"},
        "contract.model.frontend.tokenizer_asset: found 'words', expected a TOKENIZER asset",
        clauses=("FI-31",),
    ),
    attack(
        "the tokenizer is a template",
        "plain",
        {f"{CONTRACT}.model.frontend.tokenizer_asset": "chat_template"},
        "contract.model.frontend.tokenizer_asset: "
        "found 'chat_template', expected a TOKENIZER asset",
        clauses=("FI-31",),
    ),
    attack(
        "the template is not there",
        "plain",
        {"assets": PLAIN.assets[:1]},
        "contract.model.frontend.template_asset: "
        "found 'chat_template', expected a CHAT_TEMPLATE asset",
        clauses=("FI-31",),
    ),
    attack(
        "a table's rows are not there",
        "engram",
        {f"{TABLE}.resource": "weights.0"},
        "contract.model.engram_tables[0].resource: found 'weights.0', "
        f"expected a weight resource of at least {264 << 20} bytes",
    ),
    attack(
        "a token map is not there",
        "engram",
        {f"{TABLE}.hash.token_map": "code"},
        "contract.model.engram_tables[0].hash.token_map: found 'code', expected a weight resource",
    ),
    attack(
        "a shard is of no rank",
        "engram",
        {f"{TABLE}.shards[1].rank": 2},
        "contract.model.engram_tables[0].shards[1].rank: found 2, expected below 2",
    ),
    attack(
        "kernels are not there",
        "plain",
        {f"{MANIFEST}[1].images[0].resource": "kernels"},
        "manifests[1].images[0].resource: found 'kernels', expected a SHARED_OBJECT executable",
    ),
    attack(
        "kernels are of another target",
        "plain",
        {f"{MANIFEST}[0].target": Target.CUDA},
        "manifests[0].images[0].resource: found 'code', expected a CUBIN executable",
    ),
    attack(
        "images of a target without kernels are not there",
        "plain",
        {f"{MANIFEST}[0].target": Target.SCRIPTED, f"{MANIFEST}[0].images[0].resource": "x"},
        "manifests[0].images[0].resource: found 'x', expected a code executable",
    ),
    attack(
        "weights leave their resource",
        "plain",
        {f"{MANIFEST}[1].buffers[0].resource_offset": 4 << 20},
        f"manifests[1].buffers[0].resource: found 'weights.0' up to {(4 << 20) + 4096}, "
        "expected an extent of a weight resource",
    ),
]

MANIFESTS = [
    attack(
        "no rank has a manifest",
        "plain",
        {MANIFEST: ()},
        "manifests: found none, expected one manifest a rank",
    ),
    attack(
        "ranks are out of order",
        "plain",
        {f"{MANIFEST}[0].rank": 1},
        "manifests[0].rank: found 1 of 2, expected 0 of 2",
    ),
    attack(
        "a rank is missing",
        "plain",
        {MANIFEST: PLAIN.deployments[0].manifests[:1]},
        "manifests[0].rank: found 0 of 2, expected 0 of 1",
    ),
    attack(
        "the contract disagrees with itself",
        "plain",
        {f"{CONTRACT}.prefill_tokens": 1025},
        "contract.prefill_tokens: found 1025, expected at most context_tokens, 1024",
    ),
    attack(
        "a manifest disagrees with itself",
        "plain",
        {f"{MANIFEST}[1].images": ()},
        "manifests[1].images: found none, expected compiled kernels",
    ),
    attack(
        "a manifest disagrees with the contract",
        "plain",
        {f"{MANIFEST}[1].programs[0].batch_capacity": 3},
        "contract.model.graphs[0].batch_capacity: found 4, expected the program's, 3",
    ),
    attack(
        "confidence has no buffer",
        "speculating",
        {f"{CONFIDENCE}.name": "doubt"},
        f"{RANKED}: found 'confidence', expected a SCRATCH buffer",
        clauses=("SG-26",),
    ),
    attack(
        "confidence is counted by the slot",
        "speculating",
        {f"{CONFIDENCE}.role": BufferRole.STATE},
        f"{RANKED}: found 'confidence', expected a SCRATCH buffer",
        clauses=("SG-26",),
    ),
    *(
        attack(
            f"confidence of {nbytes} bytes",
            "speculating",
            {f"{CONFIDENCE}.nbytes": nbytes},
            f"{RANKED}: found {nbytes} bytes aligned to 64, "
            "expected FP32 [2, 4, 7 or more] (SG-26)",
            clauses=("SG-26", "SG-28"),
        )
        for nbytes in (4 * 7 * 4, 2 * 4 * 6 * 4, 2 * 4 * 7 * 4 + 4, 2 * 4 * 7 * 2)
    ),
    attack(
        "confidence is not aligned to its elements",
        "speculating",
        {f"{CONFIDENCE}.alignment": 2},
        f"{RANKED}: found 224 bytes aligned to 2, expected FP32 [2, 4, 7 or more] (SG-26)",
        clauses=("SG-26",),
    ),
]


@pytest.mark.clause("OB-12")
@pytest.mark.parametrize(("name", "changes", "sentence"), [*RESOURCES, *REFERENCES, *MANIFESTS])
def test_a_body_that_does_not_fit_together_is_refused(
    name: str, changes: dict[str, object], sentence: str
) -> None:
    with refused(sentence):
        check_body(put(BODIES[name], changes))


@pytest.mark.parametrize("name", BODIES)
def test_a_whole_body_is_accepted(name: str) -> None:
    check_body(BODIES[name])


@pytest.mark.clause("SG-26")
def test_confidence_may_be_wider_than_every_output() -> None:
    check_body(put(BODIES["speculating"], {f"{CONFIDENCE}.nbytes": 2 * 4 * 9 * 4}))


def test_a_core_without_a_template_is_whole() -> None:
    plain = put(PLAIN, {f"{CONTRACT}.model.frontend.template_asset": None})
    check_body(put(plain, {"assets": PLAIN.assets[:1]}))


def test_a_table_that_needs_no_map_is_whole() -> None:
    check_body(put(BODIES["engram"], {f"{TABLE}.hash": None}))


def test_a_target_that_compiles_nothing_may_carry_any_code() -> None:
    check_body(put(PLAIN, {f"{MANIFEST}[0].target": Target.SCRIPTED}))
