"""Records that came from outside: looked at field by field, and compared with the bytes that came with them.

A record of our own store is believed once its checksum holds. One from a bundle may have been written by anybody.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from typing import Any, cast

from holdall.store import record
from holdall.store.bundle_format import Entry
from holdall.values.bundles import is_sha256
from holdall.values.errors import BundleRefused, StoreFault
from holdall.values.handles import is_uuid
from holdall.values.outputs import Facts, Measure, Origin
from holdall.values.spans import BlockTable

_MOST = 1 << 62
_DEEPEST = 200  # levels of JSON in what is read whole
_COMPARED = ("bytes", "chars", "lines", "longest_line", "utf8", "sha256")


def facts_in(data: bytes, entry: Entry, session: str) -> tuple[Facts, BlockTable]:
    """The facts and the block table of a record in a bundle, every field of its own type."""
    handle = entry.name.removesuffix(record.SUFFIX)
    try:
        facts, table = record.decode(data, handle=handle)
    except (StoreFault, RecursionError, OverflowError) as problem:
        raise BundleRefused(f"the record {handle} of this bundle is refused: {problem or 'too deep'}") from problem
    if facts.session != session or not is_uuid(facts.id):
        raise _refusal(handle, "it belongs to another session")
    _check_types(handle, facts)
    if facts.state in ("running", "queued"):
        raise _refusal(handle, "it says that it is still being written")
    if depth(facts.origin.arguments) > _DEEPEST:
        raise _refusal(handle, f"its arguments are nested more than {_DEEPEST} levels deep")
    # The number of a process on another machine: here it would be somebody else's.
    return replace(facts, origin=replace(facts.origin, process=0)), table


def check_against(facts: Facts, table: BlockTable, file: str, measure: Measure, measured: BlockTable) -> None:
    """The record must say what its bytes measure. Tokens and kind are the opinion of whoever kept them."""
    if facts.state == "expired" or facts.file != file:
        raise _refusal(facts.handle, "it does not stand after its own bytes")
    for name in _COMPARED:
        if getattr(facts.measure, name) != getattr(measure, name):
            raise _refusal(facts.handle, f"its bytes have another number of {name}, or another hash, than it says")
    if table != measured:
        raise _refusal(facts.handle, "its block table does not fit its bytes")
    if facts.measure.tokens > facts.measure.bytes:
        raise _refusal(facts.handle, "it says that it has more tokens than bytes")


def check_tombstone(facts: Facts, table: BlockTable) -> None:
    if facts.state != "expired" or facts.file or len(table):
        raise _refusal(facts.handle, "its bytes are missing")


def check_tree(data: bytes) -> None:
    """A snapshot of an operation tree: objects with a kind, a name, and children of the same form."""
    try:
        waiting: list[tuple[object, int]] = [(json.loads(data), 0)]
    except (ValueError, RecursionError) as problem:
        raise BundleRefused("the operation tree of this bundle cannot be read as JSON.") from problem
    while waiting:
        node, level = waiting.pop()
        if level > _DEEPEST or not isinstance(node, Mapping):
            raise BundleRefused("the operation tree of this bundle is not one.")
        table = cast("Mapping[str, object]", node)
        children = table.get("children", [])
        named = isinstance(table.get("op"), str) and isinstance(table.get("name"), str)
        numbers = all(isinstance(table.get(name, 0), int | float) for name in ("at", "seconds"))
        if not named or not numbers or not isinstance(children, list):
            raise BundleRefused("the operation tree of this bundle is not one.")
        waiting += [(child, level + 1) for child in cast("list[object]", children)]


def depth(value: object) -> int:
    """How many levels of objects and arrays a JSON value has; it stops counting soon after there are too many."""
    level, layer = 0, [value]
    while layer and level <= _DEEPEST + 1:
        below: list[object] = []
        for one in layer:
            if isinstance(one, Mapping):
                below += cast("Mapping[object, object]", one).values()
            elif isinstance(one, Sequence) and not isinstance(one, str | bytes):
                below += cast("Sequence[object]", one)
        layer = below
        level += 1
    return level - 1


def _check_types(handle: str, facts: Facts) -> None:
    texts = (facts.error, facts.file, *(getattr(facts.origin, name) for name in _named(Origin, str)))
    flags: tuple[object, ...] = (
        facts.origin.terminal,
        facts.origin.is_error,
        facts.measure.utf8,
        facts.measure.tokens_exact,
    )
    counts = [getattr(facts.measure, name) for name in ("bytes", "chars", "lines", "longest_line", "tokens")]
    times = [facts.created, *([] if facts.ended is None else [facts.ended])]
    codes = [] if facts.exit_code is None else [facts.exit_code]
    fine = (
        all(isinstance(text, str) for text in (*texts, facts.measure.tokenizer, *facts.measure.notes))
        and all(type(flag) is bool for flag in flags)
        and all(_is_number(number) and 0 <= number < _MOST for number in counts)
        and all(_is_time(moment) for moment in times)
        and all(_is_number(code) and -_MOST < code < _MOST for code in codes)
        and (is_sha256(facts.measure.sha256) or facts.measure.sha256 == "")
    )
    if not fine:
        raise _refusal(handle, "a field of it is of another type than it should be")


def _named(cls: type[Any], of: type) -> list[str]:
    return [one.name for one in fields(cls) if one.type in (of, of.__name__)]


def _is_number(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_time(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and -_MOST < value < _MOST


def _refusal(handle: str, why: str) -> BundleRefused:
    return BundleRefused(f"the record {handle} of this bundle is refused: {why}.")
