"""Things with numbers, of which there are so many: which are free, and how many hold each.

Knows numbers only.  Pages, continuation rows and host slots are such things.  The prefix tree is
a holder like any other, but one that lets go when asked: what only it holds is *idle*.

Always: free + held == total, and idle counts what the tree alone holds (`audit`).
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Generic, TypeVar, cast

Id = TypeVar("Id", bound=int)


@dataclass(slots=True)
class Pool(Generic[Id]):
    """All things of a kind; low numbers are taken first, so untouched memory stays untouched."""

    total: int
    kind: str = "page"
    idle: int = field(default=0, init=False)
    _free: list[Id] = field(init=False)
    _holders: list[int] = field(init=False)
    _adopted: bytearray = field(init=False)

    def __post_init__(self) -> None:
        """Everything is free."""
        self._free = cast("list[Id]", list(range(self.total)))
        self._holders = [0] * self.total
        self._adopted = bytearray(self.total)

    @property
    def free(self) -> int:
        """Things that nobody holds."""
        return len(self._free)

    def take(self, count: int) -> tuple[Id, ...]:
        """Hold `count` free things; the caller has checked that there are so many."""
        assert count <= len(self._free), f"{count} {self.kind}s wanted, {len(self._free)} free"
        taken = tuple(heapq.heappop(self._free) for _ in range(count))
        for thing in taken:
            self._holders[thing] = 1
        return taken

    def share(self, things: Iterable[Id]) -> None:  # hot
        """One more holder for each."""
        holders, adopted = self._holders, self._adopted
        for thing in things:
            count = holders[thing]
            assert count, f"{self.kind} {thing} is free"
            holders[thing] = count + 1
            if count == 1 and adopted[thing]:
                self.idle -= 1

    def give_back(self, things: Iterable[Id]) -> None:  # hot
        """One holder fewer for each; without holders it is free."""
        holders, adopted = self._holders, self._adopted
        for thing in things:
            count = holders[thing]
            assert count, f"{self.kind} {thing} is free already"
            assert count > 1 or not adopted[thing], f"{self.kind} {thing} is the tree's"
            holders[thing] = count - 1
            if count == 1:
                heapq.heappush(self._free, thing)
            elif count == 2 and adopted[thing]:
                self.idle += 1

    def adopt(self, thing: Id) -> None:
        """The tree becomes one more holder of a held thing."""
        assert not self._adopted[thing], f"{self.kind} {thing} is the tree's already"
        self.share((thing,))
        self._adopted[thing] = True

    def disown(self, thing: Id) -> None:
        """The tree lets go."""
        assert self._adopted[thing], f"{self.kind} {thing} is not the tree's"
        self.idle -= self.is_idle(thing)
        self._adopted[thing] = False
        self.give_back((thing,))

    def is_idle(self, thing: Id) -> bool:
        """Whether the tree is the only holder."""
        return self._holders[thing] == 1 and bool(self._adopted[thing])

    def holders(self, thing: Id) -> int:
        """How many hold a thing."""
        return self._holders[thing]

    def audit(self) -> None:
        """Prove that everything is accounted for."""
        held = sum(1 for holders in self._holders if holders)
        assert held + len(self._free) == self.total, f"{held} held, {len(self._free)} free"
        assert len(set(self._free)) == len(self._free), f"a {self.kind} is free twice"
        assert all(not self._holders[free] for free in self._free), (
            f"a free {self.kind} has holders"
        )
        idle = sum(
            1
            for holders, adopted in zip(self._holders, self._adopted, strict=True)
            if holders == 1 and adopted
        )
        assert idle == self.idle, f"{idle} {self.kind}s idle, {self.idle} counted"

    def audit_holders(self, known: Mapping[Id, int]) -> None:
        """Prove that these, and no others, are the holders."""
        self.audit()
        for thing, found in enumerate(self._holders):
            expected = known.get(cast("Id", thing), 0)
            assert found == expected, f"{self.kind} {thing}: {found} holders, {expected} known"
