"""What a store promises. One contract suite runs on every implementation.

These are promises, not code. Everything outside of `holdall.store` is written against them and knows no folder, no
file name and no lock; `store.opening` is the only place that chooses an implementation.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import field
from typing import Any, Literal, NamedTuple, Protocol

from holdall.text.tokens import Tokenizer
from holdall.values.errors import StoreFault, UsageError
from holdall.values.handles import is_uuid
from holdall.values.outputs import Facts, Origin, State
from holdall.values.record import record
from holdall.values.retention import Retention
from holdall.values.spans import BlockTable, Totals

Progress = Callable[[int], None]  # called with the bytes done so far, from any thread does the work


@record
class Quota:
    """How much may be kept; None means as much as there is room for."""

    store_bytes: int | None = None
    session_bytes: int | None = None

    def strictest(self, other: "Quota") -> "Quota":
        both = ((self.store_bytes, other.store_bytes), (self.session_bytes, other.session_bytes))
        return Quota(*(min((one for one in pair if one is not None), default=None) for pair in both))


@record
class SessionInfo:
    """One session as the store knows it."""

    id: str
    name: str
    created: float
    retention: Retention
    parent: str = ""
    format: int = 2  # how everything of it is written, for its whole life
    mark: str = ""  # that its real notices bear; empty of one that an older program made, or that came as a bundle
    was: tuple[str, ...] = ()  # its ids where it came from: long handles of there lead to its outputs
    quota: Quota = Quota()  # of the program that opened it; the store has its own, and neither is stored with it


Log = Literal["events", "transcript", "masks"]  # masks: what an export masked, in a session that came as a bundle


class Stamp(NamedTuple):
    """`is_settled` is false where the session has just changed: a second change might leave the same stamp."""

    text: str
    is_settled: bool


class Note(NamedTuple):
    """A note about an output: the two hashes that it is remembered under, and its length."""

    content: str
    key: str
    length: int


class BadLine(NamedTuple):
    """A line of a log that is not as it was written: its number from 1, the byte it starts at, and what is wrong."""

    number: int
    start: int
    why: str

    def told(self, log: Log) -> str:
        """For people."""
        return f"line {self.number:,} of the {log} (at byte {self.start:,}) is left out: {self.why}."


class LogLines(NamedTuple):
    """Whole lines of a log as they were appended, where they end in it, and those that cannot be believed."""

    lines: bytes
    end: int
    bad: tuple[BadLine, ...] = ()


class SavedSummary(NamedTuple):
    """What was worked out about a session, and the stamp that the session had then."""

    session: str
    stamp: str
    summary: Mapping[str, Any]


@record
class Sweep:
    """What gc removed, or would remove."""

    expired: tuple[tuple[str, Facts], ...] = ()  # session name, facts
    leftovers: tuple[str, ...] = ()  # files that no record names
    freed_bytes: int = 0
    dry_run: bool = False
    held: tuple[tuple[str, str], ...] = ()  # session name, and why what is over there could not go
    left: str = ""  # that bytes which nobody can name any more are still there, and why


@record
class Removal:
    """What was removed on request.

    `still_held` names, for each of them, the outputs of the session that have the same bytes: these stay with the last.
    `left` says that bytes which nobody can name any more are still there, and why; `gc` tries again. `gone_before`: so
    many of them had expired or been removed already.
    """

    removed: tuple[Facts, ...] = ()  # as they are now: tombstones
    freed_bytes: int = 0
    still_held: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    left: str = ""
    gone_before: int = 0


@record
class Verdict:
    """What verify found of one output, or of a log: `handle` is then the log's name.

    An empty `problem` means that every byte is as it came.
    """

    session: str
    handle: str
    bytes: int
    problem: str = ""


@record(frozen=False)
class Stats:
    """Totals over sessions. `stored_bytes` counts identical outputs once, `bytes` each time; `due_bytes` are those of
    them that `sweep` removes, of outputs that have expired.
    """

    sessions: int = 0
    outputs: int = 0
    expired: int = 0
    removed: int = 0
    bytes: int = 0
    stored_bytes: int = 0
    due_bytes: int = 0
    lines: int = 0
    tokens: int = 0
    by_kind: Counter[str] = field(default_factory=Counter[str])
    by_tool: Counter[str] = field(default_factory=Counter[str])
    by_state: Counter[str] = field(default_factory=Counter[str])


def session_by(store: "OutputStore", wanted: str) -> SessionInfo | None:
    """By its name or its id. Raises UsageError where one has the name and another one the id: bundles bring any name,
    and whoever writes the one must not remove the other."""
    named = store.find_session(wanted)
    if not is_uuid(wanted):
        return named
    by_id = store.find_session(f"session-{wanted}")
    if named is not None and by_id is not None and named.id != by_id.id:
        raise UsageError(
            f"{wanted} is the id of one session and the name of another: write session-{by_id.id} for the one of that "
            f"id, session-{named.id} for the one of that name."
        )
    return by_id or named


class OutputReader(Protocol):
    """One output, open for reading. It stays readable while it is open, whatever happens to its name; where its bytes
    are on another machine, until it expires or is removed.
    """

    @property
    def facts(self) -> Facts: ...

    @property
    def stamp(self) -> str | None:
        """The store's stamp of the record that it was opened by, where that came along; else None."""
        ...

    @property
    def table(self) -> BlockTable: ...

    @property
    def totals(self) -> Totals:
        """The size of what can be read now; for a running output, so far."""
        ...

    def read(self, start: int, end: int) -> bytes:
        """Exactly these bytes, each block checked: OutputDamaged rather than a byte that is not as it came."""
        ...

    def refresh(self) -> int:
        """Take in what was written since it was opened or refreshed; the number of new bytes. Ended outputs have none.

        What could be read before never changes.
        """
        ...

    def local_file(self) -> AbstractContextManager[int]:
        """The descriptor of a local file with these bytes, for tools that scan the whole; good inside of the block.

        Where there is no such file one is made. It is only for reading, and its bytes are not checked: what a tool
        finds in it is read again with `read` before anybody sees it. Of a running output it may have more by now.
        """
        ...

    def close(self) -> None: ...


