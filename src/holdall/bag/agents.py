"""What an agent's runtime keeps in its session beside outputs: the transcript, the operation tree, a lease."""

import json
from contextlib import AbstractContextManager

from holdall.bag.fetching import Fetching
from holdall.policy.folds import Tree
from holdall.values.events import Event


class Agents(Fetching):
    def lease(self, holder: str) -> AbstractContextManager[None]:
        """Hold the session's transcript while the block runs. Raises SessionHeld where another agent does."""
        return self.store.lease(self.session, holder)

    def append_transcript(self, lines: bytes) -> None:
        """Whole lines; they survive the process."""
        self.store.append_transcript(self.session, lines)

    def transcript(self) -> bytes:
        """The conversation so far: one JSON object a line."""
        return self.store.transcript(self.session)

    def history(self) -> list[Event]:
        """Every event of the session so far, by whichever process."""
        return self.journal.history()

    def seen(self) -> dict[str, float]:
        """Of each output that can be fetched, the share that was shown to the model."""
        kept = dict(self.kept)
        found = self.journal.coverages(kept)
        return {handle: found[handle].share(facts.measure.bytes) for handle, facts in kept.items()}

    def tree(self) -> Tree:
        """The operation tree as the events tell it now."""
        return Tree.of(self.session.name, self.history())

    def save_tree(self) -> None:
        """Write a snapshot of the operation tree: one file, never half."""
        self.store.save_tree(self.session, json.dumps(self.tree().to_json(), ensure_ascii=True).encode("ascii"))
