"""Where settings come from: defaults < file < environment < front matter < flags, checked, as one Settings.

The front matter of an agent's file is not the user's own word: it tightens what the user has set and loosens none of
it, moves no store and names no place for keys. Each setting says in `values.settings` what is stricter; what a file
asked for and did not get is in `notes`.

The file is TOML, `config.toml` in the user's own configuration folder or what HOLDALL_CONFIG names. No file of the
current folder is ever read: a project that was only checked out must not change anything. A file that others can write
to is refused for the same reason.
"""

import os
import re
import stat
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import Field, fields, replace
from typing import Any, cast

from holdall.policy.setting_values import IN_SECONDS, OF_A_TOOL, SETTINGS, TABLES, is_looser, unknown, value_of
from holdall.store.opening import VARIABLE as HOME_VARIABLE
from holdall.store.opening import checked, default_home, is_fleet, local_home, shown
from holdall.values.errors import BadSetting, UsageError, short
from holdall.values.record import record
from holdall.values.settings import CEILING, USER_ONLY, Settings, ToolPolicy, kind_of, rule_of

FILE_VARIABLE = "HOLDALL_CONFIG"
SESSION_VARIABLE = "HOLDALL_SESSION"
DEFAULT_SESSION = "cli"
ENVIRONMENT, FRONT_MATTER, FLAG = "the environment", "the front matter", "--set"
_PREFIX = "HOLDALL_"
_LARGEST_FILE = 1024 * 1024
_NEAR_VARIABLE = 0.8  # a variable of another program's may begin like ours: there only a slip counts


@record
class Configuration:
    """All that a command needs to open its session, and where each value came from (`tools.fetch.store` for a tool's).

    Values that are not in `sources` are defaults. `notes` has a line for each value of a file that was refused.
    """

    settings: Settings
    home: str
    session: str
    sources: Mapping[str, str]
    file: str
    notes: tuple[str, ...] = ()

    @property
    def shown_home(self) -> str:
        """For people: never with a password."""
        return shown(self.home)

    @property
    def is_folder(self) -> bool:
        """Whether the home is a folder of this host."""
        return not is_fleet(self.home)

    @property
    def local_folder(self) -> str:
        """For what is of this host only, wherever outputs are."""
        return self.home if self.is_folder else local_home()


def load(
    *,
    home: str | None = None,
    session: str | None = None,
    flags: Sequence[str] = (),
    front_matter: Mapping[str, Any] | None = None,
    places: Mapping[str, str] | None = None,
    environment: Mapping[str, str] | None = None,
) -> Configuration:
    """`flags` are `name=value` pairs as they were typed; `front_matter` is what an agent's file says of settings.

    `places` says where in that file each stands, by the names that `sources` of a Configuration has.
    """
    env = os.environ if environment is None else environment
    path = file_path(env)
    merge = _Merge(places or {})
    for where, found in (
        (path, _from_file(path, named=FILE_VARIABLE in env)),
        (ENVIRONMENT, _from_environment(env)),
        (FRONT_MATTER, front_matter or {}),
        (FLAG, _from_flags(flags)),
    ):
        merge.add(found, where)
    settings, sources = merge.settings(), merge.sources
    folder, sources["home"] = _home(home, settings, sources.get("store_dir", ""), env)
    name, sources["session"] = next(
        (named, where)
        for named, where in (
            (session, "--session"),
            (env.get(SESSION_VARIABLE), ENVIRONMENT),
            (DEFAULT_SESSION, "default"),
        )
        if named
    )
    return Configuration(settings, folder, name, _placed(sources, places or {}), path, tuple(merge.notes))


def load_settings() -> Settings:
    """The user's own settings and store, as the command line has them: for `Holdall.open(settings=load_settings())`.

    From the configuration file and the environment, which the library does not read otherwise. Raises BadSetting.
    """
    found = load()
    return replace(found.settings, store_dir=found.home)


def without_password(home: str) -> str:
    """A home as it is shown."""
    return shown(home)


