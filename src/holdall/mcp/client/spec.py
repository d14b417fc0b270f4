"""What is known of an MCP server before it is started: from an `mcp.json`, in the form that the clients share, or from
a plain command. Frozen data; its text forms never show a secret. Nothing is started here.
"""

import difflib
import os
import re
import shlex
import stat
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field, replace
from json import JSONDecodeError
from typing import Any, Literal, TypeVar, cast
from urllib.parse import urlsplit

from holdall.text.escape import one_line
from holdall.text.json.jsonc import DuplicateKey, parse_jsonc
from holdall.trust import (
    MOST_EFFORT,
    Claims,
    Watched,
    check_writers,
    decides_code,
    origin_of,
    server_name,
    text_hash,
    variables,
    watched_files,
)
from holdall.values.errors import BadServer, UsageError
from holdall.values.patterns import lazy_pattern
from holdall.values.record import record

# `${NAME}` in the configuration of a server, replaced from the environment. Pure: the environment is handed in.
#
# `${NAME}`, `${env:NAME}` and `${NAME:-default}` are known. Other forms belong to editors, which ask a person or know a
# folder; they are refused rather than passed on as they stand.


_PLACE = lazy_pattern(r"\$\{([^}]*)\}")
_NAME = lazy_pattern(r"(?:env:)?([A-Za-z_][A-Za-z0-9_]*)(?::-(.*))?", re.DOTALL)


class UnknownVariable(ValueError):
    """`near` is a variable that there is, where one has nearly that name."""

    def __init__(self, rule: str, near: str = "") -> None:
        self.rule = rule
        self.near = near
        super().__init__(rule)


def expand(text: str, environment: Mapping[str, str]) -> str:
    """Every place is replaced once: what a variable holds is not looked at again."""
    end = _end_of_places(text)
    return _PLACE.sub(lambda match: _value(match[1], environment), text[:end]) + text[end:]


def variables_in(text: object) -> list[str]:
    """The names of the variables that a text would be given."""
    places = _PLACE.finditer(text, 0, _end_of_places(text)) if isinstance(text, str) else ()
    return [match[1] for match in (_NAME.fullmatch(place[1]) for place in places) if match is not None]


def _end_of_places(text: str) -> int:
    """Behind the last brace no place ends, and each that began there would be looked for up to the end."""
    return text.rfind("}") + 1


def _value(inside: str, environment: Mapping[str, str]) -> str:
    match = _NAME.fullmatch(inside)
    if match is None:
        raise UnknownVariable(f"holds ${{{inside[:40]}}}, and only variables of the environment, ${{NAME}}, are known")
    name, default = match[1], match[2]
    if name in environment:
        return environment[name]
    if default is not None:
        return default
    near = difflib.get_close_matches(name, environment, n=1, cutoff=0.8)
    raise UnknownVariable(f"needs the variable {name}, which the environment does not have", near[0] if near else "")


# The rules that one value of a server's configuration must keep.
#
# A complaint names file, key and rule, never the value.


