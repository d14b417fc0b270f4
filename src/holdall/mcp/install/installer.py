"""Putting a client's servers behind the gateway, in the client's own configuration file, and taking that back.

A copy of the file before its first change, and what `uninstall` has to know, are in the user's own folder: a checkout
brings whatever it likes, so nothing that stands beside a configuration is believed, and nothing is written or removed
through a link. What was changed is written whole or not at all, and `uninstall` restores the file byte for byte; where
it was changed by others meanwhile, only our part of it.
"""

import contextlib
import hashlib
import json
import os
import secrets
import stat
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, field, replace
from typing import Any, TypeVar, cast

from holdall.mcp.install.clients import CLIENTS, client_id, client_of, is_of_user, path_of
from holdall.mcp.install.config_text import (
    Choices,
    Configuration,
    Edited,
    UnsafeEdit,
    behind,
    named_in,
    private_text,
    unwrap,
    url_key,
    wrap,
)
from holdall.mcp.install.documents import Path
from holdall.trust import check_folders, check_writers
from holdall.values.errors import MissingExtra, UsageError
from holdall.values.patterns import lazy_pattern
from holdall.values.record import record

# What `install` writes down for `uninstall`, all of it in one folder of the user's own: for each client's file a note
# and a copy, named by a hash of its path, and a file for each entry with a URL.


_NOTE, _COPY = ".note", ".before"
_BESIDE = (".holdall.json", ".before-holdall")  # where they used to be; a checkout may have put anything there
_OURS = lazy_pattern(r"[0-9a-f]{16}\.json")


@record
class Note:
    """`installed` is the hash of the file as we wrote it, empty if that was not the copy with our part changed.

    `original` is the hash of the copy, `file` what was changed; the rest is as in `Edited`.
    """

    installed: str = ""
    original: str = ""
    originals: Mapping[str, str] = field(default_factory=dict[str, str])
    bare: tuple[Path, ...] = ()
    by_hand: tuple[Path, ...] = ()
    added: tuple[Path, ...] = ()
    file: str = ""

    def after(self, edited: Edited, installed: str) -> "Note":
        """After another install: what was changed now was there as the user's own, whatever was there before."""
        return replace(
            self,
            installed=installed,
            originals={**self.originals, **edited.originals},
            bare=(*(path for path in self.bare if path not in edited.paths), *edited.bare),
            by_hand=tuple(path for path in self.by_hand if path not in edited.paths),
            added=(*(path for path in self.added if path not in edited.paths), *edited.added),
        )

    def text(self) -> str:
        return json.dumps(asdict(self), indent=2)


@record
class Folder:
    """The folder of our own. Only files that are in it, with names that we give, are ever removed."""

    path: str

    def note(self, file: str) -> str:
        return os.path.join(self.path, text_hash(file)[:32] + _NOTE)

    def copy(self, file: str) -> str:
        return os.path.join(self.path, text_hash(file)[:32] + _COPY)

    def holds(self, path: str) -> bool:
        """Whether this is the file of an entry that we made: its name tells nobody else's."""
        return os.path.dirname(path) == self.path and _OURS.fullmatch(os.path.basename(path)) is not None

    def is_of_another(self, path: str, file: str) -> bool:
        """Whether another file has this entry, and still names it or cannot be read."""
        notes = [name for name in os.listdir(self.path) if name.endswith(_NOTE)] if os.path.isdir(self.path) else []
        for name in notes:
            note = read_note(os.path.join(self.path, name))
            has = [one for one in note.originals if os.path.basename(one) == os.path.basename(path)] if note else []
            if note is None or not has or note.file == file or not os.path.lexists(note.file):
                continue
            try:
                if any(named_in(read_text(note.file), one) for one in has):
                    return True
            except UsageError:
                return True
        return False

    def make(self) -> None:
        """Raises UsageError where others could put something there."""
        before = os.umask(0o077)  # for the folders above it too: one of them is the store's
        try:
            os.makedirs(self.path, mode=0o700, exist_ok=True)
        finally:
            os.umask(before)
        about = os.lstat(self.path)
        if not stat.S_ISDIR(about.st_mode) or about.st_uid != os.geteuid() or about.st_mode & 0o022:
            raise UsageError(
                f"{self.path} is a link, or others can write to it; it tells what is started. Nothing was changed."
            )

    def remove(self, path: str) -> None:
        if os.path.dirname(path) == self.path:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(path)


