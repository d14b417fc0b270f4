"""What Holdall must do, as data: one entry per behaviour, with a stable id.

The entries are the TOML files beside this module. A test names what it proves with
`@requirement("area:slug")`; `tests/house/test_requirements.py` checks both ways that entries and tests fit.
This module never looks at the tests.
"""

import difflib
import re
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import cast

import pytest

__all__ = ["AREAS", "FOLDER", "GAPS", "MalformedRequirement", "Requirement", "load", "requirement"]

FOLDER = Path(__file__).parent

AREAS = frozenset(
    {
        "adapter", "answer", "api", "async", "budget", "bundle", "clamp", "cli", "dialect", "diff", "extract",
        "fleet", "gateway", "grep", "hook", "install", "ledger", "measure", "notice", "packed", "query", "read", "reference", "runtime",
        "session", "settings", "slice", "store", "tail", "trust", "viewer", "watch", "way",
    }
)  # fmt: skip

GAPS = frozenset(
    {
        "what the model sees",
        "slow calls",
        "extraction",
        "session runtime",
        "gateway",
        "viewer and bundle",
        "later",
    }
)
"""The capabilities that are still to come."""

_ID = re.compile(r"([a-z]+):[a-z0-9]+(?:-[a-z0-9]+)*")
_REQUIRED = frozenset({"id", "section", "source", "text"})
_KNOWN = _REQUIRED | {"gap"}


class MalformedRequirement(ValueError):
    """An entry that cannot be taken as it stands; the message says where it is and what is wrong with it."""


@dataclass(frozen=True, slots=True)
class Requirement:
    """One behaviour. `gap` names the capability that will bring it; without one a test must prove it now."""

    id: str
    section: str
    source: str
    text: str
    gap: str | None = None


def load(folder: Path = FOLDER) -> dict[str, Requirement]:
    """Every requirement in the TOML files of `folder`, by id; MalformedRequirement at the first fault."""
    paths = sorted(folder.glob("*.toml"))
    if not paths:
        raise MalformedRequirement(f"{folder} holds no requirements.")
    found: dict[str, Requirement] = {}
    homes: dict[str, str] = {}
    for path in paths:
        for entry in _entries(path):
            if entry.id in found:
                raise MalformedRequirement(f"{path.name}: {entry.id!r} is already in {homes[entry.id]}.")
            found[entry.id] = entry
            homes[entry.id] = path.name
    return found


def requirement(*ids: str) -> pytest.MarkDecorator:
    """The mark of a test that proves these requirements; an unknown id stops the import of the test."""
    if not ids:
        raise MalformedRequirement("requirement() needs at least one id.")
    known = _own()
    for name in ids:
        if name not in known:
            near = difflib.get_close_matches(name, known, n=3)
            raise MalformedRequirement(f"No requirement is called {name!r}. Near it: {', '.join(near) or 'nothing'}.")
    return pytest.mark.requirement(*ids)


@cache
def _own() -> dict[str, Requirement]:
    return load()


def _entries(path: Path) -> Iterator[Requirement]:
    try:
        with path.open("rb") as file:
            document = tomllib.load(file)
    except tomllib.TOMLDecodeError as error:
        raise MalformedRequirement(f"{path.name}: {error}.") from error
    if strange := sorted(document.keys() - {"requirement"}):
        raise MalformedRequirement(f"{path.name}: only [[requirement]] may stand here, not {', '.join(strange)}.")
    tables: object = document.get("requirement")
    if not isinstance(tables, list) or not tables:
        raise MalformedRequirement(f"{path.name}: no [[requirement]] stands here.")
    for number, table in enumerate(cast("list[object]", tables), start=1):
        yield _entry(f"{path.name}, entry {number}", table)


def _entry(place: str, table: object) -> Requirement:
    if not isinstance(table, dict):
        raise MalformedRequirement(f"{place}: {table!r} is not a [[requirement]].")
    values = cast("dict[str, object]", table)
    if unknown := sorted(values.keys() - _KNOWN):
        raise MalformedRequirement(f"{place}: unknown key {', '.join(unknown)}; known: {', '.join(sorted(_KNOWN))}.")
    if missing := sorted(_REQUIRED - values.keys()):
        raise MalformedRequirement(f"{place}: without {', '.join(missing)}.")
    texts: dict[str, str] = {}
    for key, value in values.items():
        if not isinstance(value, str) or not value.strip():
            raise MalformedRequirement(f"{place}: {key} is {value!r}, not a text.")
        texts[key] = value
    name, gap = texts["id"], texts.get("gap")
    match = _ID.fullmatch(name)
    if match is None:
        raise MalformedRequirement(f"{place}: {name!r} is not of the form area:short-slug, in lower case.")
    if match[1] not in AREAS:
        raise MalformedRequirement(f"{place}: {name!r} has no known area; known: {', '.join(sorted(AREAS))}.")
    if gap is not None and gap not in GAPS:
        raise MalformedRequirement(f"{place}: unknown gap {gap!r}; known: {', '.join(sorted(GAPS))}.")
    return Requirement(name, texts["section"], texts["source"], texts["text"], gap)
