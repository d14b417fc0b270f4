"""What stands in for Holdall where it is switched off: a cut in the middle, and a marker that counts what is gone.

A JSON document stays one (see `legacy_json`). Any other text keeps its two ends, half of the room for each. Nothing is
stored: what is cut is gone, and the marker is all that tells of it.
"""

from dataclasses import dataclass
from typing import Literal

from holdall.text.excerpt import byte_count, first_bytes, last_bytes, line_count
from holdall.text.numbers import plural
from holdall.wire.legacy_json import shorten_json

Form = Literal["whole", "json", "halves"]

_SHORT = ("[truncated]", "…", "")  # for limits that are shorter than the marker


@dataclass(frozen=True, slots=True)
class Truncated:
    """A text within its limit, how it was made, and how large the whole was. A whole one is the object that came in."""

    text: str
    form: Form
    total_bytes: int
    total_lines: int

    @property
    def changed(self) -> bool:
        return self.form != "whole"


def truncate(text: str, max_bytes: int) -> Truncated:
    """`text` in at most `max_bytes` bytes: whole, or as shorter JSON, or its two ends."""
    total_bytes, total_lines = byte_count(text), line_count(text)
    if total_bytes <= max_bytes:
        return Truncated(text, "whole", total_bytes, total_lines)
    shorter = shorten_json(text, max_bytes)
    if shorter is not None:
        return Truncated(shorter, "json", total_bytes, total_lines)
    return Truncated(_halves(text, max_bytes, total_bytes, total_lines), "halves", total_bytes, total_lines)


def _halves(text: str, max_bytes: int, total_bytes: int, total_lines: int) -> str:
    # The marker of the whole is as long as any marker of a part can be.
    room = max_bytes - byte_count(_marker(total_bytes, total_lines))
    if room < 0:
        short = next((form for form in _SHORT if byte_count(form) <= max_bytes), "")
        # A part that cannot even say so would pass for the whole: then nothing is shown.
        return first_bytes(text, max_bytes - byte_count(short)).text + short if short else ""
    head, tail = first_bytes(text, room - room // 2), last_bytes(text, room // 2)
    gone = total_bytes - byte_count(head.text) - byte_count(tail.text)
    return f"{head.text}{_marker(gone, line_count(text[head.end : tail.start]))}{tail.text}"


def _marker(gone_bytes: int, gone_lines: int) -> str:
    return f"\n[… {plural(gone_bytes, 'byte')} ({plural(gone_lines, 'line')}) truncated …]\n"
