"""A bundle restored as sessions of a store, or refused whole.

Everything is written into a hidden folder first, under names that are ours to choose from: the names in a bundle have
a grammar in which no path can be written. Every byte is measured again and compared with what its record says. Only
when the last byte was read and proved do the sessions get their places, all at once.
"""

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import fields, replace
from typing import Any, cast

from holdall.policy.measure import Measurer
from holdall.store import records
from holdall.store.bundle import stream as form
from holdall.store.bundle.stream import BundleReader, Entry
from holdall.store.ids import new_uuid
from holdall.store.protocol import Log, OutputStore, Progress, Quota, SessionInfo, StagedSession, Staging
from holdall.store.records import (
    ANSWERS,
    PROVEN_LOGS,
    SUFFIX,
    VERSION,
    check_name,
    decode,
    foreign_event,
    is_answer,
    resealed,
    whole_lines,
)
from holdall.store.sources import joined, storable
from holdall.store.totals import room_for, taken
from holdall.text.escape import foreign
from holdall.text.numbers import size
from holdall.text.tokens import Estimate
from holdall.values.bundles import MAX_RATIO, MAX_WAS, Bundle, BundledSession, Imported, is_sha256
from holdall.values.errors import BundleRefused, SessionExists, StoreFault, StoreFull, UsageError
from holdall.values.handles import is_uuid
from holdall.values.outputs import Facts, Measure, Origin
from holdall.values.patterns import lazy_pattern
from holdall.values.retention import Retention
from holdall.values.spans import BlockTable

# Records that came from outside: looked at field by field, and compared with the bytes that came with them.
#
# A record of our own store is believed once its checksum holds. A record from a bundle is untrusted.


_MOST = 1 << 62
_LAST_TIME = 1 << 37  # seconds: the year 6325, which every calendar here can write
_LONGEST_TEXT, _LONGEST_TRACEBACK = 8192, 70_000  # characters in a record
_MOST_NOTES = 100
_SHORT, _LONGEST_TOGETHER = 4096, 64 << 20  # characters that any record may have, and beyond that all of a session
_DEEPEST = 200  # levels of JSON in what is read whole
_COMPARED = ("bytes", "chars", "lines", "longest_line", "utf8", "sha256")


def facts_in(data: bytes, entry: Entry, session: str) -> tuple[Facts, BlockTable]:
    """The facts and the block table of a record in a bundle, every field of its own type."""
    handle = entry.name.removesuffix(SUFFIX)
    try:
        facts, table = decode(data, handle=handle)
    except (StoreFault, RecursionError, OverflowError) as problem:
        raise BundleRefused(f"the record {handle} of this bundle is refused: {problem or 'too deep'}") from problem
    _check_types(handle, facts)
    if facts.session != session or not is_uuid(facts.id):
        raise _refusal(handle, "it belongs to another session")
    if facts.state in ("running", "queued"):
        raise _refusal(handle, "it says that it is still being written")
    if depth(facts.origin.arguments) > _DEEPEST:
        raise _refusal(handle, f"its arguments are nested more than {_DEEPEST} levels deep")
    origin, measure = facts.origin, facts.measure
    texts = [getattr(origin, name) for name in _named(Origin, str) if name != "traceback"]
    if (
        max(map(len, (*texts, facts.error, measure.tokenizer))) > _LONGEST_TEXT
        or len(origin.traceback) > _LONGEST_TRACEBACK
        or len(measure.notes) > _MOST_NOTES
        or sum(map(len, measure.notes)) > 4 * _LONGEST_TEXT
        or len(measure.surrogates) > 1000 + 4 * measure.bytes
    ):
        raise _refusal(handle, "a text in it is longer than any that we write")
    # The number of a process on another machine: here it would be somebody else's. Of long arguments there is the
    # beginning, as in our own records: all records of a session are read at once.
    own = replace(origin, process=0, process_mark="", arguments=storable(origin.arguments))
    return replace(facts, origin=own), table


def _told(facts: Facts) -> int:
    texts = [getattr(facts.origin, name) for name in _named(Origin, str)]
    return sum(map(len, (*texts, facts.error, facts.measure.surrogates, *facts.measure.notes)))