class _Merge:
    """Values from each place, those that go before others last."""

    def __init__(self, places: Mapping[str, str]) -> None:
        self.sources: dict[str, str] = {}
        self.notes: list[str] = []
        self._places = places
        self._values: dict[str, Any] = {}
        self._tables: dict[str, dict[str, Any]] = {}
        self._own: dict[str, Any] = {}  # what the user has set for all tools

    def add(self, found: Mapping[str, Any], where: str) -> None:
        if where == FRONT_MATTER:
            self._own = dict(self._values)
        for key, value in found.items():
            if key == TABLES:
                for tool, name, checked_value in _policies(value, where):
                    table = self._tables.setdefault(tool, {})
                    self._put(table, OF_A_TOOL[name], checked_value, where, f"{TABLES}.{tool}.{name}")
            else:
                name, checked_value = _checked(str(key), value, where)
                self._put(self._values, SETTINGS[name], checked_value, where, name)

    def _put(self, into: dict[str, Any], one: "Field[Any]", value: Any, where: str, full: str) -> None:
        if where != FRONT_MATTER or self._may(into, one, value, full):
            into[one.name], self.sources[full] = value, where

    def _may(self, into: Mapping[str, Any], one: "Field[Any]", value: Any, full: str) -> bool:
        """Whether an agent's file may set it."""
        rule, place = one.metadata["stricter"], self._places.get(full, FRONT_MATTER)
        if rule == USER_ONLY:
            raise BadSetting(full, value, f"a file may not set it; it is yours, in {file_path()}", where=place)
        if one.name not in into and one.name not in self._own and rule != CEILING:
            return True
        own = into.get(one.name, self._own.get(one.name, one.default))
        if looser := is_looser(one, value, own):
            self.notes.append(
                f"{place}: {full} stays {short(own)}: a file may only tighten it, and {short(value)} is looser."
            )
        return not looser

    def settings(self) -> Settings:
        tools = {tool: ToolPolicy(**table) for tool, table in self._tables.items() if table}
        return Settings(**self._values, tools=tools)


def file_path(environment: Mapping[str, str] | None = None) -> str:
    """Where the configuration file is, or would be."""
    env = os.environ if environment is None else environment
    if named := env.get(FILE_VARIABLE):
        return named
    if sys.platform == "linux":  # as platformdirs does, without the time that it takes to import
        folder = os.environ.get("XDG_CONFIG_HOME", "").strip()
        if not os.path.isabs(folder):  # a relative one would be wherever the command is started, a checkout too
            folder = os.path.expanduser("~/.config")
        return os.path.join(folder, "holdall", "config.toml")
    import platformdirs  # noqa: PLC0415 - see above

    return os.path.join(platformdirs.user_config_dir("holdall", appauthor=False), "config.toml")


def own_folder() -> str:
    """The user's own configuration folder: what is in it is the user's word. No variable of ours moves it."""
    return os.path.dirname(file_path({}))


def key_urls(settings: Settings) -> list[str]:
    """Where keys may go: `settings` are the user's own, without those of any file from outside."""
    from holdall.llm.model_names import url_of  # noqa: PLC0415 - for agents and gateways only

    return [*settings.key_urls.split(), *(url_of(one) for one in (settings.model, settings.extraction_model))]


def _placed(sources: Mapping[str, str], places: Mapping[str, str]) -> Mapping[str, str]:
    """The same, with the line in place of "the front matter" if it is known."""
    return {name: places.get(name, where) if where == FRONT_MATTER else where for name, where in sources.items()}


def _home(flag: str | None, settings: Settings, source: str, env: Mapping[str, str]) -> tuple[str, str]:
    """The data folder and who named it: HOLDALL_HOME wins over `store_dir`, unless that comes from nearer. An empty
    name is none, as of a variable that a script has not set."""
    if flag:
        return checked(flag if "://" in flag else os.path.abspath(flag), key="--home"), "--home"
    if settings.store_dir and (source == FLAG or not env.get(HOME_VARIABLE)):
        return settings.store_dir, source
    return default_home(), ENVIRONMENT if env.get(HOME_VARIABLE) else "default"


# Each of the places


def _from_file(path: str, *, named: bool) -> Mapping[str, Any]:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except FileNotFoundError:
        if named:
            raise UsageError(f"there is no configuration file {path} (named by {FILE_VARIABLE}).") from None
        return {}
    except OSError as problem:
        if not named:
            return {}  # a home that cannot be read has no configuration; the store will say what is wrong with it
        raise UsageError(f"the configuration file {path} cannot be read: {problem.strerror}.") from problem
    try:
        _check_owner(path, os.fstat(descriptor))
        data = os.read(descriptor, _LARGEST_FILE)
    finally:
        os.close(descriptor)
    import tomllib  # noqa: PLC0415 - most people have no such file

    try:
        return tomllib.loads(data.decode("utf-8-sig").replace("\r\n", "\n"))
    except UnicodeDecodeError as problem:
        raise UsageError(f"the configuration file {path} is not UTF-8 (byte {problem.start}).") from problem
    except RecursionError as problem:
        raise UsageError(f"the configuration file {path} is nested too deeply.") from problem
    except ValueError as problem:  # also a number of more digits than Python reads
        raise UsageError(f"the configuration file {path} is not valid TOML: {problem}.") from problem


