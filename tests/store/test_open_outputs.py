"""Outputs and members that are open: opened once, brought up to date, closed when they are many and nobody uses them."""

import gzip
import io
import os
import zipfile
from contextlib import ExitStack
from typing import Any

import pytest

from holdall.store import open_outputs as module
from holdall.store.memory import MemoryStore
from holdall.store.open_outputs import Readers
from holdall.store.protocol import OutputReader, SessionInfo
from holdall.values.errors import AmbiguousCallId, BadMember, UnknownHandle, WorkerFault
from holdall.values.outputs import Facts, Origin
from tests.store.support import Clock, keep


class Counting:
    """A store that notes which outputs are opened and which readers are closed."""

    def __init__(self, clock: Clock) -> None:
        self.store = MemoryStore(clock=clock)
        self.opened, self.closed = list[str](), list[str]()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.store, name)

    def open_named(self, session: SessionInfo, reference: str) -> OutputReader:
        return self._noted(self.store.open_named(session, reference))

    def open(self, facts: Facts) -> OutputReader:
        return self._noted(self.store.open(facts))

    def _noted(self, reader: Any) -> OutputReader:
        self.opened.append(reader.facts.handle)
        close = reader.close
        reader.close = lambda: self.closed.append(reader.facts.handle) or close()
        return reader


@pytest.fixture
def store(clock: Clock) -> Any:
    return Counting(clock)


@pytest.fixture
def session(store: Any) -> SessionInfo:
    return store.open_session("s1")


@pytest.fixture
def readers(store: Any) -> Readers:
    return Readers(store)


def read(readers: Readers, session: SessionInfo, reference: str, **options: Any) -> bytes:
    with readers.lease(session, reference, **options) as reader:
        return reader.read(0, 99)


def archive(members: int) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as file:
        for number in range(members):
            file.writestr(f"{number}.txt", f"member {number}")
    return packed.getvalue()


def test_an_output_is_opened_once_and_the_longest_unused_is_closed(
    store: Any, session: SessionInfo, readers: Readers
) -> None:
    handles = [keep(store, session, f"{number}").handle for number in range(17)]
    for handle in [*handles[:16], handles[0]]:
        read(readers, session, handle)
    assert (store.opened, store.closed) == (handles[:16], [])
    assert read(readers, session, handles[16]) == b"16"
    assert store.closed == [handles[1]]
    assert read(readers, session, handles[0]) == b"0"
    assert len(store.opened) == 17
    readers.close()
    assert sorted(store.closed) == sorted(handles)


def test_who_uses_an_output_continues_when_it_is_dropped(store: Any, session: SessionInfo, readers: Readers) -> None:
    other = store.open_session("s2")
    mine, theirs, third = (keep(store, one, f"of {one.name}") for one in (session, other, session))
    for one, facts in ((other, theirs), (session, third)):
        read(readers, one, facts.handle)
    with readers.lease(session, mine.handle) as reader:
        with readers.lease(session, mine.handle) as same:
            assert same is reader
            readers.drop(session, mine.handle)
        readers.drop(other, mine.handle)
        assert store.closed == []
        assert reader.read(0, 99) == b"of s1"
    assert store.closed == [mine.handle]
    readers.close(session)
    assert store.closed == [mine.handle, third.handle]
    readers.close()
    assert store.closed == [mine.handle, third.handle, theirs.handle]


def test_a_running_output_is_brought_up_to_date_and_opened_again_at_its_end(
    store: Any, session: SessionInfo, readers: Readers
) -> None:
    writer = store.begin(session, Origin())
    for text, seen in ((b"ab", b"ab"), (b"cd", b"abcd")):
        writer.write(text)
        writer.flush()
        assert read(readers, session, writer.handle) == seen
    assert store.opened == [writer.handle]
    with readers.lease(session, writer.handle) as before:
        writer.write(b"ef")
        writer.flush()
        assert read(readers, session, writer.handle) == b"abcdef", "while others use what was there"
        assert before.read(0, 99) == b"abcd"
    facts = writer.finish()
    with readers.lease(session, facts.handle, facts) as reader:
        assert reader.facts == facts
    assert read(readers, session, writer.handle) == b"abcdef"
    readers.close()
    assert len(store.closed) == len(store.opened)


