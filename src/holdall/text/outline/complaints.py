"""Lines that look like errors. A guess by words, which leaves out what says that there are none."""

import re

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


def complaint(line: str) -> int:
    """0: no error. 1: it has the word. 2: it says so at its place, as errors do."""
    if not _WORDS.search(line):
        return 0
    if _STRONG.search(line):
        return 2
    return 1 if _WORDS.search(_NONE.sub(" ", line)) else 0
