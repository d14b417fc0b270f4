"""Putting a client's servers behind the gateway, in the client's own configuration file, and taking that back.

Before anything is changed a copy of the file stands beside it. What was changed is written whole or not at all, and
`uninstall` restores the file byte for byte; where it was changed by others meanwhile, only our part of it.
"""

import contextlib
import hashlib
import json
import os
import secrets
import stat
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, cast

from holdall.gateway.client_text import Edited, unwrap, wrap
from holdall.upstream import jsonc
from holdall.values.errors import WrongUse

_COPY = ".before-holdall"
_NOTE = ".holdall.json"
_LARGEST = 16 * 1024 * 1024

# Where each client looks, the project's own file first.
CLIENTS: Mapping[str, tuple[str, ...]] = {
    "claude-code": (".mcp.json", "~/.claude.json"),
    "vscode": (
        ".vscode/mcp.json", "~/.config/Code/User/mcp.json", "~/Library/Application Support/Code/User/mcp.json",
    ),
    "cursor": (".cursor/mcp.json", "~/.cursor/mcp.json"),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Done:
    """What became of one file. `text` is what stands in it now, or would; `copy` is where the old one is."""

    file: str
    edited: Edited
    copy: str = ""
    exactly: bool = True  # the very bytes from before


def files_of(client: str) -> list[str]:
    """The files of that client which are there."""
    if client not in CLIENTS:
        raise WrongUse(f"there is no client {client!r} here: it is one of {', '.join(CLIENTS)}, or give its --file.")
    found = [path for one in CLIENTS[client] if os.path.isfile(path := os.path.abspath(os.path.expanduser(one)))]
    if not found:
        raise WrongUse(f"no configuration of {client} was found ({', '.join(CLIENTS[client])}). Name it with --file.")
    return found


def install(file: str, program: str, *, config_folder: str, dry_run: bool = False) -> Done:
    """`program` is how the client starts us; `config_folder` is where entries with a URL are kept, for us alone."""
    text = _read(file)
    names: dict[str, str] = {}

    def new_config(name: str) -> str:
        path = os.path.join(config_folder, f"{secrets.token_hex(8)}.json")
        names[path] = name
        return path

    edited = _edited(file, lambda: wrap(text, program, new_config))
    if dry_run or not edited.changed:
        return Done(file, edited)
    for path, raw in edited.originals.items():
        entry: object = jsonc.parse(raw)
        _write(path, json.dumps({"mcpServers": {names[path]: entry}}, indent=2), mode=0o600)
    copy, note = file + _COPY, _note(file)
    if not note:  # the first time: what stands there is the user's own
        _write(copy, text, mode=stat.S_IMODE(os.stat(file).st_mode))
    originals = {**cast("dict[str, str]", note.get("originals", {})), **edited.originals}
    about = {"installed": _hash(edited.text), "original": note.get("original", _hash(text)), "originals": originals}
    _write(file + _NOTE, json.dumps(about, indent=2), mode=0o600)
    _write(file, edited.text, mode=stat.S_IMODE(os.stat(file).st_mode))
    return Done(file, edited, copy)


def uninstall(file: str, *, dry_run: bool = False) -> Done:
    text, note = _read(file), _note(file)
    originals = cast("dict[str, str]", note.get("originals", {}))
    edited = _edited(file, lambda: unwrap(text, originals))
    copy = file + _COPY
    exactly = bool(note) and note.get("installed") == _hash(text) and os.path.isfile(copy)
    if exactly:
        before = _read(copy)
        exactly = _hash(before) == note.get("original")
        edited = Edited(before, edited.changed, edited.left) if exactly else edited
    if dry_run or not (edited.changed or exactly):
        return Done(file, edited, exactly=exactly)
    _write(file, edited.text, mode=stat.S_IMODE(os.stat(file).st_mode))
    for gone in (file + _NOTE, *((copy,) if exactly else ()), *originals):
        with contextlib.suppress(FileNotFoundError):
            os.unlink(gone)
    return Done(file, edited, "" if exactly else copy, exactly)


def _edited(file: str, work: Callable[[], Edited]) -> Edited:
    try:
        return work()
    except (ValueError, RecursionError) as problem:
        raise WrongUse(f"{file} cannot be read as JSON ({problem}); nothing was changed.") from problem


def _note(file: str) -> dict[str, Any]:
    try:
        with open(file + _NOTE, encoding="utf-8") as note:
            found: object = json.load(note)
    except (FileNotFoundError, ValueError):
        return {}
    return cast("dict[str, Any]", found) if isinstance(found, dict) else {}


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()


def _read(file: str) -> str:
    """With its newlines as they are, and bytes that are no UTF-8 kept."""
    try:
        if os.path.getsize(file) > _LARGEST:
            raise WrongUse(f"{file} is larger than any configuration; nothing was changed.")
        with open(file, encoding="utf-8", errors="surrogateescape", newline="") as source:
            return source.read()
    except OSError as problem:
        raise WrongUse(f"{file} cannot be read: {problem.strerror}.") from problem


def _write(file: str, text: str, *, mode: int) -> None:
    """Whole or not at all; a link stays one, and leads to the new text."""
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
        raise WrongUse(f"{file} cannot be written: {problem.strerror}. It is as it was.") from problem
