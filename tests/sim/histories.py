"""A seed's history: sizes, programs, lines, conversations, faults.  Nothing else is chance."""

from __future__ import annotations

from random import Random
from typing import Final

from helios.device.scripted import Line
from ignition.preparation.storage import TextExtents
from prepared.contract import Operation
from tests.sim.clients import Ask, Script
from tests.sim.faults import Faults, Flip
from tests.sim.judges import EOS, UNJUDGED, Judged, Rule
from tests.sim.world import History
from tests.worker.world import text_extents

READABLE: Final = range(10, 97)
"""Tokens whose text is a character; the last few are bytes that begin none."""
OPTIONAL: Final = (
    Operation.RESTORE,
    Operation.RESUME,
    Operation.PUBLISH_SNAPSHOT,
    Operation.MIXED,
    Operation.SPECULATIVE,
)
SUBSETS: Final = tuple(
    frozenset(operation for place, operation in enumerate(OPTIONAL) if bits >> place & 1)
    for bits in range(1 << len(OPTIONAL))
)
"""Every set of programs that a core may have beyond those without which nothing is served."""


def history_of(seed: int, *, quiet: bool = False) -> History:
    """The seed's history; a quiet one has neither faults nor clients that leave."""
    chance = Random(seed)
    extents = text_extents(
        lanes=chance.choice((1, 2, 3, 5, 8)),
        prefill_tokens=chance.choice((4, 16, 20)),
        page_tokens=chance.choice((1, 2, 4, 8)),
        speculative_tokens=chance.choice((2, 4)),
    )
    scripts = clients_of(chance, extents, quiet=quiet)
    least = extents.row_pages  # what the longest request needs
    pages = chance.choice((least, least, least + 3, 3 * least))
    return History(
        extents=extents,
        operations=SUBSETS[seed % len(SUBSETS)],
        pages=pages if quiet or chance.random() < 0.9 else max(1, least // 2),
        rows=chance.choice((0, 1, 2, 6)),
        host_slots=chance.choice((0, 3, 20, 60)),
        frames=chance.choice((1, 2, 2)),
        queue_capacity=chance.choice((1, 4, 20)),
        lines=tuple(line_of(chance, quiet=quiet) for _ in range(11)),
        clients=scripts,
        faults=Faults() if quiet or chance.random() < 0.5 else faults_of(chance),
    )


def line_of(chance: Random, *, quiet: bool) -> Line:
    """A line of any length and ending."""
    length = chance.randrange(0, 24)
    tokens = [chance.randrange(10, 100) for _ in range(length)]
    if length and chance.random() < 0.2:
        tokens[chance.randrange(length)] = EOS
    return Line(
        tokens=tuple(tokens),
        end="length" if length and chance.random() < 0.3 else "eos",
        delay_ns=chance.choice((0, 0, 0, 1000, 7_000_000)),
        group=chance.choice((1, 2, 3, 4)),
        fail_at=chance.randrange(0, 12) if not quiet and chance.random() < 0.1 else None,
    )


def clients_of(chance: Random, extents: TextExtents, *, quiet: bool) -> tuple[Script, ...]:
    """Conversations; many begin with the same system prompt, and some at the same moment."""
    systems = [
        tuple(chance.randrange(3, 100) for _ in range(chance.randrange(0, 24))) for _ in range(2)
    ]
    burst, judged = chance.random() < 0.3, chance.random() < 0.4
    return tuple(
        script_of(chance, chance.choice(systems), extents, quiet=quiet, burst=burst, judged=judged)
        for _ in range(chance.randrange(1, 9))
    )


def script_of(
    chance: Random,
    system: tuple[int, ...],
    extents: TextExtents,
    *,
    quiet: bool,
    burst: bool,
    judged: bool,
) -> Script:
    """One client's conversation."""
    asks = []
    for place in range(chance.choice((1, 1, 2, 4))):
        words = tuple(chance.randrange(3, 100) for _ in range(chance.randrange(1, 12)))
        leaves = not quiet and chance.random() < 0.2
        asks.append(
            Ask(
                tokens=words if place else (*system, *words),
                output_limit=chance.choice((1, 1, 2, 5, 20, extents.context_tokens - 40)),
                after=0 if burst and not place else chance.choice((0, 0, 1, 5, 30)),
                reads_for=chance.choice((0, 0, 0, 2, 40)),
                leaves_after=chance.randrange(0, 25) if leaves else None,
                judged=judged_of(chance) if judged else UNJUDGED,
            )
        )
    return Script(
        asks=tuple(asks),
        salt=chance.choice(("", "", "", "mine")),
        eos_ids=(EOS,),
    )


def judged_of(chance: Random) -> Judged:
    """Some requests are judged by nobody; others have a grammar, a stop, or both."""
    if chance.random() < 0.4:
        return UNJUDGED
    rule = None
    if chance.random() < 0.6:
        allowed = chance.sample(READABLE, chance.choice((60, 80, 85)))
        rule = Rule(allowed=frozenset(allowed), most=chance.choice((3, 12, 60)))
    stop: tuple[int, ...] = ()
    if rule is None or chance.random() < 0.3:
        stop = tuple(chance.choice(READABLE) for _ in range(chance.choice((1, 1, 1, 2))))
    return Judged(rule=rule, stop=stop, as_text=rule is None and chance.random() < 0.5)


def faults_of(chance: Random) -> Faults:
    """A few things that go wrong."""
    return Faults(
        launches=some(chance, 0.3, 60),
        stalls=some(chance, 0.3, 60),
        copies=some(chance, 0.6, 12),
        flips=tuple(
            Flip(
                submission=chance.randrange(1, 60),
                byte=chance.randrange(0, 960),
                bit=chance.randrange(8),
            )
            for _ in range(chance.choice((0, 8, 40)))
        ),
    )


def some(chance: Random, likely: float, most: int) -> frozenset[int]:
    """A few numbers, or none."""
    if chance.random() > likely:
        return frozenset()
    return frozenset(chance.randrange(1, most) for _ in range(chance.randrange(1, 4)))