def read_note(path: str) -> Note | None:
    try:
        found: object = json.loads(read_text(path))
    except (UsageError, ValueError):
        return None
    if not isinstance(found, dict):
        return None
    about = cast("dict[str, Any]", found)
    return Note(
        str(about.get("installed", "")),
        str(about.get("original", "")),
        {str(path): str(raw) for path, raw in cast("dict[str, str]", about.get("originals", {})).items()},
        _paths(about.get("bare", [])),
        _paths(about.get("by_hand", [])),
        _paths(about.get("added", [])),
        str(about.get("file", "")),
    )


def private_entry(folder: Folder, path: str) -> dict[str, Any]:
    """The one entry of such a file; empty if it is not one of ours."""
    if not folder.holds(path):
        return {}
    try:
        document: Any = json.loads(read_text(path))
        (entry,) = document["mcpServers"].values()
    except (UsageError, ValueError, LookupError, TypeError, AttributeError):  # whatever it is, we did not write it
        return {}
    return cast("dict[str, Any]", entry) if isinstance(entry, dict) and url_key(cast("dict[str, Any]", entry)) else {}


def _paths(found: list[list[str]]) -> tuple[Path, ...]:
    return tuple(tuple(map(str, path)) for path in found)


T = TypeVar("T")

_LARGEST_CONFIG = 16 * 1024 * 1024
_MOST_PARTS = 50_000  # objects and lists: each becomes a hundred times its bytes


@record
class Done:
    """What became of one file. `text` is what is in it now, or would; `copy` is where the user's own is."""

    file: str
    edited: Edited
    copy: str = ""
    exactly: bool = True  # the copy is the file as it was just before; or, after `uninstall`, the file is the copy
    kept: tuple[str, ...] = ()  # files of entries that were not brought back
    beside: tuple[str, ...] = ()  # files with the names that ours used to have: neither read nor removed


def files_of(client: str) -> list[str]:
    """The files of that client which are there."""
    if client not in CLIENTS:
        raise UsageError(f"there is no client {client!r} here: it is one of {', '.join(CLIENTS)}, or give its --file.")
    written = CLIENTS[client].files
    found = [path for one in written if os.path.isfile(path := path_of(one))]
    if not found:
        raise UsageError(f"no configuration of {client} was found ({', '.join(written)}). Name it with --file.")
    return list(dict.fromkeys(found))


@record
class Seen:
    """A client's file on this machine, and its servers, each with whether it is behind the gateway."""

    client: str
    file: str
    servers: tuple[tuple[str, bool], ...] = ()
    problem: str = ""  # why it cannot be read
    is_hook: bool = False  # it is the settings with our hook in them


def survey() -> list[Seen]:
    """The files of all clients that are here, in the project and in the user's home."""
    found: list[Seen] = []
    for name, client in CLIENTS.items():
        for file in dict.fromkeys(path_of(one) for one in client.files):
            if os.path.isfile(file):
                found.append(_seen(name, file))
    return found


def _seen(client: str, file: str) -> Seen:
    try:
        read = _edited(file, lambda: Configuration.of(read_text(file), file))
        return Seen(client, file, tuple((one.label, read.is_wrapped(one)) for one in read.look().servers))
    except (UsageError, MissingExtra) as problem:
        return Seen(client, file, problem=str(problem))


