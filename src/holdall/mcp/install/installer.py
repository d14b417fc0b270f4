"""Putting a client's servers behind the gateway, in the client's own configuration file, and taking that back.

Before the first change a copy of the file stands beside it. What was changed is written whole or not at all, and
`uninstall` restores the file byte for byte; where it was changed by others meanwhile, only our part of it.
"""

import contextlib
import hashlib
import json
import os
import secrets
import stat
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, field, replace
from typing import Any, TypeVar, cast

from holdall.mcp.client import spec
from holdall.mcp.install.config_text import MOVED, Edited, Path, UnsafeEdit, behind, named_in, servers_in, unwrap, wrap
from holdall.text.json.jsonc import parse_jsonc
from holdall.values.errors import BadServer, UsageError
from holdall.values.patterns import lazy_pattern
from holdall.values.record import record

# What `install` writes down for `uninstall`: a note beside the client's file, and a file for each entry with a URL.


_NOTE = ".holdall.json"
_OURS = lazy_pattern(r"[0-9a-f]{16}\.json")
_LARGEST = 1024 * 1024


@record
class Note:
    """`installed` is the hash of the file as we wrote it, empty if that was not the copy with our part changed.

    `original` is the hash of the copy; the rest is as in `Edited`.
    """

    installed: str = ""
    original: str = ""
    originals: Mapping[str, str] = field(default_factory=dict[str, str])
    bare: tuple[Path, ...] = ()
    by_hand: tuple[Path, ...] = ()

    def after(self, edited: Edited, installed: str) -> "Note":
        """After another install: what was changed now was there as the user's own, whatever was there before."""
        return replace(
            self,
            installed=installed,
            originals={**self.originals, **edited.originals},
            bare=(*(path for path in self.bare if path not in edited.paths), *edited.bare),
            by_hand=tuple(path for path in self.by_hand if path not in edited.paths),
        )

    def text(self) -> str:
        return json.dumps(asdict(self), indent=2)


def note_of(file: str) -> str:
    return file + _NOTE


def read_note(file: str) -> Note | None:
    try:
        with open(note_of(file), encoding="utf-8") as source:
            found: object = json.load(source)
    except (FileNotFoundError, ValueError):
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
    )


def private_text(name: str, raw: str) -> str:
    """What the gateway is told of an entry: nothing of what belongs to its client."""
    entry = cast("dict[str, Any]", parse_jsonc(raw))
    try:
        spec.check_name(name, spec.Place("", name))
    except BadServer:  # a client takes any name, and this one is seen in messages only
        name = "server"
    return json.dumps({"mcpServers": {name: {key: entry[key] for key in MOVED if key in entry}}}, indent=2)


def private_entry(path: str) -> str:
    """The one entry of such a file; empty if it is not one of ours."""
    if not _OURS.fullmatch(os.path.basename(path)):
        return ""
    try:
        with open(path, encoding="utf-8") as source:
            document: Any = json.loads(source.read(_LARGEST))
        (entry,) = document["mcpServers"].values()
    except (OSError, ValueError, LookupError, TypeError, AttributeError):  # whatever it is, we did not write it
        return ""
    return json.dumps(entry) if isinstance(entry, dict) and "url" in entry else ""


def _paths(found: list[list[str]]) -> tuple[Path, ...]:
    return tuple(tuple(map(str, path)) for path in found)


T = TypeVar("T")

_COPY = ".before-holdall"
_LARGEST_CONFIG = 16 * 1024 * 1024

# Where each client looks, the project's own file first.
CLIENTS: Mapping[str, tuple[str, ...]] = {
    "claude-code": (".mcp.json", "~/.claude.json"),
    "vscode": (
        ".vscode/mcp.json", "~/.config/Code/User/mcp.json", "~/Library/Application Support/Code/User/mcp.json",
    ),
    "cursor": (".cursor/mcp.json", "~/.cursor/mcp.json"),
}  # fmt: skip


@record
class Done:
    """What became of one file. `text` is what is in it now, or would; `copy` is where the user's own is."""

    file: str
    edited: Edited
    copy: str = ""
    exactly: bool = True  # the copy is the file as it was just before; or, after `uninstall`, the file is the copy
    kept: tuple[str, ...] = ()  # files of entries that were not brought back


def files_of(client: str) -> list[str]:
    """The files of that client which are there."""
    if client not in CLIENTS:
        raise UsageError(f"there is no client {client!r} here: it is one of {', '.join(CLIENTS)}, or give its --file.")
    found = [path for one in CLIENTS[client] if os.path.isfile(path := os.path.abspath(os.path.expanduser(one)))]
    if not found:
        raise UsageError(f"no configuration of {client} was found ({', '.join(CLIENTS[client])}). Name it with --file.")
    return found


