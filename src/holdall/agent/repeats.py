"""A model that makes the same calls and gets the same results over and over: it is told, then made to report."""

import json
from collections.abc import Sequence
from dataclasses import replace

from holdall.values.chat import Returned, ToolCall
from holdall.wire.agent_texts import repeats_itself

_TOLD_AFTER, _ENDED_AFTER = 3, 6  # times in a row


class Repeats:
    def __init__(self) -> None:
        self._last: tuple[str, str] = ("", "")
        self._times = 0

    @property
    def is_enough(self) -> bool:
        return self._times >= _ENDED_AFTER

    def told(self, calls: Sequence[ToolCall], returned: Sequence[Returned]) -> list[Returned]:
        """What the calls gave; where that has not changed for some turns, with a word about it."""
        asked = json.dumps([[call.name, call.arguments] for call in calls], default=str, sort_keys=True)
        got = "\n".join(one.text for one in returned)
        self._times = self._times + 1 if (asked, got) == self._last else 1
        self._last = asked, got
        if self._times < _TOLD_AFTER or not returned:
            return list(returned)
        first, *others = returned
        return [replace(first, text=f"{first.text}\n\n{repeats_itself(self._times)}"), *others]
