"""What the tests of bundles share: a session with everything in it, the way out and in, and bundles that lie."""

import hashlib
import io
import json
from collections.abc import Callable, Iterable
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from holdall.store.bundle import stream as form
from holdall.store.bundle import stream as zstd
from holdall.store.bundle.export import export_session
from holdall.store.bundle.restore import import_bundle
from holdall.store.directory.store import DirectoryStore
from holdall.store.protocol import OutputStore, SessionInfo
from holdall.values.bundles import Imported
from holdall.values.outputs import Facts
from tests.store.support import keep

JSON = json.dumps([{"id": number, "name": f"naïve {number}"} for number in range(4000)]).encode()
LARGE = b"".join(b"%07d a line of a log that is longer than most of the others are\n" % n for n in range(80_000))


def filled(store: OutputStore, name: str = "s1") -> SessionInfo:
    """A session with outputs of every sort, a tombstone, logs, notes, and an agent below it that has one of its own."""
    session = store.open_session(name)
    child = store.open_session(f"{name}/helper-1", parent=session.id)
    grandchild = store.open_session(f"{name}/helper-1/reader-2", parent=child.id)
    first = keep(store, session, "one\ntwo\n", tool="fetch", arguments={"url": "https://example.com"}, call_id="c1")
    keep(store, session, "one\ntwo\n", tool="fetch", call_id="c2")
    keep(store, session, JSON, tool="export", arguments=[1, {"deep": None}])
    keep(store, session, bytes(range(256)) * 700, tool="binary")
    keep(store, session, LARGE, tool="log", terminal=True)
    keep(store, session, b"", tool="nothing")
    gone = keep(store, session, "that was here for a while", tool="gone")
    store.expire(session, [gone], "kept for 1 days")
    keep(store, child, "what the helper found\n", tool="search")
    told = {"role": "tool", "call_id": "c1", "name": "fetch", "text": f"kept as {first.long_handle}", "is_error": False}
    store.append_transcript(session, json.dumps(told).encode() + b"\n")
    store.append_events(session, b'{"at":1.0,"event":"kept","handle":"%s"}\n' % first.handle.encode())
    spawned = {"at": 2.0, "event": "spawned", "tool": "helper", "session": child.id}
    store.append_events(session, json.dumps(spawned, separators=(",", ":")).encode() + b"\n")
    store.append_events(grandchild, b'{"at":3.0,"event":"turn","number":1}\n')
    store.save_tree(session, json.dumps({"op": "session", "name": name, "at": 0.0, "seconds": 1.0}).encode())
    store.remember(session, first.measure.sha256, "ab" * 16, b'{"answer": "two"}')
    return session


def exported(store: OutputStore, session: SessionInfo) -> bytes:
    written = io.BytesIO()
    export_session(store, session, written.write)
    return written.getvalue()


def imported(home: Path, data: bytes, **options: Any) -> Imported:
    with closing(DirectoryStore(str(home))) as store:
        return import_bundle(store, io.BytesIO(data).read, **options)


def everything(store: OutputStore) -> dict[str, Any]:
    """All that a store can tell of its sessions, by name; the rule of retention aside, which is not in a bundle."""
    sessions = store.sessions()
    names = {one.id: one.name for one in sessions}
    found: dict[str, Any] = {}
    for session in sessions:
        outputs = store.outputs(session)
        found[session.name] = {
            "created": session.created,
            "parent": names.get(session.parent, ""),
            "outputs": outputs,
            "bytes": {one.handle: _bytes(store, one) for one in outputs if one.state != "expired"},
            "transcript": store.transcript(session),
            "events": store.events_from(session, 0),
            "tree": store.tree(session),
            "note": [store.recall(session, one.measure.sha256, "ab" * 16) for one in outputs if one.measure.sha256],
        }
    return found


def _bytes(store: OutputStore, facts: Facts) -> bytes:
    with closing(store.open(facts)) as reader:
        return reader.read(0, reader.totals.bytes)


@dataclass
class Forged:
    """A bundle taken apart. Put together again it has a right hash everywhere, whatever was changed in it."""

    contents: Any
    entries: list[tuple[str, bytes]] = field(default_factory=list[tuple[str, bytes]])
    head: bytes = b"holdall bundle 1\n"
    tail: bytes | None = None

    def names(self) -> list[str]:
        return [name for name, _ in self.entries]

    def at(self, name: str) -> int:
        """The place of the first entry whose name ends so."""
        return next(at for at, (one, _) in enumerate(self.entries) if one.endswith(name))

    def change(self, name: str, change: Callable[[bytes], bytes]) -> None:
        at = self.at(name)
        self.entries[at] = (self.entries[at][0], change(self.entries[at][1]))

    def to_bytes(self) -> bytes:
        parts = [self.head, self.contents if isinstance(self.contents, bytes) else json.dumps(self.contents).encode()]
        parts.append(b"\n")
        for name, data in self.entries:
            parts.append(f"entry {name} {len(data)}\n".encode("utf-8", "surrogateescape"))
            parts += [data, f"sha256 {hashlib.sha256(data).hexdigest()}\n".encode()]
        parts.append(b"end %d\n" % len(self.entries) if self.tail is None else self.tail)
        return packed(parts)


def packed(parts: Iterable[bytes]) -> bytes:
    compressor = zstd.compressor()
    frame = b"".join([compressor.compress(b"".join(parts)), compressor.flush()])
    return frame + form.trailer(hashlib.sha256(frame).hexdigest())


def taken_apart(bundle: bytes) -> Forged:
    plain = io.BytesIO(unpacked(bundle))
    head = plain.readline()
    forged = Forged(json.loads(plain.readline()), [], head)
    while (line := plain.readline()).startswith(b"entry "):
        _, name, length = line.decode().split()
        forged.entries.append((name, plain.read(int(length))))
        plain.readline()
    return forged


def unpacked(bundle: bytes) -> bytes:
    decompressor = zstd.decompressor()
    return decompressor.decompress(bundle)