def install(
    file: str,
    program: str,
    *,
    config_folder: str,
    leading: Sequence[str] = (),
    choices: Choices | None = None,
    shared: bool = False,
    dry_run: bool = False,
) -> Done:
    """`program` and the words `leading` are how the client starts us.

    `config_folder` is where copies, notes and entries with a URL are kept, for us alone. A file that git shares is left
    alone unless `shared`, and then written so that it works on other machines.
    """
    text, folder = read_text(file), Folder(config_folder)
    beside = tuple(file + end for end in _BESIDE if os.path.lexists(file + end))
    if is_in_git(file):
        if not shared:
            return Done(file, Edited(text, why=_SHARED), beside=beside)
        program, leading, choices = "holdall", (), replace(choices or Choices(), takes_urls=False)
    known = CLIENTS.get(client_of(file))
    choices = replace(
        choices or Choices(), client=client_id(file), url_is_sse=known is not None and known.url_is_sse,
        is_own=is_of_user(file),
    )  # fmt: skip
    names: dict[str, str] = {}

    def new_config(name: str) -> str:
        path = os.path.join(config_folder, f"{secrets.token_hex(8)}.json")
        names[path] = name
        return path

    edited = _edited(file, lambda: wrap(text, program, new_config, leading, choices=choices, file=file))
    if dry_run or not edited.changed:
        return Done(file, edited, beside=beside)
    _check_unchanged(file, text)  # servers were asked, and perhaps a person
    folder.make()
    for path, entry in edited.entries.items():
        write_text(path, private_text(names[path], entry), mode=0o600)
    copy, note = folder.copy(file), read_note(folder.note(file))
    # A copy that is there stays where its note was lost, and what is in the file is not all the user's own.
    first = note is None and not (edited.by_hand and os.path.exists(copy))
    untouched = note is not None and note.installed == text_hash(text)
    if first:
        write_text(copy, text, mode=0o600)
        note = Note(original=text_hash(text), by_hand=edited.by_hand)
    note = (note or Note(by_hand=edited.by_hand)).after(edited, text_hash(edited.text) if first or untouched else "")
    write_text(folder.note(file), replace(note, file=file).text(), mode=0o600)
    write_text(file, edited.text, mode=stat.S_IMODE(os.lstat(file).st_mode), instead_of=text)
    return Done(file, edited, copy, exactly=first, beside=beside)


def uninstall(file: str, *, config_folder: str, tools: Sequence[str] = (), dry_run: bool = False) -> Done:
    """`tools` are the names of ours, which may have been added to the client's lists."""
    folder = Folder(config_folder)
    text, noted, copy = read_text(file), read_note(folder.note(file)), folder.copy(file)
    beside = tuple(file + end for end in _BESIDE if os.path.lexists(file + end))
    note = noted or Note()
    known = {**_recovered(file, text, folder), **note.originals}
    edited = _edited(file, lambda: unwrap(text, known, note.bare, note.by_hand, note.added, tools, file=file))
    exactly = note.installed == text_hash(text) and os.path.isfile(copy)
    if exactly:
        before = read_text(copy)
        exactly = text_hash(before) == note.original
        edited = replace(edited, text=before) if exactly else edited
    if dry_run or not (edited.changed or exactly):
        return Done(file, edited, exactly=exactly, beside=beside)
    write_text(file, edited.text, mode=stat.S_IMODE(os.lstat(file).st_mode), instead_of=text)
    named = {path: raw for path, raw in note.originals.items() if named_in(edited.text, path)}
    if named:
        write_text(folder.note(file), replace(note, installed="", originals=named).text(), mode=0o600)
    done = [path for path in edited.originals if path not in named and folder.holds(path)]
    for gone in (*(() if named else (folder.note(file),)), *((copy,) if exactly else ()), *done):
        folder.remove(gone)
    kept = tuple(path for path in note.originals if path not in done and os.path.exists(path))
    has_copy = not exactly and noted is not None and os.path.isfile(copy)
    return Done(file, edited, copy if has_copy else "", exactly, kept, beside)


def _recovered(file: str, text: str, folder: Folder) -> dict[str, str]:
    """Entries whose note is gone, as where the file was moved: what the gateway uses of them stands in their files.

    Not those of a file that is still there: a checkout may name any of them, and would be given its tokens.
    """
    read = _edited(file, lambda: Configuration.of(text, file))
    found: dict[str, str] = {}
    for server in _edited(file, read.look).servers:
        stands = behind(read.common(server))
        if stands is None or folder.is_of_another(stands.config, file):
            continue
        if entry := private_entry(folder, stands.config):
            was = read.shape.from_common(entry)
            found[stands.config] = read.document.entry_text(server.name, was, read.shape.tables[0])
    return found


