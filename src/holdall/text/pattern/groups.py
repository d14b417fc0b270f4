"""What stands after an opening bracket: a plain group, a name, flags, or something that is refused with a hint."""

import re
from dataclasses import dataclass

from holdall.text.pattern.cursor import Cursor
from holdall.values.errors import BadPattern

FLAGS = re.compile(r"\(\?(?P<on>[A-Za-z]*)(?:-(?P<off>[A-Za-z]+))?\)", re.ASCII)
_SCOPED_FLAGS = re.compile(r"\?(?P<on>[A-Za-z]*)(?:-(?P<off>[A-Za-z]+))?:", re.ASCII)
_NAME = re.compile(r"\?P?<([A-Za-z_][A-Za-z0-9_]*)>", re.ASCII)

_LINEAR = "is not supported (patterns run in linear time)"
_REFUSED = {
    "?P=": f"a back-reference {_LINEAR}. Capture each part and compare the values: '(\\w+) (\\w+)' with --group.",
    "?>": f"an atomic group {_LINEAR}, and not needed: nothing here backtracks. Write (?: instead.",
    "?|": "a branch reset is not supported. Write (?: and a group in each branch.",
    "?#": "a comment is not supported. Leave it out.",
    "?(": f"a condition {_LINEAR}. Write both ways as alternatives: (?:a|b).",
    "?&": f"recursion {_LINEAR}. Write the part out again.",
    "?P>": f"recursion {_LINEAR}. Write the part out again.",
    "?R": f"recursion {_LINEAR}. Write the part out again.",
    "?'": "a name in quotes is not supported. Write (?P<name>…).",
    "*": "verbs like (*SKIP) are not supported. Leave it out.",
}
_RECURSION = re.compile(r"\?[+-]?[0-9]")
_BEHIND = re.compile(r"\(\?<=([^()]+)\)([^()]+)")
_AHEAD = re.compile(r"([^()]+)\(\?=([^()]+)\)")


@dataclass(frozen=True, slots=True)
class Opening:
    captures: bool
    flags: re.Match[str] | None = None


def group_opening(cursor: Cursor, names: set[str], start: int) -> Opening:
    """The cursor stands after the bracket, and after the whole opening on return. `names` gains a new name."""
    _refuse(cursor)
    if name := cursor.took_match(_NAME):
        if name[1] in names:
            raise cursor.refusal("this name is taken already", "Give each group its own.", start=start)
        names.add(name[1])
        return Opening(captures=True)
    if flags := cursor.took_match(_SCOPED_FLAGS):
        return Opening(captures=False, flags=flags)
    if cursor.took("?"):
        cursor.at += not cursor.done
        raise cursor.refusal("there is no such group", "Known are (…), (?:…), (?P<name>…), (?i:…).", start=start)
    return Opening(captures=True)


def _refuse(cursor: Cursor) -> None:
    for look in ("?=", "?!", "?<=", "?<!"):
        if cursor.ahead(look):
            raise BadPattern(f"look-around {_LINEAR}. {_without_looking(cursor, look)}")
    for opening, why in _REFUSED.items():
        if cursor.ahead(opening):
            raise BadPattern(why)
    if cursor.took_match(_RECURSION):
        raise BadPattern(_REFUSED["?R"])


def _without_looking(cursor: Cursor, look: str) -> str:
    if look.endswith("!"):
        return "Write what may stand there, or capture it: 'user (\\w+)' with --group, and skip what is not wanted."
    instead = r"key=(\w+)"
    if behind := _BEHIND.fullmatch(cursor.text):
        instead = f"{behind[1]}({behind[2]})"
    elif ahead := _AHEAD.fullmatch(cursor.text):
        instead = f"({ahead[1]}){ahead[2]}"
    return f"Write the context into the pattern and capture: '{instead}' with --group."
