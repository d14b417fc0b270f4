"""What a question names and what it wants, by its words alone: a general reading that knows no output and no answer."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

Wish = Literal["find", "count", "frequent", "largest", "final", "latest", "earliest", "around"]


def _words(text: str) -> frozenset[str]:
    return frozenset(re.findall(r"\w+", text))


_QUOTED = re.compile(r'(?<=")[^"]+(?=")|(?<=“)[^”]+(?=”)|(?<=`)[^`]+(?=`)|(?<=《)[^》]+(?=》)|(?<=「)[^」]+(?=」)')
_INDEX = re.compile(r"(?:\bindex |\[|#)(\d+)\b\]?")
_UNITS = r"(?:ns|µs|us|ms|s|secs?|seconds?|minutes?|hours?|bytes?|[KMG]i?B?|%|percent)"
_UNIT = re.compile(rf"(?<=\(){_UNITS}(?=\))|(?<=\bhow many ){_UNITS}(?!\w)", re.IGNORECASE)
_CAPITALS = re.compile(r"[A-Z][A-Z-]+")
_STOP = _words(
    """a all an and any are as at be by can did do does each ever for from give had has have how i if in into is it
    its list many me much of on only or out per please possible say says show tell than that the their them there
    these they this those to under was we were what when where which who whose why with you"""
)
_WISHES: tuple[tuple[Wish, str], ...] = (
    ("around", r"\b(follows?|following|preced\w+|right (after|before)|next to|(line|entry|record) (after|before))\b"),
    ("frequent", r"\b(most (frequent|common|often|entries|times)|commonest)\b"),
    ("largest", r"\b(longest|slowest|largest|biggest|highest|greatest|maximum|maximal)\b"),
    ("count", rf"\b(how many(?! {_UNITS}\b)|number of (?!\d)|count of)\b"),
    ("final", r"\b(final|at the (very )?end)\b"),
    ("latest", r"\b(last|latest|newest|most recent)\b"),
    ("earliest", r"\b(first|earliest|oldest)\b"),
)
# The words that state a wish are not looked for.
_OF_WISHES = _words(
    """follow following precede next after before most frequent common often commonest longest slowest largest biggest
    highest greatest maximum number count final end last latest newest recent first earliest oldest line"""
)
# A kind of value that a question may ask for by name, and what such a value looks like.
KINDS = {
    "ip": r"\d{1,3}(?:\.\d{1,3}){3}",
    "url": r"https?://[^\s\"'<>]+",
    "email": r"[\w.+-]+@[\w-]+(?:\.[\w-]+)+",
    "uuid": r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}",
}


@dataclass(frozen=True, slots=True)
class Question:
    """What it names, from what hardly occurs by chance down to plain words, and what it asks for."""

    text: str
    wish: Wish
    quoted: tuple[str, ...]
    strong: tuple[str, ...]  # dotted, slashed and snake_case names, longer numbers, runs of capitals
    names: tuple[str, ...]  # Capitalised, CAPITALS, camelCase, hyphenated
    letters: tuple[str, ...]  # single ones, as in "status A or B"
    runs: tuple[tuple[str, ...], ...]  # all its words, those together that stand side by side
    index: int | None
    unit: str
    kind: str  # of the value that is asked for, one of KINDS

    @property
    def keys(self) -> tuple[str, ...]:
        """The most specific of what it names."""
        return self.quoted or self.strong or self.names or self.letters

    @property
    def enumerates(self) -> bool:
        """Whether its keys are several things that are asked for, and not one thing that has them all."""
        between = re.compile(r"\W*(?:,|\band\b|\bor\b)\W*")
        pairs = zip(self.keys, self.keys[1:], strict=False)
        return any(between.fullmatch(self.text.partition(one)[2].partition(other)[0]) for one, other in pairs)

    @property
    def others(self) -> tuple[str, ...]:
        """What else it names, then its words."""
        terms = [*self.quoted, *self.strong, *self.names, *(word for run in self.runs for word in run)]
        return _distinct(term for term in terms if term not in self.keys)

    @property
    def lists(self) -> bool:
        """Whether it asks for all of several."""
        return bool(re.search(r"\b(list|all|every|each)\b", self.text.lower()))


def read(text: str) -> Question:
    quoted = _distinct(_QUOTED.findall(text))
    rest = text
    for quotation in quoted:
        rest = rest.replace(quotation, "¶")
    index, unit = _INDEX.search(rest), _UNIT.search(rest)
    tokens = _joined_capitals([_trimmed(token) for token in _UNIT.sub("¶", _INDEX.sub(" ¶ ", rest)).split()])
    kind = next((kind for kind in KINDS for token in tokens if token.lower() in (kind, f"{kind}s")), "")
    runs = _runs(tokens, without=(kind, *_OF_WISHES))
    words = [word for run in runs for word in run]
    in_latin = sum(token.isascii() for token in tokens) * 2 > len(tokens)
    strong = [word for word in words if _is_strong(word, in_latin=in_latin)]
    names = [word for word in words if word not in strong and _is_name(word, begins=word == tokens[0])]
    letters = [token for token in tokens if re.fullmatch(r"[B-HJ-Zb-z]", token)]
    return Question(
        text, _wish(text), quoted, _distinct(strong), _distinct(names), _distinct(letters), runs,
        int(index[1]) if index else None, unit[0] if unit else "", kind,
    )  # fmt: skip


def words_of(text: str) -> set[str]:
    """Its words in small letters and the singular, without those that every text has; parts of camelCase too."""
    found: list[str] = re.findall(r"[^\W\d_]+", text) + re.findall(r"[A-Z]?[a-z]+", text)
    plain = {singular(word) for word in found if word.lower() not in _STOP}
    return {word for word in plain if len(word) > 1} - _OF_WISHES


def singular(word: str) -> str:
    word = word.lower()
    return word[:-1] if len(word) > 3 and word.endswith("s") and not word.endswith(("ss", "us", "is")) else word


def spelled(terms: Sequence[str], *, whole: bool = True) -> str:
    """A pattern for any of the terms: as whole words where they begin and end as words do, singular or plural."""
    patterns: list[str] = []
    for term in terms:
        text = re.sub(r"([\\.^$*+?()\[\]{}|])", r"\\\1", term)
        if whole and re.fullmatch(r"[A-Za-z]{4,}", term):
            text = text[: len(singular(term))] + "s?"
        left = r"\b" if whole and re.match(r"\w", term, re.ASCII) else ""
        right = r"\b" if whole and re.search(r"\w$", term, re.ASCII) else ""
        patterns.append(f"{left}{text}{right}")
    return patterns[0] if len(patterns) == 1 else f"(?:{'|'.join(patterns)})"


def _wish(text: str) -> Wish:
    for wish, pattern in _WISHES:
        if re.search(pattern, text.lower()):
            return wish
    return "find"


def _distinct(terms: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(terms))


def _trimmed(token: str) -> str:
    return token.strip("¶,;:!?()[]*'\"“”`《》「」").rstrip(".")


def _joined_capitals(tokens: list[str]) -> list[str]:
    """Words in capitals that follow one another are one term."""
    joined: list[str] = []
    for token in tokens:
        if joined and _CAPITALS.fullmatch(token) and _CAPITALS.fullmatch(joined[-1].rpartition(" ")[2]):
            joined[-1] += f" {token}"
        else:
            joined.append(token)
    return joined


def _runs(tokens: list[str], *, without: Sequence[str]) -> tuple[tuple[str, ...], ...]:
    runs: list[list[str]] = [[]]
    for token in tokens:
        plain = token.lower()
        if not token or plain in _STOP or plain in without or singular(plain) in without or plain == f"{without[0]}s":
            runs.append([])
        else:
            runs[-1].append(token)
    return tuple(tuple(run) for run in runs if run)


def _is_strong(word: str, *, in_latin: bool) -> bool:
    if re.fullmatch(r"[\d.,:]+", word):
        return len(word) > 2
    if in_latin and re.fullmatch(r"[^\x00-\x7f]+", word):
        return True  # in another script than the question: a name
    return bool(re.search(r"\w[._$:@]+\w|/|\\|[{}<>=]|[A-Z] [A-Z]|\d{3}", word))


def _is_name(word: str, *, begins: bool) -> bool:
    if re.search(r"[a-z][A-Z]|^[A-Z][A-Z0-9]+$|\w-\w|[A-Za-z]\d|^\d\d+$", word):
        return True
    return word[0].isupper() and len(word) > 1 and not begins
