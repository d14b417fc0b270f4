"""Files that came from somewhere: who can write to them, what they name, and whether the user agreed to exactly that.

An agent's file or an `mcp.json` names modules to import, commands to start, URLs to talk to and variables to send. It
may be part of a checkout that nobody has looked at. So before anything of it runs or is sent:

1. nobody but the user and root can have written it, or what it names (`check_writers`);
2. each variable that goes to a URL goes to one that the user's own configuration names (`check_keys`);
3. the user has agreed to this content (`check_agreed`): the file, the files it names, and what it says of them. An
   agreement is remembered by its hash, so a changed file is a new question.

What stands in a folder of the user's own is the user's word, and is not asked about. The rules for settings that a file
may only tighten are in `config`. This module starts and sends nothing; `agreed_modules` is how Python imports modules
beside an agent's file: those that were agreed to, with the content that they had then.
"""

import contextlib
import errno
import fnmatch
import hashlib
import io
import itertools
import json
import os
import re
import shlex
import stat
import sys
import tokenize
import unicodedata
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from importlib.machinery import (
    EXTENSION_SUFFIXES,
    SOURCE_SUFFIXES,
    ExtensionFileLoader,
    ModuleSpec,
    SourceFileLoader,
)
from io import BufferedReader
from types import CodeType, ModuleType
from typing import Any, cast
from urllib.parse import urlsplit

from holdall.store.owners import OWNER, other_writer, trusted_owners, way_to
from holdall.text.escape import for_people, one_line
from holdall.values.errors import NotTrusted, UsageError
from holdall.values.patterns import lazy_pattern
from holdall.values.record import record

KEYS_SETTING = "key_urls"

# Who can write to a file


def check_writers(path: str, about: os.stat_result, what: str = "the file", *, checked: set[str] | None = None) -> None:
    """Raises UsageError where others could change the file, or put another one in its place.

    `checked` are folders that need no second look, and gets this one; a link leads through others.
    """
    known = checked is not None and os.path.dirname(path) in checked and not os.path.islink(path)
    real = path if known else os.path.realpath(path)
    _check(real, about, other_writer(real, about, (os.geteuid(), 0)), what)
    if not known:
        check_folders(path, what)
    if checked is not None:
        checked.add(os.path.dirname(path))


def check_folders(path: str, what: str) -> None:
    """The same for each folder on the way to it, that of every link too."""
    owners = trusted_owners()
    for folder, link in way_to(path):
        above = os.stat(folder)
        _check(folder, above, other_writer(folder, above, owners), f"a folder of {what}", file=path)
        if link and os.lstat(link).st_uid not in owners:
            raise UsageError(
                f"the link {one_line(link)} to {what} {one_line(path)} belongs to another user; so it is not read."
            )


def _check(path: str, about: os.stat_result, writer: str, what: str, *, file: str = "") -> None:
    if not writer:
        return
    named = f"{what} {one_line(path)}" + (f" ({one_line(file)})" if file else "")
    if writer == OWNER:
        raise UsageError(
            f"{named} belongs to another user (id {about.st_uid}), and says what is run or sent; so it is not read. If "
            f"it is to be trusted, make it yours: chown {os.geteuid()} {shlex.quote(one_line(path))}"
        )
    raise UsageError(
        f"{writer} can write to {named}, and it says what is run or sent; so it is not read. Close it with: "
        f"chmod go-w {shlex.quote(one_line(path))}"
    )


# What a file names


_LARGEST_HASHED = 4 * 1024 * 1024 * 1024
MOST_EFFORT = 8.0  # to find what all that the user is asked about at once would run, where 1 is the most for a command


@record
class Claims:
    """What a file, with all that it names, would run and send.

    `shown` is for the user: kinds, and what the file says, never the value of a variable. `files` are the hashes of
    everything that is read or run. `sends` are variables with the origin that each would go to. `effort` is what it
    took to find the files, and they are not `whole` where there are more: see `Watched`.
    """

    path: str
    shown: tuple[tuple[str, str], ...] = ()
    files: tuple[tuple[str, str], ...] = ()
    sends: tuple[tuple[str, str], ...] = ()
    effort: float = field(default=0.0, compare=False)
    whole: bool = True

    def __add__(self, other: "Claims") -> "Claims":
        return Claims.of(self.path, (self, other))

    @staticmethod
    def of(path: str, parts: Sequence["Claims"]) -> "Claims":
        """All of them together, for the file of this path."""
        return Claims(
            path,
            tuple(dict.fromkeys(one for part in parts for one in part.shown)),
            tuple(sorted({one for part in parts for one in part.files})),
            tuple(dict.fromkeys(one for part in parts for one in part.sends)),
            sum(part.effort for part in parts),
            all(part.whole for part in parts),
        )

    @property
    def digest(self) -> str:
        """The place counts too: in another folder the same command may start something else."""
        told = json.dumps([os.path.realpath(self.path), self.shown, sorted(set(self.files))])
        return hashlib.sha256(told.encode("utf-8", "surrogatepass")).hexdigest()


