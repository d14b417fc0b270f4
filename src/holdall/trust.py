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
    BYTECODE_SUFFIXES,
    EXTENSION_SUFFIXES,
    SOURCE_SUFFIXES,
    ExtensionFileLoader,
    ModuleSpec,
    SourceFileLoader,
    all_suffixes,
)
from io import BufferedReader
from types import CodeType, ModuleType
from urllib.parse import urlsplit

from holdall.store.owners import OWNER, other_writer, trusted_owners, way_to
from holdall.text.escape import for_people, one_line
from holdall.values.errors import NotTrusted, UsageError
from holdall.values.patterns import lazy_pattern
from holdall.values.record import record

KEYS_SETTING = "key_urls"

# Who can write to a file


def check_writers(path: str, about: os.stat_result, what: str = "the file") -> None:
    """Raises UsageError where others could change the file, or put another one in its place."""
    real = os.path.realpath(path)
    _check(real, about, other_writer(real, about, (os.geteuid(), 0)), what)
    check_folders(path, what)


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
    named = f"{what} {one_line(path)}" + (f" ({one_line(file)})" if file else "")
    if writer == OWNER:
        raise UsageError(
            f"{named} belongs to another user (id {about.st_uid}), and says what is run or sent; so it is not read. If "
            f"it is to be trusted, make it yours: chown {os.geteuid()} {shlex.quote(one_line(path))}"
        )
    if writer:
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
    took to find the files: see `Watched`.
    """

    path: str
    shown: tuple[tuple[str, str], ...] = ()
    files: tuple[tuple[str, str], ...] = ()
    sends: tuple[tuple[str, str], ...] = ()
    effort: float = field(default=0.0, compare=False)

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


def _checked_pieces(real: str, path: str, most: int) -> Iterator[bytes]:
    """A link may lead to a file of the system that has no end, and says that it has no bytes."""
    try:
        with _opened(real) as source:
            about = os.fstat(source.fileno())
            check_writers(path, about)
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
    return ((os.path.realpath(path), f"{about.st_size} {about.st_mtime_ns} {about.st_ctime_ns}"),)


def text_hash(path: str, text: str) -> tuple[str, str]:
    return os.path.realpath(path), hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


# What a command of a file runs, as far as it can be seen: those files are watched. The same files are looked for when
# the user is asked and right before each start.


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_CODE = sorted(
    _words(
        "py pyz js mjs cjs jsx ts mts cts tsx sh bash zsh fish nu rb pl pm php lua jar wasm so dylib ps1 bat cmd go rs "
        "swift dart R r jl ex exs groovy kts scala clj awk tcl exp cs csx fsx nim zig hs ml cr raku el"
    )
)
_SCRIPTS = tuple(f".{one}" for one in _CODE)
_SETTLED = tuple(  # of files that say what is run, where a command names them; JSON may be data
    f".{one}"
    for one in _words("yml yaml toml conf cfg ini sql xml service csproj fsproj sbt edn gradle mk cmake envrc")
)
_GLUED_MODULE = lazy_pattern(r"-[A-Za-z]{0,9}?m([\w.]{1,300})")
_OBJECT = lazy_pattern(r"([A-Za-z_][\w.]{0,299}):[A-Za-z_][\w.]{0,299}(?:\(\))?")  # of a module, as for uvicorn
_MENTIONS = lazy_pattern(  # in a text: what may be the path of code
    rf"\.{{1,2}}/[\w./@+-]{{1,300}}|(?<![\w./@+-])[\w./@+-]{{1,300}}\.(?:{'|'.join(_CODE)})\b".encode()
)
_PUNCTUATION = "\"'`;&|()<>,"
_INTERPRETERS = _words(
    "python pypy node deno bun sh bash zsh dash ksh fish ruby perl php lua java tsx ts-node Rscript dart awk gawk "
    "tclsh swift julia elixir groovy scala expect pwsh osascript crystal raku"
)
_RUN = lazy_pattern(  # in a text: an interpreter, and the first word after it that is no option
    rf"(?<![\w.-])({'|'.join(sorted(_INTERPRETERS))})[0-9.]{{0,5}}(?=(?:[ \t]{{1,9}}-\S{{1,99}}){{0,9}}"
    r"[ \t]{1,9}[\"']?([\w./@+-]{1,300}))".encode()
)
_INCLUDED = lazy_pattern(  # in a text: what a shell or make reads as a part of it
    rb"(?:(?:^|[;&|({\n]|\b(?:then|do|else)|[ \t]-[a-z]{0,5}c)[ \t]{0,99}(?:\.|source|-?include|sinclude)|"
    rb"\bg?make\b(?:(?!\bg?make\b)[^\n;&|]){0,300}?[ \t](?:-[a-zA-Z]{0,9}f|--(?:make)?file))"
    rb"[ \t=]{1,9}[\"']?([\w./@+-]{1,300})"
)
_NO_VARIABLES = lazy_pattern(r"(?:^|\s)-[a-zA-Z]{0,9}[EI]|pycache_prefix|PYTHONPYCACHEPREFIX|(?:^|[\s/])env\s+-")
_NO_VARIABLES_IN_TEXT = lazy_pattern(  # the same, where a script starts its Python, or is started by one
    rb"(?:python|pypy)[0-9.]{0,5}(?:[ \t]{1,9}-\S{1,99}){0,9}?[ \t]{1,9}-[a-zA-Z]{0,9}[EI]|pycache_prefix|"
    rb"PYTHONPYCACHEPREFIX|\benv[ \t]{1,9}-"
)
_ENTERED = lazy_pattern(r"\bcd[ \t]{1,9}([\w./@+-]{1,300})")
_PATH = lazy_pattern(r"[\w./@+-]{1,300}")
_WORD = lazy_pattern(r"[\w-]{1,300}")
_CODE_FILE = lazy_pattern(rf"(?<![\w.@+-])[\w.@+-]{{1,300}}\.(?:{'|'.join(_CODE)})\b")
_SCRIPT_MODULE = lazy_pattern(rb"[\"']([\w.]{1,300}):[\w.]{1,300}[\"']")  # in a pyproject.toml
_RUNNERS = _words("npm pnpm yarn bun deno make gmake just task uv poetry hatch pdm cargo docker docker-compose podman")
_LOCAL_FIRST = _words("npx npm pnpm pnpx yarn bun bunx uv poetry hatch pdm")  # run what the folder has installed
_PROJECT_FILES = _words(
    "package.json .npmrc Makefile makefile GNUmakefile justfile Taskfile.yml deno.json pyproject.toml uv.toml build.rs "
    "Dockerfile compose.yaml compose.yml docker-compose.yaml docker-compose.yml"
)
_OWN_FILES = {  # that only one runner reads
    "yarn": ".yarnrc.yml", "bun": "bunfig.toml", "deno": "deno.jsonc", "turbo": "turbo.json", "rake": "Rakefile",
    "just": ".justfile Justfile", "task": "Taskfile.yaml", "mise": "mise.toml .mise.toml", "pixi": "pixi.toml",
    "cargo": "Cargo.toml .cargo/config.toml", "mvn": "pom.xml", "bundle": "Gemfile Rakefile config.ru",
    "gradle": "build.gradle build.gradle.kts settings.gradle", "nix": "flake.nix default.nix", "nix-shell": "shell.nix",
    "docker": "compose.override.yaml compose.override.yml docker-compose.override.yaml docker-compose.override.yml",
}  # fmt: skip
_RUNNER = lazy_pattern(  # in a text
    rf"(?<![\w.-])(?:{'|'.join(sorted(_RUNNERS | {*_OWN_FILES}, reverse=True))})(?![\w.-])".encode()
)
_ENTRIES = _words(
    "__main__.py __main__.pyc __init__.py __init__.pyc index.js index.mjs index.cjs index.ts package.json "
    "pyproject.toml main.go main.rs"
)
_MAX_WATCHED = 400
_MAX_WATCHED_BYTES = 256 * 1024 * 1024
_MAX_SCANNED_BYTES = 1024 * 1024
_MAX_SCANNED_TOGETHER = 8 * _MAX_SCANNED_BYTES  # of a command
_MAX_TRIES = 10_000
_MAX_ENTRIES = 20_000  # of a project: what is in it by name
_MAX_NAMES_LISTED = 100_000  # in the folders of what texts mention
_MAX_DEPTH = 12
_MAX_COMPARED = 100_000_000  # characters of texts with names
_MAX_PATHS = 20_000  # in texts, that may be folders
_INSTALLED = _words("node_modules site-packages .venv venv")  # thousands of files, many of one name
_NOT_OPENED = (".git", "__pycache__")
_MODULE_FILES = tuple(all_suffixes())

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

    The program; what an interpreter is told to run, also in a text; words that are files of code, also after `=` and
    inside of a command for a shell; what starts a folder that is named; what a runner like npm reads; modules beside a
    Python script; code that one of these names by its path. A command may go into another folder first, in more ways
    than can be listed: so each folder that it names is one to look in, and all code of the project that has a name from
    it is watched. Data is not, which changes with each run. An absolute path outside of both folders leads to what is
    installed.
    """
    start = os.path.realpath(cwd or ".")
    # To the server that is its own folder, to us it would be ours.
    words = [_OWN_FOLDER.sub(lambda _: start, word) for word in words]
    return _Watch(words, environment, start, folder).files()


