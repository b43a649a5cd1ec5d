"""A core that Ignition prepared from a real checkpoint; skipped where none was prepared."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest
import tokenizers

from helios.artifact.core_file import OpenCore, open_core
from helios.artifact.weights import read_weights
from prepared.body import SignedEnvelope
from prepared.carrier import HEADER, unpack_header
from prepared.decode import decode
from prepared.trust import TrustStore

CORE: Final = Path(__file__).parents[2] / "build" / "smollm2-135m.core"

pytestmark = pytest.mark.skipif(not CORE.exists(), reason="no core in build/; see README.md")


def trust_of(path: Path) -> TrustStore:
    """A store that accepts whoever signed this core."""
    with path.open("rb") as file:
        header = unpack_header(file.read(HEADER.size), file_nbytes=path.stat().st_size)
        file.seek(header.envelope_offset)
        envelope = decode(file.read(header.envelope_nbytes), SignedEnvelope, at="envelope")
    return TrustStore().accepting(envelope.publisher_namespace, envelope.public_key)


@pytest.fixture(scope="module")
def core() -> OpenCore:
    """The core, opened."""
    return open_core(CORE, trust_of(CORE), acceptance=None)


def test_its_contract_names_assets_that_it_has(core: OpenCore) -> None:
    frontend = core.deployment.contract.model.frontend
    tokenizer = tokenizers.Tokenizer.from_buffer(core.asset(frontend.tokenizer_asset))
    assert tokenizer.get_vocab_size() == core.deployment.contract.model.vocabulary.tokens
    assert frontend.template_asset is not None
    assert "message" in core.asset(frontend.template_asset).decode()


def test_its_images_are_shared_objects(core: OpenCore) -> None:
    images = core.deployment.manifests[0].images
    assert images
    for image in images:
        assert core.executable(image.resource)[:4] == b"\x7fELF"


def test_its_weights_fill_the_buffer_that_is_declared_for_them(core: OpenCore) -> None:
    (buffer,) = (b for b in core.deployment.manifests[0].buffers if b.resource is not None)
    assert buffer.resource is not None
    memory = bytearray(buffer.nbytes)
    read_weights(core, buffer.resource, memoryview(memory))
    assert memory.count(0) < len(memory) // 2
