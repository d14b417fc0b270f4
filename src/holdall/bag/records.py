"""What an agent's runtime keeps in its session beside outputs: the transcript, the operation tree, a lease.

It never reads or shows an output.
"""

import json
from contextlib import AbstractContextManager

from holdall.bag.core import Core
from holdall.bag.journal import bad_line, believed
from holdall.policy.folds import Tree
from holdall.store.protocol import Log, LogLines
from holdall.values.events import Event


class Records:
    def __init__(self, core: Core) -> None:
        self._core = core

    def lease(self, holder: str) -> AbstractContextManager[None]:
        """Hold the session's transcript while the block runs. Raises SessionHeld where another agent does."""
        return self._core.store.lease(self._core.session, holder)

    def append_transcript(self, lines: bytes) -> None:
        """Whole lines; they survive the process."""
        self._core.store.append_transcript(self._core.session, lines)

    def transcript(self) -> bytes:
        """The conversation so far: one JSON object a line."""
        return believed(self._core.store.transcript(self._core.session), "transcript")

    def bad_lines(self) -> list[str]:
        """The lines of the log and of the transcript that are damaged or were not written to their end, and why."""
        store, session = self._core.store, self._core.session
        found: tuple[tuple[Log, LogLines], ...] = (
            ("events", store.events_from(session, 0)),
            ("transcript", store.transcript(session)),
        )
        return [bad_line(log, bad) for log, lines in found for bad in lines.bad]

    def history(self) -> list[Event]:
        """Every event of the session so far, by whichever process."""
        return self._core.journal.history()

    def seen(self) -> dict[str, float]:
        """Of each output that can be fetched, the share that was shown to the model."""
        kept = dict(self._core.kept)
        found = self._core.journal.coverages(kept)
        return {handle: found[handle].share(facts.measure.bytes) for handle, facts in kept.items()}

    def tree(self) -> Tree:
        """The operation tree as the events tell it now."""
        return Tree.of(self._core.session.name, self.history())

    def save_tree(self) -> None:
        """Write a snapshot of the operation tree: one file, never half."""
        self._core.store.save_tree(
            self._core.session, json.dumps(self.tree().to_json(), ensure_ascii=True).encode("ascii")
        )