class _Watch:
    def __init__(self, words: Sequence[str], environment: Mapping[str, str], start: str, folder: str) -> None:
        self._words = words
        self._environment = environment
        self._start = start
        self._folder = folder
        self._import_folders: dict[str, None] = {}
        self._listed: set[str] = set()
        self._looked_up: set[tuple[str, str]] = set()
        self._tries = _MAX_TRIES
        self._timed = self._ignores_variables()  # compiled code beside the source may run in its place
        self._scan_bytes = _MAX_SCANNED_TOGETHER
        self._whole = True
        self._namesakes = deque[str]()  # in the whole project: after what is surely meant
        self._compared = _MAX_COMPARED
        self._asked_paths = _MAX_PATHS
        self._entries = _MAX_ENTRIES
        self._names_in: dict[str, set[str] | None] = {}  # of folders; None where they cannot be told, or are too many
        self._names_left = _MAX_NAMES_LISTED
        wide = (os.path.realpath("/"), os.path.realpath(os.path.expanduser("~")))
        self._projects = [one for one in (start, folder) if os.path.realpath(one) not in wide]
        said = "\n".join([*words, *environment.values()])
        self._named = self._folders(_PATH.findall(said), start)
        self._tree = self._names(_Said(said))

    def files(self) -> Watched:
        variables = self._of_variables()  # first: they say where modules are
        waiting = deque([*self._program(), *self._of_words(), *variables, *self._added_modules()])
        found: dict[str, str] = {}
        left = _MAX_WATCHED_BYTES
        while waiting or self._namesakes:
            path = (waiting or self._namesakes).popleft()
            real = os.path.realpath(path)
            if real in found or not os.path.isfile(real):
                continue
            if len(found) == _MAX_WATCHED or os.path.getsize(real) > left:
                self._whole = False
                continue
            left -= os.path.getsize(real)
            found.update([file_hash(path)])
            was_timed = self._timed
            waiting += [*self._of_text(real), *self._added_modules()]
            if self._timed and not was_timed:  # those of before
                waiting += [inner for one in found if one.endswith(".py") for inner in _unchecked(one, timed=True)]
        is_whole = self._whole and min(self._tries, self._compared) > 0
        return Watched(tuple(sorted(found.items())), is_whole, self._effort(left))

    def _effort(self, bytes_left: int) -> float:
        taken = 1.0 - self._entries / _MAX_ENTRIES
        left = (
            1.0 - taken / 8,  # a large project is soon gone through
            self._tries / _MAX_TRIES,
            self._scan_bytes / _MAX_SCANNED_TOGETHER,
            self._compared / _MAX_COMPARED,
            self._asked_paths / _MAX_PATHS,
            bytes_left / _MAX_WATCHED_BYTES,
        )
        return 1.0 - max(0.0, min(left))

    def _ignores_variables(self) -> bool:
        """Whether its Python may take compiled code that stands beside the source: see `server_process`."""
        words = " ".join(self._words)
        return _NO_VARIABLES.search(words) is not None

    def _added_modules(self) -> list[str]:
        """Those that stand in a folder that was just found to be one of imports."""
        folders = [one for one in self._import_folders if one not in self._listed]
        self._listed.update(folders)
        return [inner for one in folders for inner in _direct_modules(one)]

    def _program(self) -> list[str]:
        """The command, unless it is one that is installed."""
        command, sets_path = self._words[0], "PATH" in self._environment
        if os.sep in command:
            return [os.path.join(self._start, command)] if self._is_here(command) else []
        for place in os.get_exec_path(self._environment if sets_path else None):
            path = os.path.join(self._start, place, command)
            if os.path.isfile(path) and os.access(path, os.X_OK):
                return [path] if not os.path.isabs(place) or (sets_path and is_own(path, self._projects)) else []
        return []

    def _of_words(self) -> list[str]:
        name, found = os.path.basename(self._words[0]), list[str]()
        is_python = name.startswith(("python", "pypy"))
        runs_file = name.rstrip("0123456789.") in _INTERPRETERS  # whatever its name, until there is one
        for before, word in itertools.pairwise(self._words):
            option = before if before.startswith("-") and not before.startswith("--") else ""
            glued = _GLUED_MODULE.fullmatch(word)
            module = word if option.endswith("m") else glued[1] if glued else ""
            if option.endswith(("m", "c", "e")) or (glued and is_python):
                runs_file = False
                places = (self._start, *self._named) if is_python or option.endswith("m") else ()
                self._import_folders.update(dict.fromkeys(places))
            named = _OBJECT.fullmatch(word)
            modules = [module, f"{module}.__main__", *(_with_packages([named[1]]) if named else [])]
            found += self._modules(modules, [self._start, *self._import_folders])
            for path in self._paths(word):
                found += [path + end for end in _SCRIPTS]
                if os.path.isdir(path):
                    found += [os.path.join(path, one) for one in sorted(_ENTRIES)]
                    runs_file = runs_file and before.startswith("-")
                elif os.path.isfile(path) and (runs_file or _is_code(path) or path.endswith(_SETTLED)):
                    found.append(path)
                    if path.endswith((".py", ".pyz")) or (is_python and runs_file):
                        self._import_folders[os.path.dirname(os.path.realpath(path))] = None
                    runs_file = runs_file and before.startswith("-") and not path.endswith(_SCRIPTS)
            found += self._installed_here(word) if name in _LOCAL_FIRST else []
        return found + self._mentioned(os.fsencode(" ".join(self._words)), self._start)

    def _read_by(self, runner: str, places: Sequence[str]) -> list[str]:
        """What a runner reads, in these folders and above them within the project."""
        read = [*(sorted(_PROJECT_FILES) if runner in _RUNNERS else ()), *_OWN_FILES.get(runner, "").split()]
        folders: dict[str, None] = {}
        for place in places if read else ():
            folders[place] = None
            while is_own(place, (self._folder,)) and place != (above := os.path.dirname(place)):
                folders[above] = None
                place = above  # noqa: PLW2901
        self._tries -= len(folders)
        return [os.path.join(place, one) for place in folders for one in read] if self._tries > 0 else []

    def _installed_here(self, word: str) -> list[str]:
        """A package or program by its name, in the folders where a checkout can have it."""
        package = word[:1] + word[1:].partition("@")[0]  # without a version
        if package.startswith(("-", ".", os.sep)) or "\0" in package or ".." in package.split(os.sep):
            return []
        program, found, folder = os.path.basename(package), list[str](), self._start
        folders = [*self._named]
        while folder != os.path.dirname(folder):
            folders.append(folder)
            folder = os.path.dirname(folder)
        self._tries -= len(self._named)
        for one in folders if self._tries > 0 else ():
            places = (".bin", program), (package, "package.json")
            found += [os.path.join(one, "node_modules", *inner) for inner in places]
            found += [os.path.join(one, inner, "bin", program) for inner in (".venv", "venv")]
        return found

    def _of_variables(self) -> list[str]:
        found = self._mentioned(os.fsencode("\n".join(self._environment.values())), self._start)
        for name, value in self._environment.items():
            for path in self._paths(value.replace(":", " ")) if decides_code(name) else ():
                if name == "PYTHONPATH":
                    self._import_folders[os.path.realpath(path)] = None
                elif name.endswith("PATH") and os.path.isdir(path) and is_own(path, self._projects):
                    found += [os.path.join(path, one) for one in sorted(os.listdir(path))]
                else:
                    found.append(path)
        return found

    def _paths(self, word: str) -> list[str]:
        """What a word may name: itself, what follows `=`, and each word in it."""
        parts = [word, *(one.strip(_PUNCTUATION) for one in word.split())] if "\0" not in word else []
        parts += [one.partition("=")[2] for one in parts if "=" in one]
        return [os.path.join(self._start, one) for one in dict.fromkeys(parts) if one and self._is_here(one)]

    def _is_here(self, path: str) -> bool:
        """An absolute path may lead to what is installed."""
        return not os.path.isabs(path) or is_own(path, (self._start, self._folder))

    def _of_text(self, path: str) -> list[str]:
        with _opened(path) as file:
            text = file.read(min(_MAX_SCANNED_BYTES, self._scan_bytes))
        self._scan_bytes -= len(text)
        self._timed = self._timed or _NO_VARIABLES_IN_TEXT.search(text) is not None
        if not self._scan_bytes:
            self._tries = 0  # a checkout does not hold up the question for long
        if b"\0" in text:
            return []
        folder = os.path.dirname(path)
        is_shell = path.endswith((".sh", ".bash", ".zsh")) or (
            text[:2] == b"#!" and b"sh" in text[:64].partition(b"\n")[0]
        )
        found = self._mentioned(text, folder, of_shell=is_shell)
        if os.path.basename(path) == "pyproject.toml":
            modules = [os.fsdecode(one) for one in _SCRIPT_MODULE.findall(text)]
            packages = [one.partition(".")[0] for one in modules]
            found += self._modules([*modules, *packages], [folder, os.path.join(folder, "src")])
        if path.endswith(".py") or folder in self._import_folders:
            folders = [*self._import_folders, *([] if folder in self._import_folders else [folder])]
            folders += self._above(folder, max(map(len, _DOTS.findall(text)), default=1) - 1)
            if len(text) == _MAX_SCANNED_BYTES:
                self._tries = 0  # there may be more of them
            imported: list[str] | None = None
            with contextlib.suppress(UsageError):
                imported = _imports(text, [])
            if imported is None or _coding(text) is None:
                self._tries = 0  # what it imports is not known
            found += self._modules(imported or [], folders) + _unchecked(path, timed=self._timed)
        return found

    def _above(self, folder: str, levels: int) -> list[str]:
        """The folders that imports with so many dots more lead to, as far as they are the project's own."""
        found: list[str] = []
        for _ in range(min(levels, _MAX_LEVELS)):
            folder = os.path.dirname(folder)
            found += [folder] if is_own(os.path.join(folder, "module"), self._projects) else []
        return found

    def _modules(self, names: Iterable[str], folders: Sequence[str]) -> list[str]:
        """Of a package all files."""
        found: list[str] = []
        asked = {(name, folder) for name in names for folder in folders if all(map(str.isidentifier, name.split(".")))}
        for name, folder in sorted(asked - self._looked_up):
            self._tries -= 1
            if self._tries <= 0:
                break
            files = _files_of(name, [folder], compiled=True)
            packages = [os.path.dirname(one) for one in files if os.path.basename(one).startswith("__init__.")]
            found += files
            found += [
                inner
                for one in packages
                for _, inner in itertools.islice(_package_files(one, name, compiled=True), _MAX_WATCHED)
            ]
        self._looked_up |= asked
        return found

    def _mentioned(self, text: bytes, folder: str, *, of_shell: bool = True) -> list[str]:
        found: list[str] = []
        run = {word: program for program, word in _RUN.findall(text)}
        run |= dict.fromkeys(_INCLUDED.findall(text), b"")
        said = os.fsdecode(text)
        entered = self._folders((_PATH if of_shell else _ENTERED).findall(said), folder)
        places = dict.fromkeys((folder, self._start, *entered, *(self._named if of_shell else ())))
        if of_shell and said and self._tries > 0:  # in other texts they are words
            for program in dict.fromkeys(_RUNNER.findall(text)):
                found += self._read_by(os.fsdecode(program), [*places])
            self._add_namesakes(_Said(said), {os.path.basename(os.fsdecode(one)) for one in run})
        for match in dict.fromkeys((*_MENTIONS.findall(text), *run)):
            for place in places:
                self._tries -= 1
                if self._tries <= 0:
                    return found
                path = os.path.join(place, os.fsdecode(match))
                more = [] if path.endswith(_SCRIPTS) else self._with_endings(path)
                more += [os.path.join(path, one) for one in sorted(_ENTRIES)] if os.path.isdir(path) else []
                near = place in self._named and not os.path.isabs(os.fsdecode(match))
                there = [one for one in (path, *more) if os.path.isfile(one) and (near or self._is_here(one))]
                found += [one for one in there if match in run or _is_code(one)]
                if there and run.get(match) in (b"python", b"pypy"):
                    self._import_folders[os.path.dirname(os.path.realpath(there[0]))] = None
        return found

    def _with_endings(self, path: str) -> list[str]:
        """What is meant where an ending is left out. One look at its folder takes less than one for each ending."""
        folder, name = os.path.split(path)
        if folder not in self._names_in:
            names: set[str] | None = set()
            with contextlib.suppress(FileNotFoundError, NotADirectoryError):
                try:
                    with os.scandir(folder) as listed:
                        names = {one.name.casefold() for one in itertools.islice(listed, self._names_left + 1)}
                except (PermissionError, ValueError):
                    names = None
            if names is not None and len(names) > self._names_left:
                names = None
            self._names_left -= len(names or ())
            self._names_in[folder] = names
        names = self._names_in[folder]
        return [path + end for end in _SCRIPTS if names is None or (name + end).casefold() in names]

    def _folders(self, paths: Iterable[str], folder: str) -> list[str]:
        """Those of these paths that are folders: whatever goes there, by `cd`, an option or a call."""
        found: dict[str, None] = {}
        for path in dict.fromkeys(paths):
            self._asked_paths -= 1
            if self._asked_paths < 0:
                self._whole = False
                break
            glued = path[2:] if path.startswith("-") else ""  # to an option
            for one in (path, path.partition(os.sep)[2], glued):  # and after a variable: $PWD/sub
                for place in dict.fromkeys((folder, self._start)) if one and self._is_here(one) else ():
                    if os.path.isdir(inner := os.path.join(place, one)):
                        found[os.path.realpath(inner)] = None
        return [one for one in found if one not in (folder, self._start)]

    def _names(self, said: "_Said") -> dict[str, list[str]]:
        """The files of the project by name, from above; of what is installed, those in folders that are named."""
        found: dict[str, list[str]] = {}
        is_near = is_own(self._folder, [self._start]) or is_own(self._start, [self._folder])
        tops = [one for one in self._projects if is_near or one == self._folder]
        waiting, seen = [(os.path.realpath(one), 0, False) for one in tops], set[str]()
        for folder, depth, installed in waiting:  # which grows
            if folder in seen:
                continue
            seen.add(folder)
            entries: list[os.DirEntry[str]] = []
            with contextlib.suppress(OSError), os.scandir(folder) as listed:
                entries = sorted(itertools.islice(listed, self._entries + 1), key=lambda one: one.name)
            self._entries -= len(entries)
            if self._entries < 0:
                self._whole = False
                break
            is_environment = any(one.name == "pyvenv.cfg" for one in entries)
            for one in entries:
                if not one.is_dir(follow_symlinks=False):
                    found.setdefault(one.name, []).append(one.path)
                elif one.name not in _NOT_OPENED:
                    inside = installed or is_environment or one.name in _INSTALLED
                    if depth == _MAX_DEPTH:
                        self._whole = False
                    elif not inside or self._names_it(said, one.name):
                        waiting.append((one.path, depth + 1, inside))
        return found

    def _add_namesakes(self, said: "_Said", run: Collection[str]) -> None:
        """Code of the project that has a name from a text, wherever it is; `run` are those that an interpreter runs."""
        found: list[str] = []
        for name, paths in self._tree.items():
            module = name.partition(".")[0] if name.endswith(_MODULE_FILES) else ""
            if name in run or (name.endswith(_SCRIPTS) and name.rpartition(".")[0] in run):
                found += paths
            elif module in said.pieces or self._names_it(said, name):
                found += [one for one in paths if _is_code(one) or one.endswith((*_SETTLED, *_MODULE_FILES))]
            elif module in ("__init__", "__main__"):
                found += [one for one in paths if os.path.basename(os.path.dirname(one)) in said.pieces]
        for one in found:
            folder, name = os.path.split(one)
            if name.endswith((".py", ".pyz")) and name in said.text and os.path.basename(folder) in said.pieces:
                self._import_folders[folder] = None
        self._namesakes += found

    def _names_it(self, said: "_Said", name: str) -> bool:
        if _WORD.fullmatch(name):  # as a piece of another word it would be found everywhere
            return name in said.pieces
        self._compared -= len(said.text)
        return self._compared > 0 and name in said.text


