"""One setting as people write it: under any of its names, a size with a unit, retention in days or in seconds.

What cannot be is refused by name, with the place, the value and the rule. Where settings come from belongs to `config`
and of `agent.files`; nothing here looks at a disk.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import Field, fields, replace
from math import inf
from typing import Any, cast

from holdall.text.numbers import parse_size
from holdall.values import retention
from holdall.values.errors import BadRange, BadSetting
from holdall.values.settings import CEILING, FIXED, LESS, ToolPolicy, by_name, check

SETTINGS, OF_A_TOOL = by_name(), by_name(ToolPolicy)
TABLES = "tools"  # the one setting that is a table of tables
IN_SECONDS = "asyncToolTTL"  # in the documents retention is a number of seconds
_NEAR = 0.6


def value_of(
    key: str, value: Any, where: str, *, known: "Mapping[str, Field[Any]]" = SETTINGS, inside: str = ""
) -> tuple[str, Any]:
    """Our own name of the setting, and its value as Settings takes it. `inside` is before the key in messages."""
    one, full = known.get(key), inside + key
    if one is None:
        is_of_a_tool = not inside and key in OF_A_TOOL  # what is set per tool is not like any name, it is elsewhere
        near = f"{TABLES}.NAME.{OF_A_TOOL[key].name}" if is_of_a_tool else nearest(key, known)
        raise unknown(full, value, where, inside + near if near else "", of_a_tool=bool(inside))
    if value is None and one.default is None:  # front matter can say that there is none
        return one.name, None
    if isinstance(value, str) and one.name.endswith("_bytes"):
        try:
            value = parse_size(value)
        except BadRange as problem:
            raise BadSetting(full, value, str(problem), where=where) from problem
    if one.name == "retention":
        return one.name, _retention(key, value, where)
    check(one, value, key=full, where=where)
    return one.name, value


def _retention(key: str, value: object, where: str) -> str:
    if key != IN_SECONDS or isinstance(value, bool | str) or not isinstance(value, int | float):
        return retention.parse(value, key=key, where=where).told
    try:
        return retention.parse(value / retention.DAY).told
    except (BadSetting, OverflowError) as problem:
        rule = f"it must be a number of seconds from 0 to {36_500 * retention.DAY:,.0f}"
        raise BadSetting(key, value, rule, where=where) from problem


# What a file from outside may not loosen


def is_looser(one: "Field[Any]", value: Any, than: Any) -> bool:
    """Whether `value` allows more than what the user has set."""
    rule = one.metadata["stricter"]
    if rule is None:
        return False
    if rule == FIXED:
        return bool(value != than)
    if one.name == "retention":
        return _days(value) > _days(than)
    if rule in (LESS, CEILING):
        return than is not None and (value is None or value > than)
    return _rank(value, rule) > _rank(than, rule)


def strictest(policies: Sequence[ToolPolicy]) -> ToolPolicy:
    """What the first says, where no other is stricter."""
    found = policies[0]
    for other in policies[1:]:
        now = {one.name: (getattr(found, one.name), getattr(other, one.name)) for one in fields(ToolPolicy)}
        stricter = {
            name: theirs
            for name, (ours, theirs) in now.items()
            if theirs is not None and (ours is None or is_looser(OF_A_TOOL[name], ours, theirs))
        }
        found = replace(found, **stricter)
    return found


def _days(value: Any) -> float:
    rule = retention.parse(value) if value is not None else retention.Retention()
    return -1.0 if rule.session else inf if rule.days is None else rule.days


def _rank(value: Any, strictest_first: tuple[Any, ...]) -> int:
    return strictest_first.index(value) if value in strictest_first else len(strictest_first)


# A name that there is not


class HiddenValue:
    """A value that may be a secret: a message says only what it is."""

    def __init__(self, value: object) -> None:
        self._kind = "a table" if isinstance(value, Mapping) else "a list" if isinstance(value, list) else "text"

    def __repr__(self) -> str:
        return self._kind


def shown(value: object) -> object:
    """The value of a name that nobody knows, for a message: numbers, true and false as they are."""
    return value if value is None or isinstance(value, bool | int | float) else HiddenValue(value)


def unknown(key: str, value: object, where: str, near: str, *, of_a_tool: bool = False) -> BadSetting:
    kind = "setting of a tool" if of_a_tool else "setting"
    meant = f"; did you mean {near}?" if near else "."
    if of_a_tool and isinstance(value, Mapping):
        meant = f'. A name with a dot is written in quotes: [tools."{key.removeprefix("tools.")}"].'
    rule = f"there is no such {kind}{meant} `holdall config show` lists all of them."
    return BadSetting(key, shown(cast("object", value)), rule, where=where)


def nearest(key: str, known: Iterable[str]) -> str:
    """The known name that `key` is most like, whatever its case and underscores; our own before the documents'."""
    plain: dict[str, str] = {}
    for name in known:
        plain.setdefault(_plain(name), name)
    import difflib  # noqa: PLC0415 - only for a name that is wrong

    near = difflib.get_close_matches(_plain(key), plain, n=1, cutoff=_NEAR)
    return plain[near[0]] if near else ""


def _plain(name: str) -> str:
    return name[:100].replace("_", "").replace("-", "").lower()
