"""What a model reads where its arguments do not fit a function: which one, and what it must be.

The words are those that our own tools use (`wire.arguments`). A complaint never repeats a value: it may be a megabyte.
"""

from collections.abc import Iterable, Sequence
from typing import Literal

Fault = Literal["must", "missing", "unknown"]
_MOST_LISTED = 40
_LONGEST_NAME = 60
_LONGEST_RULE = 500
_LONGEST_PATH = 210


class Misfit(Exception):
    """`place` leads from the argument to the value: names of members, and numbers of entries, from 0.

    Of a fault "must", `rule` says what it must be; of "unknown", the last name of the place is one that there is not,
    and `known` are those that there are.
    """

    def __init__(
        self, rule: str = "", *, place: tuple[str | int, ...] = (), fault: Fault = "must", known: tuple[str, ...] = ()
    ) -> None:
        super().__init__(rule)
        self.rule = rule
        self.place = place
        self.fault: Fault = fault
        self.known = known

    def inside(self, *steps: str | int) -> "Misfit":
        """The same, seen from so many levels further out."""
        return Misfit(self.rule, place=(*steps, *self.place), fault=self.fault, known=self.known)


def complaint(misfit: Misfit) -> str:
    """One sentence."""
    match misfit.fault, misfit.place:
        case "missing", place:
            return f"The argument {_path(place)!r} is missing."
        case "unknown", (name,):
            return f"There is no argument {_path((name,))!r}. Arguments are: {_listed(misfit.known)}."
        case "unknown", place:
            return f"The argument {_path(place[:-1])!r} has no {_path(place[-1:])!r}. It has: {_listed(misfit.known)}."
        case _, ():
            return f"The arguments {misfit.rule[:_LONGEST_RULE]}."
        case _, place:
            return f"The argument {_path(place)!r} {misfit.rule[:_LONGEST_RULE]}."


def one_of(choices: Sequence[object]) -> str:
    return f"must be one of {_listed(str(choice) for choice in choices)}"


def one_of_these(rules: Iterable[str]) -> str:
    """Of a value that may be several things: "must be a number or null"."""
    return " or ".join(dict.fromkeys(rules)).replace(" or must be ", " or ")


def not_right(why: str) -> str:
    """Where the function's own check refused a value, in that check's words."""
    return f"is not right: {why[:_LONGEST_RULE]}"


def entries(number: int) -> str:
    return f"must be an array of {number} entries"


A_TEXT = "must be a string"
AN_INTEGER = "must be an integer"
A_NUMBER = "must be a number"
A_SWITCH = "must be true or false"
NULL = "must be null"
AN_ARRAY = "must be an array"
AN_OBJECT = "must be an object"
TOO_DEEP = "are nested too deeply"


def _path(place: Sequence[str | int]) -> str:
    text = "".join(f"[{step}]" if isinstance(step, int) else f".{step[:_LONGEST_NAME]}" for step in place)
    text = text.removeprefix(".")
    return text if len(text) <= _LONGEST_PATH else f"{text[:100]} … {text[-100:]}"


def _listed(names: Iterable[str]) -> str:
    shown = [name[:_LONGEST_NAME] for name in names]
    more = f" and {len(shown) - _MOST_LISTED} more" if len(shown) > _MOST_LISTED else ""
    return (", ".join(shown[:_MOST_LISTED]) or "none") + more
