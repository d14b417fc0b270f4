"""The keys of an agent's front matter, each with its rule, and every setting beside them.

`tools` lists functions, so the tables for single tools, which Settings calls `tools`, stand under `tools_policy` here.
A null means that a key was left out. Values are checked and named; nothing is opened, imported or started.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, cast

from holdall.agent.files_text import Document, Path
from holdall.agent.functions_load import is_spec
from holdall.policy.setting_values import OF_A_TOOL, SETTINGS, TABLES, Unshown, nearest, shown, value_of
from holdall.text.escape import one_line
from holdall.values.errors import BadSetting

TABLES_KEY = "tools_policy"
KNOWN = {**SETTINGS, "max_depth": SETTINGS["max_agent_depth"]}  # in its own file an agent is what it is about
_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}", re.ASCII)


@dataclass(frozen=True, slots=True)
class Rule:
    """What a value must be, in words and as a check."""

    words: str
    holds: Callable[[object], bool]


def _is_text(value: object) -> bool:
    return isinstance(value, str) and bool(value.strip()) and "\0" not in value


def _is_list(value: object) -> bool:
    return isinstance(value, list)


def _is_name(value: object) -> bool:
    return isinstance(value, str) and _NAME.fullmatch(value) is not None


OWN: Mapping[str, Rule] = {
    "name": Rule("it must be 1 to 64 letters, digits, - and _", _is_name),
    "description": Rule("it must be a text", _is_text),
    "tools": Rule("it must be a list of functions, each as module:name", _is_list),
    "servers": Rule(
        "it must be the path of an mcp.json or a table of servers", lambda value: _is_text(value) or _is_table(value)
    ),
    "agents": Rule("it must be a list of agents' files, by their paths from this file", _is_list),
}
# What each entry of a list must be.
_ENTRIES = {
    "tools": Rule("it must be a function as module:name", is_spec),
    "agents": Rule("it must be the path of an agent's file", _is_text),
}


@dataclass(frozen=True, slots=True)
class Checked:
    """`own` has the agent's own keys, `settings` all others by our names, `sources` the place of each."""

    own: dict[str, Any] = field(default_factory=dict[str, Any])
    settings: dict[str, Any] = field(default_factory=dict[str, Any])
    sources: dict[str, str] = field(default_factory=dict[str, str])


def checked(document: Document, path: str) -> Checked:
    """Raises BadSetting at the first thing that is wrong."""

    def place(*keys: str) -> str:
        return f"{one_line(path)}, line {document.lines[keys]}"

    found, written = Checked(), dict[str, str]()
    for key, value in cast("Mapping[str, Any]", document.value).items():
        if key in OWN:
            _check_own(key, value, place(key))
            if value is not None:
                found.own[key], found.sources[key] = value, place(key)
        elif key == TABLES_KEY:
            _add_tables(found, value, place)
        elif key not in KNOWN:
            raise _unknown(key, value, place(key))
        else:
            name, given = value_of(key, value, place(key), known=KNOWN)
            if (first := written.setdefault(name, key)) != key:
                rule = f"it is the same setting as {first!r} ({place(first)}); one of them is enough"
                raise BadSetting(key, given, rule, where=place(key))
            found.settings[name], found.sources[name] = given, place(key)
    _check_room(found)
    return found


def _check_own(key: str, value: object, where: str) -> None:
    rule = OWN[key]
    if value is None:
        return
    if not rule.holds(value):
        words = rule.words
        if key == "tools" and _is_table(value):
            words += f"; what is different for a tool stands under {TABLES_KEY}"
        given = Unshown(value) if key == "servers" else shown(value) if not isinstance(value, str) else value
        raise BadSetting(key, given, words, where=where)
    seen = set[str]()
    for number, entry in enumerate(cast("list[object]", value) if key in _ENTRIES else [], 1):
        if not _ENTRIES[key].holds(entry):
            raise BadSetting(f"{key}[{number}]", entry, _ENTRIES[key].words, where=where)
        if str(entry) in seen:
            raise BadSetting(f"{key}[{number}]", entry, "it stands twice", where=where)
        seen.add(str(entry))


def _add_tables(found: Checked, tables: object, place: Callable[..., str]) -> None:
    tools: dict[str, dict[str, Any]] = {}
    for tool, table in _items(tables, TABLES_KEY, "it must be a table with a table for each tool", place(TABLES_KEY)):
        where: Path = (TABLES_KEY, tool)
        rule = f"it must be a table, as in {TABLES_KEY}: {{{tool[:60]}: {{store: never}}}}"
        for key, value in _items(table, ".".join(where), rule, place(*where)):
            at = place(*where, key)
            if key not in OF_A_TOOL:
                raise _unknown_of_a_tool(".".join((*where, key[:60])), key, value, at)
            name, given = value_of(key, value, at, known=OF_A_TOOL, inside=f"{TABLES_KEY}.{tool}.")
            tools.setdefault(tool, {})[name] = given
            found.sources[f"{TABLES}.{tool}.{name}"] = at
    if tools:
        found.settings[TABLES] = tools


def _items(value: object, key: str, rule: str, where: str) -> Iterator[tuple[str, object]]:
    if value is None:
        return
    if not _is_table(value):
        raise BadSetting(key, shown(value), rule, where=where)
    yield from cast("Mapping[str, object]", value).items()


def _check_room(found: Checked) -> None:
    window, reply = found.settings.get("window"), found.settings.get("max_output")
    if window is not None and reply is not None and reply >= window:
        rule = f"it must be less than the window, {window:,}: the request needs room too"
        raise BadSetting("max_output", reply, rule, where=found.sources["max_output"])


def _is_table(value: object) -> bool:
    return isinstance(value, Mapping)


def _unknown(key: str, value: object, where: str) -> BadSetting:
    near = nearest(key, (*OWN, TABLES_KEY, *KNOWN))
    meant = f"; did you mean {near}?" if near else f". The keys are {', '.join((*OWN, TABLES_KEY))} and every setting."
    return BadSetting(key[:60], shown(value), f"an agent has no such key{meant}", where=where)


def _unknown_of_a_tool(full: str, key: str, value: object, where: str) -> BadSetting:
    near = nearest(key, OF_A_TOOL)
    meant = f"did you mean {near}?" if near else f"there are {', '.join(OF_A_TOOL)}"
    return BadSetting(full, shown(value), f"there is no such setting of a tool; {meant}", where=where)