def _opened(path: str) -> BufferedReader:
    """Only a file: to open a pipe that a checkout brought would take for ever. Raises OSError."""
    file = open(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb")  # noqa: SIM115 - for the caller's `with`
    if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        file.close()
        raise OSError(errno.EINVAL, "Not a file")
    return file


def file_hash(path: str) -> tuple[str, str]:
    """Its real path and the hash of its content. Raises UsageError if others can write to it."""
    real, digest = os.path.realpath(path), hashlib.sha256()
    for piece in _checked_pieces(real, path, _LARGEST_HASHED):
        digest.update(piece)
    return real, digest.hexdigest()


def _read_checked(path: str, most: int) -> bytes:
    return b"".join(_checked_pieces(os.path.realpath(path), path, most))


def _checked_pieces(real: str, path: str, most: int, *, checked: set[str] | None = None) -> Iterator[bytes]:
    """A link may lead to a file of the system that has no end, and says that it has no bytes."""
    try:
        with _opened(real) as source:
            about = os.fstat(source.fileno())
            check_writers(path, about, checked=checked)
            left = about.st_size
            if left > most:
                raise UsageError(f"{one_line(path)} has {left:,} bytes; at most {most:,} are read.")
            while piece := source.read(1024 * 1024):
                left -= len(piece)
                if left < 0:
                    raise UsageError(f"{one_line(path)} has more bytes than it says; so it is not read.")
                yield piece
    except OSError as problem:
        raise UsageError(f"{one_line(path)} cannot be read: {problem.strerror}.") from problem


def file_stamp(path: str) -> tuple[tuple[str, str], ...]:
    """In place of a hash, for a file of gigabytes: its size and the time of its last change, if it is there."""
    try:
        about = os.stat(path)
    except OSError:
        return ()
    return ((os.path.realpath(path), _stamp(about)),)


def _stamp(about: os.stat_result) -> str:
    return f"{about.st_size} {about.st_mtime_ns} {about.st_ctime_ns} {about.st_ino}"


def text_hash(path: str, text: str) -> tuple[str, str]:
    return os.path.realpath(path), hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


# What a command of a file runs, as far as it can be seen: those files are watched. The same files are looked for when
# the user is asked and right before each start, so one that was not there is seen, too.


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


# What a program may run has any name: a script of an editor, a file of commands, settings that name a program. So all
# that is not known to be data counts as code. Data changes with each run, and would ask each time.
_DATA_ENDS = tuple(
    f".{one}"
    for one in sorted(
        _words(
            "json jsonl ndjson geojson record txt text md mdx markdown rst adoc csv tsv log out err pid lock lck "
            "tmp temp swp swo db sqlite sqlite3 db3 db-wal db-shm db-journal sqlite-wal sqlite-shm sqlite-journal "
            "sqlite3-wal sqlite3-shm sqlite3-journal duckdb wal parquet arrow feather avro orc xlsx xls docx doc "
            "pptx odt ods pdf eps rtf epub png jpg jpeg gif webp avif ico icns bmp tif tiff heic mp3 mp4 m4a wav "
            "ogg flac webm mov avi mkv ttf otf woff woff2 eot srt vtt"
        )
    )
)
_DATA = lazy_pattern(  # names that are hashes too, as caches and a store of ours have them
    r"[0-9a-f]{16,}|\.(?:claim|incoming|import)-[\w-]+|\.(?:agent|held|importing|last-gc|looked)|\.[\w-]*(?:history|hst|hsts|info|authority)|\.DS_Store|CACHEDIR\.TAG|Thumbs\.db|\.coverage(?:\..*)?|\.~lock\..*|\.eslintcache",
    re.IGNORECASE,
)
_CODE_ENDS = tuple(  # whatever the name begins with
    f".{one}"
    for one in sorted(
        _words(
            "py pyw pyc pyo pyz pth so dll dylib exe js cjs mjs jsx ts cts mts tsx node wasm sh bash zsh fish ps1 bat "
            "cmd rb pl pm php lua jar class war jl go rs java kt swift r"
        )
    )
)
_SETTING_ENDS = tuple(  # what a fetcher reads, and is not itself run
    f".{one}"
    for one in sorted(
        _words(
            "yml yaml toml conf cfg ini sql xml service properties csproj fsproj props targets env envrc jsonc json5 "
            "hcl tf"
        )
    )
)
_SETTINGS = lazy_pattern(  # what runners, interpreters and builders read of a folder, by its name
    r"(?:package|deno|composer|cdk|turbo|nx|nodemon|lerna|rush|pm2|vercel|import_?map|npm-shrinkwrap|tasks|project|"
    r"[\w.-]*(?:rc|config|-lock)|tsconfig[\w.-]*|.*\.tf)\.json|\.[\w-]*(?:rc|profile|opts|init)|[\w.-]*(?:requirements?|constraints?)[\w.-]*|"
    r"(?:.*\.)?(?:docker|container|make|gnumake|just|task|rake|gem|proc|jenkins|vagrant|tilt|earth|pip|cpan)file(?:\..*)?|"
    r"CMakeLists\.txt|meson[\w.-]*\.txt|go\.(?:mod|sum|work)|"
    r"(?:uv|yarn|poetry|pdm|pixi|bun|deno|cargo|gemfile|pipfile|composer|flake|mix|pubspec)\.lockb?|BUILD|WORKSPACE|\.env(?:\..*)?|\.tool-versions|\.(?:node|python|ruby|java|go)-version",
    re.IGNORECASE,
)
_TEXTS = lazy_pattern(  # of those that have no ending
    "readme|licen[cs]e|copying|copyright|changelog|changes|history|news|notice|authors|contributors|maintainers|"
    "contributing|codeowners|security|credits|thanks|todo|version",
    re.IGNORECASE,
)
_CACHE = lazy_pattern(r"\.[\w-]*cache|\.hypothesis")  # folders whose files have numbers for names
_OF_BOTH = r"\.env(?:\..*)?|\.?mise\.toml|\.tool-versions|"
_LOCK = lazy_pattern("lock|shrinkwrap")
_OF_NODE = lazy_pattern(
    rf"{_OF_BOTH}\.(?:npm|yarn|pnp|bun|node)[\w.-]*|bunfig\.toml|(?:package|package-lock|npm-shrinkwrap|import_?map)\.json|"
    r"pnpm-[\w-]+\.ya?ml|yarn\.\w+|bun\.lockb?|deno\.\w+|\.nvmrc"
)
_OF_PYTHON = lazy_pattern(
    rf"{_OF_BOTH}(?:uv|pyproject|poetry|pdm)\.(?:toml|lock)|pip\.(?:conf|ini)|\.pypirc|\.python-versions?|"
    r"[\w.-]*(?:requirements?|constraints?)[\w.-]*"
)
_OF_NOTHING = lazy_pattern(r"(?!)")
_FETCHERS = {  # programs that run what is not of the project, with which subcommands, and what they read all the same
    **dict.fromkeys(("npx", "pnpx", "bunx"), ((), _OF_NODE)),
    **dict.fromkeys(("uvx", "pipx"), ((), _OF_PYTHON)),
    **dict.fromkeys(("docker", "podman"), (("run",), _OF_NOTHING)),
    "npm": (("exec", "x"), _OF_NODE),
    "pnpm": (("dlx",), _OF_NODE),
    "yarn": (("dlx",), _OF_NODE),
    "bun": (("x",), _OF_NODE),
    "uv": (("tool",), _OF_PYTHON),
}
_FLAGS = _words("-y --yes -q --quiet --silent --isolated --offline --bun")  # of these, that take no value
_INTERPRETERS = _words(
    "python pypy ipython node nodejs deno bun sh bash zsh dash ksh fish busybox ruby perl php lua luajit java tsx "
    "ts-node nodemon vite-node pm2 Rscript dart awk gawk tclsh swift julia elixir groovy scala expect pwsh osascript "
    "crystal raku"
)
_BUILDERS = _words(  # and what else runs code of the project by a name that stands in its settings
    "make gmake just task cargo go npm npx pnpm pnpx yarn uv uvx poetry pdm pipx hatch tox nox invoke docker-compose "
    "compose dotnet mvn gradle ant rake bundle composer mix sbt meson ninja cmake gulp grunt cdk pytest"
)
_SHELL_LINES = _words("-c --call")  # what npx and npm exec are given behind them
_WORD = rb"(?:\"([^\"\n]{1,300})\"|'([^'\n]{1,300})'|((?:\\[^\n]|[^\s\"';&|<>(),\[\]`\\]){1,300}))"
# Each starts with signs that are soon found: a checkout may hold megabytes of text.
_RUN = lazy_pattern(  # in a text: an interpreter, and the first word after it that is no option, in a list of words too
    rf"[^\w.-](?:{'|'.join(sorted(_INTERPRETERS))})[0-9.]{{0,5}}".encode()
    + rb"(?=(?:[ \t\"',]{1,9}-[^\s\"',]{1,99}){0,9}(?:[\"']?\s{0,9},\s{0,9}|[ \t]{0,9}<[ \t]{0,9}|[ \t]{1,9})"
    + _WORD
    + rb")"
)
_INCLUDED = lazy_pattern(  # in a text: what a shell or make reads as a part of it
    rb"[;&|({\n\"' \t](?:(?<![ \t])|(?<=\b(?:do|if)[ \t])|(?<=\b(?:then|else)[ \t])|(?<=c[ \t]))[ \t]{0,99}"
    rb"(?:\.|source|-?include|sinclude)[ \t\"']{1,9}" + _WORD
)
_BUILT = lazy_pattern(  # in a text: a builder or an installer, with its options
    rb"[^\w.-](?:g?make|docker|docker-compose|podman|compose|pip[0-9.]{0,5}|uvx?|just|psql|awk|sed)(?=[\s\"'])[^\n;&|]{1,1000}"
)
_GIVEN = lazy_pattern(  # among these: the file whose content is run or installed
    rb"[ \t\"'](?:-[a-zA-Z]{0,9}[frc]|--(?:\w{1,9}-)?(?:\w{0,9}file|requirements?|constraints?|overrides?))"
    rb"[ \t=\"',]{0,9}" + _WORD
)
_CONFIG = lazy_pattern(
    rb"[ \t\"']--?[\w-]{0,20}(?:config|settings|manifest|env|init|rc)(?:-?file|-?path)?[ \t=\"',]{1,9}" + _WORD
)
_ESCAPED = lazy_pattern(rb"\\(.)")
_NO_VARIABLES = lazy_pattern(r"(?:^|\s)-[a-zA-Z]{0,9}[EI]|pycache_prefix|PYTHONPYCACHEPREFIX|(?:^|[\s/])env\s+-")
_NO_VARIABLES_IN_TEXT = lazy_pattern(  # the same, where a script starts its Python, or is started by one
    rb"(?:python|pypy)[0-9.]{0,5}(?:[ \t]{1,9}-\S{1,99}){0,9}?[ \t]{1,9}-[a-zA-Z]{0,9}[EI]|pycache_prefix|"
    rb"PYTHONPYCACHEPREFIX|\benv[ \t]{1,9}-"
)
_ABOVE = lazy_pattern(rb"\.\./[^\s\"'`;&|<>()\0]{0,300}|(?<![\w./])\.\.(?![\w./])")
_TOKEN = lazy_pattern(r"[^\s\"'`;&|()<>,=:/\\\[\]{}$!*?]{1,300}")
_QUOTES = lazy_pattern(r"[\"'\\`]")
_BETWEEN_NAMES = lazy_pattern(r"[\s/:;,=@&|<>()]")
_PATTERN_SIGN = lazy_pattern(r"[*?\[{]")
_BRACES = lazy_pattern(r"\{[^{}]*\}|[{}]")
_MOST_PATTERNS = 20
_SHELLS = _words("sh bash dash zsh ksh mksh ash fish busybox")
_SEPARATOR = lazy_pattern(r"[=:,\"'`;&|()<>\[\]{}]")
_SIGN = lazy_pattern(r"\\(?:u([0-9a-fA-F]{4})|x([0-9a-fA-F]{2})|([^\n]))")  # as JSON, TOML and YAML write one
_CACHED = lazy_pattern(r"(.+?)\.(?:cpython|pypy|graalpy)[\w.-]*\.pyc")
_STORE = lazy_pattern(r"(?:--[\w-]*|\w*)(?:db|database|sqlite)[\w-]*", re.IGNORECASE)  # an option or a variable
_WRITTEN = _words("log logs logfile out output memory state history")  # the last word of an option for data, but for
_PLACES = _words("file path dir directory folder name to location")
_CONFIGURING = lazy_pattern(r"config|settings|init|profile|prefix|rc$", re.IGNORECASE)  # in the name of a variable
_STRING = lazy_pattern(r"\"([^\"\\\0]{1,300})\"")
_BINARY = (b"\x7fELF", b"\xca\xfe\xba\xbe", b"\0asm", b"PK\3\4", b"\x1f\x8b")
_PUNCTUATION = "\"'`;&|()<>,"
_MAX_HASHED = 1000
_MAX_WATCHED_BYTES = 256 * 1024 * 1024
_MAX_SCANNED_TOGETHER = 2 * 1024 * 1024  # for data that runs, of a command
_MAX_TRIES = 10_000
_TRIED_AT_ONCE = 10  # signs of a path
_MAX_SIGNS = 100_000  # of a command and its variables
_MAX_ENTRIES = 50_000  # of a project, without what is installed in it
_MAX_OPENED = 2_000  # files of which the first bytes say what they are
_MAX_PATH = 4_000  # bytes: of more than the system takes only code knows, step by step
_LONGEST_PATH = 4_096  # signs, as a word: no system opens a longer one
_INSTALLED = _words("node_modules site-packages .venv venv")  # thousands of files, many of one name
_CHECKOUTS = (".git", ".hg", ".svn", ".jj", ".bzr")  # what is in the outermost folder of one

# Variables by which programs are told which other code or program to run.
_DECIDING = lazy_pattern(
    r"ENV|IFS|HOME|SHELL|SHELLOPTS|PAGER|EDITOR|VISUAL|BROWSER|.*PATH|.*_(COMMAND|PRELOAD|OPTIONS|OPTS|PROXY)|"
    r"_?(LD|DYLD|PYTHON|NODE|BASH|ZDOTDIR|PERL|RUBY|GEM|BUNDLE|GIT|SSH|JAVA|JDK|NPM|UV|PIP|DENO|BUN|YARN|PNPM|PHP|LUA|"
    r"DOCKER|MAKE|XDG|OPENSSL|GCONV|HOLDALL).*",
    re.IGNORECASE,
)


_OWN_FOLDER = lazy_pattern(r"/proc/(?:self|thread-self)/cwd\b")


def decides_code(variable: str) -> bool:
    """Whether a variable of this name can say which code runs."""
    return _DECIDING.fullmatch(variable) is not None


@record
class Watched:
    """The hashes of the files that a command runs; not `whole` where there are more than are looked at.

    `effort` is the share that finding them took of what one command may take.
    """

    files: tuple[tuple[str, str], ...]
    whole: bool = True
    effort: float = field(default=0.0, compare=False)


def watched_files(words: Sequence[str], environment: Mapping[str, str], cwd: str | None, folder: str) -> Watched:
    """`environment` is what the file sets, `folder` the one that it is in. Raises UsageError if others can write one.

    How code gets at other code cannot be listed: by a name that it makes up, by a folder's listing. So all code and
    settings of the project are watched, that is of the checkouts that `folder` and `cwd` are in; data, which changes
    with each run, where the command, a variable or the settings name it: of a folder that a variable names, all. Not so
    an SQLite file that is given as a database. What is fetched, as by `npx`, or is in a container runs none
    of it, unless the command, or what its runner reads there, names some: else only what the runner reads is watched.
    What is installed in the project is watched where the command names it; outside of it, the file that the command
    names. Of more than `_MAX_HASHED` files the time of the last change stands for the content.
    """
    start = os.path.realpath(cwd or ".")
    # To the server that is its own folder, to us it would be ours.
    words = [_OWN_FOLDER.sub(lambda _: start, word) for word in words]
    return _Watch(words, environment, start, os.path.realpath(folder)).files()


class _Watch:
    def __init__(self, words: Sequence[str], environment: Mapping[str, str], start: str, folder: str) -> None:
        self._is_whole = sum(map(len, (*words, *environment.values()))) <= _MAX_SIGNS
        if not self._is_whole:  # each start asks, whatever else is found
            words, environment = [words[0][:_LONGEST_PATH]], {}
        self._words = words
        self._environment = environment
        self._start = start
        self._named = _tokens("\n".join([*words, *environment.values()]))
        self._timed = _NO_VARIABLES.search(" ".join(words)) is not None  # compiled code may run in place of its source
        self._found: dict[str, str] = {}
        self._waiting = deque[str]()
        self._all_code = False  # of the project
        self._tops: list[str] = []
        self._tree: list[str] = []
        self._looked_at = 0  # of the tree
        self._names: dict[str, list[str]] = {}  # the files of the tree
        self._installed: list[str] = []  # folders of it
        self._caches: list[str] = []
        self._of_cache: set[str] = set()  # folders
        self._stores: set[str] = set()
        self._parted: dict[str, list[str]] = {}  # by the text: the paths that it may name
        self._shallow: set[str] = set()  # folders of which only the files are in the tree
        self._checked: set[str] = set()  # folders that nobody else can write to
        self._is_cut = False  # so far only the names
        self._hashed = 0
        self._entries = _MAX_ENTRIES
        self._bytes = _MAX_WATCHED_BYTES
        self._scan = _MAX_SCANNED_TOGETHER
        self._opens = _MAX_OPENED
        self._tries = _MAX_TRIES
        for place in (start, folder):
            self._enter(_checkout(place))

    def files(self) -> Watched:
        self._waiting += self._program()
        self._of_variables()
        self._of_words()
        while self._waiting or (self._all_code and self._looked_at < len(self._tree)):
            if self._waiting:
                self._take(self._waiting.popleft())
            else:
                self._take(self._tree[self._looked_at], if_code=True)
                self._looked_at += 1
        for path in self._compiled() if self._all_code else ():
            self._take(path)
        is_whole = self._is_whole and self._tries > 0 and not (self._all_code and self._is_cut)
        return Watched(tuple(sorted(self._found.items())), is_whole, self._effort())

    def _effort(self) -> float:
        left = (
            1.0 - (1.0 - self._entries / _MAX_ENTRIES) / 8,  # a large project is soon gone through
            1.0 - self._hashed / _MAX_HASHED / 4,
            1.0 - (1.0 - self._scan / _MAX_SCANNED_TOGETHER) / 2,
            self._tries / _MAX_TRIES,
            self._bytes / _MAX_WATCHED_BYTES,
        )
        return 1.0 - max(0.0, min(left))

    # The project

    def _enter(self, top: str, *, deep: bool = True, even_wide: bool = True) -> None:
        """Goes through a folder for the names in it; not deep into one that is much more than a project."""
        wide = _is_wide(top)
        deep = deep and not wide
        if self._is_in_tops(top) or (not deep and top in self._shallow) or (wide and not even_wide):
            return
        if deep:
            self._tops.append(top)
        else:
            self._shallow.add(top)
        waiting = [(top, False)]
        for folder, inside in waiting:  # which grows
            entries: list[os.DirEntry[str]] = []
            with contextlib.suppress(OSError, ValueError), os.scandir(folder) as listed:
                entries = sorted(itertools.islice(listed, self._entries + 1), key=lambda one: one.name)
            self._entries -= len(entries)
            if self._entries < 0:
                self._entries, self._is_cut = 0, True
                break
            is_cache = os.path.basename(folder) == "__pycache__"
            self._caches += [folder] if is_cache and folder == top else []
            self._is_cut = self._is_cut or any(len(os.fsencode(one.path)) > _MAX_PATH for one in entries)
            for one in entries:
                if is_cache and one.name.endswith(".pyc"):  # see `_compiled`
                    continue
                is_named = not inside or _plain(one.name) in self._named
                if not one.is_dir(follow_symlinks=False):
                    self._tree += [one.path] if is_named else []
                    self._names.setdefault(_plain(one.name), []).extend([one.path] if is_named else [])
                elif one.name != ".git" and deep:
                    self._caches += [one.path] if one.name == "__pycache__" else []
                    if folder in self._of_cache or _CACHE.fullmatch(one.name):
                        self._of_cache.add(one.path)
                    installed = one.name in _INSTALLED
                    self._installed += [one.path] if installed else []
                    if is_named and (not installed or _plain(one.name) in self._named):
                        waiting.append((one.path, installed))

    def _is_in_tops(self, path: str) -> bool:
        return any(path == one or path.startswith(one.rstrip(os.sep) + os.sep) for one in self._tops)

    def _is_here(self, path: str) -> bool:
        """An absolute path may lead to what is installed."""
        if not os.path.isabs(path):
            return True
        real = os.path.realpath(path)
        return self._is_in_tops(real) or os.path.join(real, "").startswith(os.path.join(self._start, ""))

    def _is_code(self, path: str) -> bool:
        folder, name = os.path.split(os.path.normpath(path))
        has_ending = "." in name
        if _is_code_name(path) and (has_ending or folder not in self._of_cache):
            return True
        try:
            about = os.stat(path)
        except (OSError, ValueError):
            return False
        if not stat.S_ISREG(about.st_mode) or about.st_mode & 0o111:
            return stat.S_ISREG(about.st_mode)
        if has_ending or not about.st_size:
            return False
        self._opens -= 1
        if self._opens < 0:
            return True
        with contextlib.suppress(OSError), _opened(path) as file:
            return file.read(2) == b"#!"
        return False

    def _has_code(self, folder: str) -> bool:
        above = os.path.join(os.path.realpath(folder), "")
        return any(one.startswith(above) and self._is_code(one) for one in self._tree)

    # What the command names

    def _program(self) -> list[str]:
        """The command, unless it is one that is installed."""
        command, sets_path = self._words[0], "PATH" in self._environment
        if len(command) > _LONGEST_PATH:
            return []
        if os.sep in command:
            return [os.path.join(self._start, command)] if self._is_here(command) else []
        for place in os.get_exec_path(self._environment if sets_path else None):
            self._tries -= 1 + len(place) // _TRIED_AT_ONCE if sets_path else 0
            path = os.path.join(self._start, place, command)
            if self._tries <= 0:
                break
            if os.path.isfile(path) and os.access(path, os.X_OK):
                return [path] if not os.path.isabs(place) or (sets_path and is_own(path, self._tops)) else []
        return []

    def _of_words(self) -> None:
        paths = [path for word in self._words for path in self._paths(word)]
        for path in paths:
            self._enter_above(path)
        glued = [word.partition("=")[::2] for word in self._words]
        written: set[str] = set()
        for option, word in (*itertools.pairwise(self._words), *glued):
            given = self._paths(word) if option.startswith("--") and _STORE.fullmatch(option) else ()
            self._stores.update(map(os.path.realpath, given))
            given = self._paths(word) if option.startswith("--") and _is_for_data(option) else ()
            written.update(one for one in given if not self._is_code(one))
        paths = [one for one in paths if one not in written]
        outside = [one for one in self._words[1:] if os.path.isabs(one) and len(one) <= _LONGEST_PATH]
        self._waiting += [
            one for one in outside if not self._is_here(one) and os.path.isfile(one) and self._is_code(one)
        ]
        self._waiting += [*paths, *(one for path in paths for one in self._elsewhere(path))]
        of_data = {given for option, given in itertools.pairwise(self._words) if _names_data(option)}
        of_data |= {word for word in self._words if "=" in word and _names_data(word.partition("=")[0])}
        self._waiting += self._named_within("\n".join(one for one in self._words if one not in of_data))
        text = "\n".join([" ".join(self._words), *self._words])
        self._watch_run(text.encode("utf-8", "surrogateescape"), self._start)
        self._waiting += [one for word in self._words for one in self._installed_here(word)]
        first = next((one for one in self._words[1:] if not one.startswith("-")), "")
        subcommands, settings = _FETCHERS.get(os.path.basename(self._words[0]), (None, _OF_NOTHING))
        if subcommands is None or (subcommands and first not in subcommands):
            self._all_code = True
            return
        self._waiting += self._read_by(settings)
        deciding = [value for name, value in self._environment.items() if decides_code(name)]
        of_package = [word for word in self._words[1:] if word not in (*subcommands, "run")]
        runs = _INTERPRETERS | _BUILDERS
        given = _tokens("\n".join([*of_package, *deciding]))
        self._all_code = self._all_code or any(one.rstrip("0123456789.") in runs for one in given)
        # A program loads what variables of its own name, too.
        others = _TOKEN.findall("\n".join(self._environment.values()))
        given |= _tokens("\n".join(one for one in others if not one.casefold().endswith(_DATA_ENDS)))
        self._all_code = self._all_code or (settings is _OF_NODE and not _SHELL_LINES.isdisjoint(self._words))
        self._waiting += [one for one in self._of_name(given) if self._is_code(one)]
        of_runner = self._words if settings is _OF_NOTHING else self._given(subcommands)
        folders = [path for word in of_runner for path in self._paths(word) if os.path.isdir(path)]
        self._all_code = self._all_code or any(map(self._has_code, dict.fromkeys(folders)))

    def _named_within(self, text: str) -> list[str]:
        """The files whose name stands in it, whatever is before it: an option that it is glued to, an @, a folder. How
        a shell would read it is not known here, so its signs count for nothing, and its patterns for all that fit.
        """
        plain = _plain(_QUOTES.sub("", text))
        found: dict[str, None] = {}
        for token in dict.fromkeys(_BETWEEN_NAMES.split(plain)):
            self._tries -= len(token) // _TRIED_AT_ONCE
            if self._tries <= 0:
                break
            found |= dict.fromkeys(
                token[at:] for at in range(min(len(token), _LONGEST_PATH)) if token[at:] in self._names
            )
        for name in self._names if len(found) < len(self._names) else ():
            if _BETWEEN_NAMES.search(name) and name in plain:
                found[name] = None
        patterns = {_BRACES.sub("*", one.rpartition("/")[2]) for one in plain.split() if _PATTERN_SIGN.search(one)}
        if patterns and any(os.path.basename(one) in _SHELLS for one in self._words):
            fits = re.compile("|".join(fnmatch.translate(one) for one in sorted(patterns)[:_MOST_PATTERNS]))
            self._is_whole = self._is_whole and len(patterns) <= _MOST_PATTERNS
            found |= dict.fromkeys(name for name in self._names if fits.match(name))
        return [path for name in found for path in self._names[name]]

    def _given(self, subcommands: Collection[str]) -> list[str]:
        """The words for the runner, up to the name of what it fetches: what follows goes to that."""
        found: list[str] = []
        takes_value = False
        for word in self._words[1:]:
            found.append(word)
            if word.startswith("-"):
                takes_value = word not in _FLAGS and "=" not in word and word != "--"
            elif takes_value or word in subcommands or word == "run":
                takes_value = False
            else:
                break
        return found

    def _read_by(self, settings: re.Pattern[str]) -> list[str]:
        """What a runner reads in the folder that it is started in, and above it within the project."""
        found: list[str] = []
        place = self._start
        while True:
            with contextlib.suppress(OSError):
                found += [os.path.join(place, one) for one in sorted(os.listdir(place)) if settings.fullmatch(one)]
            above = os.path.dirname(place)
            if place == above or not self._is_in_tops(above):
                return found
            place = above

    def _installed_here(self, word: str) -> list[str]:
        """A package or program by its name, in the folders where a checkout can have it."""
        package = word[:1] + word[1:].partition("@")[0]  # without a version
        if (
            len(package) > _LONGEST_PATH
            or package.startswith(("-", ".", os.sep))
            or "\0" in package
            or ".." in package.split(os.sep)
        ):
            return []
        program, places, folder = os.path.basename(package), [*self._installed], self._start
        while folder != os.path.dirname(folder):
            places += [os.path.join(folder, one) for one in sorted(_INSTALLED)]
            folder = os.path.dirname(folder)
        self._tries -= len(places)
        inner = (os.path.join(".bin", program), os.path.join(package, "package.json"), os.path.join("bin", program))
        return [os.path.join(place, one) for place in dict.fromkeys(places) for one in inner] if self._tries > 0 else []

    def _of_variables(self) -> None:
        """A program starts with the files of its home folder, and takes settings and code from what it is told. What
        other variables name is data unless it is code by its name: a memory, a folder to work in.
        """
        for name, value in self._environment.items():
            decides = decides_code(name) or _CONFIGURING.search(name) is not None
            for path in self._paths(value):
                self._enter_above(path)
                real = os.path.realpath(path)
                if not os.path.isdir(real):
                    reads = decides and not _is_for_data(name)
                    self._waiting += [path] if reads or self._is_code(real) else []
                    self._stores.update([real] if _STORE.fullmatch(name) else ())
                elif decides and self._is_here(real):
                    self._all_code = self._all_code or decides_code(name)
                    is_around = os.path.join(self._start, "").startswith(os.path.join(real, ""))
                    if not is_around and name != "PYTHONPATH":  # from which Python takes modules alone
                        self._watch_all(real)

    def _watch_all(self, top: str) -> None:
        waiting = [top]
        for folder in waiting:  # which grows
            entries: list[os.DirEntry[str]] = []
            with contextlib.suppress(OSError, ValueError), os.scandir(folder) as listed:
                entries = sorted(itertools.islice(listed, self._entries + 1), key=lambda one: one.name)
            self._entries -= len(entries)
            if self._entries < 0:
                self._entries, self._is_whole = 0, False
                return
            is_cache = os.path.basename(folder) == "__pycache__"
            self._caches += [folder] if is_cache else []
            self._all_code = self._all_code or is_cache
            for one in entries:
                if one.is_dir(follow_symlinks=False):
                    waiting.append(one.path)
                elif not (is_cache and one.name.endswith(".pyc")):  # see `_compiled`
                    self._waiting.append(one.path)

    def _paths(self, word: str) -> list[str]:
        """What a word may name. Longer ones are no path; over all that is tried each start asks."""
        if word not in self._parted:
            found = self._parted[word] = list[str]()
            for one in _parts(word):
                self._tries -= 1 + len(one) // _TRIED_AT_ONCE
                if self._tries <= 0:
                    break
                if self._is_here(one):
                    found.append(os.path.join(self._start, one))
        return self._parted[word]

    def _elsewhere(self, path: str) -> list[str]:
        """The files of this name in the project: a command may go to their folder first."""
        named = self._names.get(_plain(os.path.basename(path)), ())
        self._tries -= len(named) // _TRIED_AT_ONCE
        end = _plain(os.path.join(os.sep, os.path.relpath(path, self._start))) if named else ""
        return [one for one in named if _plain(one).endswith(end)]

    def _in_strings(self, text: bytes, folder: str) -> list[str]:
        """The files that settings name, by their own folder or that of the command."""
        said = _SIGN.sub(_unescaped, text.decode("utf-8", "replace"))
        named = [one for one in _parts(said) if _plain(one.rpartition(os.sep)[2]) in self._names]
        return [os.path.join(place, one) for one in named for place in (folder, self._start) if self._is_here(one)]

    def _of_name(self, tokens: Iterable[str]) -> list[str]:
        """The files of the project that have such a name, with or without its ending."""
        stems: dict[str, list[str]] = {}
        for name, paths in self._names.items():
            stems.setdefault(name.rpartition(".")[0], []).extend(paths)
        return [path for one in sorted(tokens) for path in (*self._names.get(one, ()), *stems.get(one, ()))]

    # What is in a file

    def _take(self, path: str, *, if_code: bool = False) -> None:
        """Its hash, what it runs, and where its link leads."""
        try:
            if len(path) > 2 * _LONGEST_PATH:
                return
            is_link, is_file = os.path.islink(path), os.path.isfile(path)
            if if_code and not ((is_link and not is_file) or self._is_code(path)):
                return
            real = path if if_code and not is_link else os.path.realpath(path)  # the way to the tree has no links
            if is_link:
                at = os.path.join(os.path.realpath(os.path.dirname(path)), os.path.basename(path))
                self._found[at] = f"link to {os.readlink(path)}"
            if real in self._found or not is_file:
                return
        except (OSError, ValueError):
            return
        if real in self._stores and _is_database(real):
            self._found[real] = "a database"
            return
        text = self._hash(path, real)
        runs = self._is_code(real) and not _is_setting_name(real)
        if self._all_code and not text:
            return
        self._look_through(real, text, runs=runs)

    def _look_through(self, real: str, text: bytes, *, runs: bool) -> None:
        if _INSTALLED.isdisjoint(real.split(os.sep)):
            if runs:
                self._all_code = True
            elif not self._all_code:
                self._of_settings(real, text)
        elif os.path.basename(real) == "package.json":
            folder = os.path.dirname(real)
            self._waiting += [os.path.join(folder, one) for one in _STRING.findall(text.decode("utf-8", "replace"))]
        if not runs and not _LOCK.search(os.path.basename(real)):
            self._waiting += self._in_strings(text, os.path.dirname(real))
        self._timed = self._timed or _NO_VARIABLES_IN_TEXT.search(text) is not None
        self._watch_run(text, os.path.dirname(real))
        for above in dict.fromkeys(_ABOVE.findall(text)):
            for place in (os.path.dirname(real), self._start):
                self._enter_above(os.path.join(place, os.fsdecode(above)), in_text=True)

    def _hash(self, path: str, real: str) -> bytes:
        """Its beginning, if it is a text that is not too long to look through."""
        about = os.stat(real)
        if self._hashed >= _MAX_HASHED or about.st_size > self._bytes or not os.access(real, os.R_OK):
            check_writers(path, about, checked=self._checked)
            self._found[real] = _stamp(about)
            return b""
        self._hashed += 1
        self._bytes -= about.st_size
        digest, kept = hashlib.sha256(), list[bytes]()
        for piece in _checked_pieces(real, path, _LARGEST_HASHED, checked=self._checked):
            digest.update(piece)
            if self._scan > 0 and (kept or not (piece.startswith(_BINARY) or real.endswith(".pyc"))):
                kept.append(piece[: self._scan])
                self._scan -= len(kept[-1])
        self._found[real] = digest.hexdigest()
        return b"".join(kept)

    def _watch_run(self, text: bytes, folder: str) -> None:
        """Of any kind: where it runs it is code."""
        text = b"\n" + text
        found = [groups for one in (_RUN, _INCLUDED, _CONFIG) for groups in one.findall(text)]
        found += [groups for one in _BUILT.findall(text) for groups in _GIVEN.findall(one)]
        for groups in dict.fromkeys(found):
            word = os.fsdecode(_ESCAPED.sub(rb"\1", b"".join(groups)))
            self._tries -= 1
            if self._tries <= 0:
                return
            self._waiting += self._names.get(_plain(os.path.basename(word)), ())
            self._waiting += [os.path.join(place, word) for place in (folder, self._start) if self._is_here(word)]

    def _enter_above(self, path: str, *, in_text: bool = False) -> None:
        """A folder outside that a path leads to. Texts name any: of these it is one beside the project, or the direct
        files of the one that both are in.
        """
        self._tries -= 1
        with contextlib.suppress(ValueError):
            top = os.path.realpath(path)
            top = top if os.path.isdir(top) else os.path.dirname(top)  # the ending may be left out
            if self._tries <= 0 or self._is_in_tops(top) or not os.path.isdir(top):
                return
            near = [os.path.dirname(one) if in_text else os.sep.join(one.split(os.sep)[:2]) for one in self._tops]
            if any(is_own(os.path.join(top, "any"), [one]) for one in near if one != os.sep):
                is_above = any(is_own(one, [top]) for one in self._tops)
                self._enter(top, deep=not (in_text and is_above), even_wide=not in_text)

    def _of_settings(self, path: str, text: bytes) -> None:
        """What the settings of a runner name, where nothing else of the project is known to run."""
        name, said = os.path.basename(path), text.decode("utf-8", "replace")
        if name == "package.json":
            self._all_code = self._is_own_package(said)
            return
        if _LOCK.search(name):
            return
        said = said.partition("[tool.uv")[2] if name == "pyproject.toml" else said
        self._waiting += self._of_name(_tokens(said))
        folders = [one for line in said.splitlines() for one in self._paths(line) if os.path.isdir(one)]
        self._all_code = self._all_code or any(map(self._has_code, dict.fromkeys(folders)))

    def _is_own_package(self, text: str) -> bool:
        """Whether the folder itself is the package that is named, which is then not fetched."""
        try:
            about = cast("Mapping[str, Any]", json.loads(text))
            name, programs = str(about.get("name")), about.get("bin")
            own = {name, name.rpartition("/")[2]}
            own |= {*cast("Mapping[str, Any]", programs)} if isinstance(programs, dict) else set()
        except (ValueError, AttributeError, RecursionError):
            return True
        return any(word[:1] + word[1:].partition("@")[0] in own for word in self._words)

    def _compiled(self) -> list[str]:
        """Compiled code that Python takes without a look at the source, or that has none; with one at its time, where
        that may be.
        """
        found: list[str] = []
        for folder in dict.fromkeys(self._caches):
            names: list[str] = []
            with contextlib.suppress(OSError):
                names = sorted(one for one in os.listdir(folder) if one.endswith(".pyc"))
            for path in (os.path.join(folder, one) for one in names):
                is_timed, self._opens = False, self._opens - 1
                if not self._timed and self._opens >= 0 and _has_source(path):
                    with contextlib.suppress(OSError), _opened(path) as file:
                        is_timed = file.read(8)[4:] == bytes(4)
                found += [] if is_timed else [path]
        return found


def _has_source(compiled: str) -> bool:
    folder, name = os.path.split(compiled)
    stem = _CACHED.fullmatch(name)
    return stem is not None and os.path.isfile(os.path.join(os.path.dirname(folder), f"{stem[1]}.py"))


def _is_for_data(option: str) -> bool:
    """Whether an option or a variable of this name says where a program writes: `LOG_CONFIG` is no log."""
    words = option.casefold().replace("-", "_").split("_")
    while words and words[-1] in _PLACES:
        words.pop()
    return bool(words) and words[-1] in _WRITTEN


def _names_data(option: str) -> bool:
    return option.startswith("--") and (_STORE.fullmatch(option) is not None or _is_for_data(option))


def _is_database(path: str) -> bool:
    """A server writes to it. Python would run one that ends as an archive."""
    import zipfile  # noqa: PLC0415 - few commands name one

    with contextlib.suppress(OSError), _opened(path) as file:
        return file.read(16) == b"SQLite format 3\0" and not zipfile.is_zipfile(file)
    return False


def _parts(text: str) -> list[str]:
    """What may be a path in it: itself, each word, what is between signs as `=` and `:`, and is glued to an option."""
    words = dict.fromkeys([text, *(one.strip(_PUNCTUATION) for one in dict.fromkeys(text.split()))])
    parts = words | dict.fromkeys(inner for one in words for inner in _SEPARATOR.split(one))
    parts |= dict.fromkeys([one[2:] for one in parts if one.startswith("-")])
    return [one for one in parts if one and len(one) <= _LONGEST_PATH and "\0" not in one]


def _unescaped(found: re.Match[str]) -> str:
    return chr(int(found[1] or found[2], 16)) if found[1] or found[2] else found[3]


def _tokens(text: str) -> set[str]:
    """The words in it that may be the name of a file, also glued to an option, and the parts of a module's path."""
    found = {_plain(one) for one in _TOKEN.findall(text)}
    found |= {one.lstrip("-") for one in found if one.startswith("-")} | {one[2:] for one in found if one[:1] == "-"}
    found |= {part for one in found if one.replace(".", "").isidentifier() for part in one.split(".")}
    return found - {""}


def _plain(name: str) -> str:
    """A name as folders compare it that ignore case, or the way that a letter is written."""
    return name.casefold() if name.isascii() else unicodedata.normalize("NFKC", name).casefold()


def _is_code_name(path: str) -> bool:
    name = os.path.basename(path)
    plain = name.casefold().rstrip("~")  # an editor's copy is what it is a copy of
    if plain.endswith(_CODE_ENDS):
        return True
    is_data = plain.endswith(_DATA_ENDS) or any(one.fullmatch(plain) for one in (_DATA, _TEXTS))
    return not is_data or _SETTINGS.fullmatch(name) is not None


def _is_setting_name(path: str) -> bool:
    name = os.path.basename(path)
    return name.casefold().endswith(_SETTING_ENDS) or _SETTINGS.fullmatch(name) is not None


def _is_wide(folder: str) -> bool:
    """Much more than a project: the root, what holds the home folder, a folder of everybody."""
    home = os.path.realpath(os.path.expanduser("~"))
    if os.path.join(home, "").startswith(os.path.join(folder, "")):
        return True
    with contextlib.suppress(OSError):
        everybodys = stat.S_ISVTX | stat.S_IWOTH
        return os.stat(folder).st_mode & everybodys == everybodys
    return False


def _checkout(folder: str) -> str:
    """The folder of the checkout that this one is in, or itself. A checkout may hold others: it is the outermost."""
    found = here = folder
    while not _is_wide(here):
        found = here if any(os.path.lexists(os.path.join(here, one)) for one in _CHECKOUTS) else found
        here = os.path.dirname(here)
    return found


# Modules beside an agent's file: which there are, and importing exactly those.


_SUFFIXES = (
    *EXTENSION_SUFFIXES,
    *SOURCE_SUFFIXES,
)  # compiled code without a source is not found
_MAX_FILES = 2000
_MAX_SOURCE_BYTES = 32 * 1024 * 1024
_LONGEST_NAME = 300
_IMPORT = lazy_pattern(r"\b(?:from\s*+(\.{1,99}(?=\s*+import\b)|[.\w]{1,300}+)\s*+)?import\b\s*+(\(|[^\n;#()]++)")
_LISTED = lazy_pattern(r"[^()#]*+(?:#[^\n]*+)?")  # between parentheses: names, then a comment
_GOES_ON = lazy_pattern(r"\\\r?\n|(?<![ \t\f])[ \t\f]++(?=\.)|(?<=\.)[ \t\f]++")  # in a statement, as nothing
_CODINGS = lazy_pattern(
    r"(?:utf|iso|cp|koi8|mac|gb|big5|euc|shift_?jis|latin|ascii|us-ascii|hz|johab|tis|kz)[-_\w]{0,30}"
)
_ALIAS = lazy_pattern(r"\bas\s+\w+")
_NAMES = lazy_pattern(r"[^\W\d][\w.]*")


@record
class Module:
    """A module as it was when the user was asked. `path` is the folder of a namespace, which has no file.

    `source` is what runs; of an extension, which only the system can load, the hash is compared right before that.
    """

    name: str
    path: str
    hashed: tuple[str, str] | None = None
    source: bytes | None = field(default=None, repr=False)

    @property
    def is_package(self) -> bool:
        return self.hashed is None or os.path.basename(self.path).startswith("__init__.")

    @property
    def package(self) -> list[str]:
        return self.name.split(".")[: None if self.is_package else -1]


def named_modules(spec: str, folders: Sequence[str]) -> dict[str, Module]:
    """`find_modules` for `module:name`, as an agent's file has it."""
    try:
        return find_modules(spec.partition(":")[0], folders)
    except UsageError as problem:
        raise UsageError(f"{one_line(spec)}: {problem}") from problem


def find_modules(name: str, folders: Sequence[str]) -> dict[str, Module]:
    """A module in these folders, and what it imports from them, by name, without running any of it. Of a package all.

    What Python would take from elsewhere is left to it, and what a module imports by a name that it makes up is not
    found. Raises UsageError where a name has two sources: the user would be shown one, and the other could run.
    """
    found: dict[str, Module] = {}
    elsewhere: dict[str, bool] = {}
    waiting, seen, size = _with_packages([name]), set[str](), 0
    while waiting:
        one = waiting.pop()
        top = one.partition(".")[0]
        if one in seen or elsewhere.get(top):
            continue
        seen.add(one)
        if len(seen) > _MAX_TRIES:
            raise UsageError(f"the module {one_line(name)} imports more than {_MAX_TRIES:,} names.")
        if not (files := _files_of(one, folders)):
            continue
        if top not in elsewhere:
            elsewhere[top] = _is_elsewhere(top, folders, wanted=top == name.partition(".")[0])
        for inner, path in ({} if elsewhere[top] else _sources(one, files)).items():
            if inner in found:
                continue
            found[inner] = _read_module(inner, path)
            size += len(found[inner].source or b"")
            if len(found) > _MAX_FILES or size > _MAX_SOURCE_BYTES:
                most = f"{_MAX_FILES:,} files or {_MAX_SOURCE_BYTES:,} bytes"
                raise UsageError(f"the module {one_line(name)} is made of more than {most}.")
            try:
                waiting += _imports(found[inner].source or b"", found[inner].package)
            except UsageError as problem:
                raise UsageError(f"the module {one_line(inner)}: {problem}") from problem
    for inner in _with_packages(found):
        if inner not in found:
            folder = next(one for one in folders if os.path.isdir(os.path.join(one, *inner.split("."))))
            found[inner] = Module(inner, os.path.join(folder, *inner.split(".")))
    return found


def _read_module(name: str, path: str) -> Module:
    if path.endswith(tuple(EXTENSION_SUFFIXES)):
        return Module(name, path, file_hash(path))
    source = _read_checked(path, _MAX_SOURCE_BYTES)
    return Module(name, path, (os.path.realpath(path), hashlib.sha256(source).hexdigest()), source)


def _files_of(module: str, folders: Sequence[str]) -> list[str]:
    bases = [os.path.join(folder, *module.split(".")) for folder in folders]
    places = [place + end for one in bases for place in (one, os.path.join(one, "__init__")) for end in _SUFFIXES]
    return list({os.path.realpath(one): one for one in places if os.path.isfile(one)}.values())


def _sources(module: str, files: Sequence[str]) -> dict[str, str]:
    """The file of a module, or all files of a package, by the name of each. Raises UsageError."""
    found = [(module, one) for one in files]
    if len(found) == 1 and os.path.basename(files[0]).startswith("__init__."):
        found = list(_package_files(os.path.dirname(files[0]), module))
    sources: dict[str, str] = {}
    for name, path in found:
        if other := sources.get(name):
            raise UsageError(
                f"the module {one_line(name)} has two sources, {one_line(other)} and {one_line(path)}, and only one of "
                "them would be used. Remove or rename the other."
            )
        sources[name] = path
    return sources


def _package_files(base: str, package: str) -> Iterator[tuple[str, str]]:
    seen: set[str] = set()  # a link may lead back
    for folder, folders, files in os.walk(base, followlinks=True):
        if (real := os.path.realpath(folder)) in seen:
            folders.clear()
            continue
        seen.add(real)
        folders[:] = sorted(one for one in folders if one.isidentifier() and one != "__pycache__")
        inner = os.path.relpath(folder, base)
        above = [package, *(inner.split(os.sep) if inner != "." else [])]
        for one in sorted(files):
            stem = next((one.removesuffix(end) for end in _SUFFIXES if one.endswith(end)), "")
            if stem.isidentifier():
                yield ".".join(above if stem == "__init__" else [*above, stem]), os.path.join(folder, one)


def _is_elsewhere(top: str, folders: Sequence[str], *, wanted: bool) -> bool:
    """Whether Python has, or would take, another module of this name: a process can have one of a name.

    Where it is the one that the file names, UsageError is raised: the other module would be used.
    """
    own = _files_of(top, folders)
    if (loaded := sys.modules.get(top)) is not None:
        other = getattr(loaded, "__file__", None)
        is_other = not _is_one_of(other, own) if own or other else not hasattr(loaded, "__path__")
    else:
        asked = (one.find_spec(top, None) for one in sys.meta_path if not isinstance(one, AgreedModules))
        spec = next((one for one in asked if one is not None), None)
        other = spec.origin if spec is not None and spec.has_location else None
        is_other = spec is not None and not _is_one_of(other, own) and bool(spec.loader or not own)
    if is_other and wanted:
        taken = f"{one_line(other)} has" if other else "a module of Python's own has"
        named = one_line((own or [os.path.join(folders[0], top)])[0])
        raise UsageError(f"{taken} the name of {named}, and only one of them can. Rename the file.")
    return is_other


def _is_one_of(path: str | None, files: Iterable[str]) -> bool:
    return bool(path) and os.path.realpath(str(path)) in map(os.path.realpath, files)


def _imports(source: bytes, package: Sequence[str]) -> list[str]:
    """The names that a module imports, wherever in it; `package` is the one that it is in.

    Whatever looks like an import is one, in a text or a comment too: parsing a module takes 500 times its size. So
    two lists may be one text; where that is read again and again, UsageError is raised.
    """
    names: list[str] = []
    text = source.decode(_coding(source) or "utf-8", "replace")
    # Python reads names as NFKC writes them. What becomes many signs is in no name, and would become all the memory.
    wide = {ord(sign): " " for sign in set(text) if not sign.isascii() and not f"a{sign}".isidentifier()}
    text = _GOES_ON.sub("", unicodedata.normalize("NFKC", text.translate(wide) if wide else text))
    effort = 4 * len(text) + 10_000
    for found in _IMPORT.finditer(text):
        start, listed = found.groups("")
        if listed == "(":
            end = found.end()
            while (more := _LISTED.match(text, end)) and more.end() > end:
                end = more.end()
            effort -= end - found.end()
            if effort < 0:
                raise UsageError("its imports cannot be followed: too many of them have no end.")
            listed = text[found.end() : end] if text[end : end + 1] == ")" else ""
        ends = _NAMES.findall(_ALIAS.sub("", listed))
        if not start:
            names += ends
            continue
        module = start.lstrip(".")
        level = len(start) - len(module)
        above = package[: len(package) - level + 1] if level else package[:0]
        base = [*above, *([module] if module else [])]
        names += [".".join(base), *(".".join([*base, one]) for one in ends)]
    return _with_packages(one for one in dict.fromkeys(names) if 0 < len(one) <= _LONGEST_NAME)


def _coding(source: bytes) -> str | None:
    """How Python reads it, as it says itself; None where it cannot be read here: some codecs take hours."""
    try:
        name, _ = tokenize.detect_encoding(io.BytesIO(source[:1000]).readline)
    except SyntaxError:
        return None
    return name if _CODINGS.fullmatch(name) else None


def _with_packages(names: Iterable[str]) -> list[str]:
    """Importing a.b.c runs a and a.b first."""
    return [".".join(parts[: at + 1]) for parts in (one.split(".") for one in names) for at in range(len(parts))]


class AgreedModules:
    """Finds the modules that the user agreed to, and no other file of their folders.

    No such folder is on the path of modules: from there Python, a package or a process of ours would take whatever
    they look for and do not find elsewhere.
    """

    def __init__(self) -> None:
        self.modules: dict[str, Module] = {}

    def add(self, modules: Mapping[str, Module]) -> None:
        """Raises UsageError where another agent has brought a module of the same name: that one would be used."""
        for name, module in modules.items():
            other = getattr(sys.modules.get(name), "__file__", None)
            if other and module.hashed and not _is_one_of(other, [module.path]):
                both = f"{one_line(other)} has the name of {one_line(module.path)}"
                raise UsageError(f"{both}, and only one of them can. Rename the file.")
        self.modules.update(modules)
        if self not in sys.meta_path:
            sys.meta_path.insert(0, self)  # before the one that would look into the folder of a package

    def find_spec(self, fullname: str, path: object = None, target: object = None) -> ModuleSpec | None:  # noqa: ARG002 - Python's names
        module = self.modules.get(fullname)
        if module is None:
            if fullname.partition(".")[0] in self.modules:
                raise ModuleNotFoundError(f"No module named {fullname!r} was there when you agreed", name=fullname)
            return None
        loader = None if module.hashed is None else (_Extension if module.source is None else _Source)(module)
        spec = ModuleSpec(fullname, loader, origin=module.path, is_package=module.is_package)
        spec.has_location = loader is not None
        if module.is_package:
            spec.submodule_search_locations = [os.path.dirname(module.path) if module.hashed else module.path]
        return spec


class _Source(SourceFileLoader):
    """Compiles the bytes that were hashed: the file may be another by now, and `__pycache__` may hold anything."""

    def __init__(self, module: Module) -> None:
        super().__init__(module.name, module.path)
        self._source = module.source or b""

    def get_data(self, path: str) -> bytes:
        return self._source if path == self.path else super().get_data(path)

    def get_code(self, fullname: str) -> CodeType:
        return self.source_to_code(self._source, self.get_filename(fullname))


class _Extension(ExtensionFileLoader):
    def __init__(self, module: Module) -> None:
        super().__init__(module.name, module.path)
        self._hashed = module.hashed

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        if file_hash(self.path) != self._hashed:
            raise ImportError(f"{one_line(self.path)} has changed since you were asked", name=spec.name, path=self.path)
        return super().create_module(spec)


agreed_modules = AgreedModules()


# Whose word a file is, and where keys may go


def is_own(path: str, folders: Iterable[str]) -> bool:
    """Whether it is in one of the user's own folders, links followed."""
    real = os.path.realpath(path)
    return any(real.startswith(os.path.realpath(folder).rstrip(os.sep) + os.sep) for folder in folders)


def origin_of(url: str) -> str:
    """Scheme, host and port; empty if it has none."""
    try:
        parts = urlsplit(url)
        port = parts.port or {"http": 80, "https": 443}.get(parts.scheme)
    except ValueError:
        return ""
    return f"{parts.scheme}://{parts.hostname}:{port}" if parts.hostname else ""


def check_keys(claims: Claims, urls: Iterable[str], *, file: str) -> None:
    """`urls` are those that the user's own configuration, in `file`, names. Raises NotTrusted."""
    allowed = {origin_of(url) for url in urls} - {""}
    for variable, origin in claims.sends:
        if origin not in allowed:
            raise NotTrusted(
                f"{one_line(claims.path)} would send {one_line(variable)} to {one_line(origin, 300)}. Keys and "
                f"variables go only to URLs of your own configuration. To allow it, add the URL to {KEYS_SETTING} in "
                f'{one_line(file)}, as in: {KEYS_SETTING} = "{one_line(origin, 300)}"',
                f"it would send {one_line(variable, 40)} to {one_line(origin, 60)}, which your own {KEYS_SETTING} does "
                "not name",
            )


# Agreements


_FILE = "agreed"
_LARGEST = 4 * 1024 * 1024


@record
class Agreements:
    """What the user has agreed to, in a folder of the user's own: a line `HASH run PATH` each.

    `HASH keys PATH` is what `install` wrote for the user: its variables may go where it says, too.
    """

    folder: str

    @property
    def path(self) -> str:
        return os.path.join(self.folder, _FILE)

    def holds(self, claims: Claims, *, keys: bool = False) -> bool:
        try:
            descriptor = os.open(self.path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError:
            return False
        with open(descriptor, encoding="utf-8", errors="replace") as file:
            about = os.fstat(descriptor)
            if not stat.S_ISREG(about.st_mode) or about.st_uid != os.geteuid() or about.st_mode & 0o022:
                raise UsageError(
                    f"others can write to {self.path}, which says what may run. Look at it, and remove it: rm "
                    f"{self.path}"
                )
            kinds = ("keys",) if keys else ("keys", "run")
            lines = (line.split(" ", 2) for line in file.read(_LARGEST).splitlines())
            return any(words[0] == claims.digest and words[1:2] and words[1] in kinds for words in lines)

    def add(self, claims: Claims, *, keys: bool = False) -> None:
        """From now on. Raises UsageError."""
        before = os.umask(0o077)  # for the folders above it too
        try:
            os.makedirs(self.folder, mode=0o700, exist_ok=True)
            flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
            descriptor = os.open(self.path, flags, 0o600)
            kind, path = "keys" if keys else "run", json.dumps(os.path.realpath(claims.path))
            with open(descriptor, "wb") as file:
                file.write(f"{claims.digest} {kind} {path}\n".encode())
        except OSError as problem:
            raise UsageError(
                f"{self.path} cannot be written: {problem.strerror}. Agree once with --trust."
            ) from problem
        finally:
            os.umask(before)


_LONGEST_SHOWN = 16_000
_MAX_SHOWN = 200
_MAX_NAMES = 12
_BLANK = lazy_pattern(
    "[\xa0\u115f\u1160\u1680\u17b4\u17b5\u2000-\u200a\u202f\u205f\u2800\u3000\u3164\ufe00-\ufe0f\uffa0\ufffc\U00013441\U00013442\U0001d159\U000e0100-\U000e01ef]"
)
_BLANKS = lazy_pattern(" {8,}")
_PLAIN_NAME = lazy_pattern(r"[\w.@/-]{1,60}", re.ASCII)


def told(claims: Claims) -> list[str]:
    """What the user agrees to, in lines. Nothing is cut: what is too long to be read cannot be agreed to."""
    if len(claims.shown) > _MAX_SHOWN or sum(len(text) for _, text in claims.shown) > _LONGEST_SHOWN:
        raise NotTrusted(
            f"{one_line(claims.path)} names more than can be shown. Look at it; if all of it may run, add --trust."
        )
    # Names that a checkout chose do not stand between what runs and the question.
    shown = [("watched", _watched_names(claims)), *claims.shown] if claims.files else claims.shown
    width = max((len(kind) for kind, _ in shown), default=0)
    return [f"  {kind:<{width}}  {_visible(text)}" for kind, text in shown]


def _visible(text: str) -> str:
    """Signs that look like nothing as escapes, and blanks that would push the rest out of sight as their number."""
    shown = _BLANK.sub(lambda match: f"\\u{{{ord(match[0]):x}}}", one_line(text, 16 * _LONGEST_SHOWN))
    shown = shown if shown.isprintable() else "".join([*map(_printable, shown)])
    return _BLANKS.sub(lambda match: f" [{len(match[0])} blanks] ", shown)


def _printable(sign: str) -> str:
    return sign if sign.isprintable() else f"\\u{{{ord(sign):x}}}"


def server_name(name: str) -> str:
    return f"server {_quoted_name(name)}"


def _quoted_name(name: str) -> str:
    """In quotes, where it could be taken for words of ours."""
    return name if _PLAIN_NAME.fullmatch(name) else json.dumps(name, ensure_ascii=False)


def _watched_names(claims: Claims) -> str:
    """The files whose change is a new question, those of the file's own folder first."""
    folder = os.path.dirname(os.path.realpath(claims.path)) + os.sep
    names = sorted((one.removeprefix(folder) for one, _ in claims.files), key=lambda one: (os.path.isabs(one), one))
    rest = len(names) - _MAX_NAMES
    return ", ".join(_quoted_name(one_line(one, 60)) for one in names[:_MAX_NAMES]) + (
        f" and {rest} more files" if rest > 0 else ""
    )


def check_agreed(
    claims: Claims,
    agreements: Agreements,
    *,
    trust: bool = False,
    ask: Callable[[Sequence[str]], bool] | None = None,
    command: str = "",
) -> None:
    """Raises NotTrusted unless the user has agreed, now or before. `ask` is None where there is no terminal.

    `trust` is for this time and is not remembered: a flag says what one run may do. So is a yes to files that are not
    all watched: they could change unseen.
    """
    if not claims.shown or trust or (claims.whole and agreements.holds(claims)):
        return
    lines = told(claims)
    if ask is None:
        raise NotTrusted(
            for_people(
                f"{one_line(claims.path)} names what would run or be sent, and you have not agreed to it yet:\n"
                + "\n".join(lines)
                + f"\nLook at it. Then run {command or 'this'} in a terminal, which asks"
                + f"{' once' if claims.whole else ''}, or add --trust."
            ),
            "it was not agreed to: run it in a terminal, which asks, or add --trust",
        )
    if not ask(lines):
        raise NotTrusted(f"nothing of {one_line(claims.path)} was run or sent.", "you did not agree to it")
    if claims.whole:
        agreements.add(claims)


def variables(shown: Mapping[str, Iterable[str]]) -> tuple[tuple[str, str], ...]:
    """Lines for variables, by where they go."""
    return tuple(("variable", f"{name} → {place}") for place, names in shown.items() for name in dict.fromkeys(names))
