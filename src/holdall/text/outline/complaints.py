"""Lines that look like errors. A guess by words, which leaves out what says that there are none."""

import re
from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate

_WORDS = re.compile(
    r"\b(?:[A-Za-z_.]{0,60}(?:Error|Exception)|errors?|exceptions?|traceback|fatal|panic(?:ked)?|fail(?:ed|ure|ures)?"
    r"|FAIL|critical|severe|segfault|segmentation fault|core dumped|abort(?:ed)?|denied|refused|unreachable"
    r"|timed out|out of memory|OOM|killed|cannot|could not|unable to)\b",
    re.IGNORECASE,
)
_STRONG = re.compile(
    r"(?:^|[\[\s|:])(?:ERROR|FATAL|CRITICAL|SEVERE|PANIC|Traceback|panic:|FAILED|FAIL)\b|\b\w+(?:Error|Exception)\b: ?"
    r"|\b(?:fatal|error)(?:\[E\d+\])?: "
)
_NONE = re.compile(
    r"\b(?:0|no|zero|without|ignored?|any) (?:\w+ ){0,2}(?:errors?|exceptions?|failures?|failed|fail)\b"
    r"|\b(?:errors?|exceptions?|failures?|failed|fail)s?[\"']?\s*[:=]?\s*(?:0|none|null|false|\[\])(?![\w.])"
    r"|\b(?:error|exception|fail)[_-]\w|\w[_/-](?:error|exception|fail)s?\b|\b(?:on|if) (?:error|failure|exception)\b",
    re.IGNORECASE,
)
# Every text that has one of the words above has one of these, in small letters. To look for them costs next to nothing.
_STEMS = (
    "rror", "xception", "traceback", "fatal", "panic", "fail", "critical", "severe", "segfault", "segmentation",
    "core dump", "abort", "denied", "refused", "unreachable", "timed out", "out of mem", "oom", "killed", "cannot",
    "could not", "unable to",
)  # fmt: skip


def complaints(lines: Sequence[str]) -> list[int]:
    """`complaint` of each line; only those that may be one are looked at."""
    text = "\n".join(lines).lower()
    if len(text) != sum(map(len, lines)) + max(0, len(lines) - 1):  # a letter whose small form is longer
        return [complaint(line) for line in lines]
    starts = list(accumulate((len(line) + 1 for line in lines), initial=0))
    found: set[int] = set()
    for stem in _STEMS:
        at = text.find(stem)
        while at >= 0:
            line = bisect_right(starts, at) - 1
            found.add(line)
            at = text.find(stem, starts[line + 1])
    return [complaint(line) if number in found else 0 for number, line in enumerate(lines)]


def complaint(line: str) -> int:
    """0: no error. 1: it has the word. 2: it says so at its place, as errors do."""
    if not _WORDS.search(line):
        return 0
    if _STRONG.search(line):
        return 2
    return 1 if _WORDS.search(_NONE.sub(" ", line)) else 0
