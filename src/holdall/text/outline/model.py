"""What an outline is, how much it may say, and the one way in which its parts are cut: so that the cut can be seen.

Nothing here reads. Text of the output that is shown in an outline stays on one line, whatever it holds.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeVar

_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029]+")
ERROR_BYTES = 200
MOST_ERRORS = 5
_GOLDEN = 0.6180339887498949
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Lead:
    """A question that is worth asking next: a verb, and arguments whose values stand in the output."""

    verb: Literal["grep", "query"]
    arguments: Mapping[str, str | int | bool]


@dataclass(frozen=True, slots=True)
class Outline:
    """What is in an output and what is rare in it.

    `lines` stand most important first, each for itself: whoever shows them may leave out the last ones. Counts that
    come from a sample have a `~`; `sampled` says that there are such. `errors` are lines that look like errors, as
    byte offset and text; `ranges` are bytes worth reading, as start, end and what they are; `leads` are what to ask.
    """

    label: str
    lines: tuple[str, ...]
    sampled: bool
    errors: tuple[tuple[int, str], ...]
    ranges: tuple[tuple[int, int, str], ...] = ()
    leads: tuple[Lead, ...] = field(default=())


def _chars(line: str) -> int:
    return len(line)


@dataclass(frozen=True, slots=True)
class Room:
    """How much may be said: so many characters, or of whatever `cost` counts. Each line costs one more, for its end."""

    size: float
    cost: Callable[[str], int] = _chars

    def of(self, line: str) -> int:
        return self.cost(line) + 1

    def after(self, lines: Sequence[str]) -> "Room":
        """What is left when these are said."""
        return Room(self.size - sum(map(self.of, lines)), self.cost)

    def less(self, share: float) -> "Room":
        return Room(self.size * share, self.cost)

    def cut(self, line: str, least: int = 40) -> str:
        """`line`, or as much of its beginning as fits; at least so many characters."""
        for _ in range(6):
            cost = self.of(line)
            if cost <= self.size or len(line) <= least:
                break
            line = cut(line, max(least, int(len(line) * max(0.05, self.size / cost) * 0.95)))
        return line


def spread(values: Sequence[_T], most: int) -> list[_T]:
    """At most so many of the values, spread over all of them. Not at equal distances: values that repeat at some
    distance would be seen in part only, again and again the same."""
    if len(values) <= most:
        return list(values)
    stride = len(values) / most
    return [values[int((number + number * _GOLDEN % 1) * stride)] for number in range(most)]


def flat(text: str) -> str:
    """`text` on one line: runs of control characters become one space."""
    return _CONTROL.sub(" ", text)


def cut(text: str, most: int) -> str:
    """`text` on one line and at most `most` characters, the last of which is `…` where something is left out."""
    text = flat(text[: most * 2 + 64]) if len(text) > most * 2 + 64 else flat(text)
    return text if len(text) <= most else text[: max(0, most - 1)].rstrip() + "…"


def cut_bytes(line: bytes, most: int = ERROR_BYTES) -> str:
    """The same for a line of bytes: at most `most` bytes of it."""
    text = cut(line[: most + 4].decode("utf-8", "replace").strip(), most)
    while len(text.encode("utf-8", "replace")) > most:
        text = cut(text.removesuffix("…"), len(text) - 1 - (len(text.encode("utf-8", "replace")) - most) // 4)
    return text if len(line.strip()) <= most or text.endswith("…") else text[:-1] + "…"


def count(number: float, exact: bool) -> str:
    """`1,204`, or `~1,200` where it is an estimate: no more digits than a sample can give."""
    if exact:
        return f"{int(number):,}"
    whole = round(number)
    if whole >= 100:
        step = 10 ** (len(str(whole)) - 2)
        whole = round(whole / step) * step
    return f"~{max(1, whole):,}"


def share(part: float, whole: float) -> str:
    percent = 100 * part / whole if whole else 0
    return "<1 %" if 0 < percent < 0.5 else f"{percent:.0f} %"


def fitted(lines: Sequence[str], room: Room) -> tuple[str, ...]:
    """The first lines that fit; the first one always, cut where it must be."""
    kept: list[str] = []
    for line in lines:
        if not kept:
            kept.append(room.cut(line, 80))
        elif room.of(line) <= room.size:
            kept.append(line)
        else:
            break
        room = room.after(kept[-1:])
    return tuple(kept)