def _check_owner(path: str, about: os.stat_result) -> None:
    if not stat.S_ISREG(about.st_mode):
        raise UsageError(f"the configuration file {path} is not a regular file.")
    if about.st_mode & 0o022 or about.st_uid not in (os.geteuid(), 0):
        raise UsageError(
            f"others can write to the configuration file {path} (owner {about.st_uid}, mode "
            f"{stat.S_IMODE(about.st_mode):04o}), so it is not read. Close it with: chmod 600 {path}"
        )
    from holdall.trust import check_folders  # noqa: PLC0415 - most people have no such file

    check_folders(path, "the configuration file")
    if about.st_size > _LARGEST_FILE:
        raise UsageError(
            f"the configuration file {path} has {about.st_size:,} bytes; at most {_LARGEST_FILE:,} are read."
        )


def _from_environment(env: Mapping[str, str]) -> Mapping[str, Any]:
    names = {_PREFIX + one.name.upper(): one for one in fields(Settings)}
    theirs = {key for key in env if key.startswith(_PREFIX)} - {*names, FILE_VARIABLE, SESSION_VARIABLE, HOME_VARIABLE}
    for key in sorted(theirs):
        import difflib  # noqa: PLC0415 - only where a variable is not one of ours

        if near := difflib.get_close_matches(key.removeprefix(_PREFIX), [n.removeprefix(_PREFIX) for n in names],
                                             n=1, cutoff=_NEAR_VARIABLE):  # fmt: skip
            raise unknown(key, env[key], ENVIRONMENT, _PREFIX + near[0])
    return {one.name: _typed(one.name, one, env[key]) for key, one in names.items() if env.get(key)}


def _from_flags(flags: Sequence[str]) -> Mapping[str, Any]:
    found: dict[str, Any] = {}
    tables: dict[str, dict[str, Any]] = {}
    for flag in flags:
        name, sign, text = (part.strip() for part in flag.partition("="))
        if not sign:
            raise UsageError(f"--set takes NAME=VALUE, not {flag[:60]!r}.")
        first, _, rest = name.partition(".")
        tool, _, key = rest.rpartition(".")  # a tool's name may have dots, a key has none
        if tool[:1] in ('"', "'") and tool[:1] == tool[-1:]:  # as the file has it
            tool = tool[1:-1]
        if first != TABLES:
            found[name] = _typed(name, SETTINGS.get(name), text)
        elif tool and key:
            tables.setdefault(tool, {})[key] = _typed(key, OF_A_TOOL.get(key), text)
        else:
            raise UsageError(
                f"--set takes tools.TOOL.NAME=VALUE, as in tools.fetch.store=never, for one tool; not {flag[:60]!r}."
            )
    return found | {TABLES: tables} if tables else found


def _typed(key: str, one: "Field[Any] | None", text: str) -> Any:
    """Text from the environment or a flag as what the setting is: a number, true or false, or text."""
    if one is None:
        return int(text) if re.fullmatch(r"[0-9]{1,20}", text) else text  # only for the message that refuses it
    kind = float if key == IN_SECONDS else kind_of(one)
    if kind is bool:
        return {"true": True, "false": False}.get(text.lower(), text)
    try:
        return kind(text) if kind in (int, float) else text
    except ValueError:
        return text  # the check refuses it by name, or reads it as a size


# One value


def _policies(tables: object, where: str) -> Iterator[tuple[str, str, Any]]:
    """Tool, name and value of everything in the tables of tools."""
    if not isinstance(tables, Mapping):
        raise BadSetting(TABLES, tables, rule_of(SETTINGS[TABLES]), where=where)
    for tool, table in cast("Mapping[object, object]", tables).items():
        place = f"{TABLES}.{tool}"
        if not isinstance(table, Mapping):
            raise BadSetting(place, table, f"it must be a table, as in [{place}]", where=where)
        for key, value in cast("Mapping[object, object]", table).items():
            name, given = value_of(str(key), value, where, known=OF_A_TOOL, inside=f"{place}.")
            yield str(tool), name, given


def _checked(key: str, value: Any, where: str) -> tuple[str, Any]:
    """Our own name of the setting, and its value as Settings takes it."""
    name, given = value_of(key, value, where)
    return name, checked(given, key=key, where=where) if name == "store_dir" else given
