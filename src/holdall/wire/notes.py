"""Short notes that stand in the place of something that is no text: what it was, how large, where it is kept."""

from typing import Any

from holdall.text.numbers import plural
from holdall.values.facts import Facts
from holdall.wire.reference import context_ref


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


def structured_note(facts: Facts) -> dict[str, Any]:
    """In the place of structured content: never data of its original shape, always a reference."""
    return {"kept": True, "handle": facts.handle, "ref": context_ref(facts)}


def structured_gone(size: int, why: str) -> dict[str, Any]:
    return {"kept": False, "bytes": size, "why": why}


def part_note(what: str) -> str:
    """For the facts of something that was kept by itself."""
    return f"a part of a result: {what}"
