"""The form of a question whose parameters and answer are computed from the bytes of an output, and helpers for it.

Nothing here knows an output or a question; `on_data`, `on_logs` and `on_builds` have them.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, TypeVar

Category = Literal["look-up", "aggregate", "range", "steps", "other words"]
Span = tuple[int, int]
T = TypeVar("T")


class Vacuous(Exception):
    """The output has nothing that the question could be asked about."""


@dataclass(frozen=True, slots=True)
class Asked:
    """A question in words, what must stand in its answer, and the byte ranges that hold the evidence."""

    question: str
    gold: str
    where: Sequence[Span]  # empty: no range of the bytes shows it, as in a packed file


@dataclass(frozen=True, slots=True)
class Question:
    output: str
    category: Category
    type: str  # as the judge of the benchmark names it
    ask: Callable[[bytes], Asked]


QUESTIONS: list[Question] = []


def about(output: str, category: Category, type: str) -> Callable[[Callable[[bytes], Asked]], Callable[[bytes], Asked]]:
    """Adds the function below it to the questions."""

    def add(ask: Callable[[bytes], Asked]) -> Callable[[bytes], Asked]:
        QUESTIONS.append(Question(output, category, type, ask))
        return ask

    return add


def found(pattern: str, data: bytes) -> list[re.Match[bytes]]:
    """All matches, `^` and `$` being the ends of a line."""
    matches = list(re.finditer(pattern.encode(), data, re.MULTILINE))
    if not matches:
        raise Vacuous(pattern)
    return matches


def text(match: re.Match[bytes], group: int | str = 1) -> str:
    return (match[group] or b"").decode("utf-8", "replace")


def spans(matches: Iterable[re.Match[bytes]], group: int | str = 0) -> list[Span]:
    return [match.span(group) for match in matches]


def pick(items: Sequence[T], part: float = 0.6) -> T:
    """One of them, far from both ends; the same one each time."""
    if not items:
        raise Vacuous("nothing to choose from")
    return items[int((len(items) - 1) * part)]


def once(keys: Sequence[str]) -> list[str]:
    """Those that occur exactly once, in their order."""
    counts: dict[str, int] = {}
    for key in keys:
        counts[key] = counts.get(key, 0) + 1
    return [key for key in keys if counts[key] == 1]


def most(keys: Iterable[str]) -> str:
    """The most frequent. It must be the only one that is."""
    counts: dict[str, int] = {}
    for key in keys:
        counts[key] = counts.get(key, 0) + 1
    return top(counts)


def top(amounts: dict[str, int] | dict[str, float]) -> str:
    """The key of the largest amount. It must be the only one that has it."""
    if not amounts:
        raise Vacuous("nothing to compare")
    largest = max(amounts.values())
    names = [name for name, amount in amounts.items() if amount == largest]
    if len(names) > 1:
        raise Vacuous(f"{len(names)} are equally large")
    return names[0]
