"""The two ends of an output, its outline, and whether all of it would fit: what a notice is built from."""

from collections.abc import Callable
from typing import NamedTuple

from holdall.policy.decide import Decision, Inline
from holdall.store.protocol import OutputReader
from holdall.text.outline import Outline, outline
from holdall.values.facts import Facts
from holdall.verbs.locate import line_of_byte


class Glimpse(NamedTuple):
    """The arguments of a notice, in its order."""

    facts: Facts
    head: bytes
    tail: bytes
    tag: str
    outline: Outline
    errors: tuple[tuple[int, str], ...]  # line number, line


def glimpse(reader: OutputReader, size: int, new_tag: Callable[[], str]) -> Glimpse:
    """At most `size` bytes of each end, the outline, and a tag that occurs in nothing that is shown."""
    total = reader.totals.bytes
    head, tail = reader.read(0, size), reader.read(max(0, total - size), total)
    found = outline(reader.read, reader.facts.measure, tool=reader.facts.origin.tool)
    errors = tuple((line_of_byte(reader, byte), text) for byte, text in found.errors)
    shown = "\n".join(found.lines).encode("utf-8", "replace")
    tag = new_tag()
    while any(tag.encode() in part for part in (head, tail, shown)):
        tag = new_tag()
    return Glimpse(reader.facts, head, tail, tag, found, errors)


def whole_fits(reader: OutputReader, most_bytes: int, decide: Callable[[str], Decision]) -> bool:
    """Whether the output would have been shown as it is: valid text, whole, and inside the limits."""
    facts = reader.facts
    if reader.totals.bytes > most_bytes or not facts.measure.utf8 or not facts.is_whole:
        return False
    return isinstance(decide(reader.read(0, reader.totals.bytes).decode("utf-8")), Inline)