def check_against(facts: Facts, table: BlockTable, file: str, measure: Measure, measured: BlockTable) -> None:
    """The record must say what its bytes measure. Tokens and kind are not verified."""
    if facts.state == "expired" or facts.file != file:
        raise _refusal(facts.handle, "it does not stand after its own bytes")
    for name in _COMPARED:
        if getattr(facts.measure, name) != getattr(measure, name):
            raise _refusal(facts.handle, f"its bytes have another number of {name}, or another hash, than it says")
    if table != measured:
        raise _refusal(facts.handle, "its block table does not fit its bytes")
    if facts.measure.tokens > facts.measure.bytes:
        raise _refusal(facts.handle, "it says that it has more tokens than bytes")


def check_tombstone(facts: Facts, table: BlockTable) -> None:
    if facts.state != "expired" or facts.file or len(table):
        raise _refusal(facts.handle, "its bytes are missing")


def checked_tree(data: bytes) -> bytes:
    """A snapshot of an operation tree: objects with a kind, a name, and children of the same form.

    It comes back without how many quotes were verified: only we can say that.
    """
    try:
        root = records.loads(data)
    except (ValueError, RecursionError) as problem:
        raise BundleRefused("the operation tree of this bundle cannot be read as JSON.") from problem
    waiting: list[tuple[object, int]] = [(root, 0)]
    verdicts = 0
    while waiting:
        node, level = waiting.pop()
        if level > _DEEPEST or not isinstance(node, Mapping):
            raise BundleRefused("the operation tree of this bundle is not one.")
        table = cast("dict[str, object]", node)
        verdicts += table.pop("verified", None) is not None
        children = table.get("children", [])
        named = isinstance(table.get("op"), str) and isinstance(table.get("name"), str)
        named = named and isinstance(table.get("handle"), str | None)
        numbers = all(isinstance(table.get(name, 0), int | float) for name in ("at", "seconds"))
        if not named or not numbers or not isinstance(children, list):
            raise BundleRefused("the operation tree of this bundle is not one.")
        waiting += [(child, level + 1) for child in cast("list[object]", children)]
    return json.dumps(root, ensure_ascii=True).encode("ascii") if verdicts else data


def depth(value: object) -> int:
    """How many levels of objects and arrays a JSON value has; it stops counting soon after there are too many."""
    level, layer = 0, [value]
    while layer and level <= _DEEPEST + 1:
        below: list[object] = []
        for one in layer:
            if isinstance(one, Mapping):
                below += cast("Mapping[object, object]", one).values()
            elif isinstance(one, Sequence) and not isinstance(one, str | bytes):
                below += cast("Sequence[object]", one)
        layer = below
        level += 1
    return level - 1


def _check_types(handle: str, facts: Facts) -> None:
    texts = (
        facts.id,
        facts.session,
        facts.error,
        facts.file,
        *(getattr(facts.origin, name) for name in _named(Origin, str)),
    )
    flags: tuple[object, ...] = (
        facts.origin.terminal,
        facts.origin.is_error,
        facts.origin.masked,
        facts.measure.utf8,
        facts.measure.tokens_exact,
    )
    counts = [getattr(facts.measure, name) for name in ("bytes", "chars", "lines", "longest_line", "tokens")]
    times = [facts.created, facts.place, *([] if facts.ended is None else [facts.ended])]
    codes = [] if facts.exit_code is None else [facts.exit_code]
    fine = (
        all(
            isinstance(text, str)
            for text in (*texts, facts.measure.tokenizer, facts.measure.surrogates, *facts.measure.notes)
        )
        and all(type(flag) is bool for flag in flags)
        and all(_is_number(number) and 0 <= number < _MOST for number in counts)
        and all(_is_time(moment) for moment in times)
        and all(_is_number(code) and -_MOST < code < _MOST for code in codes)
        and (is_sha256(facts.measure.sha256) or facts.measure.sha256 == "")
    )
    if not fine:
        raise _refusal(handle, "a field of it is of another type than it should be")


def _named(cls: type[Any], of: type) -> list[str]:
    return [one.name for one in fields(cls) if one.type in (of, of.__name__)]