# Whether others get a file through git. Git itself is not asked: what a checkout configures can make it start programs.


_SHARED = "git shares it with others; --shared changes it, with what works on their machines too"
_LARGEST_INDEX = 64 * 1024 * 1024
_INDEX_VERSIONS = (2, 3)  # the paths of later ones are packed
_SPLIT = b"link\0"  # then most of them stand in a second file


def is_in_git(file: str) -> bool:
    """Whether the checkout around the file lists it. Where that cannot be read, as if it did."""
    folder = os.path.dirname(os.path.realpath(file))
    while not os.path.lexists(os.path.join(folder, ".git")):
        above = os.path.dirname(folder)
        if above == folder:
            return False
        folder = above
    name = os.path.relpath(os.path.realpath(file), folder).encode("utf-8", "surrogateescape")
    index = _index_of(os.path.join(folder, ".git"))
    if index is None:
        return False
    packed = len(index) < 12 or int.from_bytes(index[4:8]) not in _INDEX_VERSIONS
    return packed or _SPLIT in index or name + b"\0" in index


def _index_of(git: str) -> bytes | None:
    """None if nothing was ever added to it."""
    try:
        if os.path.isfile(git):  # of a second working tree: it says where its folder is
            with open(git, encoding="utf-8", errors="surrogateescape") as pointer:
                told = pointer.read(4096).partition("gitdir:")[2].strip()
            git = os.path.join(os.path.dirname(git), told)
        index = os.path.join(git, "index")
        if not stat.S_ISREG(os.stat(index).st_mode):
            return b""
        with open(index, "rb") as source:
            return source.read(_LARGEST_INDEX)
    except FileNotFoundError:
        return None
    except OSError:
        return b""


# Asking an address whether it can be had without its client, who may sign in for it.


_ASKED_SECONDS = 5.0
_GREETING = json.dumps(
    {
        "jsonrpc": "2.0", "id": 1, "method": "initialize",
        "params": {
            "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "holdall", "version": "0"},
        },
    }
).encode()  # fmt: skip
_ANYWAY = "--no-ask puts it behind the gateway anyway"
_SILENT = f"it does not answer now, so nobody can tell whether the client signs in for it; {_ANYWAY}"


def ask(entry: Mapping[str, Any]) -> str:
    """Why the gateway cannot take the client's place there; empty if it can."""
    told: list[str] = []
    # In a thread that nobody waits for any longer: a server may answer byte by byte.
    asking = threading.Thread(target=lambda: told.append(_asked(entry)), daemon=True)
    asking.start()
    asking.join(_ASKED_SECONDS + 1)
    return told[0] if told else _SILENT


def _asked(entry: Mapping[str, Any]) -> str:
    """Nobody is asked where a header holds a variable, which is known to the client alone, or a key: then no one signs
    in.
    """
    import http.client  # noqa: PLC0415 - only for entries with a URL
    import urllib.error  # noqa: PLC0415
    import urllib.request  # noqa: PLC0415

    url, headers = str(entry[url_key(entry)]), cast("dict[str, str]", entry.get("headers") or {})
    if "$" in url or headers:
        return ""

    class Stay(urllib.request.HTTPRedirectHandler):
        def redirect_request(self, *_args: Any, **_named: Any) -> None:
            return None

    about = {"content-type": "application/json", "accept": "application/json, text/event-stream"}
    request = urllib.request.Request(url, _GREETING, about, method="POST")  # noqa: S310 - the entry was checked
    try:
        with urllib.request.build_opener(Stay()).open(request, timeout=_ASKED_SECONDS):
            return ""
    except urllib.error.HTTPError as answer:
        answer.close()
        if answer.code in (401, 403):
            return f"it answers {answer.code} without the client's sign-in, and the gateway cannot sign in"
        if answer.code in (404, 405, 410):
            return f"it does not take streamable HTTP (it answers {answer.code}); is it SSE? {_ANYWAY}"
        return ""
    except (OSError, ValueError, http.client.HTTPException):
        return _SILENT


