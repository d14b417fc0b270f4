"""The text that a model was shown of some bytes, and the bytes behind each of its characters.

Where bytes are not UTF-8 the text has a replacement character for them, which does not have their length. The bytes
stay as they are; this only finds them again.
"""

import re
from array import array
from bisect import bisect_right

from holdall.text.utf8 import decode

# The units that Python's decoder makes one character of; `whole` is a run of valid ones, anything else a broken unit.
_UNITS = re.compile(
    rb"(?P<whole>(?:[\x00-\x7f]++|[\xc2-\xdf][\x80-\xbf]|\xe0[\xa0-\xbf][\x80-\xbf]|\xed[\x80-\x9f][\x80-\xbf]"
    rb"|[\xe1-\xec\xee\xef][\x80-\xbf]{2}|\xf0[\x90-\xbf][\x80-\xbf]{2}|[\xf1-\xf3][\x80-\xbf]{3}"
    rb"|\xf4[\x80-\x8f][\x80-\xbf]{2})++)"
    rb"|\xe0[\xa0-\xbf]|\xed[\x80-\x9f]|[\xe1-\xec\xee\xef][\x80-\xbf]"
    rb"|\xf0[\x90-\xbf][\x80-\xbf]?|\xf4[\x80-\x8f][\x80-\xbf]?|[\xf1-\xf3][\x80-\xbf]{1,2}|.",
    re.DOTALL,
)


class Shown:
    """`text` is what `data` looks like; `byte_of` finds a character of it in `data`."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.text, self.exact = decode(data)
        self._plain = len(self.text) == len(data) and self.exact
        self._chars: array[int] | None = None  # where each run of whole characters, or broken unit, starts in `text` …
        self._bytes: array[int] | None = None  # … and in `data`

    def byte_of(self, char: int) -> int:
        """The byte at which character number `char` starts; the end of the data for the end of the text."""
        if self._plain:
            return min(char, len(self.data))
        if char >= len(self.text):
            return len(self.data)
        if self.exact:
            return len(self.text[:char].encode())
        chars, places = self._runs()
        run = bisect_right(chars, char) - 1
        return places[run] + len(self.text[chars[run] : char].encode())

    def _runs(self) -> tuple["array[int]", "array[int]"]:
        if self._chars is None or self._bytes is None:
            self._chars, self._bytes = array("Q"), array("Q")
            char = 0
            for unit in _UNITS.finditer(self.data):
                self._chars.append(char)
                self._bytes.append(unit.start())
                char += len(str(unit["whole"], "utf-8")) if unit.lastgroup else 1
        return self._chars, self._bytes
