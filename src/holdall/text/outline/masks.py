"""What varies from line to line, masked: times, addresses, numbers, hashes, paths. What is left is a line's shape.

Words without a digit, a slash or an `@` are passed over at once. Which digits they are makes no difference, so words
are masked with all of them as 0, and what is known of a word is remembered. Every pattern is bounded or possessive, so
that no line makes them slow.
"""

import re
from functools import lru_cache

_LINKS = (
    ("url", r"\b(?:https?|ftp|file|git|ssh)://[^\s\"'<>)\]]++"),
    ("email", r"(?<![\w.+-])[\w.+-]{1,64}@[\w-]{1,63}(?:\.[\w-]{1,63}){1,4}\b"),
)
_PATHS = (("path", r"(?<![\w.<])(?:~|\.{1,2})?/(?:[\w.@%+,:-]{1,128}/){1,}[\w.@%+,:-]{0,128}"),)
_NUMBERS = (
    ("uuid", r"\b[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}\b"),
    ("time", (r"\b\d{4}[-/]\d\d[-/]\d\d(?:[T,]\d\d:\d\d(?::\d\d)?(?:[.,]\d{1,9})?(?:Z|[+-]\d\d:?\d\d\b)?)?"
             r"|\b\d{1,2}/[A-Z][a-z]{2}/\d{4}:\d\d:\d\d:\d\d|\b\d\d:\d\d:\d\d(?:[.,]\d{1,9})?\b")),
    ("ip", (r"\b\d{1,3}\.\d{1,3}\.\d{1,3}\.\d{1,3}(?::\d{1,5})?\b(?!\.)"
           r"|(?<![\w:])(?:[0-9a-fA-F]{1,4}:){3,7}(?::|[0-9a-fA-F]{1,4})(?::[0-9a-fA-F]{1,4}){0,4}(?![\w:])")),
    ("hash", r"\bSHA(?:1|256|512):[\w+/=]{20,}"),
    ("hex", (r"\b0x[0-9a-fA-F]++\b|\b(?=[a-fA-F]{0,64}\d)(?=\d{0,64}[a-fA-F])[0-9a-fA-F]{8,128}\b"
            r"|^(?=.{0,3}[a-f])(?=.{0,3}\d)[0-9a-f]{4}$")),
    ("n", r"(?<![A-Za-z_])[-+]?\d++(?:[.,]\d++)*(?![A-Za-z_]{4})|\d++"),
)  # fmt: skip


def _compiled(*masks: tuple[str, str]) -> re.Pattern[str]:
    return re.compile("|".join(f"(?P<{name}>{pattern})" for name, pattern in masks))


_plain = _compiled(*_NUMBERS)
_short = _compiled(*_NUMBERS[:4], *_PATHS, *_NUMBERS[4:])
_any = _compiled(*_LINKS, *_NUMBERS[:4], *_PATHS, *_NUMBERS[4:])
_ZEROS = str.maketrans("123456789", "000000000")
_DUMP = re.compile(r"(?<!\S)(?:[0-9a-f]{2,8} {1,2}){3,}[0-9a-f]{2,8}(?!\S)")
_RUN = re.compile(r"(?:(?:<n>|<hex>) ){4,}(?:<n>|<hex>)")
_QUOTED = re.compile(r"\"[^\"\n]{0,400}\"|'[^'\n]{0,400}'(?!\w)|`[^`\n]{0,400}`")
_LONGEST = 320  # characters of a line that make its shape


def masked(line: str) -> str:
    """`line` with names in angle brackets for what varies; runs of white space as one space."""
    line = line[:_LONGEST].translate(_ZEROS)
    if "0" in line:
        line = _DUMP.sub(_hex, line)
    words = [_mask(word) if "0" in word or "/" in word or "@" in word else word for word in line.split()]
    text = " ".join(words)
    if "<" not in text:
        return text
    text = text.replace("<time> <time>", "<time>").replace(" ]", "]")
    return _RUN.sub("<n> …", text)


def unquoted(line: str) -> str:
    """The same with what stands in quotes masked too."""
    if '"' not in line and "'" not in line and "`" not in line:
        return line
    return _QUOTED.sub(lambda found: f"{found[0][0]}<…>{found[0][-1]}", line)


@lru_cache(maxsize=8192)
def _mask(word: str) -> str:
    # Most words need only the shortest list: trying the others at every letter is what makes masking slow.
    masks = _any if "@" in word or "://" in word else _short if "/" in word else _plain
    return masks.sub(_name, word)


def _name(found: re.Match[str]) -> str:
    return f"<{found.lastgroup}>"


def _hex(found: re.Match[str]) -> str:
    """Bytes as a dump writes them, all of one width."""
    words = found[0].split()
    same = len({len(word) for word in words[:-1]}) == 1
    return "<hex> …" if same and any(word.isdigit() for word in words) else found[0]
