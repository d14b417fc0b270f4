"""Something that happened to an output. The log of a session is a list of these; all else is counted from it.

`to_json` and `from_json` are the spelling on disk. A reader passes over kinds that it does not know.
"""

from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Any, Literal, cast, get_args

from holdall.values.record import record
from holdall.values.spans import Span

EventKind = Literal[
    "inline",
    "kept",
    "unkept",
    "begun",
    "over",
    "retrieved",
    "scanned",
    "refused",
    "passed",
    "running",
    "ended",
    "asked",
    "extracted",
    "turn",
    "called",
    "spawned",
    "joined",
    "reported",
    "recovered",
    "removed",
]
EVENT_KINDS: tuple[str, ...] = get_args(EventKind)
_NAMES = frozenset(
    ("event", "handle", "tool", "call_id", "by", "verb", "name", "reason", "state", "strategy", "model", "op",
     "reader")
)  # fmt: skip
_KNOWN = frozenset[object](EVENT_KINDS)


@record
class Event:
    """`by` tells one writer of a log from another. `data` has the numbers of its kind, JSON only."""

    at: float
    kind: EventKind
    handle: str = ""
    tool: str = ""
    call_id: str = ""
    seconds: float = 0.0
    by: str = ""
    data: Mapping[str, Any] = field(default_factory=dict[str, Any])

    def to_json(self) -> dict[str, Any]:
        flat: dict[str, Any] = {"at": self.at, "event": self.kind}
        for name in ("handle", "tool", "call_id", "seconds", "by"):
            if value := getattr(self, name):
                flat[name] = value
        return flat | dict(self.data)

    @staticmethod
    def from_json(flat: Mapping[str, Any]) -> "Event | None":
        """None for a kind that this version does not know."""
        if flat.get("event") not in _KNOWN:
            return None
        data = dict(flat)
        take = data.pop
        return Event(
            float(take("at")),
            cast("EventKind", take("event")),
            str(take("handle", "")),
            str(take("tool", "")),
            str(take("call_id", "")),
            float(take("seconds", 0.0)),
            str(take("by", "")),
            data,
        )

    @staticmethod
    def without_content(flat: Mapping[str, Any]) -> dict[str, Any]:
        """What may stay of an event about an output that is removed: numbers, ranges, and names of ours.

        The same for an operation of the tree, and all that is below it.
        """
        kept: dict[str, Any] = {}
        for name, value in flat.items():
            if name == "children" and isinstance(value, list):
                below = [
                    cast("Mapping[str, Any]", one) for one in cast("list[object]", value) if isinstance(one, Mapping)
                ]
                kept[name] = list(map(Event.without_content, below))
            elif (
                value is None
                or isinstance(value, bool | int | float | str if name in _NAMES else bool | int | float)
                or _is_ranges(value)
            ):
                kept[name] = value
        return kept

    def spans(self, name: str) -> tuple[Span, ...]:
        """Ranges of bytes in `data`; what is not one is passed over."""
        given: object = self.data.get(name, ())
        found = cast("Sequence[object]", given) if isinstance(given, list | tuple) else ()
        spans: list[Span] = []
        for one in found:
            match one:
                case [int(start), int(end)] if 0 <= start < end:
                    spans.append(Span(start, end))
                case _:
                    pass
        return tuple(spans)


def _is_ranges(value: object) -> bool:
    if not isinstance(value, list | tuple):
        return False
    return all(
        isinstance(one, list | tuple) and all(isinstance(number, int) for number in cast("Sequence[object]", one))
        for one in cast("Sequence[object]", value)
    )