def _edited(file: str, work: Callable[[], T]) -> T:
    try:
        return work()
    except (ValueError, RecursionError) as problem:
        format = "TOML" if file.endswith(".toml") else "YAML" if file.endswith((".yaml", ".yml")) else "JSON"
        raise UsageError(f"{file} cannot be read as {format} ({problem}); nothing was changed.") from problem
    except UnsafeEdit as problem:
        raise UsageError(
            f"{file} cannot be changed without touching more than our part; nothing was changed."
        ) from problem


def text_hash(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()


def read_text(file: str) -> str:
    """With its newlines as they are, and bytes that are not UTF-8 kept.

    Raises UsageError where others can write: they could put a link in the place of any part of the path at any time.
    """
    _refuse_links(file)
    if os.path.exists(file):
        check_writers(file, os.stat(file), "the configuration")
    try:
        descriptor = os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with open(descriptor, encoding="utf-8", errors="surrogateescape", newline="") as source:
            about = os.fstat(descriptor)
            if not stat.S_ISREG(about.st_mode):
                raise UsageError(f"{file} is not a regular file; nothing was changed.")
            if about.st_size > _LARGEST_CONFIG:
                raise UsageError(f"{file} is larger than any configuration; nothing was changed.")
            text = source.read()
            if text.count("{") + text.count("[") > _MOST_PARTS:
                raise UsageError(f"{file} has more in it than any configuration; nothing was changed.")
            return text
    except OSError as problem:
        raise UsageError(f"{file} cannot be read: {problem.strerror}.") from problem


def read_if_there(file: str) -> str:
    """The same; empty where there is none yet. It may not be made behind a link, or where others can write, either."""
    if os.path.lexists(file):
        return read_text(file)
    _refuse_links(file)
    folder = os.path.dirname(os.path.abspath(file))
    while not os.path.isdir(folder):
        folder = os.path.dirname(folder)
    check_folders(os.path.join(folder, os.path.basename(file)), "the configuration")
    return ""


def _refuse_links(file: str) -> None:
    """A checkout may bring links, and it may be anywhere: no part of a path may be one.

    Those that only root could make, and those that lie in the user's home itself, are no part of a checkout.
    """
    home = os.path.expanduser("~")
    parts = os.path.abspath(file).split(os.sep)
    for at in range(2, len(parts) + 1):
        path = os.sep.join(parts[:at])
        if not os.path.islink(path) or (at < len(parts) and _is_of_system(path)):
            continue
        if at == len(parts) or os.path.dirname(path) != home:
            raise UsageError(
                f"{path} is a symbolic link, and nothing is written through one. Name the file that is meant: "
                f"--file {os.path.realpath(file)}"
            )


def _is_of_system(link: str) -> bool:
    """Made by root, in a folder where nobody else could have made it."""
    about, folder = os.lstat(link), os.stat(os.path.dirname(link))
    return about.st_uid == folder.st_uid == 0 and not folder.st_mode & 0o022 and os.getuid() != 0


def _check_unchanged(file: str, text: str) -> None:
    """Clients write into their files too, and some all the time."""
    if read_text(file) != text:
        raise UsageError(f"{file} was changed by another program meanwhile; nothing was written to it. Try again.")


def write_text(file: str, text: str, *, mode: int, instead_of: str | None = None) -> None:
    """Atomic. What stands under the name is replaced, a link too: its target is never touched. Where it is said what
    the file has, it is left alone if it has something else."""
    temporary = f"{file}.{secrets.token_hex(4)}"
    try:
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        with open(descriptor, "w", encoding="utf-8", errors="surrogateescape", newline="") as out:
            out.write(text)
            out.flush()
            os.fchmod(descriptor, mode)
            os.fsync(descriptor)
        if instead_of is not None:
            _check_unchanged(file, instead_of)
        os.replace(temporary, file)
    except UsageError:
        os.unlink(temporary)
        raise
    except OSError as problem:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary)
        raise UsageError(f"{file} cannot be written: {problem.strerror}. It is as it was.") from problem