def _is_number(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_time(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and -_LAST_TIME < value < _LAST_TIME


def _refusal(handle: str, why: str) -> BundleRefused:
    return BundleRefused(f"the record {handle} of this bundle is refused: {why}.")


# One session of a bundle on its way into its folder: each entry is checked as it comes, and written.
#
# The folder is not in the store yet, so nothing here has to be undone.


_UUID = 36
_COUNTED = (
    "outputs", "expired", "bytes", "stored_bytes", "files", "notes", "note_bytes", "transcript_bytes", "events_bytes",
    "tree_bytes",
)  # fmt: skip
_MAX_MASKS = 256 * 1024 * 1024
_LONGEST_EVENT = 4 * 1024 * 1024  # bytes; every list of sessions reads them


class IncomingSession:
    """`told` is what the bundle says that the session has; what comes must be that, no more and no less."""

    def __init__(
        self,
        staged: StagedSession,
        told: BundledSession,
        info: SessionInfo,
        renamed: dict[str, str],
        progress: Progress | None,
        done: int,
        account: "Account",
    ) -> None:
        self.done = done  # bytes of outputs so far, over all sessions
        self._account = account
        self._staged = staged
        self._told = told
        self._info = info
        self._renamed = renamed
        self._progress = progress
        self._names: set[str] = set()
        self._ids: set[str] = set()
        self._texts = 0  # characters in long records
        self._stage = 0
        self._file = ""  # whose bytes came last
        self._measured: tuple[Measure, BlockTable] | None = None
        self._is_named = True  # a record has named those bytes
        self._came: dict[str, int] = dict.fromkeys(_COUNTED, 0)

    def take(self, entry: Entry, reader: BundleReader) -> None:
        if entry.name in self._names:
            raise BundleRefused(f"this bundle has {entry.name} twice.")
        if form.ORDER[entry.kind] < self._stage:
            raise BundleRefused(f"this bundle is damaged: {entry.name} stands in the wrong place.")
        self._names.add(entry.name)
        self._stage = form.ORDER[entry.kind]
        match entry.kind:
            case "bytes":
                self._take_bytes(entry, reader)
            case "record":
                self._take_record(entry, reader)
            case "note":
                self._count("notes", 1, entry)
                self._count("note_bytes", entry.length, entry)
                content, _, key = entry.name.removeprefix(f"{ANSWERS}/").partition("-")
                note = resealed(self._whole(entry, reader), self._with_ids, VERSION)
                # Whoever made the bundle could have written an answer: it is asked for again.
                if not is_answer(key):
                    self._staged.write_note(content, key, note)
            case "tree":
                self._count("tree_bytes", entry.length, entry)
                self._staged.write_tree(checked_tree(self._with_ids(self._whole(entry, reader))))
            case "transcript" | "events" | "masks":
                self._take_lines(entry.kind, entry, reader)

    def finish(self) -> None:
        """Everything came that was told; all of it is durable."""
        self._check_named()
        told = self._told
        for name, number in self._came.items():
            if number != getattr(told, name):
                raise BundleRefused(
                    f"this bundle says that it has {getattr(told, name):,} {name.replace('_', ' ')} in the session "
                    f'"{told.name}", and has {number:,}.'
                )
        self._staged.finish()

    def close(self) -> None:
        self._staged.close()

    # Outputs

    def _take_bytes(self, entry: Entry, reader: BundleReader) -> None:
        self._check_named()
        self._count("files", 1, entry)
        self._count("stored_bytes", entry.length, entry)
        measurer = Measurer(Estimate())  # the number of tokens is not compared: tokenizers differ

        def measured() -> Iterator[bytes]:
            for chunk in self._chunks(entry, reader):
                measurer.feed(chunk)
                self.done += len(chunk)
                if self._progress is not None:
                    self._progress(self.done)
                yield chunk

        self._staged.write_bytes(entry.name, measured(), entry.length)
        self._measured = measurer.finish(reader.sha256)
        self._file, self._is_named = entry.name, False

    def _take_record(self, entry: Entry, reader: BundleReader) -> None:
        facts, table = facts_in(self._whole(entry, reader), entry, self._told.id)
        if facts.id in self._ids:
            raise BundleRefused(f"two outputs of this bundle have the same id ({entry.name}).")
        self._ids.add(facts.id)
        self._texts += max(0, _told(facts) - _SHORT)
        if self._texts > _LONGEST_TOGETHER:
            raise BundleRefused("the records of this bundle hold more text than ours would: they are read at once.")
        if facts.state == "expired":
            check_tombstone(facts, table)
            # Nothing of its bytes is here that these could be compared with.
            measure = replace(facts.measure, surrogates="", notes=())
            facts = replace(facts, measure=measure, error=foreign(facts.error))  # a rule of ours is short
            self._count("expired", 1, entry)
        else:
            if self._measured is None:
                raise BundleRefused(f"the record {facts.handle} of this bundle is refused: its bytes are missing.")
            check_against(facts, table, self._file, *self._measured)
            self._is_named = True
            self._count("outputs", 1, entry)
            self._count("bytes", facts.measure.bytes, entry)
        self._staged.write_record(replace(facts, session=self._info.id), table)

    def _check_named(self) -> None:
        if not self._is_named:
            raise BundleRefused(f"this bundle has the bytes {self._file}, and no record that names them.")

    # Files

    def _take_lines(self, log: Log, entry: Entry, reader: BundleReader) -> None:
        """Whole lines. Readers check them line by line and skip bad lines."""
        if log != "masks":
            self._count(f"{log}_bytes", entry.length, entry)
        elif entry.length > _MAX_MASKS:
            raise BundleRefused(f"{entry.name} in this bundle has {entry.length:,} bytes, which none of its kind has.")
        last, most = b"\n", _LONGEST_EVENT if log == "events" else records.LONGEST_LINE
        line_bytes = 0  # of a line that has not ended yet

        def checked() -> Iterator[bytes]:
            nonlocal last, line_bytes
            for chunk in self._chunks(entry, reader):
                last = chunk[-1:]
                end = chunk.rfind(b"\n")
                line_bytes = len(chunk) - end - 1 + (line_bytes if end < 0 else 0)
                if line_bytes > most:
                    raise BundleRefused(
                        f"{entry.name} of this bundle has a line of more than {most:,} bytes, which no log has."
                    )
                yield chunk

        if log == "events" or (log in PROVEN_LOGS and self._told.format > 1 and self._renamed):
            change = self._event if log == "events" else self._with_ids
            lines = (resealed(line, change, self._told.format) for line in whole_lines(checked()))
            self._staged.write_log(log, joined(lines))
        else:
            self._staged.write_log(log, with_new_ids(checked(), self._renamed))
        if last != b"\n":
            raise BundleRefused(f"{entry.name} of this bundle ends in the middle of a line.")

    def _whole(self, entry: Entry, reader: BundleReader) -> bytes:
        self._account.add(entry)
        data = reader.whole(entry)
        self._account.unpacked(len(data), reader.packed)
        return data

    def _chunks(self, entry: Entry, reader: BundleReader) -> Iterator[bytes]:
        self._account.add(entry)
        for chunk in reader.chunks(entry):
            self._account.unpacked(len(chunk), reader.packed)
            yield chunk

    def _count(self, name: str, number: int, entry: Entry) -> None:
        """More than was told is refused as soon as it comes: what was told is what there is room for."""
        self._came[name] += number
        if self._came[name] > getattr(self._told, name):
            raise BundleRefused(f"this bundle has more than it says: {entry.name} is not in its list of contents.")

    def _event(self, line: bytes) -> bytes:
        try:
            return foreign_event(self._with_ids(line))
        except ValueError as problem:
            raise BundleRefused(f"a line of the events of this bundle is none of ours: {problem}.") from problem

    def _with_ids(self, data: bytes) -> bytes:
        return b"".join(with_new_ids([data], self._renamed))


# Any id at any place, looked up: to compare every place with each of ten thousand ids would take hours.
_ANY_ID = lazy_pattern(rb"(?=([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}))")


def with_new_ids(chunks: Iterable[bytes], renamed: dict[str, str]) -> Iterator[bytes]:
    """The ids of sessions that have other ones here, wherever they stand. They are all of one length."""
    if not renamed:
        yield from chunks
        return
    table = {old.encode("ascii"): new.encode("ascii") for old, new in renamed.items()}
    held = b""
    for chunk in chunks:
        data = held + chunk
        new = bytearray(data)
        for match in _ANY_ID.finditer(data):
            if match[1] in table:
                new[match.start() : match.start() + _UUID] = table[match[1]]
        held = bytes(new)
        if len(held) > _UUID:
            yield held[: 1 - _UUID]
            held = held[1 - _UUID :]
    yield held


_PER_ENTRY = 4096  # bytes of the disk that a file takes at least
_PER_SESSION = 3 * _PER_ENTRY  # of one in which there is nothing
_ALWAYS = 16 * 1024 * 1024  # bytes that any bundle may unpack to, however small it is


class Account:
    """Every byte of a bundle counts, records and masks too: against the quotas, the free space, and how much so small a
    file may hold. What is told beforehand is refused before anything is read, the rest before it is written.
    """

    def __init__(
        self, bundle: Bundle, store: OutputStore, quota: Quota, *, packed: int | None, max_ratio: float
    ) -> None:
        used = store.used_bytes() if quota.store_bytes is not None else 0
        self._session_room = room_for(Quota(session_bytes=quota.session_bytes), 0, 0, what="a bundle")
        self._store_room = room_for(Quota(store_bytes=quota.store_bytes), 0, used, what="a bundle")
        self._free = store.free_bytes()
        self._home = store.home
        self._packed = packed
        self._max_ratio = max_ratio
        self._came: Counter[int] = Counter()  # bytes, by the place of their session
        self._unpacked = 0
        self._told = {place: one.told_bytes for place, one in enumerate(bundle.sessions)}
        self._files = 0
        for told in self._told.values():
            self._session_room(told)
        self._sessions = len(bundle.sessions) * _PER_SESSION
        self._check(sum(self._told.values()), bundle.entries, packed)

    def add(self, entry: Entry) -> None:
        """What an entry says that it holds."""
        self._came[entry.session] += entry.length
        self._files += 1
        self._session_room(self._came[entry.session])
        self._check(self._came.total(), self._files, self._packed)

    def unpacked(self, number: int, packed: int) -> None:
        """Of a stream, whose size nobody knows: so many further bytes, of the `packed` ones that were read so far."""
        self._unpacked += number
        if self._packed is None:
            began = len(self._came) * _PER_SESSION + self._files * _PER_ENTRY
            self._compare(self._unpacked + began, packed, " read so far")

    def _check(self, number: int, entries: int, packed: int | None) -> None:
        number += self._sessions
        self._store_room(number)
        if packed is not None:  # a note of two bytes takes a block of the disk
            self._compare(number + entries * _PER_ENTRY, packed, "")
        if self._free is not None and number + entries * _PER_ENTRY + _ALWAYS > self._free:
            raise StoreFull(
                f"this bundle unpacks to {size(number)}, and {size(self._free)} are free for {self._home}. "
                "Nothing was restored: make room, or choose another data folder with --home or HOLDALL_HOME."
            )

    def _compare(self, number: int, packed: int, which: str) -> None:
        if number > max(_ALWAYS, self._max_ratio * packed):
            what = f"over {self._max_ratio:g} times its {size(packed)}{which}"
            raise BundleRefused(
                f"this bundle unpacks to {size(number)} or more, {what}.",
                "Nothing was restored: if you know who made it, import it with a larger max_ratio.",
            )


def import_bundle(  # noqa: PLR0913 - what a bundle may do here
    store: OutputStore,
    read: Callable[[int], bytes],
    *,
    name: str | None = None,
    quota: Quota | None = None,
    listed: Callable[[Bundle], None] | None = None,
    progress: Progress | None = None,
    packed: int | None = None,
    max_ratio: float = MAX_RATIO,
    below: bool = False,
) -> Imported:
    """`name` is for the first session; those below it are named after it, and so they are with `below`.

    `listed` is told what is in the bundle before anything is written. `packed` is the size of its file, if that is
    known; it may unpack to `max_ratio` times that.
    """
    reader = BundleReader(read)
    bundle = reader.contents()
    names = names_for(bundle, name, below=below)
    if listed is not None:
        listed(bundle)
    for one in names:
        if store.find_session(one) is not None:
            raise SessionExists(taken(one))
    account = Account(bundle, store, quota or Quota(), packed=packed, max_ratio=max_ratio)
    infos, new_ids = _infos(bundle, names, store)
    with store.staging() as staging:
        renamed = {one.id: info.id for one, info in zip(bundle.sessions, infos, strict=True)} if new_ids else {}
        _Incoming(reader, bundle, infos, staging, renamed, account).take(progress)
        staging.publish(infos)
    return Imported(bundle, tuple(names), tuple(info.id for info in infos), new_ids)


def names_for(bundle: Bundle, name: str | None, *, below: bool = False) -> list[str]:
    """What the sessions of a bundle are called here: those below the first keep their names, or follow its new one.

    A stranger's bundle has no free choice: one of them could be called `cli`, or `work`, and what somebody keeps there
    from then on would belong to the bundle's tree, leave with its export and go with its removal.
    """
    old = bundle.name
    if name is None and not below:
        return [one.name for one in bundle.sessions]
    names = [old if name is None else name]
    known = set(names)
    for one in bundle.sessions[1:]:
        rest = one.name.removeprefix(old + "/") if one.name.startswith(old + "/") else one.name
        new = f"{names[0]}/{rest}"
        if name is None and new in known:  # it has `x` and `FIRST/x`
            new += f"-{len(names)}"
        names.append(new)
        known.add(new)
    for one in names:
        check_name(one)
    if len(set(names)) < len(names):
        raise UsageError(f'two sessions of the bundle would have the same name under "{names[0]}". Choose another one.')
    return names


class _Incoming:
    """The entries of a bundle on their way into the staging folder."""

    def __init__(
        self,
        reader: BundleReader,
        bundle: Bundle,
        infos: Sequence[SessionInfo],
        staging: Staging,
        renamed: dict[str, str],
        account: Account,
    ) -> None:
        self._account = account
        self._reader = reader
        self._bundle = bundle
        self._infos = infos
        self._staging = staging
        self._renamed = renamed

    def take(self, progress: Progress | None) -> None:
        place = 0
        session = self._open(place, progress, 0)
        try:
            while (entry := self._reader.next_entry()) is not None:
                while entry.session > place and place + 1 < len(self._infos):
                    session.finish()
                    place += 1
                    done = session.done
                    session.close()
                    session = self._open(place, progress, done)
                if entry.session != place:
                    raise BundleRefused(f"this bundle is damaged: {entry.name} stands outside of its session.")
                session.take(entry, self._reader)
            session.finish()
            while place + 1 < len(self._infos):
                place += 1
                session.close()
                session = self._open(place, progress, session.done)
                session.finish()
        finally:
            session.close()

    def _open(self, place: int, progress: Progress | None, done: int) -> IncomingSession:
        staged = self._staging.session(self._infos[place])
        told = self._bundle.sessions[place]
        return IncomingSession(staged, told, self._infos[place], self._renamed, progress, done, self._account)


def _infos(bundle: Bundle, names: Sequence[str], store: OutputStore) -> tuple[list[SessionInfo], bool]:
    """The sessions as they will be. Where one of their ids is taken here, all of them get new ones."""
    new_ids = bool(store.session_stamps(one.id for one in bundle.sessions))
    ids = [new_uuid() if new_ids else one.id for one in bundle.sessions]
    infos: list[SessionInfo] = []
    for one, id, name in zip(bundle.sessions, ids, names, strict=True):
        # An imported session must not be removed by the next gc because of its age.
        info = SessionInfo(id=id, name=name, created=one.created, retention=Retention(days=None), format=one.format)
        # What was said in it names outputs by its old id.
        info = replace(info, was=(*one.was, one.id)[-MAX_WAS:] if new_ids else one.was)
        infos.append(info if one.parent < 0 else replace(info, parent=ids[one.parent]))
    return infos, new_ids