def test_a_call_id_is_looked_up_each_time_and_may_hold_the_sign_of_members(
    store: Any, session: SessionInfo, readers: Readers
) -> None:
    first = keep(store, session, "first", call_id="call!1")
    keep(store, session, "first", call_id="plain")
    keep(store, session, archive(1), call_id="zip!")
    assert read(readers, session, "zip!!0.txt") == b"member 0"
    packed = keep(store, session, gzip.compress(b"inside", mtime=0), call_id="call!2")
    assert read(readers, session, "call!1") == b"first"
    assert read(readers, session, "call!2!") == read(readers, session, f"{packed.handle}!") == b"inside"
    for call_id in ("plain", "call!1"):
        assert read(readers, session, call_id) == b"first"
        keep(store, session, "second", call_id=call_id)
        with pytest.raises(AmbiguousCallId):
            read(readers, session, call_id)
    assert read(readers, session, "call!1", facts=first) == b"first"
    assert read(readers, session, "call!2", facts=packed) == gzip.compress(b"inside", mtime=0)
    for unknown in ("call!3", "call!3!", "x!" * 99):
        with pytest.raises(UnknownHandle):
            read(readers, session, unknown)
    with pytest.raises(BadMember, match="at most 4,096 characters"):
        read(readers, session, f"{packed.handle}!" + "x" * (4096 - len(packed.handle)))
    with pytest.raises(BadMember, match="without members"):
        read(readers, session, f"{packed.handle}!" + "x" * (4095 - len(packed.handle)))


def test_a_member_is_unpacked_once_while_it_is_one_of_the_last_eight(
    store: Any, session: SessionInfo, readers: Readers
) -> None:
    packed = keep(store, session, archive(9))
    names = [f"{packed.handle}!{number}.txt" for number in range(9)]
    found: dict[str, OutputReader] = {}

    def leased(name: str) -> OutputReader:
        with readers.lease(session, name) as reader:
            return reader

    for name in names[:8]:
        found[name] = leased(name)
    assert leased(names[0]) is found[names[0]]
    assert leased(names[8]).read(0, 99) == b"member 8"
    assert leased(names[0]) is found[names[0]]
    assert leased(names[1]) is not found[names[1]], "it had to go"
    readers.drop(session, packed.handle)
    assert leased(names[0]) is not found[names[0]]


def test_what_is_unpacked_has_a_bound_and_what_is_in_use_stays(
    store: Any, session: SessionInfo, readers: Readers, monkeypatch: pytest.MonkeyPatch
) -> None:
    packed = keep(store, session, archive(9))
    names = [f"{packed.handle}!{number}.txt" for number in range(9)]
    monkeypatch.setattr(module, "_UNPACKED_BYTES", len("member 0"))
    read(readers, session, packed.handle)
    before = set(os.listdir("/dev/fd"))
    with readers.lease(session, names[4]), pytest.raises(WorkerFault), readers.lease(session, names[5]):
        pass
    monkeypatch.setattr(module, "_UNPACKED_BYTES", 2 * len("member 0"))
    with ExitStack() as used:
        first, second = (used.enter_context(readers.lease(session, name)) for name in names[:2])
        with pytest.raises(WorkerFault, match="are unpacked at this moment"), readers.lease(session, names[2]):
            pass
        assert [one.read(0, 99) for one in (first, second)] == [b"member 0", b"member 1"]
    assert read(readers, session, names[2]) == b"member 2"
    with readers.lease(session, names[1]) as still:
        assert still is second
    with readers.lease(session, names[0]) as again:
        assert again is not first
    monkeypatch.setattr(module, "_UNPACKED_BYTES", 0)
    assert read(readers, session, names[3]) == b"member 3", "one may be larger"
    monkeypatch.setattr(module, "_UNPACKED_BYTES", 1 << 20)
    with ExitStack() as used:
        for name in names:
            used.enter_context(readers.lease(session, name))
    del first, second, still, again
    readers.close()
    assert set(os.listdir("/dev/fd")) <= before
