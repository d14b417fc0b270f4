"""Short notes that stand in the place of something that is no text: what it was, how large, where it is kept."""

import re
from collections.abc import Iterable
from typing import Any

from holdall.text.numbers import plural
from holdall.text.utf8 import REPLACED
from holdall.values.outputs import Facts
from holdall.wire.reference import context_ref

_PART = "a part of a result: "
_MEDIA_TYPE = re.compile(r"[\w!#$&^.+-]{1,127}/[\w!#$&^.+-]{1,127}(?:;[ -~]{1,200})?", re.ASCII)


def blob_note(media_type: str, size: int, *, handle: str = "", why: str = "") -> str:
    """`[image/png, 2,345,678 bytes: too large to show, kept; handle: k3f9]`"""
    what = f"{media_type[:80]}, {plural(size, 'byte')}"
    if handle:
        return f"[{what}: too large to show, kept; handle: {handle}]"
    return f"[{what}: too large to show, and not kept: {why}]"


def aside_note(media_type: str, size: int, *, handle: str = "", why: str = "") -> str:
    """For a part of a result that has a place of its own, because only the text of the result has one here."""
    what = f"{media_type[:80]}, {plural(size, 'byte')}"
    return f"[{what}: kept by itself; handle: {handle}]" if handle else f"[{what}: not kept: {why}]"


def fields_named(blocks: int = 1) -> str:
    """What the fields of text blocks are called in a note: they are set aside, and the text stays."""
    return f"fields of {'a text block' if blocks == 1 else plural(blocks, 'text block')}"


def structured_note(facts: Facts) -> dict[str, Any]:
    """In the place of structured content: never data of its original shape, always a reference."""
    return {"kept": True, "handle": facts.handle, "ref": context_ref(facts)}


def structured_gone(size: int, why: str) -> dict[str, Any]:
    return {"kept": False, "bytes": size, "why": why}


def part_note(what: str) -> str:
    """For the facts of something that was kept by itself."""
    return f"{_PART}{what}"


def media_type_in(notes: Iterable[str]) -> str:
    """The type that such a note tells; empty where there is none, or what it tells is no media type."""
    told = (note.removeprefix(_PART) for note in notes if note.startswith(_PART))
    return next((what for what in told if _MEDIA_TYPE.fullmatch(what)), "")


def all_is_kept(facts: Facts) -> str:
    """Of a whole output: that all of it is kept, and what could not be kept as it was."""
    changed = [note for note in facts.measure.notes if note.endswith(REPLACED)]
    return f"all of it is kept, but {changed[0]}" if changed else "all of it is kept"


SAID_SO = "the tool said that it failed"
"""Why an output in the background has failed whose tool gave an error as its result."""


def unreadable(value: object, problem: Exception) -> str:
    """In the place of a value that does not let itself be told."""
    return f"[a value of type {type(value).__name__} that cannot be written: {type(problem).__name__}: {problem}]"
