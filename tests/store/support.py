"""What tests of a store share: a clock that is told the time, keeping and reading back, looking at the folder."""

import hashlib
import os
import random
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, settings

from holdall.store.protocol import OutputStore, SessionInfo
from holdall.store.sources import Source
from holdall.values.outputs import Facts, Origin
from holdall.values.retention import DAY

# One store for all examples of a test: what one example keeps does not change what the next gets. Fewer of them,
# because each is synced to the disk.
one_store = settings(
    max_examples=settings().max_examples // 3, suppress_health_check=[HealthCheck.function_scoped_fixture]
)

StoreMaker = Callable[..., OutputStore]


class Clock:
    """Stands still until it is told that time has passed."""

    def __init__(self, now: float = 1_800_000_000.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now

    def pass_days(self, days: float) -> None:
        self.now += days * DAY


def keep(store: OutputStore, session: SessionInfo, value: object, **origin: Any) -> Facts:
    """The way of every output: through Source into the store."""
    source = Source(value)
    return store.put(session, source, Origin(**origin), notes=lambda: source.notes)


def read_back(store: OutputStore, facts: Facts) -> bytes:
    """All stored bytes, read by slices of any size; their hash and length must be those of the facts."""
    dice = random.Random(facts.measure.bytes)
    reader = store.open(facts)
    try:
        total = reader.totals.bytes
        parts: list[bytes] = []
        at = 0
        while at < total:
            end = at + dice.choice([1, 7, 1000, 65_535, 65_536, 65_537, 500_000, 3_000_000])
            parts.append(reader.read(at, end))
            at = min(end, total)
    finally:
        reader.close()
    data = b"".join(parts)
    assert hashlib.sha256(data).hexdigest() == facts.measure.sha256
    assert len(data) == total == facts.measure.bytes
    return data


def kept_bytes(store: OutputStore, session: SessionInfo, value: object) -> bytes:
    """What is stored of `value`, found again by its handle."""
    facts = keep(store, session, value)
    assert store.resolve(session, facts.handle) == facts
    return read_back(store, facts)


def folder_of(home: Path, session: SessionInfo) -> Path:
    return home / f"session-{session.id}"


def tree(folder: Path) -> dict[str, tuple[int, bytes]]:
    """Every path under `folder` with its mode, and its bytes where it is a file."""
    found: dict[str, tuple[int, bytes]] = {}
    for path in sorted(folder.rglob("*")):
        about = os.lstat(path)
        data = path.read_bytes() if stat.S_ISREG(about.st_mode) else b""
        found[path.relative_to(folder).as_posix()] = (stat.S_IMODE(about.st_mode), data)
    return found


def payload(home: Path, session: SessionInfo) -> list[str]:
    """The files of a session that hold outputs: all but its records, its own file and its lock."""
    folder = folder_of(home, session)
    names = [path.relative_to(folder).as_posix() for path in sorted(folder.rglob("*")) if path.is_file()]
    return [name for name in names if not name.endswith(".record") and name not in ("session.json", ".lock")]


def held(home: Path) -> list[str]:
    """What this process has open below the data folder, or of it."""
    found = [os.readlink(f"/dev/fd/{one}") for one in os.listdir("/dev/fd") if os.path.exists(f"/dev/fd/{one}")]
    return sorted(one for one in found if one == str(home) or one.startswith(f"{home}/"))
