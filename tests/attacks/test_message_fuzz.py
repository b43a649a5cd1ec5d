"""Whatever a well-formed message says, a reader ends with a body or a ContractError.

Random bytes rarely get past the encoding.  Here whole messages are changed field by field,
with fields taken away, doubled, swapped and filled with what their types allow, so that
every rule behind decoding sees values that nobody meant.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

import pytest
from google.protobuf.descriptor import FieldDescriptor
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from prepared.agreement import check_agreement
from prepared.body import CoreBody
from prepared.completeness import check_body
from prepared.decode import decode
from prepared.fields import ContractError
from tests.treaty.carriers import body
from tests.treaty.messages import bytes_of, message_of, walk_messages
from tests.treaty.schema import BOUNDS
from tests.treaty.specimens import CONTRACTS

QUIET: Final = settings(
    max_examples=40,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
MESSAGES: Final = {name: message_of(body(name)) for name in CONTRACTS}


def scalars(field: FieldDescriptor) -> st.SearchStrategy[Any]:
    """What the wire lets a single field say, its bounds above all."""
    if field.enum_type is not None:
        known = [value.number for value in field.enum_type.values]
        return st.sampled_from(known) | st.integers(-(1 << 31), (1 << 31) - 1)
    if field.type in BOUNDS:
        least, most = BOUNDS[field.type]
        edges = [value for value in (0, 1, 2, 3, -1, least, most) if least <= value <= most]
        return st.sampled_from(edges) | st.integers(least, most) | st.integers(0, 64)
    if field.type == FieldDescriptor.TYPE_BOOL:
        return st.booleans()
    if field.type == FieldDescriptor.TYPE_FLOAT:
        return st.sampled_from([0.0, -1.0, math.inf, -math.inf, math.nan]) | st.floats(width=32)
    if field.type == FieldDescriptor.TYPE_BYTES:
        return st.binary(max_size=70)
    return st.sampled_from(["", "tokens", "page_table", "kv", "code"]) | st.text(max_size=4)


def change_repeated(draw: st.DrawFn, part: Any, field: FieldDescriptor) -> None:
    """Take an item away, double one, turn them round, or say another."""
    items = getattr(part, field.name)
    how = draw(st.sampled_from(["drop", "double", "turn", "another"]))
    if how == "another" or not items:
        if field.message_type is not None:
            items.add()
        else:
            items.append(draw(scalars(field)))
    elif how == "turn":
        turned = list(reversed(items))
        del items[:]
        items.extend(turned)
    else:
        place = draw(st.integers(0, len(items) - 1))
        if how == "double":
            items.append(items[place])
        else:
            del items[place]


@st.composite
def damaged(draw: st.DrawFn, name: str) -> bytes:
    """A body's bytes after one to three changes, each anywhere."""
    message = type(MESSAGES[name])()
    message.CopyFrom(MESSAGES[name])
    for _ in range(draw(st.integers(1, 3))):
        parts: dict[str, list[Any]] = {}
        for _path, part in walk_messages(message, at=""):
            parts.setdefault(part.DESCRIPTOR.name, []).append(part)
        part = draw(st.sampled_from(parts[draw(st.sampled_from(sorted(parts)))]))
        field = draw(st.sampled_from(list(part.DESCRIPTOR.fields)))
        if field.is_repeated:
            change_repeated(draw, part, field)
        elif draw(st.integers(0, 3)) == 0:
            part.ClearField(field.name)
        elif field.message_type is not None:
            getattr(part, field.name).SetInParent()
        else:
            setattr(part, field.name, draw(scalars(field)))
    return bytes_of(message)


def agree_unchecked(found: CoreBody) -> None:
    """Agreement with a manifest that nobody looked at before."""
    for deployment in found.deployments:
        for manifest in deployment.manifests:
            check_agreement(deployment.contract.model, manifest, at="contract.model")


@pytest.mark.clause("OB-12")
@pytest.mark.parametrize("check", [check_body, agree_unchecked])
@pytest.mark.parametrize("name", CONTRACTS)
@QUIET
@given(data=st.data())
def test_a_damaged_message_is_read_or_refused(
    name: str, check: Callable[[CoreBody], None], data: st.DataObject
) -> None:
    with suppress(ContractError):
        check(decode(data.draw(damaged(name)), CoreBody, at="body"))
