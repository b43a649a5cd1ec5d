"""An option of a command, and the places where it may be said: command line, file, environment.

The same option said twice with different values is an error that names both places; a value
that its option cannot take is an error that names the place.  `--max-active` is `max-active` in
the file and HELIOS_MAX_ACTIVE in the environment.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

import msgspec

UNITS: Final = {"K": 10, "M": 20, "G": 30}
MOST_FILE_NBYTES: Final = 1 << 20


class WrongUsage(Exception):
    """What was asked for cannot be; the command ends with status 2."""


class Option(msgspec.Struct, frozen=True, kw_only=True):
    """One option."""

    name: str
    help: str
    kind: Callable[[str], object] = str
    metavar: str | None = None
    choices: tuple[str, ...] = ()
    many: bool = False  # may be said several times; a list in the file, commas in the environment
    field: str = ""  # of Options, where it is not the name

    @property
    def attribute(self) -> str:
        """The field of Options that it sets."""
        return self.field or self.name.replace("-", "_")

    @property
    def variable(self) -> str:
        """Its environment variable."""
        return f"HELIOS_{self.name.replace('-', '_').upper()}"

    def read(self, text: str, *, at: str) -> object:
        """A value from its text."""
        try:
            value = self.kind(text)
        except (ValueError, argparse.ArgumentTypeError):
            expected = "bytes, or a number with K, M or G" if self.kind is nbytes else "a number"
            raise WrongUsage(f"{at}: found {text!r}, expected {expected}") from None
        if self.choices and value not in self.choices:
            raise WrongUsage(f"{at}: found {text!r}, expected one of {', '.join(self.choices)}")
        return value


class Setting(msgspec.Struct, frozen=True):
    """A value, and where it was said."""

    value: object
    place: str


def nbytes(text: str) -> int:
    """A size such as 512M or 2G."""
    unit = text[-1:].upper()
    number = text[:-1] if unit in UNITS else text
    if not (number.isascii() and number.isdigit()):
        raise argparse.ArgumentTypeError(
            f"found {text!r}, expected bytes, or a number with K, M or G"
        )
    return int(number) << UNITS.get(unit, 0)


def settle(
    options: Sequence[Option],
    said: Mapping[str, object],
    *,
    file: Path | None,
    environment: Mapping[str, str],
) -> dict[str, Setting]:
    """Every option that was said, by the field it sets; a clash is WrongUsage."""
    written = {} if file is None else read_file(file, options)
    settled = {}
    for option in options:
        found = list(places(option, said, written, environment, file=file))
        for other in found[1:]:
            if other.value != found[0].value:
                raise WrongUsage(
                    f"{option.name}: found {shown(found[0].value)} in {found[0].place} and "
                    f"{shown(other.value)} in {other.place}, expected one value"
                )
        if found:
            settled[option.attribute] = found[0]
    return settled


def places(
    option: Option,
    said: Mapping[str, object],
    written: Mapping[str, object],
    environment: Mapping[str, str],
    *,
    file: Path | None,
) -> Iterator[Setting]:
    """What each place says about an option."""
    value = said.get(option.name)
    if value is not None:
        yield Setting(tuple(value) if isinstance(value, list) else value, "the command line")
    if option.name in written:
        yield Setting(
            from_file(option, written[option.name], at=f"{file}: {option.name}"), f"{file}"
        )
    text = environment.get(option.variable)
    if text is not None:
        at = option.variable
        words = [word.strip() for word in text.split(",") if word.strip()] if option.many else ()
        many = tuple(option.read(word, at=at) for word in words)
        yield Setting(many if option.many else option.read(text, at=at), at)


def from_file(option: Option, value: object, *, at: str) -> object:
    """A value as the file writes it: a number or a text, as the command line has it."""
    if option.many:
        if not isinstance(value, list):
            raise WrongUsage(f"{at}: found {value!r}, expected a list")
        return tuple(from_file_one(option, item, at=f"{at}[{n}]") for n, item in enumerate(value))
    return from_file_one(option, value, at=at)


def from_file_one(option: Option, value: object, *, at: str) -> object:
    """One value of an option."""
    number = isinstance(value, int) and not isinstance(value, bool)
    if isinstance(value, str) or (number and option.kind in (int, nbytes)):
        return option.read(str(value), at=at)
    raise WrongUsage(
        f"{at}: found {value!r}, expected a {'number' if option.kind is int else 'text'}"
    )


def read_file(file: Path, options: Sequence[Option]) -> dict[str, object]:
    """The file's table; a name that is no option is refused."""
    import tomllib  # noqa: PLC0415 - only when there is a file: the launcher is measured

    try:
        if file.stat().st_size > MOST_FILE_NBYTES:
            raise WrongUsage(f"--config: {file}: found over {MOST_FILE_NBYTES} bytes")
        written: dict[str, object] = tomllib.loads(file.read_text("utf-8"))
    except OSError as error:
        raise WrongUsage(f"--config: {file}: {error.strerror}") from None
    except ValueError as error:  # neither TOML nor UTF-8
        raise WrongUsage(f"--config: {file}: {error}") from None
    names = [option.name for option in options]
    for name in written:
        if name not in names:
            raise WrongUsage(f"{file}: found {name!r}, expected one of {', '.join(names)}")
    return written


def shown(value: object) -> str:
    """A value as the file would write it."""
    if isinstance(value, Path):
        value = str(value)
    return msgspec.json.encode(value).decode()


def described(
    options: Sequence[Option], settled: Mapping[str, Setting], defaults: Mapping[str, object]
) -> str:
    """Every option with its value and where it was said: a file that `--config` reads."""
    lines = []
    for option in options:
        setting = settled.get(option.attribute)
        default = defaults.get(option.attribute)
        if setting is not None:
            lines.append(f"{option.name} = {shown(setting.value)}  # {setting.place}")
        elif default is None:
            lines.append(f"# {option.name}: not set")
        else:
            lines.append(f"{option.name} = {shown(default)}  # default")
    return "\n".join(lines)
