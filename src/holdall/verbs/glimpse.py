"""The two ends of an output, and whether all of it would fit: what a notice is built from."""

from collections.abc import Callable
from dataclasses import dataclass

from holdall.policy.decide import Decision, Inline
from holdall.store.protocol import OutputReader
from holdall.values.facts import Facts


@dataclass(frozen=True, slots=True)
class Ends:
    facts: Facts
    head: bytes
    tail: bytes
    tag: str


def ends(reader: OutputReader, size: int, new_tag: Callable[[], str]) -> Ends:
    """At most `size` bytes of each end, and a tag that occurs in neither."""
    total = reader.totals.bytes
    head, tail = reader.read(0, size), reader.read(max(0, total - size), total)
    tag = new_tag()
    while tag.encode() in head or tag.encode() in tail:
        tag = new_tag()
    return Ends(reader.facts, head, tail, tag)


def whole_fits(reader: OutputReader, most_bytes: int, decide: Callable[[str], Decision]) -> bool:
    """Whether the output would have been shown as it is: valid text, whole, and inside the limits."""
    facts = reader.facts
    if reader.totals.bytes > most_bytes or not facts.measure.utf8 or not facts.is_whole:
        return False
    return isinstance(decide(reader.read(0, reader.totals.bytes).decode("utf-8")), Inline)
