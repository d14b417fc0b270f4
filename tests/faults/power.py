"""The disk after a power cut, built from the steps that a writer took.

Two disks are built, because machines differ in what they lose:

- `lazy`: nothing is on the disk that was not synced. A file holds what it held at its last fsync; a folder has the
  names that it had at its own last fsync, so a file that was made, renamed, linked or removed after that was not.
- `eager`: every name is on the disk at once, and of the bytes only what was synced: the file that has its name and
  is empty.

Inodes, not paths, say what is what: a synced file stays synced when its name moves. SQLite's file is left out, since
it may be lost at any time.
"""

import contextlib
import os
import random
import shutil
from collections.abc import Generator, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from holdall.store.directory.index import NAME
from tests.faults.checker import complaints
from tests.faults.harness import Event
from tests.faults.hooks import STEPS, Hooks, Step
from tests.faults.kills import CHOICE, Fired, forked, make_bundle
from tests.faults.writer import BUNDLE, Task

Kind = Literal["lazy", "eager"]
_KINDS: tuple[Kind, ...] = ("lazy", "eager")
_CHOICE = tuple(act for act in CHOICE if act not in ("bag", "export"))  # steps of one thread, inside the data folder


@dataclass(slots=True)
class File:
    now: bytearray = field(default_factory=bytearray)
    synced: bytes = b""


@dataclass(slots=True)
class Folder:
    now: dict[str, "File | Folder"] = field(default_factory=dict[str, "File | Folder"])
    synced: dict[str, "File | Folder"] = field(default_factory=dict[str, "File | Folder"])


class Disk:
    """Play the steps in their order; `picture` at any point is what a cut at that point would leave."""

    def __init__(self, base: int, kind: Kind) -> None:
        self._kind = kind
        self._base = Folder()  # the folder that was there before, with the inode `base`
        # A number is used again once its file is gone, so names lead to files and not to numbers.
        self._by_inode: dict[int, File | Folder] = {base: self._base}

    def play(self, step: Step) -> None:
        match step.op:
            case "create":
                self._by_inode[step.inode] = self._names(step.folder)[step.name] = File()
            case "mkdir":
                self._by_inode[step.inode] = self._names(step.folder)[step.name] = Folder()
            case "truncate":
                self._file(step.inode).now.clear()
            case "write":
                data = step.bytes()
                self._file(step.inode).now[step.at : step.at + len(data)] = data
            case "fsync":
                self._sync(step.inode)
            case "rename":
                node = self._names(step.folder).pop(step.name)
                self._names(step.to_folder)[step.to_name] = node
            case "link":
                self._names(step.to_folder)[step.to_name] = self._names(step.folder)[step.name]
            case "remove":
                del self._names(step.folder)[step.name]
            case _:
                raise AssertionError(f"what does {step.op} do to a disk?")

    def picture(self) -> dict[str, Any]:
        """The disk as nested data; equal disks are equal."""
        return self._picture(self._base)

    def _file(self, inode: int) -> File:
        node = self._by_inode[inode]
        assert isinstance(node, File)
        return node

    def _names(self, folder: int) -> dict[str, File | Folder]:
        node = self._by_inode[folder]
        assert isinstance(node, Folder)
        return node.now

    def _sync(self, inode: int) -> None:
        match self._by_inode.get(inode):
            case File() as file:
                file.synced = bytes(file.now)
            case Folder() as folder:
                folder.synced = dict(folder.now)
            case None:
                pass  # a folder above the one that was there before

    def _picture(self, folder: Folder) -> dict[str, Any]:
        names = folder.synced if self._kind == "lazy" else folder.now
        return {
            name: node.synced if isinstance(node, File) else self._picture(node)
            for name, node in names.items()
            if not name.startswith(NAME)
        }


@contextlib.contextmanager
def recorded() -> Generator[list[Event]]:
    """The steps of this process meanwhile."""
    done: list[Event] = []

    def tell(kind: str, **fields: Any) -> None:
        done.append(Event(kind, fields))

    before = {name: getattr(os, name) for name in STEPS}
    Hooks(None, record=True, tell=tell).install()
    try:
        yield done
    finally:
        for name, original in before.items():
            setattr(os, name, original)


def cuts(base: int, events: Iterable[Event], kind: Kind) -> Iterator[tuple[dict[str, Any], list[Event]]]:
    """Every disk that a cut could leave, with what had been acknowledged before it. Equal neighbours come once."""
    disk = Disk(base, kind)
    told: list[Event] = []
    last: tuple[dict[str, Any], int] | None = None
    for event in events:
        if event.kind == "step":
            disk.play(Step(**event.fields))
        else:
            told.append(event)
        picture = disk.picture()
        if last != (picture, len(told)):
            last = (picture, len(told))
            yield picture, list(told)


def write_to(folder: Path, picture: dict[str, Any]) -> None:
    """Make the disk real."""
    folder.mkdir(mode=0o700, exist_ok=True)
    for name, inside in picture.items():
        if isinstance(inside, bytes):
            (folder / name).write_bytes(inside)
            (folder / name).chmod(0o600)
        else:
            write_to(folder / name, inside)


def rounds(folder: Path, dice: random.Random, *, broken: str = "") -> Iterator[Fired]:
    """Writers that do anything, in any order; the power fails after every step of theirs."""
    base = folder / "base"
    while True:
        base.mkdir()
        make_bundle(base / BUNDLE)
        acts = ("session", *dice.choices(_CHOICE, k=dice.randint(1, 5)))
        status, told = forked(Task(str(base / "home"), str(folder / "report"), acts, None, broken, record=True), None)
        if status:
            yield Fired("ended", [f"{acts} ended with {status}: {told[-1:]}"])
        kind = dice.choice(_KINDS)
        for picture, known in cuts(base.stat().st_ino, told, kind):
            disk = folder / "disk"
            write_to(disk, picture)
            act = next((event.text("act") for event in reversed(known) if event.kind == "acts"), "start")
            yield Fired(f"{act}: {kind}", complaints(disk / "home", known, power_cut=True))
            shutil.rmtree(disk)
        shutil.rmtree(base)
