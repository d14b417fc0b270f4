"""The servers that an `mcp.json` names, in the form that the clients share, or one from a plain command.

    {"mcpServers": {"files": {"command": "npx", "args": ["-y", "…"], "env": {"KEY": "${KEY}"}, "cwd": "…"},
                    "search": {"type": "http", "url": "https://…", "headers": {"Authorization": "Bearer ${TOKEN}"}}}}

`servers` is the same as `mcpServers`. Keys that are unknown here are kept and warned about, for other clients have
more; one that is nearly a known key is an error. Nothing is started, and no message repeats a value.
"""

import os
import stat
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from json import JSONDecodeError
from typing import Any, cast

from holdall.upstream import checks, jsonc
from holdall.upstream.checks import Place
from holdall.upstream.spec import CALL_SECONDS, START_SECONDS, HttpServer, Revision, ServerSpec, StdioServer
from holdall.values.errors import BadServer, WrongUse

_TABLES = ("mcpServers", "servers")
_LARGEST_FILE = 1024 * 1024
_STDIO, _HTTP = {"command", "args", "env", "cwd"}, {"url", "headers"}
_BOTH = {"type", "disabled", "enabled", "call_timeout_seconds", "start_timeout_seconds", "revision"}
_KNOWN = sorted(_STDIO | _HTTP | _BOTH)
_TYPES = {"stdio": "stdio", "http": "http", "streamable-http": "http", "streamableHttp": "http"}
_REVISIONS: tuple[Revision, ...] = ("auto", "handshake", "2026-07-28")


@dataclass(frozen=True, slots=True)
class Configured:
    """Those that are switched on, in the order of the file, and what should be said to whoever wrote it."""

    servers: tuple[ServerSpec, ...]
    warnings: tuple[str, ...] = ()


def load(path: str, *, environment: Mapping[str, str] | None = None, inherits: bool = False) -> Configured:
    """`environment` is where `${NAME}` is looked up; `inherits` gives all of it to every server."""
    return parse(_read(path), source=path, environment=environment, inherits=inherits)


def parse(
    text: str, *, source: str, environment: Mapping[str, str] | None = None, inherits: bool = False
) -> Configured:
    env = os.environ if environment is None else environment
    try:
        document = jsonc.parse(text)
    except jsonc.DuplicateKey as problem:
        raise BadServer(source, repr(problem.key), "stands twice in the same object") from problem
    except JSONDecodeError as problem:
        where = f"line {problem.lineno}, column {problem.colno}"
        raise BadServer(source, where, f"is not JSON: {problem.msg}") from problem
    except (RecursionError, ValueError) as problem:  # also a number of more digits than Python reads
        raise BadServer(source, "the file", "is nested too deeply, or has a number that is too long") from problem
    return _Reading(source, env, inherits).document(document)


def from_command(words: Sequence[str], *, name: str = "", inherits: bool = True) -> StdioServer:
    """`holdall gateway -- COMMAND…`: the environment was set by whoever started this process, for that command."""
    if not words or not words[0].strip():
        raise WrongUse("a server needs a command, as in: -- npx -y @modelcontextprotocol/server-everything")
    if any("\0" in word for word in words):
        raise WrongUse("a command cannot hold the character NUL.")
    shown = name or os.path.basename(words[0].rstrip("/")) or "server"
    return StdioServer(shown, words[0], tuple(words[1:]), inherits=inherits, source="the command line")


def _read(path: str) -> str:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError as problem:
        raise WrongUse(f"the file {path} cannot be read: {problem.strerror}.") from problem
    try:
        about = os.fstat(descriptor)
        if not stat.S_ISREG(about.st_mode):
            raise WrongUse(f"{path} is not a regular file.")
        if about.st_mode & 0o002 or about.st_uid not in (os.geteuid(), 0):
            raise WrongUse(
                f"anybody can write to {path}, or it belongs to somebody else, and it names commands to start; so it "
                f"is not read. Close it with: chmod o-w {path}"
            )
        if about.st_size > _LARGEST_FILE:
            raise WrongUse(f"{path} has {about.st_size:,} bytes; at most {_LARGEST_FILE:,} are read.")
        return os.read(descriptor, _LARGEST_FILE).decode("utf-8-sig")
    except UnicodeDecodeError as problem:
        raise WrongUse(f"{path} is not UTF-8 (byte {problem.start}).") from problem
    finally:
        os.close(descriptor)


