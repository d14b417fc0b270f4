"""Where settings come from: defaults < file < environment < flags, checked, as one Settings.

The file is TOML, `config.toml` in the user's own configuration folder or what HOLDALL_CONFIG names. No file of the
current folder is ever read: a project that was merely checked out must not be able to change anything. A file that
others can write to is refused for the same reason.
"""

import os
import stat
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

import platformdirs

from holdall.policy import retention
from holdall.store.home import checked, default_home
from holdall.text.numbers import parse_size
from holdall.values.errors import BadRange, BadSetting, WrongUse
from holdall.values.settings import Settings, by_name, check

FILE_VARIABLE = "HOLDALL_CONFIG"
SESSION_VARIABLE = "HOLDALL_SESSION"
DEFAULT_SESSION = "cli"
_PREFIX = "HOLDALL_"
_LARGEST_FILE = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Configuration:
    """All that a command needs to open its session, and where each value came from."""

    settings: Settings
    home: str
    session: str
    sources: Mapping[str, str]
    file: str


def load(
    *,
    home: str | None = None,
    session: str | None = None,
    flags: Sequence[str] = (),
    environment: Mapping[str, str] | None = None,
) -> Configuration:
    """`flags` are `name=value` pairs as they were typed."""
    env = os.environ if environment is None else environment
    path = env.get(FILE_VARIABLE) or os.path.join(
        platformdirs.user_config_dir("holdall", appauthor=False), "config.toml"
    )
    values: dict[str, Any] = {}
    sources: dict[str, str] = {}
    for where, found in (
        (path, _from_file(path, named=FILE_VARIABLE in env)),
        ("the environment", _from_environment(env)),
        ("--set", _from_flags(flags)),
    ):
        for key, value in found.items():
            name, checked_value = _checked(key, value, where)
            values[name] = checked_value
            sources[name] = where
    settings = Settings(**values)
    if home is not None:
        folder, sources["home"] = os.path.abspath(checked(os.path.abspath(home), key="--home")), "--home"
    elif settings.store_dir and "HOLDALL_HOME" not in env:
        folder, sources["home"] = settings.store_dir, sources["store_dir"]
    else:
        folder = default_home()
    return Configuration(settings, folder, session or env.get(SESSION_VARIABLE) or DEFAULT_SESSION, sources, path)


def _from_file(path: str, *, named: bool) -> dict[str, Any]:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except FileNotFoundError:
        if named:
            raise WrongUse(f"there is no configuration file {path} (named by {FILE_VARIABLE}).") from None
        return {}
    except OSError as problem:
        if not named:
            return {}  # a home that cannot be read has no configuration; the store will say what is wrong with it
        raise WrongUse(f"the configuration file {path} cannot be read: {problem.strerror}.") from problem
    with os.fdopen(descriptor, "rb") as file:
        about = os.fstat(descriptor)
        if not stat.S_ISREG(about.st_mode):
            raise WrongUse(f"the configuration file {path} is not a regular file.")
        if about.st_mode & 0o022 or about.st_uid not in (os.geteuid(), 0):
            raise WrongUse(
                f"others can write to the configuration file {path} (owner {about.st_uid}, mode "
                f"{stat.S_IMODE(about.st_mode):04o}), so it is not read. Close it with: chmod 600 {path}"
            )
        if about.st_size > _LARGEST_FILE:
            raise WrongUse(
                f"the configuration file {path} has {about.st_size:,} bytes; at most {_LARGEST_FILE:,} are read."
            )
        data = file.read()
    try:
        return tomllib.loads(data.decode("utf-8-sig").replace("\r\n", "\n"))
    except UnicodeDecodeError as problem:
        raise WrongUse(f"the configuration file {path} is not UTF-8 (byte {problem.start}).") from problem
    except tomllib.TOMLDecodeError as problem:
        raise WrongUse(f"the configuration file {path} is not valid TOML: {problem}.") from problem


def _from_environment(env: Mapping[str, str]) -> dict[str, Any]:
    names = {_PREFIX + one.name.upper(): one for one in fields(Settings)}
    return {one.name: _typed(one.name, env[key]) for key, one in names.items() if env.get(key)}


def _from_flags(flags: Sequence[str]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for flag in flags:
        name, sign, value = flag.partition("=")
        if not sign:
            raise WrongUse(f"--set takes NAME=VALUE, not {flag[:60]!r}.")
        found[name.strip()] = _typed(name.strip(), value.strip())
    return found


def _typed(name: str, text: str) -> Any:
    """Text from the environment or a flag, as the number it stands for where the setting is one."""
    one = by_name().get(name)
    if one is None or one.metadata["least"] is None:
        return text
    try:
        return float(text) if isinstance(one.default, float) else int(text)
    except ValueError:
        return text  # the check refuses it by name, or reads it as a size


def _checked(key: str, value: Any, where: str) -> tuple[str, Any]:
    known = by_name()
    one = known.get(key)
    if one is None:
        names = ", ".join(sorted(field.name for field in fields(Settings)))
        raise BadSetting(key, value, f"there is no such setting. Settings are: {names}", where=where)
    if key == "asyncToolTTL":
        value = value / 86_400 if isinstance(value, int | float) and not isinstance(value, bool) else value
    if isinstance(value, str) and one.name.endswith("_bytes"):
        try:
            value = parse_size(value)
        except BadRange as problem:
            raise BadSetting(key, value, str(problem), where=where) from problem
    if one.name == "retention":
        return one.name, str(retention.parse(value, key=key, where=where))
    if one.name == "store_dir" and isinstance(value, str):
        value = checked(value, key=key, where=where)
    check(one, value, key=key, where=where)
    return one.name, value