def client_id(file: str) -> str:
    """Of the client that reads this file: the same for all files of a client that is known here."""
    for client, files in CLIENTS.items():
        if file.endswith(tuple(f"/{one.removeprefix('~/')}" for one in files)):
            return client
    return f"client-{_hash(file)[:8]}"


def install(file: str, program: str, *, config_folder: str, leading: Sequence[str] = (), dry_run: bool = False) -> Done:
    """`program` and the words `leading` are how the client starts us.

    `config_folder` is where entries with a URL are kept, for us alone.
    """
    text = _read(file)
    names: dict[str, str] = {}

    def new_config(name: str) -> str:
        path = os.path.join(config_folder, f"{secrets.token_hex(8)}.json")
        names[path] = name
        return path

    edited = _edited(file, lambda: wrap(text, program, new_config, leading, client=client_id(file)))
    if dry_run or not edited.changed:
        return Done(file, edited)
    for path, raw in edited.originals.items():
        _write(path, private_text(names[path], raw), mode=0o600)
    copy, mode, note = file + _COPY, stat.S_IMODE(os.stat(file).st_mode), read_note(file)
    # A copy that is there stays where its note was lost, and what is in the file is not all the user's own.
    first = note is None and not (edited.by_hand and os.path.exists(copy))
    untouched = note is not None and note.installed == _hash(text)
    if first:
        _write(copy, text, mode=mode)
        note = Note(original=_hash(text), by_hand=edited.by_hand)
    note = (note or Note(by_hand=edited.by_hand)).after(edited, _hash(edited.text) if first or untouched else "")
    _write(note_of(file), note.text(), mode=0o600)
    _write(file, edited.text, mode=mode)
    return Done(file, edited, copy, exactly=first)


def uninstall(file: str, *, dry_run: bool = False) -> Done:
    text, noted = _read(file), read_note(file)
    note, copy = noted or Note(), file + _COPY
    known = {**_recovered(file, text), **note.originals}
    edited = _edited(file, lambda: unwrap(text, known, note.bare, note.by_hand))
    exactly = note.installed == _hash(text) and os.path.isfile(copy)
    if exactly:
        before = _read(copy)
        exactly = _hash(before) == note.original
        edited = replace(edited, text=before) if exactly else edited
    if dry_run or not (edited.changed or exactly):
        return Done(file, edited, exactly=exactly)
    _write(file, edited.text, mode=stat.S_IMODE(os.stat(file).st_mode))
    named = {path: raw for path, raw in note.originals.items() if named_in(edited.text, path)}
    if named:
        _write(note_of(file), replace(note, installed="", originals=named).text(), mode=0o600)
    done = [path for path in edited.originals if path not in named]
    for gone in (*(() if named else (note_of(file),)), *((copy,) if exactly else ()), *done):
        with contextlib.suppress(FileNotFoundError):
            os.unlink(gone)
    kept = tuple(path for path in note.originals if path not in done and os.path.exists(path))
    has_copy = not exactly and noted is not None and os.path.isfile(copy)
    return Done(file, edited, copy if has_copy else "", exactly, kept)


def _recovered(file: str, text: str) -> dict[str, str]:
    """Entries whose note is gone, as where the file was moved: what the gateway uses of them stands in their files."""
    found: dict[str, str] = {}
    for server in _edited(file, lambda: servers_in(text)):
        stands = behind(server.entry)
        if stands is not None and (raw := private_entry(stands.config)):
            found[stands.config] = raw
    return found


def _edited(file: str, work: Callable[[], T]) -> T:
    try:
        return work()
    except (ValueError, RecursionError) as problem:
        raise UsageError(f"{file} cannot be read as JSON ({problem}); nothing was changed.") from problem
    except UnsafeEdit as problem:
        raise UsageError(
            f"{file} cannot be changed without touching more than our part; nothing was changed."
        ) from problem


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()


def _read(file: str) -> str:
    """With its newlines as they are, and bytes that are not UTF-8 kept."""
    try:
        if os.path.getsize(file) > _LARGEST_CONFIG:
            raise UsageError(f"{file} is larger than any configuration; nothing was changed.")
        with open(file, encoding="utf-8", errors="surrogateescape", newline="") as source:
            return source.read()
    except OSError as problem:
        raise UsageError(f"{file} cannot be read: {problem.strerror}.") from problem


def _write(file: str, text: str, *, mode: int) -> None:
    """Atomic; a symbolic link stays one and its target is replaced."""
    target = os.path.realpath(file)
    os.makedirs(os.path.dirname(target), mode=0o700, exist_ok=True)
    temporary = f"{target}.{secrets.token_hex(4)}"
    try:
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
        with open(descriptor, "w", encoding="utf-8", errors="surrogateescape", newline="") as out:
            os.fchmod(descriptor, mode)
            out.write(text)
            out.flush()
            os.fsync(descriptor)
        os.replace(temporary, target)
    except OSError as problem:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary)
        raise UsageError(f"{file} cannot be written: {problem.strerror}. It is as it was.") from problem
