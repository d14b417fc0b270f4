"""`holdall config show` and `holdall config path`. Nothing here changes a setting."""

import os
from collections.abc import Mapping
from dataclasses import fields
from typing import Any, NamedTuple

from holdall import config
from holdall.cli import show as screen
from holdall.cli.options import WRONG_USE, complain, configuration
from holdall.policy.decide import limits_of
from holdall.text.escape import one_line
from holdall.values.errors import WrongUse
from holdall.values.settings import Settings, ToolPolicy
from holdall.wire.dialects import dialect_of

_DEFAULT = "default"


class Row(NamedTuple):
    name: str
    value: Any
    source: str


async def show(home: str | None, session: str | None, as_json: bool) -> int:
    try:
        found = configuration(home, session)
    except WrongUse as problem:
        # Whoever wrote a name that does not exist is told to look here for those that do.
        complain(problem, as_json=as_json)
        if not as_json:
            _print(_rows(Settings(), {}))
            screen.about("These are the defaults. Nothing runs until what is wrong is mended.")
        return WRONG_USE
    rows = _rows(found.settings, found.sources)
    if as_json:
        screen.as_json(_as_json(found, rows))
        return 0
    _print(rows)
    there = "" if _exists(found.file) else " (not there)"
    screen.about(f"file     {found.file}{there}")
    screen.about(f"home     {found.home} ({found.sources['home']})")
    screen.about(f"session  {found.session} ({found.sources['session']})")
    return 0


async def path(as_json: bool) -> int:
    """Also where the file cannot be read, or says what cannot be: this is how it is found."""
    file = config.file_path()
    if as_json:
        screen.as_json({"path": file, "exists": _exists(file)})
    else:
        print(file)
    return 0


def _exists(file: str) -> bool:
    return os.path.exists(file)


def _rows(settings: Settings, sources: Mapping[str, str]) -> list[Row]:
    """Every setting as it is in use: a limit that nobody set is the dialect's."""
    limits = limits_of(settings, dialect_of(settings).limits)
    by_dialect = {f"max_inline_{unit}": getattr(limits, unit) for unit in ("bytes", "chars", "lines", "tokens")}
    rows: list[Row] = []
    for one in fields(Settings):
        value = getattr(settings, one.name)
        source = sources.get(one.name, _DEFAULT)
        if value is None and by_dialect.get(one.name) is not None:
            value, source = by_dialect[one.name], f"dialect {settings.dialect}"
        if one.name != "tools":
            rows.append(Row(one.name, value, source))
    for tool, policy in settings.tools.items():
        for one in fields(ToolPolicy):
            name = f"tools.{tool}.{one.name}"
            if name in sources:
                rows.append(Row(name, getattr(policy, one.name), sources[name]))
    return rows


def _print(rows: list[Row]) -> None:
    cells = [[one_line(row.name, 80), _value(row.value), one_line(row.source, 200)] for row in rows]
    screen.columns(["SETTING", "VALUE", "FROM"], cells)


def _value(value: Any) -> str:
    """As it would be written after `--set NAME=`."""
    if value is None or value == "":
        return "-"
    return str(value).lower() if isinstance(value, bool) else one_line(str(value), 200)


def _as_json(found: config.Configuration, rows: list[Row]) -> dict[str, Any]:
    tools: dict[str, dict[str, Any]] = {}
    for tool, policy in found.settings.tools.items():
        for one in fields(ToolPolicy):
            if source := found.sources.get(f"tools.{tool}.{one.name}"):
                tools.setdefault(tool, {})[one.name] = {"value": getattr(policy, one.name), "source": source}
    return {
        "file": {"path": found.file, "exists": _exists(found.file)},
        "home": {"value": found.home, "source": found.sources["home"]},
        "session": {"value": found.session, "source": found.sources["session"]},
        "settings": {
            row.name: {"value": row.value, "source": row.source} for row in rows if not row.name.startswith("tools.")
        },
        "tools": tools,
    }