class _Said:
    """A text, and the words in it that are no files of code; of an option also what may be glued to it."""

    def __init__(self, text: str) -> None:
        self.text = text
        words = set(_WORD.findall(_CODE_FILE.sub(" ", text)))
        self.pieces = words | {one[at:] for one in words if one[0] == "-" for at in range(1, min(len(one), 12))}


def _is_code(path: str) -> bool:
    return path.endswith(_SCRIPTS) or os.access(path, os.X_OK)


def _direct_modules(folder: str) -> list[str]:
    """A module that is added there may take the place of one of Python's own."""
    found: list[str] = []
    with contextlib.suppress(OSError):
        for name in sorted(os.listdir(folder)):
            path = os.path.join(folder, name)
            if name.endswith(tuple(all_suffixes())):
                found.append(path)
            elif name.isidentifier() and os.path.isdir(path):
                found += [os.path.join(path, f"__init__{end}") for end in all_suffixes()]
    return found


def _unchecked(path: str, *, timed: bool) -> list[str]:
    """Compiled code beside a module that Python takes without a look at the source; `timed`: with one at its time."""
    folder, name = os.path.split(path)
    cached = os.path.join(folder, "__pycache__")
    found: list[str] = []
    names: list[str] = []
    with contextlib.suppress(OSError):
        names = sorted(os.listdir(cached))
    for one in names:
        if one.startswith(f"{name.partition('.')[0]}.") and one.endswith(".pyc"):
            is_timed = False
            with contextlib.suppress(OSError), _opened(os.path.join(cached, one)) as file:
                is_timed = file.read(8)[4:] == bytes(4)
            found += [] if is_timed and not timed else [os.path.join(cached, one)]
    return found


