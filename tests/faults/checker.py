"""Judges what a writer left behind. Every complaint is a line; an empty list means that the store kept its word.

It reads the store as a process that comes later would, with a store object of its own, and never looks at anything
that the writer did not acknowledge but through the store. What it checks:

- every handle that was given out resolves, to exactly the bytes that were kept under it;
- what is listed is whole, or interrupted and then a beginning of what was being written;
- `verify` has nothing to say, with the index that is there and with none;
- gc, far enough in the future, removes everything that is left over and nothing that is named;
- the store keeps another output afterwards.
"""

import contextlib
import hashlib
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from holdall.store.directory import upkeep
from holdall.store.directory.disk import INCOMING
from holdall.store.directory.index import NAME
from holdall.store.directory.store import DirectoryStore
from holdall.store.protocol import OutputStore
from holdall.store.records import TREE
from holdall.values.outputs import Facts, Origin
from tests.faults.harness import Event
from tests.faults.writer import CONTENTS, SESSION

KNOWN = frozenset(CONTENTS.values()) | {b"kept afterwards", b"written afterwards"}
RESTORED = sorted([CONTENTS["small"], CONTENTS["live"]])  # what is in the bundles that writers restore
TWO_HOURS = 7200.0  # gc takes what nobody has touched for one hour


@dataclass(slots=True)
class Promise:
    """What the writer was told about one output."""

    label: str
    session: str
    whole: bool = False  # acknowledged as kept, not only as running
    least: int = 0  # of a running one, so much was acknowledged as written
    may_be_expired: bool = False
    is_expired: bool = False


def promises_in(events: Iterable[Event]) -> tuple[dict[str, str], dict[str, Promise]]:
    """Sessions by name, and promises by handle."""
    sessions: dict[str, str] = {}
    outputs: dict[str, Promise] = {}
    for event in events:
        match event.kind:
            case "session":
                sessions[event.text("name")] = event.text("id")
            case "running":
                outputs[event.text("handle")] = Promise(event.text("label"), event.text("session"))
            case "wrote":
                outputs[event.text("handle")].least = event.number("bytes")
            case "kept":
                known = Promise(event.text("label"), event.text("session"), whole=True)
                outputs[event.text("handle")] = known
                assert event.text("sha256") == hashlib.sha256(CONTENTS[known.label]).hexdigest()
            case "expiring":
                outputs[event.text("handle")].may_be_expired = True
            case "expired":
                outputs[event.text("handle")].is_expired = True
            case _:
                pass
    return sessions, outputs


def complaints(home: Path, events: Iterable[Event], *, power_cut: bool = False, refused: bool = False) -> list[str]:
    """All that is wrong with the store in `home`, given what its writer was told. Changes the store.

    After a power cut the bytes of a running output may be fewer than were written; the record must be there.
    A writer that was refused lives on and can clean up: then nothing else is visible and nothing is left over.
    """
    told = list(events)
    check = _Check(home, *promises_in(told), power_cut=power_cut, beside=() if power_cut else told)
    return [*(check.nothing_else() if refused else ()), *check.all()]


def found_now(home: Path, events: Iterable[Event]) -> list[str]:
    """What was promised and is not there, at one look, after which the store goes on."""
    told = list(events)
    return list(_Check(home, *promises_in(told), power_cut=False, beside=told).now())


@contextlib.contextmanager
def opened(home: Path, *, ahead: float = 0.0) -> Generator[DirectoryStore]:
    """A store of its own, its clock `ahead` seconds in the future."""
    store = DirectoryStore(str(home), clock=lambda: time.time() + ahead)
    try:
        yield store
    finally:
        store.close()


def contents(store: OutputStore, facts: Facts) -> bytes:
    reader = store.open(facts)
    try:
        return reader.read(0, reader.totals.bytes)
    finally:
        reader.close()


def listed(store: DirectoryStore) -> list[Facts]:
    return [facts for session in store.sessions() for facts in store.outputs(session)]


def left_over(home: Path, named: Iterable[Facts]) -> list[str]:
    """Temporary files, and files of bytes that no record names."""
    known = {f"session-{facts.session}/{facts.file}" for facts in named}
    found = [path for path in home.rglob("*") if path.is_file()]
    temporary = [path for path in found if path.name.startswith(INCOMING)]
    bare = [
        path
        for path in found
        if path.suffix in (".txt", ".json", ".log")
        and path.name not in ("session.json", TREE)
        and str(path.relative_to(home)) not in known
    ]
    return sorted(str(path.relative_to(home)) for path in temporary + bare)


def promised(store: OutputStore, sessions: Mapping[str, str], outputs: Mapping[str, Promise]) -> Iterator[str]:
    """What is not as the writer was told, on any store."""
    for name, id in sessions.items():
        found = store.find_session(name)
        if found is None or found.id != id:
            yield f"session {name!r} is not the one that was made"
    for handle, promise in outputs.items():
        session = store.find_session(promise.session)
        if session is None:
            yield f"{handle} is lost with its session"
            continue
        facts = store.resolve(session, handle)
        if facts.state == "expired":
            if not promise.may_be_expired:
                yield f"{handle} has expired, and nobody asked for it"
            continue
        if promise.is_expired:
            yield f"{handle} was expired or removed, and is {facts.state}"
        content, data = CONTENTS[promise.label], contents(store, facts)
        if facts.state == "ready" or promise.whole:
            if facts.state != "ready" or data != content:
                yield f"{handle} ({promise.label}) is {facts.state} with {len(data)} of {len(content)} bytes"
        elif not content.startswith(data) or len(data) < promise.least:
            yield f"{handle} ({promise.label}) is {facts.state} with {len(data)} bytes, {promise.least} were promised"


