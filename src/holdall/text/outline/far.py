"""Errors that stand outside of the sample: all of an output that is not too large is searched for a few words.

To find nothing costs a tenth of a millisecond for each megabyte. A word that stands everywhere is not looked for.
"""

from collections import Counter
from collections.abc import Iterator

import stringzilla

from holdall.text.outline.complaints import complaint
from holdall.text.outline.model import MOST_ERRORS, cut_bytes
from holdall.text.outline.sample import Sample, all_of

_WORDS = (
    b"ERROR",
    b"FATAL",
    b"CRITICAL",
    b"PANIC",
    b"panic: ",
    b"Traceback (most",
    b"Exception",
    b"FAILED",
    b"error: ",
    b"fatal: ",
)
_OFTEN = 40  # a word that the sample has more often says nothing about what is rare
_TRIES = 20  # places of one word that are looked at
_MOST = 20  # errors in all
_LINE = 2000  # bytes in which the end of a line is looked for
_BEFORE = 240  # bytes in which its start is


def far_errors(sample: Sample) -> list[tuple[int, str]]:
    """Lines that say so at the place where errors do, with the byte at which each starts, in their order."""
    words = [word for word in _WORDS if sample.count(word) <= _OFTEN]
    tries: Counter[bytes] = Counter()
    found: dict[int, str] = {}
    for start, data in all_of(sample, overlap=_LINE):
        for word in words:
            for at, line in _lines_with(data, word):
                tries[word] += 1
                if tries[word] > _TRIES or len(found) >= _MOST:
                    break
                if complaint(line[:400].decode("utf-8", "replace")) > 1:
                    found.setdefault(start + at, cut_bytes(line))
    return sorted(found.items())[:MOST_ERRORS]


def _lines_with(data: bytes, word: bytes) -> Iterator[tuple[int, bytes]]:
    """The lines that have the word, each once; of a very long one what stands around it."""
    at = stringzilla.find(data, word)
    while at >= 0:
        begin = data.rfind(b"\n", max(0, at - _BEFORE), at) + 1 or max(0, at - _BEFORE // 3)
        end = data.find(b"\n", at, at + _LINE)
        end = min(len(data), at + _LINE) if end < 0 else end
        yield begin, data[begin:end]
        at = stringzilla.find(data, word, end) if end < len(data) else -1
