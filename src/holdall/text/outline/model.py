"""What an outline is, and the one way in which its parts are cut: always so that the cut can be seen.

Nothing here reads. Text of the output that is shown in an outline stays on one line, whatever it holds.
"""

import re
from dataclasses import dataclass

_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029]+")
ERROR_BYTES = 200
MOST_ERRORS = 5


@dataclass(frozen=True, slots=True)
class Outline:
    """What is in an output and what is rare in it.

    `lines` stand most important first, each for itself: whoever shows them may leave out the last ones. Counts that
    come from a sample have a `~`; `sampled` says that there are such. `errors` are lines that look like errors, as
    byte offset and text; `ranges` are bytes worth reading, as start, end and what they are.
    """

    label: str
    lines: tuple[str, ...]
    sampled: bool
    errors: tuple[tuple[int, str], ...]
    ranges: tuple[tuple[int, int, str], ...] = ()


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


def fitted(lines: list[str], budget: int) -> tuple[str, ...]:
    """The first lines that fit into `budget` characters; the first one always, cut where it must be."""
    kept: list[str] = []
    for line in lines:
        if not kept:
            kept.append(cut(line, max(80, budget)))
        elif len(line) <= budget:
            kept.append(line)
        else:
            break
        budget -= len(kept[-1]) + 1
    return tuple(kept)
