"""Bits that change by themselves: at places that are the same at every run, and at any place of any file of a store."""

import os
import random
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path

from holdall.bag.records import Noticed, noticed_key
from holdall.blocking import Holdall
from holdall.store.bundle.export import export_session
from holdall.store.directory.store import DirectoryStore
from holdall.store.protocol import LogLines, SessionInfo
from holdall.values.errors import HoldallError, StoreFault
from holdall.values.outputs import Facts, Origin
from tests.faults.kills import Fired

NAME = "a session"
LINES = [b'{"at":%d.5,"event":"turn","number":%d}' % (number, number) for number in range(20)]
CONTENTS = {
    "lines": b"".join(b"%07d\n" % number for number in range(20_000)),  # three blocks
    "json": b'[{"id":1,"name":"one"},{"id":2,"name":"two"}]\n' * 30,
    "terminal": b"\x1b[31mfailed\x1b[0m\r\n" * 40 + bytes(range(256)),
    "small": b"a small text\n",
}
_SUMMARY = "tree.json"  # a snapshot of what the events say: it has no checksum, and Holdall never reads it
_OF_NOBODY = (_SUMMARY, ".lock", ".last-gc", ".agent")
_EXPORTS = 40  # one look in so many is by way of a bundle too


def sample(size: int, count: int) -> Sequence[int]:
    """Positions from 0 up to `size`, the first and the last among them; the same at every run."""
    if count >= size:
        return range(size)
    return sorted({0, size - 1, *random.Random(size).sample(range(size), count)})


def flipped(data: bytes, bit: int) -> bytes:
    changed = bytearray(data)
    changed[bit // 8] ^= 1 << bit % 8
    return bytes(changed)


def rounds(folder: Path, dice: random.Random) -> Iterator[Fired]:
    """One bit of any file, every reader, and the bit back."""
    made = _Made(folder / "home")
    while True:
        file = dice.choice(made.files)
        data = made.whole[file]
        about = file.stat()
        file.write_bytes(flipped(data, dice.randrange(8 * len(data))))
        if dice.random() < 0.5:  # bits that rot leave the time of the file as it is
            os.utime(file, ns=(about.st_atime_ns, about.st_mtime_ns))
        yield Fired(made.kind(file), made.complaints(file, export=dice.random() * _EXPORTS < 1))
        made.restore(file)


class _Made:
    """A store with every kind of file, and what is in it."""

    def __init__(self, home: Path) -> None:
        self._home = home
        with Holdall.open(session=NAME, home=str(home)) as bag:
            self._facts = {
                label: bag.keep(data, call_id=label) for label, data in CONTENTS.items() if label != "terminal"
            }
            bag.take(CONTENTS["lines"] * 2, tool="a tool", call_id="taken")
        with closing(DirectoryStore(str(home))) as store:
            session = self._session = store.open_session(NAME)
            terminal = Origin(call_id="terminal", terminal=True)
            self._facts["terminal"] = store.put(session, [CONTENTS["terminal"]], terminal)
            store.append_transcript(session, b"\n".join([*LINES, b""]))
            store.append_events(session, b"\n".join([*LINES, b""]))
            store.save_tree(session, b"{}")
            self._noted = store.resolve(session, "taken")
            self._notice = store.recall(session, *noticed_key(self._noted))
            self._events = store.events_from(session, 0).lines
            self._count = len(store.outputs(session))
        assert self._notice
        self.files = sorted(path for path in home.rglob("*") if path.is_file() and path.stat().st_size)
        self.whole = {path: path.read_bytes() for path in self.files}

    def kind(self, file: Path) -> str:
        name = file.relative_to(self._home)
        if name.parent.name in ("names", "answers", "terminal"):
            return f"{name.parent.name}/"
        return name.name if "-" not in name.name and name.suffix != ".record" else name.suffix

    def restore(self, file: Path) -> None:
        """As it was: also a cache that was set aside, or that has learned from damage."""
        for path in self._home.glob("*.sqlite*") if file.name.endswith(".sqlite") else (file,):
            path.unlink(missing_ok=True)
        file.write_bytes(self.whole[file])
        file.chmod(0o600)

    def complaints(self, file: Path, *, export: bool) -> list[str]:
        try:
            return list(self._complaints(file, export=export))
        except Exception as problem:
            return [f"{type(problem).__name__} came out: {problem}"]

    def _complaints(self, file: Path, *, export: bool) -> Iterator[str]:
        with closing(DirectoryStore(str(self._home))) as store:
            try:
                session = store.find_session(NAME)
            except StoreFault as fault:  # the bit that makes it a session of another version
                if "version" not in str(fault):
                    yield f"the session is refused: {fault}"
                return
            if session is None or session.id != self._session.id:
                yield "the session is not found"
                return
            if len(store.outputs(session)) != self._count:
                yield "an output is left out"
            for label, facts in self._facts.items():
                is_hit = file.name in (os.path.basename(facts.file), f"{facts.handle}.record")
                yield from self._read(store, session, label, facts, is_hit=is_hit)
            yield from _lines("events", self._events.splitlines(), store.events_from(session, 0), "events" in file.name)
            yield from _lines("transcript", LINES, store.transcript(session), "transcript" in file.name)
            note = store.recall(session, *noticed_key(self._noted)) if "record" not in file.name else None
            if note != self._notice and Noticed.in_line(note or b"") is not None:
                yield "a notice is another one"
            problems = [one.problem for one in store.verify() if one.problem]
            is_proven = file.parent.name == "terminal" or file.suffix in (".record", ".txt", ".json", ".ndjson")
            if is_proven and file.name not in ("session.json", *_OF_NOBODY) and not problems:
                yield "verify says nothing"
            if not is_proven and problems:
                yield f"verify: {problems}"
            if export:
                yield from self._export(store, session, bool(problems))

    def _read(
        self, store: DirectoryStore, session: SessionInfo, label: str, facts: Facts, *, is_hit: bool
    ) -> Iterator[str]:
        """Its own bytes, or an error of ours; of the one that was hit by each of its names."""
        whole, refused = CONTENTS[label], 0
        for reference in (facts.handle, facts.long_handle, label) if is_hit else (facts.handle,):
            try:
                with closing(store.open(store.resolve(session, reference))) as reader:
                    if reader.read(0, reader.totals.bytes) != whole:
                        yield f"{label} by {reference} has other bytes"
            except HoldallError:
                refused += 1
        if is_hit and not refused:
            yield f"{label} is shown as if it were whole"

    def _export(self, store: DirectoryStore, session: SessionInfo, is_known: bool) -> Iterator[str]:
        try:
            export_session(store, session, lambda _: None)
        except HoldallError:
            if not is_known:
                yield "an export is refused for damage that verify does not know"


def _lines(log: str, whole: Sequence[bytes], found: LogLines, is_hit: bool) -> Iterator[str]:
    """Each line that is served is one that was written; one that is not is named."""
    served = found.lines.splitlines()
    if any(line not in whole for line in served):
        yield f"{log} has a line that nobody wrote"
    if len(served) < len(whole) - 2 or (len(served) < len(whole)) != bool(found.bad):
        yield f"{log} has {len(served)} of {len(whole)} lines, and names {len(found.bad)}"
    if is_hit and not found.bad:
        yield f"{log} does not name its damage"