_NEAR = 0.85
_LONGEST_NAME = 100
_MAX_SECONDS = 7 * 24 * 3600.0
_TOKEN = lazy_pattern(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")  # a header's name, as HTTP has it
_VISIBLE_ASCII = lazy_pattern(r"[\x20-\x7e]*")
_T = TypeVar("_T")


@record
class Place:
    """A key in a file."""

    source: str
    key: str

    @property
    def last(self) -> str:
        return self.key.rpartition(".")[2]

    def at(self, key: str) -> "Place":
        return Place(self.source, f"{self.key}.{key}")

    def wrong(self, rule: str) -> BadServer:
        return BadServer(self.source, self.key, rule)

    def table(self, value: object) -> dict[str, Any]:
        if not isinstance(value, dict):
            raise self.wrong("must be an object")
        return cast("dict[str, Any]", value)

    def items(self, value: object) -> list[Any]:
        if not isinstance(value, list):
            raise self.wrong("must be a list of texts")
        return cast("list[Any]", value)

    def switch(self, value: object) -> bool:
        if not isinstance(value, bool):
            raise self.wrong("must be true or false")
        return value

    def seconds(self, about: Mapping[str, Any], default: float) -> float:
        value = about.get(self.last, default)
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= _MAX_SECONDS:
            raise self.wrong(f"must be a number of seconds, more than 0 and at most {_MAX_SECONDS:,.0f}")
        return float(value)

    def one_of(self, about: Mapping[str, Any], known: Sequence[_T]) -> _T:
        value = about.get(self.last, known[0])
        if value not in known:
            raise self.wrong(f"must be one of {', '.join(map(repr, known))}")
        return value

    def expanded(self, value: object, environment: Mapping[str, str]) -> str:
        if not isinstance(value, str):
            raise self.wrong("must be a text")
        try:
            text = expand(value, environment)
        except UnknownVariable as problem:
            raise BadServer(self.source, self.key, problem.rule, near=problem.near) from None
        if "\0" in text:
            raise self.wrong("holds the character NUL")
        return text


def nearest(given: Iterable[str], known: Iterable[str]) -> str:
    """The known key that one of the given ones nearly is."""
    by_case = {key.lower(): key for key in known}
    for key in given:
        if match := difflib.get_close_matches(str(key).lower(), by_case, n=1, cutoff=_NEAR):
            return by_case[match[0]]
    return ""


def check_name(text: str, place: Place) -> None:
    if not text.strip() or len(text) > _LONGEST_NAME or not text.isprintable():
        raise place.wrong(f"is no name: it must have 1 to {_LONGEST_NAME} visible characters")


def check_variable(key: str, _value: str, place: Place) -> None:
    if not key or "=" in key or "\0" in key:
        raise place.wrong("is no name of a variable")


def check_header(key: str, value: str, place: Place) -> None:
    if not _TOKEN.fullmatch(key):
        raise place.wrong("is no name of a header")
    if not _VISIBLE_ASCII.fullmatch(value):
        raise place.wrong("may hold visible ASCII characters only")


def check_url(text: str, place: Place) -> None:
    try:
        parts = urlsplit(text)
        valid = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:  # brackets that do not fit, or a port that is not a number
        valid = False
    if not valid or not text.isprintable() or " " in text:
        raise place.wrong("must be a URL that begins with http:// or https://")


Revision = Literal["auto", "handshake", "2026-07-28"]
CALL_SECONDS = 600.0  # without an answer and without progress
START_SECONDS = 60.0  # a first `npx` or `uvx` fetches packages before it answers
_MIN_SECRET = 4  # a shorter value hides more of a message than it protects
_MASK = "***"


@record
class StdioServer:
    """A program that speaks over its standard input and output."""

    name: str
    command: str
    arguments: tuple[str, ...] = field(default=(), repr=False)
    environment: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    cwd: str | None = None
    inherits: bool = False  # the whole environment of this process, or only what every program needs
    call_seconds: float = CALL_SECONDS
    start_seconds: float = START_SECONDS
    revision: Revision = "auto"
    shared: bool = False  # by the sessions of one principal, of a gateway over HTTP
    source: str = ""  # the file that names it
    has_name: bool = True  # else it is called by its command
    extra: Mapping[str, Any] = field(default_factory=dict[str, Any], repr=False)  # keys that are not known here
    watched: Watched | None = field(default=None, repr=False, compare=False)  # None: whatever is there may run

    def changed_files(self) -> tuple[str, ...]:
        """Files that it would run, or could import, and that are not what the user has agreed to."""
        if self.watched is None:
            return ()
        words, folder = (self.command, *self.arguments), os.path.dirname(os.path.abspath(self.source))
        now = watched_files(words, self.environment, self.cwd, folder)
        if now == self.watched:
            return ()
        paths = sorted({path for path, _ in {*now.files} ^ {*self.watched.files}})
        start = os.path.join(os.path.realpath(folder), "")
        return tuple(one.removeprefix(start) for one in paths) or ("more than are watched",)

    @property
    def shown(self) -> str:
        """Its command by name: arguments may hold passwords."""
        return one_line(os.path.basename(self.command) or self.command, 60)

    @property
    def secrets(self) -> tuple[str, ...]:
        return tuple(self.environment.values())


@record
class HttpServer:
    """A server behind a URL that speaks streamable HTTP."""

    name: str
    url: str = field(repr=False)
    headers: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    call_seconds: float = CALL_SECONDS
    start_seconds: float = START_SECONDS
    revision: Revision = "auto"
    shared: bool = False  # by the sessions of one principal, of a gateway over HTTP
    source: str = ""
    extra: Mapping[str, Any] = field(default_factory=dict[str, Any], repr=False)
    variables: tuple[str, ...] = field(default=(), repr=False, compare=False)  # values that were put into the URL

    @property
    def shown(self) -> str:
        """Its URL without user, password, query and values of variables, which may be keys."""
        parts = urlsplit(self.url)
        port = f":{parts.port}" if parts.port else ""
        host = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname
        return one_line(without_secrets(f"{parts.scheme}://{host}{port}{parts.path}", self), 120)

    @property
    def secrets(self) -> tuple[str, ...]:
        parts = urlsplit(self.url)
        bare = tuple(value.partition(" ")[2] for value in self.headers.values())  # of "Bearer TOKEN" the token
        return (*self.headers.values(), *bare, parts.password or "", parts.query, *self.variables)


ServerSpec = StdioServer | HttpServer


def configured_name(spec: ServerSpec) -> str:
    """What its user calls it; empty if nobody has said: the name of a command, as `npx`, says nothing."""
    return spec.name if not isinstance(spec, StdioServer) or spec.has_name else ""


def identity_of(servers: Iterable[ServerSpec]) -> str:
    """What tells these servers from others: names, commands and URLs. It may hold secrets, and is for hashing only."""
    return repr([
        (one.name, one.command, one.arguments, one.cwd) if isinstance(one, StdioServer) else (one.name, one.url)
        for one in servers
    ])  # fmt: skip


def without_secrets(text: str, spec: ServerSpec) -> str:
    """What a server says may repeat what it was given; that is masked wherever the text goes."""
    for secret in sorted(spec.secrets, key=len, reverse=True):
        if len(secret) >= _MIN_SECRET:
            text = text.replace(secret, _MASK)
    return text


# The servers that an `mcp.json` names, in the form that the clients share, or one from a plain command.
#
#     {"mcpServers": {"files": {"command": "npx", "args": ["-y", "…"], "env": {"KEY": "${KEY}"}, "cwd": "…"},
#                     "search": {"type": "http", "url": "https://…", "headers": {"Authorization": "Bearer
# ${TOKEN}"}}}}
#
# `servers` is the same as `mcpServers`. Keys that are unknown here are kept and warned about, for other clients have
# more; one that is nearly a known key is an error. Nothing is started, and no message repeats a value.


TABLES = ("mcpServers", "servers")
_LARGEST_FILE = 1024 * 1024
_MOST_SERVERS = 1000
_MOST_WARNINGS = 100
URLS = ("url", "httpUrl", "serverUrl")  # where clients write it
_STDIO, _HTTP = {"command", "args", "env", "cwd"}, {*URLS, "headers"}
_BOTH = {"type", "disabled", "enabled", "call_timeout_seconds", "start_timeout_seconds", "revision", "shared"}
_KNOWN = sorted(_STDIO | _HTTP | _BOTH)
_TYPES = {"stdio": "stdio", "http": "http", "streamable-http": "http", "streamableHttp": "http"}
_REVISIONS: tuple[Revision, ...] = ("auto", "handshake", "2026-07-28")


@record
class Configured:
    """Those that are switched on, in the order of the file, and warnings for its author.

    `claims` is what the user has to agree to before one of them is started or talked to.
    """

    servers: tuple[ServerSpec, ...]
    warnings: tuple[str, ...] = ()
    claims: Claims = field(default=Claims(""), compare=False)

    def unwatched(self) -> "Configured":
        """For the user's own servers, whose files may change while we run."""
        found = (replace(one, watched=None) if isinstance(one, StdioServer) else one for one in self.servers)
        return replace(self, servers=tuple(found))


def load(path: str, *, environment: Mapping[str, str] | None = None, inherits: bool = False) -> Configured:
    """`environment` is where `${NAME}` is looked up; `inherits` gives all of it to every server."""
    return parse_servers(_read(path), source=path, environment=environment, inherits=inherits)


def parse_servers(
    text: str, *, source: str, environment: Mapping[str, str] | None = None, inherits: bool = False
) -> Configured:
    env = os.environ if environment is None else environment
    try:
        document = parse_jsonc(text)
    except DuplicateKey as problem:
        raise BadServer(source, repr(problem.key), "stands twice in the same object") from problem
    except JSONDecodeError as problem:
        where = f"line {problem.lineno}, column {problem.colno}"
        raise BadServer(source, where, f"is not JSON: {problem.msg}") from problem
    except (RecursionError, ValueError) as problem:  # also a number of more digits than Python reads
        raise BadServer(source, "the file", "is nested too deeply, or has a number that is too long") from problem
    found = _Reading(source, env, inherits).document(document)
    return replace(found, claims=found.claims + Claims(source, files=(text_hash(source, text),)))


def from_command(
    words: Sequence[str], *, name: str = "", inherits: bool = True, environment: Mapping[str, str] | None = None
) -> StdioServer:
    """`holdall gateway -- COMMAND…`: the environment of this process was set for that command, and `environment`."""
    if not words or not words[0].strip():
        raise UsageError("a server needs a command, as in: -- npx -y @modelcontextprotocol/server-everything")
    if any("\0" in word for word in words):
        raise UsageError("a command cannot hold the character NUL.")
    if name:
        check_name(name, Place("the command line", "--name"))
    shown = name or os.path.basename(words[0].rstrip("/")) or "server"
    source, has_name = "the command line", bool(name)
    more = environment or {}
    return StdioServer(shown, words[0], tuple(words[1:]), more, inherits=inherits, source=source, has_name=has_name)


def _read(path: str) -> str:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError as problem:
        raise UsageError(f"the file {path} cannot be read: {problem.strerror}.") from problem
    try:
        about = os.fstat(descriptor)
        if not stat.S_ISREG(about.st_mode):
            raise UsageError(f"{path} is not a regular file.")
        check_writers(path, about)
        if about.st_size > _LARGEST_FILE:
            raise UsageError(f"{path} has {about.st_size:,} bytes; at most {_LARGEST_FILE:,} are read.")
        return os.read(descriptor, _LARGEST_FILE).decode("utf-8-sig")
    except UnicodeDecodeError as problem:
        raise UsageError(f"{path} is not UTF-8 (byte {problem.start}).") from problem
    finally:
        os.close(descriptor)


class _Reading:
    """One file on its way to servers."""

    def __init__(self, source: str, environment: Mapping[str, str], inherits: bool) -> None:
        self._source = source
        self._environment = environment
        self._inherits = inherits
        self._warnings: list[str] = []
        self._claims: list[Claims] = []
        self._effort = 0.0

    def document(self, document: object) -> Configured:
        if not isinstance(document, dict):
            raise BadServer(self._source, "the file", "must hold one object with the key 'mcpServers'")
        top = cast("dict[str, Any]", document)
        table = self._table(top)
        for key in top.keys() - {table, "$schema"}:
            self._warn(key)
        servers = Place(self._source, table).table(top[table])
        if len(servers) > _MOST_SERVERS:
            raise Place(self._source, table).wrong(
                f"holds {len(servers):,} servers; at most {_MOST_SERVERS:,} are read"
            )
        read = (self._server(name, about, Place(self._source, f"{table}.{name}")) for name, about in servers.items())
        found = tuple(server for server in read if server is not None)
        return Configured(found, tuple(sorted(self._warnings)), Claims.of(self._source, self._claims))

    def _table(self, top: Mapping[str, Any]) -> str:
        there = [table for table in TABLES if table in top]
        if len(there) == 1:
            return there[0]
        if there:
            raise BadServer(self._source, " and ".join(there), "are both there; one of them is enough")
        for key in top:
            if near := nearest([key], TABLES):
                raise BadServer(self._source, key, "is not a key of this file", near=near)
        raise BadServer(self._source, "'mcpServers'", "is missing")

    def _server(self, name: str, value: object, place: Place) -> ServerSpec | None:
        check_name(name, place)
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
            "shared": place.at("shared").switch(about.get("shared", False)),
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
        # Where the kernel gets to, found once: by the letters of a path a link and `..` lead elsewhere.
        cwd = os.path.realpath(self._text(about["cwd"], place.at("cwd"))) if about.get("cwd") is not None else None
        environment = self._pairs(about, place.at("env"), check_variable)
        folder = os.path.dirname(os.path.abspath(self._source))
        watched = watched_files((command, *arguments), environment, cwd, folder)
        self._effort += watched.effort
        if self._effort > MOST_EFFORT:  # a checkout does not hold up the question for long
            raise place.wrong("and those before it run more files than are looked through: put some into another file")
        self._claim_command(name, about, cwd, watched)
        return StdioServer(name, command, arguments, environment, cwd, self._inherits, watched=watched, **common)

    def _http(self, name: str, about: Mapping[str, Any], place: Place, common: Mapping[str, Any]) -> HttpServer:
        (key,) = (key for key in URLS if key in about)
        url = self._text(about[key], place.at(key))
        check_url(url, place.at(key))
        headers = self._pairs(about, place.at("headers"), check_header)
        written = str(about[key])
        self._claim_url(name, about, written, url)
        origin = self._origin_variable(written, url)
        given = [self._environment[one] for one in variables_in(written) if one in self._environment and one != origin]
        return HttpServer(name, url, headers, variables=tuple(given), **common)

    # What the user is asked about: the words of the file, before variables were put in.

    def _claim_command(self, name: str, about: Mapping[str, Any], cwd: str | None, watched: Watched) -> None:
        written = [str(about["command"]), *map(str, about.get("args", []))]
        # In another folder the same command may run other files, which nobody can list: the folder is agreed to.
        where = f"   in {cwd or os.path.realpath(os.curdir)}"
        if variables_in(about.get("cwd")):
            where += f", which is {shlex.quote(str(about['cwd']))}"
        given: Mapping[str, Any] = about.get("env") or {}
        shown = [("command", f"{shlex.join(written)}{where}   ({server_name(name)})")]
        for key, value in given.items():
            loud = "   WHICH DECIDES WHAT CODE RUNS" if decides_code(key) else ""
            shown.append(("sets", f"{key}={shlex.quote(value)}{loud}   ({server_name(name)})"))
        if not watched.whole:
            what = "files that it runs: they are too many, so each start asks"
            shown.append(("unwatched", f"{what}   ({server_name(name)})"))
        used = [one for text in (*written, about.get("cwd"), *given.values()) for one in variables_in(text)]
        shown += variables({server_name(name): used})
        self._claims.append(Claims(self._source, tuple(shown), watched.files, (), watched.effort, watched.whole))

    def _claim_url(self, name: str, about: Mapping[str, Any], written: str, url: str) -> None:
        given: Mapping[str, Any] = about.get("headers") or {}
        headers = f"   with {', '.join(given)}" if given else ""
        used = [one for text in (written, *given.values()) for one in variables_in(text)]
        shown = (("url", f"{written}{headers}   ({server_name(name)})"), *variables({server_name(name): used}))
        sent = [one for one in used if one in self._environment and one != self._origin_variable(written, url)]
        self._claims.append(Claims(self._source, shown, sends=tuple((one, origin_of(url)) for one in sent)))

    def _origin_variable(self, written: str, url: str) -> str:
        """The variable by which the user's environment says which server it is. Others are not sent there for that: the
        file chooses path and headers, and many may share a server.
        """
        first = _PLACE.match(written)
        match = _NAME.fullmatch(first[1]) if first is not None else None
        if match is None or match[1] not in self._environment:
            return ""
        return match[1] if origin_of(self._environment[match[1]]) == origin_of(url) else ""

    def _kind(self, about: Mapping[str, Any], place: Place) -> str:
        given = [key for key in ("command", *URLS) if key in about]
        if len(given) != 1:
            near = "" if given else nearest(about, ("command", "url"))
            both = " and ".join(map(repr, given))
            rule = f"has both {both}" if given else "has neither 'command' nor 'url'"
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
            near = nearest([key], [known for known in _KNOWN if known not in about])
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
        if len(self._warnings) == _MOST_WARNINGS:
            raise BadServer(
                self._source, key, f"is one of more than {_MOST_WARNINGS} keys that are not known to Holdall"
            )
        self._warnings.append(f"{self._source}: {key} is not known to Holdall and is not used")
