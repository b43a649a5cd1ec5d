"""API keys: where they are read, and whether one opens.

Keys come from a file or the environment and go nowhere else: into no process argument, log or
printed configuration.  What stays in memory are digests; comparing takes the same time whatever
was given and whichever key it is.
"""

from __future__ import annotations

import hmac
import re
from collections.abc import Iterable, Mapping
from hashlib import sha256
from pathlib import Path
from typing import Final

from helios.options import KEY_VARIABLES
from helios.values import StartRefused

MOST_KEY: Final = 512
KEY: Final = re.compile(r"[!-+\--~]+")  # what a header and a list with commas can both hold


class Keys:
    """The keys of a server; without any, everything is open."""

    def __init__(self, keys: Iterable[str] = ()) -> None:
        self._digests = tuple(sorted(sha256(key.encode()).digest() for key in set(keys)))

    def __len__(self) -> int:
        return len(self._digests)

    def opens(self, given: bytes) -> bool:
        """Whether this is one of the keys; every key is compared, whatever was found."""
        digest = sha256(given).digest()
        found = False
        for known in self._digests:
            found |= hmac.compare_digest(digest, known)
        return found


def read_keys(file: Path | None, environment: Mapping[str, str]) -> Keys:
    """The keys that one place says; two places that say different keys clash."""
    said: list[tuple[str, frozenset[str]]] = []
    if file is not None:
        said.append((f"--api-key-file {file}", keys_of(lines_of(file), at=str(file))))
    for name in KEY_VARIABLES:
        if (text := environment.get(name)) is not None:
            texts = text.split(",") if name.endswith("S") else [text]
            said.append((name, keys_of(texts, at=name)))
    for place, keys in said[1:]:
        if keys != said[0][1]:
            raise StartRefused(
                f"API keys: found different ones in {said[0][0]} and {place}, expected one place"
            )
    return Keys(said[0][1]) if said else Keys()


def lines_of(file: Path) -> list[str]:
    """Lines of a file that are no comments."""
    try:
        text = file.read_text("utf-8")
    except OSError as error:
        raise StartRefused(f"--api-key-file: {file}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise StartRefused(f"--api-key-file: {file}: found bytes that are no text") from None
    return [line for line in text.splitlines() if not line.lstrip().startswith("#")]


def keys_of(texts: Iterable[str], *, at: str) -> frozenset[str]:
    """Keys, checked; an error never says the key."""
    keys = [text.strip() for text in texts if text.strip()]
    if not keys:
        raise StartRefused(f"{at}: found no key, expected at least one")
    for number, key in enumerate(keys, start=1):
        if len(key) > MOST_KEY or not KEY.fullmatch(key):
            raise StartRefused(
                f"{at}: key {number}: found what a header cannot hold, expected 1 to {MOST_KEY} "
                "visible ASCII characters without commas"
            )
    return frozenset(keys)
