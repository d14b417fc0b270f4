"""What every part of the bag stands on: one session of one store, with its dialect, limits, readers and journal.

This is where threads meet the event loop: below it everything is synchronous.
"""

import asyncio
import contextlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import TypeVar

from holdall.bag.journal import Journal
from holdall.bag.models import Models
from holdall.llm.protocol import Model
from holdall.policy.decide import Limits, limits_of
from holdall.sql.worker import SqlWorker
from holdall.store.open_outputs import Readers
from holdall.store.protocol import OutputReader, OutputStore, SessionInfo
from holdall.text.tokens import Tokenizer, count_in_pieces
from holdall.values.errors import SessionClosed
from holdall.values.outputs import Facts
from holdall.values.settings import Settings, ToolPolicy
from holdall.verbs.read import UNBOUNDED, Bounds
from holdall.wire.dialect import Dialect

Answer = TypeVar("Answer")
_NO_POLICY = ToolPolicy()
_REMEMBERED_CHARS = 8192


@dataclass(frozen=True, slots=True)
class Parts:
    """What a session is opened with."""

    store: OutputStore
    session: SessionInfo
    settings: Settings
    tokenizer: Tokenizer
    dialect: Dialect
    journal: Journal
    model: Model | str | None = None  # the session's own


class Core:
    def __init__(self, parts: Parts) -> None:
        self.store = parts.store
        self.session = parts.session
        self.settings = parts.settings
        self.dialect = parts.dialect
        self.tokenizer = parts.tokenizer
        self.journal = parts.journal
        self.models = Models(parts.settings, parts.model)
        self.sql = SqlWorker()
        self._readers = Readers(parts.store, parts.session)
        self._closed = False
        self._counted = lru_cache(maxsize=16)(partial(count_in_pieces, parts.tokenizer))
        self._limits = limits_of(parts.settings, parts.dialect.limits)
        # What can be fetched, by handle, oldest first: also what an earlier run of this session has kept.
        self.kept = {one.handle: one for one in parts.store.outputs(parts.session) if one.state != "expired"}

    async def on(self, handle: str, verb: Callable[[OutputReader], Answer]) -> Answer:
        """Run `verb` on an open output, in a thread."""

        return await asyncio.to_thread(self.at, handle, verb)

    def at(self, handle: str, verb: Callable[[OutputReader], Answer], facts: Facts | None = None) -> Answer:
        """The same in this thread. `facts` are those of an output that was kept a moment ago."""
        self.check_open()
        with self._readers.lease(handle, facts) as reader:
            return verb(reader)

    def check_open(self) -> None:
        """Raises SessionClosed after the end: else it would be the fault of some file that is closed."""
        if self._closed:
            raise SessionClosed

    def policy_of(self, tool: str) -> ToolPolicy:
        return self.settings.tools.get(tool, _NO_POLICY)

    @property
    def limits(self) -> Limits:
        return self.limits_for("")

    def handle_of(self, facts: Facts) -> str:
        """As the dialect writes it."""
        return facts.long_handle if self.dialect.long_handles else facts.handle

    def limits_for(self, tool: str) -> Limits:
        if tool not in self.settings.tools:
            return self._limits
        return limits_of(self.settings, self.dialect.limits, self.policy_of(tool))

    def bounds(self, *, bounded: bool = True) -> Bounds:
        if not bounded:
            return UNBOUNDED
        return Bounds(self.settings.answer_max_bytes, self.settings.answer_max_tokens, self.tokenizer)

    def count(self, text: str) -> int:
        """A notice is counted for the log, and again as a message of the conversation: the last ones are remembered."""
        return self._counted(text) if len(text) <= _REMEMBERED_CHARS else count_in_pieces(self.tokenizer, text)

    async def close(self) -> None:
        """End the session: its retention rule is carried out, everything open is closed."""
        if not self._closed:
            self._closed = True
            await self.models.close()
            await asyncio.to_thread(self._close)

    def _close(self) -> None:
        self._readers.close()
        self.sql.close()
        self.journal.flush()
        with contextlib.suppress(Exception):
            self.store.end_session(self.session)
        self.store.close()
