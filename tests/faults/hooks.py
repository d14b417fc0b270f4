"""Every step that a program takes towards the disk, counted from inside it, and disturbed at one of them.

The functions of `os` that change a disk are wrapped where the store looks them up. Nothing here knows the store, and
nothing is changed until `install` is called: that happens only in processes that were started to be disturbed.
SQLite writes past these wrappers. Its file is a cache, and `test_killed` has a test that kills inside it.
"""

import base64
import dataclasses
import errno
import json
import os
import signal
import stat
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

Mode = Literal["before", "after", "partial", "full once", "short once", "full from here"]

STEPS = ("write", "fsync", "rename", "link", "unlink", "mkdir", "rmdir", "open")
"""What is counted; of `open` only what makes files. `test_every_step_is_counted` compares this with the store."""

NEEDS_SPACE = frozenset({"write", "fsync", "rename", "link", "mkdir", "open"})

_write, _open, _fstat, _stat, _seek = os.write, os.open, os.fstat, os.stat, os.lseek


@dataclass(frozen=True, slots=True)
class Fault:
    """Step `number`, counted from 1, goes wrong in this way."""

    number: int
    mode: Mode


@dataclass(frozen=True, slots=True)
class Step:
    """One step that was taken, with inodes in place of paths: names may move, files stay what they are."""

    op: str
    inode: int = 0  # of what is written, synced or made
    folder: int = 0
    name: str = ""
    to_folder: int = 0
    to_name: str = ""
    at: int = 0
    data: str = ""  # base64

    def bytes(self) -> bytes:
        return base64.b64decode(self.data)


def say(kind: str, **fields: Any) -> None:
    """A line on standard output that also survives the kill which follows it."""
    line = json.dumps([kind, fields]).encode() + b"\n"
    while line:
        line = line[_write(1, line) :]


class Hooks:
    """One disturbed process. `taken` names its steps so far."""

    def __init__(self, fault: Fault | None, *, record: bool, tell: Callable[..., None] = say) -> None:
        self.taken: list[str] = []
        self._say = tell
        self._fault = fault
        self._record = record
        self._short = False  # the last write was cut short by us: the next step finds the disk full
        self._lifted = False

    def install(self) -> None:
        for name in STEPS:
            setattr(os, name, self._wrapped(name, getattr(os, name)))

    @property
    def count(self) -> int:
        return len(self.taken)

    def lift(self) -> None:
        """The disk has room again."""
        self._lifted = True

    def _wrapped(self, name: str, original: Callable[..., Any]) -> Callable[..., Any]:
        def step(*args: Any, **options: Any) -> Any:
            if name == "open" and not args[1] & os.O_CREAT:
                return original(*args, **options)
            self.taken.append(name)
            told = self._before(name, args, options)
            try:
                result = self._disturbed(name, original, args, options)
                if self._record:
                    self._tell(name, args, options, told, result)
                return result
            finally:  # a step that failed, as mkdir does where the folder is there, was taken all the same
                if self._fault == Fault(self.count, "after"):
                    self._die(name)

        return step

    def _disturbed(
        self, name: str, original: Callable[..., Any], args: tuple[Any, ...], options: dict[str, Any]
    ) -> Any:
        if self._fault is None:
            return original(*args, **options)
        number, mode = self._fault.number, self._fault.mode
        here = self.count == number
        if mode == "before" and here:
            self._die(name)
        if mode == "partial" and here:
            if name == "write":
                original(args[0], memoryview(args[1])[: len(args[1]) // 2])
            self._die(name)
        if mode == "short once" and here and name == "write" and len(args[1]) > 1:
            self._short = True
            return original(args[0], memoryview(args[1])[: len(args[1]) // 2])
        full_here = (
            (mode == "full once" and here)
            or (mode == "full from here" and self.count >= number and not self._lifted)
            or self._short
        )
        self._short = False
        if full_here and name in NEEDS_SPACE:
            say("fired", number=self.count, op=name)
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return original(*args, **options)

    def _die(self, name: str) -> None:
        say("fired", number=self.count, op=name)
        os.kill(os.getpid(), signal.SIGKILL)

    # What a step was about, for whoever plays it again.

    def _before(self, name: str, args: tuple[Any, ...], options: dict[str, Any]) -> Any:
        """What only the moment before the step can tell."""
        if not self._record:
            return None
        if name == "write":
            return _seek(args[0], 0, os.SEEK_CUR)
        if name == "open":
            folder, plain = _place(args[0], options.get("dir_fd"))
            return folder, plain, _exists(args[0], options.get("dir_fd"))
        return None

    def _tell(self, name: str, args: tuple[Any, ...], options: dict[str, Any], told: Any, result: Any) -> None:
        match name:
            case "write":
                data = base64.b64encode(memoryview(args[1])[:result]).decode()
                taken = Step("write", inode=_fstat(args[0]).st_ino, at=told, data=data)
            case "fsync":
                taken = Step("fsync", inode=_fstat(args[0]).st_ino)
            case "open":
                folder, plain, existed = told
                if existed and not args[1] & os.O_TRUNC:
                    return
                op = "truncate" if existed else "create"
                taken = Step(op, inode=_fstat(result).st_ino, folder=folder, name=plain)
            case "mkdir":
                folder, plain = _place(args[0], options.get("dir_fd"))
                inode = _stat(args[0], dir_fd=options.get("dir_fd")).st_ino
                taken = Step("mkdir", inode=inode, folder=folder, name=plain)
            case "unlink" | "rmdir":
                folder, plain = _place(args[0], options.get("dir_fd"))
                taken = Step("remove", folder=folder, name=plain)
            case _:
                folder, plain = _place(args[0], options.get("src_dir_fd"))
                to_folder, to_plain = _place(args[1], options.get("dst_dir_fd"))
                taken = Step(name, folder=folder, name=plain, to_folder=to_folder, to_name=to_plain)
        self._say("step", **dataclasses.asdict(taken))


def _place(path: str, inside: int | None) -> tuple[int, str]:
    folder, name = os.path.split(path)
    if inside is None:
        return _stat(folder or ".").st_ino, name
    assert not folder, "the store names files inside an open folder by plain names"
    return _fstat(inside).st_ino, name


def _exists(path: str, inside: int | None) -> bool:
    try:
        return stat.S_ISREG(_stat(path, dir_fd=inside, follow_symlinks=False).st_mode)
    except FileNotFoundError:
        return False
