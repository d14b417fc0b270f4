"""What `install` writes down for `uninstall`: a note beside the client's file, and a file for each entry with a URL."""

import json
import os
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any, cast

from holdall.gateway.client_fit import MOVED
from holdall.gateway.client_servers import Path
from holdall.gateway.client_text import Edited
from holdall.upstream import checks, jsonc
from holdall.values.errors import BadServer

_NOTE = ".holdall.json"
_OURS = re.compile(r"[0-9a-f]{16}\.json")
_LARGEST = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Note:
    """`installed` is the hash of the file as we wrote it, empty where that was not the copy with our part changed.

    `original` is the hash of the copy; the rest is as in `Edited`.
    """

    installed: str = ""
    original: str = ""
    originals: Mapping[str, str] = field(default_factory=dict[str, str])
    bare: tuple[Path, ...] = ()
    by_hand: tuple[Path, ...] = ()

    def after(self, edited: Edited, installed: str) -> "Note":
        """After another install: what was changed now stood there as the user's own, whatever was there before."""
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
    entry = cast("dict[str, Any]", jsonc.parse(raw))
    try:
        checks.name(name, checks.Place("", name))
    except BadServer:  # a client takes any name, and this one is seen in messages only
        name = "server"
    return json.dumps({"mcpServers": {name: {key: entry[key] for key in MOVED if key in entry}}}, indent=2)


def private_entry(path: str) -> str:
    """The one entry of such a file; empty where it is not one of ours."""
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
