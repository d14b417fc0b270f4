"""How many tokens a short text has at most, where nothing is at hand that can count them.

An estimate for a bill may be a little low; one for a limit must not be. So what is not plain language is taken for the
worst that it can be: letters in disorder, signs one by one, rare characters by their bytes. Plain language comes out
about a quarter too high. A tokenizer that counts is believed.
"""

import re
from collections.abc import Callable
from math import ceil

from holdall.text.tokens import Estimate, Tokenizer

_PIECE = re.compile(
    r"(?P<word>[A-Za-z]+)|(?P<digits>[0-9]+)|(?P<led> )(?=[A-Za-z])|(?P<spaces> +)|(?P<blank>[\t\n]+)"
    r"|(?P<rule>-{4,}|={4,}|_{4,}|\*{4,}|#{4,})"
    r"|(?P<pair>=\"|\",|\"\)|\(\"|\":|\{\"|\"\}|\}\]|\},|\],|\[\{)|(?P<known>[·…→–−×])"
    # Letters of Latin-1, Greek, Cyrillic, Hebrew and Arabic are one token each at most.
    r"|(?P<letter>[\u00c0-\u00ff\u03b1-\u03c9\u0410-\u044f\u05d0-\u05ea\u0627-\u063a\u0641-\u064a]+)"
    r"|(?P<two>[\x80-\u07ff]+)|(?P<three>[\u0800-\uffff]+)|(?P<four>[\U00010000-\U0010ffff]+)|(?P<sign>.)",
    re.DOTALL,
)
# What one character of each costs at most: of others than the above, a token for each byte.
_EACH = {
    "pair": 0.5,
    "known": 1.0,
    "letter": 1.0,
    "two": 2.0,
    "three": 3.0,
    "four": 4.0,
    "sign": 1.0,
    "blank": 0.7,
    "spaces": 0.05,
}
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
    pieces = [(match.lastgroup or "", match[0]) for match in _PIECE.finditer(text)]
    parts = [part for kind, piece in pieces if kind == "word" for part in _PART.findall(piece)]
    strange = sum(len(part) > _SHORT and part.lower() in _COMMON for part in parts) < _FEW * len(parts)
    found = sum(_word(part, strange) for part in parts)
    found += sum(_other(kind, len(piece)) for kind, piece in pieces if kind != "word")
    return ceil(found * _SPARE)


def _other(kind: str, length: int) -> float:
    if kind == "digits":
        return ceil(length / 3)
    if kind == "rule":
        return 3.0 + length / 16
    return max(1.0, _EACH[kind] * length) if kind != "led" else 0.0


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