class Watch(Protocol):
    """Wakes when an output is written to, by this process or another one. Close it."""

    async def changed(self) -> None:
        """Until something was written to the output, or it has ended, since the watch was made or last told so."""
        ...

    def close(self) -> None: ...


class OutputWriter(Protocol):
    """An output that is being written. Its handle exists, and what was written can be read by anybody."""

    @property
    def handle(self) -> str: ...

    @property
    def facts(self) -> Facts:
        """As they are in the record: of a running output, until it is finished."""
        ...

    def write(self, chunk: bytes) -> None:
        """Append. Other readers see these bytes within a second or so, and are woken then."""
        ...

    def flush(self) -> None:
        """On return other readers see all that was written, and it is durable."""
        ...

    def finish(
        self,
        state: State = "ready",
        *,
        error: str = "",
        exit_code: int | None = None,
        notes: Sequence[str] = (),
        surrogates: str = "",
        traceback: str = "",
    ) -> Facts:
        """Make all of it durable, measured and final under the same handle."""
        ...

    def close(self) -> None:
        """Give up. Without `finish`, the output then counts as interrupted."""
        ...


class StagedSession(Protocol):
    """One session on its way into the store. Nobody sees anything of it before it is published."""

    def write_bytes(self, file: str, chunks: Iterable[bytes], length: int) -> None:
        """The bytes of outputs, under the name that their facts have in `file`; about `length` of them."""
        ...

    def write_record(self, facts: Facts, table: BlockTable) -> None:
        """One output. Its bytes were written before."""
        ...

    def write_note(self, content: str, key: str, data: bytes) -> None: ...

    def write_log(self, log: Log, chunks: Iterable[bytes]) -> None: ...

    def write_tree(self, data: bytes) -> None: ...

    def finish(self) -> None:
        """Make all of it durable."""
        ...

    def close(self) -> None: ...


class Staging(Protocol):
    """Where sessions are put together before they all come into the store, or none of them."""

    def session(self, info: SessionInfo) -> StagedSession: ...

    def publish(self, sessions: Sequence[SessionInfo]) -> None:
        """Give the sessions their places and names, all of them also where the process is killed in the middle.

        The first is the one above the others. Raises SessionExists if a name is taken.
        """
        ...


