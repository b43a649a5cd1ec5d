"""What the prefix tree finds and what it is given: frozen values."""

from __future__ import annotations

from enum import Enum

from msgspec import Struct

from helios.cache.content import Content, Key
from helios.cache.entries import Entry
from helios.cache.host import Transfer
from helios.values import PageId, SnapshotRow


class Stop(Enum):
    """Why a match is no longer than it is."""

    LIMIT = "limit"  # all that may be reused is
    EMPTY = "empty"  # nothing is published
    UNKNOWN_KEY = "unknown_key"  # nothing under this identity and salt
    ENDED = "ended"  # what is published ends here
    DIVERGED = "diverged"  # what is published goes on differently
    EVICTED = "evicted"  # it went on, not long ago
    IMAGE = "image"  # an image's span would have been divided
    IN_TRANSFER = "in_transfer"  # the next page is on its way back to the device
    NO_ROOM = "no_room"  # the next page is on the host, and none is free for it


class FromPage(Struct, frozen=True):
    """Copy a page's leading records."""

    page: PageId
    tokens: int


class FromRow(Struct, frozen=True):
    """Copy a continuation row's leading records."""

    row: SnapshotRow
    tokens: int


class Match(Struct, frozen=True, kw_only=True):
    """What a request may reuse; everything in it has a holder."""

    tokens: int
    pages: tuple[PageId, ...]  # shared, hence read-only
    source: FromPage | FromRow | None  # of the private page after them
    loads: tuple[Transfer, ...]  # to be done before pages and source are read
    stop: Stop


class Publication(Struct, frozen=True, kw_only=True):
    """Content whose computation has been submitted; found by nobody yet."""

    number: int
    content: Content
    key: Key
    pages: tuple[PageId, ...]  # complete
    row: SnapshotRow | None  # for the page that is not, if a snapshot is wanted


class Walk(Struct, frozen=True, kw_only=True):
    """Entries that share a content's leading symbols; the last one perhaps in part."""

    entries: tuple[Entry, ...]
    tokens: int
    stop: Stop
