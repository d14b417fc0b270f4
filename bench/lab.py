"""Where a benchmark works: its folder, its sizes, its data, and stores that are gone when a job is done."""

import contextlib
import io
import os
import shutil
import sys
import tempfile
from collections.abc import AsyncGenerator, Generator
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from bench import data
from bench.machine import Patience
from holdall.bag import Holdall
from holdall.store.directory.store import DirectoryStore
from holdall.text.tokens import Tokenizer
from holdall.values.outputs import Facts

ROOT = Path(__file__).parents[1]
MB = 1_000_000


class NotEnoughRoom(Exception):
    """The disk is too full for the data and the stores."""


@dataclass(frozen=True, slots=True)
class Sizes:
    log: int
    line: int
    records: int  # of JSON lines, for SQL
    document: int  # of one JSON value, for JSONPath
    growing: tuple[int, ...]
    rounds: int
    small_outputs: int
    reads: int

    @property
    def disk(self) -> int:
        """The data, and the most that is kept beside it at one time."""
        return 2 * self.log + self.line + self.records + self.document + 2 * max(self.log, self.line) + 100 * MB


FULL = Sizes(
    log=1000 * MB, line=1000 * MB, records=200 * MB, document=100 * MB,
    growing=(1 * MB, 4 * MB, 16 * MB, 64 * MB, 250 * MB, 1000 * MB), rounds=7, small_outputs=200, reads=300,
)  # fmt: skip
QUICK = Sizes(
    log=4 * MB, line=2 * MB, records=1 * MB, document=1 * MB,
    growing=(MB // 8, MB // 4, MB // 2, 1 * MB), rounds=1, small_outputs=5, reads=10,
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Lab:
    folder: Path
    sizes: Sizes
    patience: Patience

    def check_room(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        for left in self.folder.glob("run-*-*"):
            if not _is_alive(int(left.name.split("-")[1])):
                shutil.rmtree(left)  # of a run that was killed
        there = sum(file.stat().st_size for file in (self.folder / "data").glob("*") if file.is_file())
        missing = self.sizes.disk - there - shutil.disk_usage(self.folder).free
        if missing > 0:
            raise NotEnoughRoom(
                f"the benchmark needs {self.sizes.disk / MB:,.0f} MB of disk, and {missing / MB:,.0f} MB of it are "
                f"missing. Make room, or choose a folder on another disk with --out."
            )

    # Data

    def log(self) -> Path:
        return data.make(self.folder / "data", "log", data.log_lines, self.sizes.log)

    def equal(self) -> Path:
        return data.make(self.folder / "data", "equal", data.equal_lines, self.sizes.log)

    def line(self) -> Path:
        return data.make(self.folder / "data", "line", data.one_line, self.sizes.line, array=True)

    def records(self) -> Path:
        return data.make(self.folder / "data", "records", data.json_items, self.sizes.records)

    def document(self) -> Path:
        return data.make(self.folder / "data", "document", data.one_line, self.sizes.document, array=True)

    # Places

    @contextlib.contextmanager
    def scratch(self) -> Generator[Path]:
        """A folder that is gone afterwards, from the disk too: freeing a gigabyte must not run on into what follows."""
        folder = Path(tempfile.mkdtemp(prefix=f"run-{os.getpid()}-", dir=self.folder))
        try:
            yield folder
        finally:
            shutil.rmtree(folder)
            descriptor = os.open(self.folder, os.O_RDONLY)
            os.fsync(descriptor)
            os.close(descriptor)

    @contextlib.asynccontextmanager
    async def bag(self, tokenizer: Tokenizer | None = None) -> AsyncGenerator[Holdall]:
        """A session in a store of its own."""
        with self.scratch() as home:
            async with Holdall.open(home=str(home / "home"), session="bench", tokenizer=tokenizer) as bag:
                yield bag

    @contextlib.asynccontextmanager
    async def kept(self, file: Path, tokenizer: Tokenizer | None = None) -> AsyncGenerator[tuple[Holdall, Facts]]:
        """The same, with `file` in it."""
        async with self.bag(tokenizer) as bag:
            with file_of(file) as source:
                facts = await bag.keep(source)
            yield bag, facts


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass  # there, and somebody else's
    return True


def file_of(path: Path) -> io.FileIO:
    return open(path, "rb", buffering=0)


def stored_path(bag: Holdall, facts: Facts) -> str:
    """Where the bytes of an output lie, for those that we are compared with."""
    return str(next(Path(cast("DirectoryStore", bag.store).home).glob(f"*/{facts.file}")))


def holdall_command() -> list[str]:
    beside = Path(sys.executable).with_name("holdall")
    return [str(beside)] if beside.exists() else [sys.executable, "-m", "holdall"]