class OutputStore(Protocol):
    """Where outputs live. Every store passes the same tests (tests/store).

    Safe to use from many threads. Methods block; none of them needs an event loop.
    """

    @property
    def home(self) -> str:
        """Its location, for messages. Never contains a password."""
        ...

    @property
    def tokenizer(self) -> Tokenizer:
        """What tokens are counted by where anyone who keeps an output brings no other."""
        ...

    # Sessions

    def open_session(self, name: str, *, retention: Retention | None = None, parent: str = "") -> SessionInfo:
        """The session of that name, made if there is none. Two processes that ask at once get the same one."""
        ...

    def find_session(self, name: str) -> SessionInfo | None:
        """The session of that name, or of the name `session-<id>`. None is made."""
        ...

    @property
    def clock(self) -> Callable[[], float]:
        """The time by which outputs are made and expire: hosts that share a store share it."""
        ...

    def sessions(self) -> Sequence[SessionInfo]:
        """Newest first."""
        ...

    def unreadable_sessions(self) -> Mapping[str, StoreFault]:
        """Sessions that another version made, or that are damaged, and why: they are not among the others."""
        ...

    def end_session(self, session: SessionInfo) -> None:
        """Carry out the session's retention rule where it is `session`."""
        ...

    def leave_session(self, session: SessionInfo) -> None:
        """Close what this store holds open for the session. Using it again opens it again."""
        ...

    # Outputs

    def put(
        self,
        session: SessionInfo,
        chunks: Iterable[bytes],
        origin: Origin,
        *,
        notes: Callable[[], Sequence[str]] = tuple,
        surrogates: Callable[[], str] = str,
        tokenizer: Tokenizer | None = None,
        progress: Progress | None = None,
    ) -> Facts:
        """Keep every byte. On return they survive a crash of the process and of the machine.

        Where `chunks` raises midway, what came before is kept and the facts say that it is not whole. So it is where
        `progress` raises, which is called once more when all is written and only the record is missing. `notes` and
        `surrogates` are asked once all chunks were taken. Tokens are counted by `tokenizer`, else by the store's own.
        """
        ...

    def begin(self, session: SessionInfo, origin: Origin, *, tokenizer: Tokenizer | None = None) -> OutputWriter:
        """A running output. Its record is durable on return."""
        ...

    def resolve(self, session: SessionInfo, reference: str) -> Facts:
        """A short handle, a long one, or a call id; inside this session or not at all."""
        ...

    def outputs(self, session: SessionInfo) -> Sequence[Facts]:
        """All of them, tombstones too, oldest first; in the state `unreadable` those whose records cannot be read."""
        ...

    def kept_by_session(self, sessions: Sequence[SessionInfo] | None = None) -> Mapping[str, tuple[int, int, int]]:
        """By the id of each of these sessions, or of all: its outputs, tombstones too, those it keeps, their bytes.

        A session without outputs may be missing.
        """
        ...

    def unreadable(self, session: SessionInfo) -> Mapping[str, StoreFault]:
        """Handles whose records cannot be read, and why."""
        ...

    def open(self, facts: Facts) -> OutputReader: ...

    def open_named(self, session: SessionInfo, reference: str) -> OutputReader:
        """`open` of what `resolve` finds; its record is read once."""
        ...

    def stamp(self, facts: Facts) -> str | None:
        """Changes whenever the facts of the output do; None if it is gone."""
        ...

    def watch(self, facts: Facts) -> Watch:
        """Made before the output is looked at, it misses nothing. Raises as `open` does."""
        ...

    # What a session has beside its outputs

    def append_events(self, session: SessionInfo, lines: bytes) -> None:
        """Add whole lines to the session's log, each a JSON object; concurrent appends do not lose lines.

        The store adds to each line what proves it, and takes that away again where lines are read.
        """
        ...

    def events_from(self, session: SessionInfo, at: int) -> LogLines:
        """The whole lines of the log from byte `at` on."""
        ...

    def log_lines(self, session: SessionInfo, log: Log, at: int = 0) -> Iterator[LogLines]:
        """The whole lines of a log from byte `at` on, where one begins, a megabyte or so at a time."""
        ...

    def append_transcript(self, session: SessionInfo, lines: bytes) -> None:
        """Whole lines; they survive the process. Only the holder of the lease appends."""
        ...

    def transcript(self, session: SessionInfo) -> LogLines:
        """Its whole lines."""
        ...

    def save_tree(self, session: SessionInfo, data: bytes) -> None:
        """The newest snapshot of the operation tree, replaced atomically."""
        ...

    def tree(self, session: SessionInfo) -> bytes | None: ...

    def lease(self, session: SessionInfo, holder: str) -> AbstractContextManager[None]:
        """Hold the session's transcript, until the block is left or the process is gone. `holder` says who.

        Raises SessionLocked, with who that is, where somebody else does.
        """
        ...

    def is_leased(self, session: str) -> bool:
        """Whether anybody holds the lease of the session with this id."""
        ...

    def claim(
        self, session: SessionInfo, name: str, *, shared: bool = False, wait: bool = False
    ) -> Callable[[], None] | None:
        """Hold a name in the session until the process is gone; `shared`, with others who share it.

        What comes back lets go of it. None where somebody else holds it; with `wait`, it returns when nobody does.
        """
        ...

    def mark(self, session: SessionInfo) -> str:
        """The session's mark; one that has none gets it now, and keeps it. The same for all who work in the session.

        It is random, and goes into no bundle: whoever made a session elsewhere does not know it.
        """
        ...

    def recall(self, session: SessionInfo, content: str, key: str) -> bytes | None:
        """What was remembered in this session under these two hashes; None if there is nothing (any more)."""
        ...

    def remember(self, session: SessionInfo, content: str, key: str, data: bytes, *, durable: bool = True) -> None:
        """A small note about an output of that content. It goes with the last output of the session that has it.

        A note with the id of an output (its hexadecimal digits) in place of the content or as its key goes with that
        output. One that is not durable survives the process; a crash of the machine may take a part of it.
        """
        ...

    def notes(self, session: SessionInfo) -> Sequence[Note]:
        """All that is remembered, in the order of their names."""
        ...

    def log_length(self, session: SessionInfo, log: Log) -> int:
        """Up to where the log has whole lines; 0 if there is none."""
        ...

    def read_log(self, session: SessionInfo, log: Log, start: int, end: int) -> bytes:
        """These bytes of a log as they are kept, proofs and all, or as many of them as there are."""
        ...

    # All sessions at a glance

    def session_stamps(self, sessions: Iterable[str] | None = None) -> Mapping[str, Stamp]:
        """Of the sessions with these ids that are there, or of all: changes with every output and event of theirs.

        Also of those that cannot be read.
        """
        ...

    def summaries(self) -> Sequence[SavedSummary]:
        """What was saved. A cache: anything may be missing, nothing is wrong."""
        ...

    def save_summaries(self, summaries: Sequence[SavedSummary]) -> None: ...

    def forget_summaries(self, sessions: Sequence[str]) -> None: ...

    # Upkeep. Nothing of it runs by itself, and nothing touches an output that is being written.

    def expire(self, session: SessionInfo, outputs: Sequence[Facts], rule: str) -> int:
        """Leave tombstones that name the rule in place of these outputs. The number of bytes that this freed."""
        ...

    def remove(self, session: SessionInfo, outputs: Sequence[Facts]) -> Removal:
        """Leave tombstones in place of these outputs, and nothing else of what they held.

        Bytes go with the last output that has them, remembered answers with them; notices, and what events and the
        operation tree quote, go at once. The transcript stays: it is the conversation. Done again, it finishes what was
        interrupted. Raises OutputInUse if one is still being written: then nothing is removed.
        """
        ...

    def remove_session(self, session: SessionInfo) -> Removal:
        """The same for all of its outputs; and its transcript, events, notes and tree are gone.

        The session itself stays, with its tombstones. The caller holds its lease.
        """
        ...

    def sweep_due(self) -> bool:
        """Whether the last sweep was a day ago or more."""
        ...

    def sweep(self, *, dry_run: bool = False, thorough: bool = False) -> Sweep:
        """Carry out retention in every session, and remove what killed writers left. A dry run only tells.

        `thorough`: also what takes long to find, which nobody may wait for who opens a session.
        """
        ...

    def verify(
        self, sessions: Sequence[SessionInfo] | None = None, *, progress: Progress | None = None
    ) -> Iterator[Verdict]:
        """Read every byte of these sessions, or of all, again and compare every hash."""
        ...

    def stats(self, sessions: Sequence[SessionInfo] | None = None) -> Stats:
        """Totals of these sessions, or of all."""
        ...

    def used_bytes(self, session: SessionInfo | None = None) -> int:
        """What the outputs of the session, or of all sessions, take: identical ones of a session once."""
        ...

    def free_bytes(self) -> int | None:
        """How much there is room for; None if nobody can tell."""
        ...

    def staging(self) -> AbstractContextManager[Staging]:
        """For sessions that come from elsewhere. What was not published is gone after the block."""
        ...

    def close(self) -> None: ...