# Modules beside an agent's file: which there are, and importing exactly those.


_SUFFIXES = (
    *EXTENSION_SUFFIXES,
    *SOURCE_SUFFIXES,
)  # compiled code without a source is not found
_COMPILED = (*_SUFFIXES, *BYTECODE_SUFFIXES)  # what a server's own Python finds
_MAX_FILES = 2000
_MAX_SOURCE_BYTES = 32 * 1024 * 1024
_LONGEST_NAME = 300
_IMPORT = lazy_pattern(r"\b(?:from\s*+(\.{1,99}(?=\s*+import\b)|[.\w]{1,300}+)\s*+)?import\b\s*+(\(|[^\n;#()]++)")
_LISTED = lazy_pattern(r"[^()#]*+(?:#[^\n]*+)?")  # between parentheses: names, then a comment
_GOES_ON = lazy_pattern(r"\\\r?\n|(?<![ \t\f])[ \t\f]++(?=\.)|(?<=\.)[ \t\f]++")  # in a statement, as nothing
_DOTS = lazy_pattern(rb"\bfrom[\s\\]*((?:\.[ \t]{0,9}){2,99})")
_CODINGS = lazy_pattern(
    r"(?:utf|iso|cp|koi8|mac|gb|big5|euc|shift_?jis|latin|ascii|us-ascii|hz|johab|tis|kz)[-_\w]{0,30}"
)
_MAX_LEVELS = 20
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


