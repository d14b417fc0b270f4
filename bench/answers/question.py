"""What a question names and what it wants, by its words alone: a general reading that knows no output and no answer."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

Wish = Literal["find", "count", "frequent", "largest", "final", "latest", "earliest", "around"]

_QUOTED = re.compile(r'"([^"]+)"|“([^”]+)”|`([^`]+)`|《([^》]+)》|「([^」]+)」')
_INDEX = re.compile(r"\bindex (\d+)|\[(\d+)\]|#(\d+)")
_UNIT = r"(ns|µs|us|ms|s|secs?|seconds?|minutes?|hours?|bytes?|[KMG]i?B?|%|percent)"
_WITH_UNIT = re.compile(rf"\({_UNIT}\)|\b[Hh]ow (?:many|much) {_UNIT}(?!\w)")
_CAPITALS = re.compile(r"[A-Z][A-Z-]+")
_STOP = frozenset(
    "a all an and any are as at be by can did do does each ever for from give had has have how i if in into is it its "
    "list many me much of on only or out per please possible say says show tell than that the their them there these "
    "they this those to under was we were what when where which who whose why with you".split()
)
_WISHES: tuple[tuple[Wish, str], ...] = (
    ("around", r"\b(follows?|following|preced\w+|right (after|before)|next to|(line|entry|record) (after|before))\b"),
    ("frequent", r"\b(most (frequent|common|often|entries|times)|commonest)\b"),
    ("largest", r"\b(longest|slowest|largest|biggest|highest|greatest|maximum|maximal)\b"),
    ("count", rf"\b(how many(?! {_UNIT}\b)|number of (?!\d)|count of)\b"),
    ("final", r"\b(final|at the (very )?end)\b"),
    ("latest", r"\b(last|latest|newest|most recent)\b"),
    ("earliest", r"\b(first|earliest|oldest)\b"),
)
# The words that state a wish are not looked for.
_OF_WISHES = frozenset(
    "follow following precede next after before most frequent common often commonest longest slowest largest biggest "
    "highest greatest maximum number count final end last latest newest recent first earliest oldest line".split()
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
    """Keys are what hardly occurs by chance; names are written as names are; words are all the rest, in their order."""

    text: str
    wish: Wish
    quoted: tuple[str, ...]
    strong: tuple[str, ...]  # dotted, slashed and snake_case names, longer numbers, runs of capitals
    names: tuple[str, ...]  # Capitalised, CAPITALS, camelCase, hyphenated
    letters: tuple[str, ...]  # single ones, as in "status A or B"
    runs: tuple[tuple[str, ...], ...]  # words that stand side by side
    index: int | None
    unit: str
    kind: str  # of the value that is asked for, one of KINDS
    lists: bool  # asks for all of several

    @property
    def keys(self) -> tuple[str, ...]:
        """The most specific of what it names."""
        return self.quoted or self.strong or self.names or self.letters

    @property
    def others(self) -> tuple[str, ...]:
        """What else it names, then its words."""
        named = [*self.quoted, *self.strong, *self.names]
        words = [word for run in self.runs for word in run]
        return tuple(dict.fromkeys(term for term in [*named, *words] if term not in self.keys))


def read(text: str) -> Question:
    quoted = tuple(dict.fromkeys(next(filter(None, found)) for found in _QUOTED.findall(text)))
    rest = _QUOTED.sub(" ¶ ", text)
    index, unit = _INDEX.search(rest), _WITH_UNIT.search(rest)
    rest = _WITH_UNIT.sub(" ¶ ", _INDEX.sub(" ¶ ", rest))
    lowered = text.lower()
    wish = next((wish for wish, pattern in _WISHES if re.search(pattern, lowered)), "find")
    tokens = _joined_capitals([_trimmed(token) for token in rest.split()])
    kind = next((kind for kind in KINDS for token in tokens if token.lower() in (kind, f"{kind}s")), "")
    strong: list[str] = []
    names: list[str] = []
    letters: list[str] = []
    runs: list[list[str]] = [[]]
    in_latin = sum(token.isascii() for token in tokens) * 2 > len(tokens)
    for at, token in enumerate(tokens):
        if not token or token.lower() in _STOP or token.lower().rstrip("s") in (kind, *_OF_WISHES):
            runs.append([])
            if len(token) == 1 and token.isalpha() and token.lower() != "a" and token != "I":
                letters.append(token)
            continue
        runs[-1].append(token)
        if len(token) == 1:
            letters += [token] if token.isalpha() else []
        elif _is_strong(token) or (in_latin and re.fullmatch(r"[^\x00-\x7f]+", token)):  # another script: a name
            strong.append(token)
        elif _is_name(token, begins=at == 0):
            names.append(token)
    lists = bool(re.search(r"\b(list|all|every|each)\b", lowered))
    return Question(
        text, wish, quoted, _distinct(strong), _distinct(names), _distinct(letters),
        tuple(tuple(run) for run in runs if run), int(next(filter(None, index.groups()))) if index else None,
        next(filter(None, unit.groups())) if unit else "", kind, lists,
    )  # fmt: skip


def words_of(text: str) -> set[str]:
    """Its words in small letters and the singular, without those that every text has; parts of camelCase too."""
    found = re.findall(r"[^\W\d_]+", text) + re.findall(r"[A-Z]?[a-z]+", text)
    plain = {singular(word) for word in found if word.lower() not in _STOP}
    return {word for word in plain if len(word) > 1} - _OF_WISHES


def singular(word: str) -> str:
    word = word.lower()
    return word[:-1] if len(word) > 3 and word.endswith("s") and not word.endswith(("ss", "us", "is")) else word


def _distinct(terms: list[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(terms))


def _trimmed(token: str) -> str:
    return token.strip("¶,;:!?()[]*'\"").rstrip(".")


def _joined_capitals(tokens: list[str]) -> list[str]:
    """Words in capitals that follow one another are one term."""
    joined: list[str] = []
    for token in tokens:
        if joined and _CAPITALS.fullmatch(token) and _CAPITALS.fullmatch(joined[-1].rpartition(" ")[2]):
            joined[-1] += f" {token}"
        else:
            joined.append(token)
    return joined


def _is_strong(token: str) -> bool:
    if re.fullmatch(r"[\d.,:]+", token):
        return len(token) > 2
    return bool(re.search(r"\w[._$:@]+\w|/|\\|[{}<>=]|[A-Z] [A-Z]|\d{3}", token))


def _is_name(token: str, *, begins: bool) -> bool:
    if re.search(r"[a-z][A-Z]|^[A-Z][A-Z0-9]+$|\w-\w|[A-Za-z]\d|^\d+$", token):
        return True
    return token[0].isupper() and not begins


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
