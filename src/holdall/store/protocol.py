"""What a store promises. One contract suite runs on every implementation.

These are promises, not code: the verbs are written against them and know no folder, no file name and no lock.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol

from holdall.policy.retention import Retention
from holdall.values.errors import StoreFault
from holdall.values.outputs import Facts, Origin, State
from holdall.values.spans import BlockTable, Totals

Progress = Callable[[int], None]  # called with the bytes done so far, from whichever thread does the work


@dataclass(frozen=True, slots=True)
class SessionInfo:
    """One session as the store knows it."""

    id: str
    name: str
    created: float
    retention: Retention
    parent: str = ""


class OutputReader(Protocol):
    """One output, open for reading. It stays readable while it is open, whatever happens to its name."""

    @property
    def facts(self) -> Facts: ...

    @property
    def table(self) -> BlockTable: ...

    @property
    def totals(self) -> Totals:
        """The size of what can be read now; for a running output, so far."""
        ...

    def read(self, start: int, end: int) -> bytes:
        """Exactly these bytes, each block checked: OutputDamaged rather than a byte that is not as it came."""
        ...

    def fileno(self) -> int:
        """A descriptor for tools that scan the whole. What they find is not checked until it is read."""
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
        """Append. On return other readers see these bytes; they are durable as far as the last sync."""
        ...

    def finish(self, state: State = "ready", *, error: str = "", exit_code: int | None = None) -> Facts:
        """Make all of it durable, measured and final under the same handle."""
        ...


class OutputStore(Protocol):
    """Where outputs live. Every store passes the same tests (tests/store)."""

    def open_session(self, name: str, *, retention: Retention | None = None, parent: str = "") -> SessionInfo:
        """The session of that name, made where there is none. Two processes that ask at once get the same one."""
        ...

    def sessions(self) -> Sequence[SessionInfo]: ...

    def put(
        self,
        session: SessionInfo,
        chunks: Iterable[bytes],
        origin: Origin,
        *,
        notes: Callable[[], Sequence[str]] = tuple,
        progress: Progress | None = None,
    ) -> Facts:
        """Keep every byte. On return they survive a crash of the process and of the machine.

        Where `chunks` raises midway, what came before is kept and the facts say that it is not whole. `notes` is
        asked once all chunks were taken.
        """
        ...

    def begin(self, session: SessionInfo, origin: Origin) -> OutputWriter:
        """A running output. Its record is durable on return."""
        ...

    def resolve(self, session: SessionInfo, reference: str) -> Facts:
        """A short handle, a long one, or a call id; inside this session or not at all."""
        ...

    def outputs(self, session: SessionInfo) -> Sequence[Facts]:
        """All of them, tombstones too, oldest first."""
        ...

    def unreadable(self, session: SessionInfo) -> Mapping[str, StoreFault]:
        """Handles whose records cannot be read, and why: they are not among the outputs."""
        ...

    def open(self, facts: Facts) -> OutputReader: ...

    def stamp(self, facts: Facts) -> str | None:
        """Changes whenever the facts of the output do; None where it is gone."""
        ...

    def append_events(self, session: SessionInfo, lines: bytes) -> None:
        """Add whole lines, each ended by a newline, to the session's log; whoever else appends loses none of theirs."""
        ...

    def events_from(self, session: SessionInfo, at: int) -> tuple[bytes, int]:
        """The whole lines of the log from byte `at` on, and where they end."""
        ...

    def append_transcript(self, session: SessionInfo, lines: bytes) -> None:
        """Whole lines; they survive the process. Only whoever has the lease appends."""
        ...

    def transcript(self, session: SessionInfo) -> bytes:
        """Its whole lines."""
        ...

    def save_tree(self, session: SessionInfo, data: bytes) -> None:
        """The newest snapshot of the operation tree, in place of the one before: whoever reads gets one of the two."""
        ...

    def tree(self, session: SessionInfo) -> bytes | None: ...

    def lease(self, session: SessionInfo, holder: str) -> AbstractContextManager[None]:
        """Hold the session's transcript, until the block is left or the process is gone. `holder` says who.

        Raises SessionHeld, with who that is, where somebody else does.
        """
        ...

    def recall(self, session: SessionInfo, content: str, key: str) -> bytes | None:
        """What was remembered in this session under these two hashes; None where there is nothing (any more)."""
        ...

    def remember(self, session: SessionInfo, content: str, key: str, data: bytes) -> None:
        """A small note about an output of that content. It goes with the last output of the session that has it."""
        ...

    def end_session(self, session: SessionInfo) -> None:
        """Carry out the session's retention rule where it is `session`."""
        ...

    def close(self) -> None: ...
