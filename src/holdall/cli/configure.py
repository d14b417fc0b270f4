"""`holdall config show` and `holdall config path`. Nothing here changes a setting."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import typer

from holdall.cli import show as screen
from holdall.cli.options import WRONG_USE, Options, command, print_error
from holdall.text.escape import one_line, without_passwords
from holdall.values.errors import UsageError

if TYPE_CHECKING:
    from holdall.config import Configuration
    from holdall.values.settings import Settings

app = typer.Typer(rich_markup_mode=None)
_config = typer.Typer(no_args_is_help=True, rich_markup_mode=None)
app.add_typer(_config, name="config")
_DEFAULT = "default"


@_config.callback()
def config() -> None:
    """Show every setting and where its value came from.

    \b
    The later one of these wins:
      the default, which for the limits is the dialect's
      the file that `holdall config path` names
      the environment, as in HOLDALL_RETENTION=keep
      the front matter of an agent's file
      the command line, as in: holdall --set retention=keep put

    \b
    The file is TOML. What is different for one tool has a table of its own:
      max_inline_bytes = "100 KiB"
      [tools.fetch]
      store = "never"

    On the command line that is: holdall --set tools.fetch.store=never exec -- COMMAND
    """


class Row(NamedTuple):
    name: str
    value: Any
    source: str


@command(_config)
async def show(options: Options) -> int:
    """Print every setting, its value, and where it came from.

    A limit that nobody set is the dialect's own. What is different for one tool is listed as tools.TOOL.NAME. With a
    setting that cannot be, it says what is wrong (exit code 2) and lists the defaults.

    \b
    Example:  holdall config show --json
    """
    from holdall.values.retention import Retention
    from holdall.values.settings import Settings

    try:
        found = options.configuration()
    except UsageError as problem:
        # The error about a name that does not exist sends people here for those that do.
        print_error(problem, as_json=options.as_json)
        if not options.as_json:
            _print(_rows(Settings(), {}))
            screen.about("These are the defaults. Nothing runs until what is wrong is mended.")
        return WRONG_USE
    kept_for = Retention.of(found.settings.retention).told  # in a session that a command makes
    rows = _rows(replace(found.settings, retention=kept_for), found.sources)
    if options.as_json:
        screen.as_json(_as_json(found, rows))
        return 0
    _print(rows)
    there = "" if _exists(found.file) else " (not there)"
    screen.about(f"file     {found.file}{there}")
    screen.about(f"home     {found.shown_home} ({found.sources['home']})")
    screen.about(f"session  {found.session} ({found.sources['session']})")
    return 0


@command(_config, home=None, session=None)
async def path(options: Options) -> int:
    """Print the path of the configuration file, whether it is there or not.

    \b
    Example:  "$EDITOR" "$(holdall config path)"
    """
    from holdall.config import file_path

    file = file_path()  # also where the file cannot be read, or says what cannot be: this is how it is found
    if options.as_json:
        screen.as_json({"path": file, "exists": _exists(file)})
    else:
        print(file)
    return 0


def _exists(file: str) -> bool:
    return os.path.exists(file)


def _rows(settings: Settings, sources: Mapping[str, str]) -> list[Row]:
    """Every setting as it is in use: a limit that nobody set is the dialect's."""
    from holdall.config import without_password
    from holdall.policy.decide import limits_of
    from holdall.values.settings import Settings, ToolPolicy
    from holdall.wire.dialects import dialect_of

    limits = limits_of(settings, dialect_of(settings).limits)
    by_dialect = {f"max_inline_{unit}": getattr(limits, unit) for unit in ("bytes", "chars", "lines", "tokens")}
    rows: list[Row] = []
    for one in fields(Settings):
        value = getattr(settings, one.name)
        if isinstance(value, str):
            value = without_passwords(without_password(value) if one.name == "store_dir" else value)
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


def _as_json(found: Configuration, rows: list[Row]) -> dict[str, Any]:
    from holdall.values.settings import ToolPolicy

    tools: dict[str, dict[str, Any]] = {}
    for tool, policy in found.settings.tools.items():
        for one in fields(ToolPolicy):
            if source := found.sources.get(f"tools.{tool}.{one.name}"):
                tools.setdefault(tool, {})[one.name] = {"value": getattr(policy, one.name), "source": source}
    return {
        "file": {"path": found.file, "exists": _exists(found.file)},
        "home": {"value": found.shown_home, "source": found.sources["home"]},
        "session": {"value": found.session, "source": found.sources["session"]},
        "settings": {
            row.name: {"value": row.value, "source": row.source} for row in rows if not row.name.startswith("tools.")
        },
        "tools": tools,
    }
