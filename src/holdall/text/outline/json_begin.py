"""The value that the beginning of a JSON text stands for: containers that are open at its end are closed there.

Then whole members are added, one after the other, as far as is wished. Nothing here raises on broken JSON.
"""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any, cast

from holdall.text.outline.json_text import loads

_TRIES = 4
_TOKENS = 8_000  # of what is closed: more would take too long
_MEMBERS = 1_200  # that are added to one container
DEEPEST = 120  # levels; the parser of Python stops at about 1,000, and no outline shows more
_TOKEN = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\\?\Z)|[\[\]{},]', re.DOTALL)
_GAP = re.compile(r"[\s,]*+")
_COLON = re.compile(r"\s*+:\s*+")

Container = dict[str, Any] | list[Any]


@dataclass(slots=True)
class Prefix:
    value: Any
    open_at: list[int]  # where the containers start that are still open at the end, outermost first
    end: int
    deep: bool  # nested deeper than is looked at

    def spine(self) -> list[Container]:
        """The containers that are still open."""
        return list(_spine(self.value, len(self.open_at)))


def _spine(value: Any, depth: int) -> Iterator[Container]:
    for _ in range(depth):
        yield value
        children = list(cast("dict[str, Any]", value).values()) if isinstance(value, dict) else cast("list[Any]", value)
        if not children:
            return
        value = children[-1]


def go_on(begun: Prefix, text: str) -> None:
    """Add the members that follow in `text`, as many as are whole; containers that end there are no longer open."""
    decoder = json.JSONDecoder(strict=False)
    for container in reversed(begun.spine()):
        begun.end, closed = _fill(container, text, begun.end, decoder)
        if not closed:
            return
        begun.open_at.pop()


def _fill(container: Container, text: str, at: int, decoder: json.JSONDecoder) -> tuple[int, bool]:
    """Where it comes to, and whether that is the end of the container."""
    for _ in range(_MEMBERS):
        gap = _GAP.match(text, at)
        start = gap.end() if gap else at
        if text[start : start + 1] in ("]", "}"):
            return start + 1, True
        try:
            if isinstance(container, dict):
                key, start = decoder.raw_decode(text, start)
                colon = _COLON.match(text, start)
                value, start = decoder.raw_decode(text, colon.end() if colon else start)
                container[str(key)] = value
            else:
                value, start = decoder.raw_decode(text, start)
                container.append(value)
        except (ValueError, RecursionError):
            break
        at = start
    return at, False


def prefix(text: str) -> Prefix | None:
    """The value that `text` begins, every container that is open at its end closed there."""
    for _ in range(_TRIES):
        closers, open_at, end, deep = _last_safe_place(text)
        try:
            value = loads(text[:end] + "".join(reversed(closers)))
        except json.JSONDecodeError as fault:
            if fault.pos >= len(text) or fault.pos < 2:
                return None
            text = text[: fault.pos]
            continue
        except RecursionError:
            return None
        return Prefix(value, open_at, end, deep)
    return None


def _last_safe_place(text: str) -> tuple[list[str], list[int], int, bool]:
    """Where `text` can be ended by closing brackets, with these and the places of those that they close."""
    closers: list[str] = []
    open_at: list[int] = []
    end = 0
    for match in islice(_TOKEN.finditer(text), _TOKENS):
        sign = text[match.start()]
        if sign == '"':
            continue
        if sign == ",":
            end = match.start()
        elif sign in "[{":
            if len(closers) >= DEEPEST:
                return closers, open_at, end, True
            closers.append("]" if sign == "[" else "}")
            open_at.append(match.start())
            end = match.end()
        elif not closers or closers.pop() != sign:
            break
        else:
            open_at.pop()
            end = match.end()
            if not closers:
                break
    return closers, open_at, end, False