def _files_of(module: str, folders: Sequence[str], *, compiled: bool = False) -> list[str]:
    bases = [os.path.join(folder, *module.split(".")) for folder in folders]
    ends = _COMPILED if compiled else _SUFFIXES
    places = [place + end for one in bases for place in (one, os.path.join(one, "__init__")) for end in ends]
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


def _package_files(base: str, package: str, *, compiled: bool = False) -> Iterator[tuple[str, str]]:
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
            ends = _COMPILED if compiled else _SUFFIXES
            stem = next((one.removesuffix(end) for end in ends if one.endswith(end)), "")
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

    `trust` is for this time and is not remembered: a flag says what one run may do.
    """
    if not claims.shown or trust or agreements.holds(claims):
        return
    lines = told(claims)
    if ask is None:
        raise NotTrusted(
            for_people(
                f"{one_line(claims.path)} names what would run or be sent, and you have not agreed to it yet:\n"
                + "\n".join(lines)
                + f"\nLook at it. Then run {command or 'this'} in a terminal, which asks once, or add --trust."
            ),
            "it was not agreed to: run it in a terminal, which asks, or add --trust",
        )
    if not ask(lines):
        raise NotTrusted(f"nothing of {one_line(claims.path)} was run or sent.", "you did not agree to it")
    agreements.add(claims)


def variables(shown: Mapping[str, Iterable[str]]) -> tuple[tuple[str, str], ...]:
    """Lines for variables, by where they go."""
    return tuple(("variable", f"{name} → {place}") for place, names in shown.items() for name in dict.fromkeys(names))