class _Check:
    def __init__(
        self,
        home: Path,
        sessions: dict[str, str],
        outputs: dict[str, Promise],
        *,
        power_cut: bool,
        beside: Sequence[Event] = (),
    ) -> None:
        self._home = home
        self._lines = [event.text("line") for event in beside if event.kind == "logged"]
        self._restoring = [event.text("name") for event in beside if event.kind == "restoring"]
        self._restored = [event.text("name") for event in beside if event.kind == "restored"]
        self._sessions = sessions
        self._outputs = outputs
        for promise in outputs.values():
            if power_cut:
                promise.least = 0

    def now(self) -> Iterator[str]:
        yield from self._stage("as it was found", self._promised)

    def nothing_else(self) -> Iterator[str]:
        yield from self._stage("after the refusal", self._only_promised)

    def all(self) -> Iterator[str]:
        yield from self._stage("as it was found", self._everything)
        for path in self._home.glob(f"{NAME}*"):
            path.unlink()
        yield from self._stage("without its index", self._everything)
        yield from self._stage("in gc", self._swept, ahead=TWO_HOURS)
        yield from self._stage("after gc", self._everything)
        yield from self._stage("afterwards", self._goes_on)

    def _stage(
        self, when: str, look: Callable[[DirectoryStore], Iterator[str]], *, ahead: float = 0.0
    ) -> Iterator[str]:
        try:
            with opened(self._home, ahead=ahead) as store:
                for complaint in look(store):
                    yield f"{when}: {complaint}"
        except Exception as problem:  # a broken writer may lead anywhere; that is a complaint too
            yield f"{when}: {type(problem).__name__}: {problem}"

    def _promised(self, store: DirectoryStore) -> Iterator[str]:
        yield from promised(store, self._sessions, self._outputs)
        yield from self._beside(store)

    def _everything(self, store: DirectoryStore) -> Iterator[str]:
        yield from self._promised(store)
        for facts in listed(store):
            yield from shown(store, facts)
        for verdict in upkeep.verify(store):
            # A line that was being written is named, and no other is lost.
            if verdict.problem and "was not written to its end" not in verdict.problem:
                yield f"verify: {verdict.problem}"

    def _beside(self, store: DirectoryStore) -> Iterator[str]:
        """Lines of logs, and bundles that were restored: whole, or not there."""
        if self._lines:
            session = store.open_session(SESSION)
            for log, found in (("event", store.events_from(session, 0)), ("message", store.transcript(session))):
                there = set(found.lines.decode().splitlines())
                yield from (f"{log} {line} is lost" for line in self._lines if line not in there)
        for name in self._restoring:
            found = store.find_session(name)
            if found is None:
                if name in self._restored:
                    yield f"{name} is lost"
            elif sorted(contents(store, facts) for facts in store.outputs(found)) != RESTORED:
                yield f"{name} is not what was in the bundle"

    def _only_promised(self, store: DirectoryStore) -> Iterator[str]:
        outputs = listed(store)
        if surplus := sorted({facts.handle for facts in outputs} - self._outputs.keys()):
            yield f"{', '.join(surplus)} was refused and is visible"
        # An output whose change was refused by the last sync keeps its old bytes: the old record may come back.
        unsettled = any(one.may_be_expired > one.is_expired or not one.whole for one in self._outputs.values())
        for path in left_over(self._home, outputs):
            if INCOMING in path or not unsettled:
                yield f"{path} is left over"

    def _swept(self, store: DirectoryStore) -> Iterator[str]:
        upkeep.sweep(store)
        for path in left_over(self._home, listed(store)):
            yield f"gc left {path}"

    def _goes_on(self, store: DirectoryStore) -> Iterator[str]:
        session = store.open_session("a session")
        facts = store.put(session, [b"kept afterwards"], Origin(call_id="afterwards"))
        writer = store.begin(session, Origin(terminal=True))
        writer.write(b"written afterwards")
        final = writer.finish()
        for expected, one in ((b"kept afterwards", facts), (b"written afterwards", final)):
            if contents(store, store.resolve(session, one.handle)) != expected:
                yield f"{one.handle} was kept afterwards and is not what it was"
        for path in left_over(self._home, listed(store)):
            yield f"{path} is left over"


def shown(store: OutputStore, facts: Facts, *, may_run: bool = False) -> Iterator[str]:
    """Whatever is visible is whole, or says that it is not."""
    if facts.state == "expired":
        return
    data = contents(store, facts)
    if facts.state == "running":
        if not may_run:
            yield f"{facts.handle} is shown as running, and its writer is gone"
    elif hashlib.sha256(data).hexdigest() != facts.measure.sha256:
        yield f"{facts.handle} is shown with bytes that are not its own"
    if facts.state == "ready" and data not in KNOWN:
        yield f"{facts.handle} is shown as whole with {len(data)} bytes that nobody kept"
    if facts.state != "ready" and not any(content.startswith(data) for content in KNOWN):
        yield f"{facts.handle} is shown as {facts.state} with bytes that nobody wrote"
