"""Whether a pattern stands in an output that is still being written: each byte is looked at once.

Only whole lines and the line that is being written are searched, from the last line that was not whole when looked at
before: a match that comes bit by bit is found. In this process, since what is new is little; RE2 runs in linear time.
"""

import re2

from holdall.search import translate
from holdall.store.protocol import OutputReader

_PIECE = 1024 * 1024
_LONGEST_LINE = 1024 * 1024  # of a longer line that is not whole yet, only so much is looked at again


class Lookout:
    """Raises BadPattern where grep would."""

    def __init__(self, pattern: str) -> None:
        options = re2.Options()
        options.encoding = re2.Options.Encoding.LATIN1
        options.log_errors = False
        options.never_capture = True
        self._pattern = re2.compile(translate(pattern).re2, options)
        self._at = 0  # everything before this byte was searched

    def found(self, reader: OutputReader) -> bool:
        """Whether it stands in what has come since."""
        total = reader.totals.bytes
        while self._at < total:
            data = reader.read(self._at, self._at + _PIECE)
            if self._pattern.search(data) is not None:
                return True
            newline = data.rfind(b"\n")
            end = self._at + len(data)
            if newline >= 0:
                self._at += newline + 1
            elif len(data) >= _LONGEST_LINE:
                self._at = end
            if end >= total:
                return False
        return False