class _Reading:
    """One file on its way to servers."""

    def __init__(self, source: str, environment: Mapping[str, str], inherits: bool) -> None:
        self._source = source
        self._environment = environment
        self._inherits = inherits
        self._warnings: list[str] = []

    def document(self, document: object) -> Configured:
        if not isinstance(document, dict):
            raise BadServer(self._source, "the file", "must hold one object with the key 'mcpServers'")
        top = cast("dict[str, Any]", document)
        table = self._table(top)
        for key in top.keys() - {table, "$schema"}:
            self._warn(key)
        servers = Place(self._source, table).table(top[table])
        read = (self._server(name, about, Place(self._source, f"{table}.{name}")) for name, about in servers.items())
        found = tuple(server for server in read if server is not None)
        return Configured(found, tuple(sorted(self._warnings)))

    def _table(self, top: Mapping[str, Any]) -> str:
        there = [table for table in _TABLES if table in top]
        if len(there) == 1:
            return there[0]
        if there:
            raise BadServer(self._source, " and ".join(there), "are both there; one of them is enough")
        for key in top:
            if near := checks.nearest([key], _TABLES):
                raise BadServer(self._source, key, "is not a key of this file", near=near)
        raise BadServer(self._source, "'mcpServers'", "is missing")

    def _server(self, name: str, value: object, place: Place) -> ServerSpec | None:
        checks.name(name, place)
        about = place.table(value)
        extra = self._unknown(about, place)
        kind = self._kind(about, place)
        for key in about.keys() & (_HTTP if kind == "stdio" else _STDIO):
            raise place.at(key).wrong(f"is not for a server with {'a command' if kind == 'stdio' else 'a URL'}")
        off = place.at("disabled").switch(about.get("disabled", False))
        if off or not place.at("enabled").switch(about.get("enabled", True)):
            return None
        common: dict[str, Any] = {
            "call_seconds": place.at("call_timeout_seconds").seconds(about, CALL_SECONDS),
            "start_seconds": place.at("start_timeout_seconds").seconds(about, START_SECONDS),
            "revision": place.at("revision").one_of(about, _REVISIONS),
            "source": self._source,
            "extra": extra,
        }
        return (self._stdio if kind == "stdio" else self._http)(name, about, place, common)

    def _stdio(self, name: str, about: Mapping[str, Any], place: Place, common: Mapping[str, Any]) -> StdioServer:
        command = self._text(about["command"], place.at("command"))
        if not command.strip():
            raise place.at("command").wrong("is empty")
        arguments = tuple(
            self._text(one, place.at(f"args[{number}]"))
            for number, one in enumerate(place.at("args").items(about.get("args", [])))
        )
        cwd = self._text(about["cwd"], place.at("cwd")) if about.get("cwd") is not None else None
        environment = self._pairs(about, place.at("env"), checks.variable)
        return StdioServer(name, command, arguments, environment, cwd, self._inherits, **common)

    def _http(self, name: str, about: Mapping[str, Any], place: Place, common: Mapping[str, Any]) -> HttpServer:
        url = self._text(about["url"], place.at("url"))
        checks.url(url, place.at("url"))
        return HttpServer(name, url, self._pairs(about, place.at("headers"), checks.header), **common)

    def _kind(self, about: Mapping[str, Any], place: Place) -> str:
        given = [key for key in ("command", "url") if key in about]
        if len(given) != 1:
            near = "" if given else checks.nearest(about, ("command", "url"))
            rule = "has both 'command' and 'url'" if given else "has neither 'command' nor 'url'"
            raise BadServer(self._source, place.key, rule, near=near)
        kind = "stdio" if given == ["command"] else "http"
        named = about.get("type")
        if named == "sse":
            raise place.at("type").wrong("is 'sse', a transport that MCP has given up; use the server's streamable URL")
        if named is not None and _TYPES.get(str(named)) != kind:
            raise place.at("type").wrong(f"must be {kind!r} for a server with {given[0]!r}")
        return kind

    def _unknown(self, about: Mapping[str, Any], place: Place) -> Mapping[str, Any]:
        extra = {key: value for key, value in about.items() if key not in _KNOWN}
        for key in extra:
            near = checks.nearest([key], [known for known in _KNOWN if known not in about])
            if near:
                raise BadServer(self._source, place.at(key).key, "is not a key of a server", near=near)
            self._warn(place.at(key).key)
        return extra

    def _pairs(
        self, about: Mapping[str, Any], place: Place, check: Callable[[str, str, Place], None]
    ) -> Mapping[str, str]:
        found: dict[str, str] = {}
        for key, value in place.table(about.get(place.last, {})).items():
            found[key] = self._text(value, place.at(key))
            check(key, found[key], place.at(key))
        return found

    def _text(self, value: object, place: Place) -> str:
        return place.expanded(value, self._environment)

    def _warn(self, key: str) -> None:
        self._warnings.append(f"{self._source}: {key} is not known to Holdall and is not used")
