"""How many tokens a short text has at most, where nothing is at hand that can count them.

An estimate for a bill may be a little low; one for a limit must not be. So what is not plain language is taken for the
worst that it can be: letters in disorder, signs one by one, rare characters by their bytes. Plain language comes out
about a quarter too high. A tokenizer that counts is believed.
"""

import re
from collections import Counter
from collections.abc import Callable
from functools import lru_cache
from math import ceil

from holdall.text.tokens import Estimate, Tokenizer

# What is not a word, nor the space before one, in pieces; words are matched only to be stepped over.
_OTHERS = re.compile(
    r"[A-Za-z]+| (?=[A-Za-z])|([0-9]+| +|[\t\n]+|-{4,}|={4,}|_{4,}|\*{4,}|#{4,}"
    r"|=\"|\",|\"\)|\(\"|\":|\{\"|\"\}|\}\]|\},|\],|\[\{|[·…→–−×]"
    # Letters of Latin-1, Greek, Cyrillic, Hebrew and Arabic are one token each at most.
    r"|[\u00c0-\u00ff\u03b1-\u03c9\u0410-\u044f\u05d0-\u05ea\u0627-\u063a\u0641-\u064a]+"
    r"|[\x80-\u07ff]+|[\u0800-\uffff]+|[\U00010000-\U0010ffff]+|.)",
    re.DOTALL,
)
_LETTER = re.compile(r"[\u00c0-\u00ff\u03b1-\u03c9\u0410-\u044f\u05d0-\u05ea\u0627-\u063a\u0641-\u064a]")
_SPARE = 1.06  # what pieces cost more beside each other than alone
_PART = re.compile(r"[A-Z]?[a-z]+|[A-Z]+")
_SPEAKABLE = re.compile(
    # Possessive: vowels without end would take without end.
    r"(?:[bcdfghjklmnpqrstvwxz]{0,3}+[aeiouy]{1,2}+)++[bcdfghjklmnpqrstvwxz]{0,4}+",
    re.IGNORECASE | re.ASCII,
)
_WORDS = """
a an and any are as at be by can do for from has have if in into is it its last line lines first more most no not of on
or rows row so text than that the there this to total up use user was with your bytes byte call code columns config
count created data date day error errors failed false file files get handle host http https id info int float str key
keys like message name names null number open page path pattern port query read request result select server session
sql start started state status string test tests time title token type url value values version warning true tokens
kept distinct often context grep group limit
"""
_COMMON = frozenset(_WORDS.split())
_REMEMBERED = 400  # characters
_SHORT, _LONG = 2, 16  # letters; so short words are nothing to go by, and so long ones are none
_FEW = 0.1  # where fewer of the words are common ones, it is not a language that is known here


def counter(tokenizer: Tokenizer) -> Callable[[str], int]:
    """What counts the tokens of a text, never too few, and never fails."""
    if isinstance(tokenizer, Estimate):
        return at_most

    def count(text: str) -> int:
        try:
            return tokenizer.count(text)
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException:  # tokenizers written in Rust panic with what is no Exception
            return at_most(text)

    return count


def at_most(text: str) -> int:
    return _remembered(text) if len(text) <= _REMEMBERED else _at_most(text)


@lru_cache(maxsize=512)
def _remembered(text: str) -> int:
    """A line of an outline is counted when the outline is chosen, and again when the notice is."""
    return _at_most(text)


def _at_most(text: str) -> int:
    parts, others = Counter(_PART.findall(text)), Counter(_OTHERS.findall(text))
    common = sum([times for part, times in parts.items() if len(part) > _SHORT and part.lower() in _COMMON])
    strange = common < _FEW * parts.total()
    known, seen = _known_word, _known_other  # what is long is not remembered
    found = sum(
        [
            times * (known(part, strange) if len(part) <= _LONG else _word(part, strange))
            for part, times in parts.items()
        ]
    )
    found += sum([times * (seen(piece) if len(piece) <= _LONG else _other(piece)) for piece, times in others.items()])
    return ceil(found * _SPARE)


def _other(piece: str) -> float:
    """What a piece that is no word costs at most: of what is not named here, a token for each byte."""
    length, first = len(piece), piece[:1]
    if not piece:  # a word, or the space before one, which costs nothing
        return 0.0
    if first in "0123456789":
        return ceil(length / 3)
    if first == " ":
        return max(1.0, 0.05 * length)
    if first in "\t\n":
        return max(1.0, 0.7 * length)
    if first < "\x80":  # signs: two that often stand together are one token, of a rule many are
        return 3.0 + length / 16 if length > 2 else 1.0
    if first in "·…→–−×" or _LETTER.match(first):
        return float(length)
    return float(length * (2 if first < "\u0800" else 3 if first < "\U00010000" else 4))


def _word(part: str, strange: bool) -> float:
    if len(part) <= _SHORT or part.lower() in _COMMON:
        return 1.0 if part.islower() or len(part) == 1 else 1.4
    if part.isupper():
        return 1.0 if len(part) == _SHORT + 1 and not strange else len(part) / 1.6
    if not _SPEAKABLE.fullmatch(part):
        return max(1.0, len(part) / 1.4)
    if strange or len(part) > _LONG:
        return max(1.0, len(part) / 1.9)
    return 1.0 + max(0.0, (len(part) - 7) / 5)


_known_word, _known_other = lru_cache(maxsize=4096)(_word), lru_cache(maxsize=1024)(_other)
