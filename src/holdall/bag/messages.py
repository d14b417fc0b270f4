"""What a call says on its way, beside its output: progress, log messages.

They can be read under the call's handle for as long as it has no output, by any process that works in the session. They
are never part of the output. Only the last of them are held, each on one line.
"""

import asyncio
import contextlib
import hashlib
import threading
from collections import deque
from collections.abc import Callable
from typing import Any

from holdall.policy.decide import Limits
from holdall.store.ids import new_tag
from holdall.store.protocol import OutputStore, SessionInfo
from holdall.text.escape import one_line
from holdall.values.errors import StoreFault
from holdall.values.outputs import Facts
from holdall.wire.answers import earlier_messages
from holdall.wire.clamp import clamp_result

LONGEST_MESSAGE = 500  # characters of one message
_LOOKED_AT = LONGEST_MESSAGE + 4096  # for secrets: one that begins in a message may end after it
_MOST_BYTES = 64 * 1024  # of all messages of a call
_REST_SECONDS = 0.25  # between two writes to the store: a server may send thousands in that time
_NO_OUTPUT = hashlib.sha256(b"").hexdigest()


class Messages:
    """Of one call. `add` may be called in any thread; the rest on the loop of the call."""

    def __init__(self, limits: Limits, masked: Callable[[Any], Any] | None = None) -> None:
        self._limits = limits
        self._masked = masked
        self._lines: deque[bytes] = deque()
        self._size = 0
        self._left_out = 0
        self._lock = threading.Lock()
        self._storing = threading.Lock()
        self._place: tuple[OutputStore, SessionInfo, Facts] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._writing: asyncio.Task[None] | None = None
        self._is_stored = True

    @property
    def masks(self) -> bool:
        """Whether what is said of the call may hold secrets that nobody should see."""
        return self._masked is not None

    def add(self, message: str, *, is_masked: bool = False) -> None:
        # Cut first: the escapes of ten megabytes would cost a second.
        text = message[:_LOOKED_AT] if is_masked else self.masked(message[:_LOOKED_AT])
        line = one_line(text, LONGEST_MESSAGE).encode("utf-8", "replace") + b"\n"
        with self._lock:
            self._lines.append(line)
            self._size += len(line)
            while self._size > _MOST_BYTES:
                self._size -= len(self._lines.popleft())
                self._left_out += 1
            self._is_stored = False
        if self._loop is not None:
            with contextlib.suppress(RuntimeError):  # the loop has ended
                self._loop.call_soon_threadsafe(self._write_soon)

    def within_limits(self, message: str) -> str:
        """As an update of the call, for whoever follows it: the same object where that is inside the limits. What it
        says was masked before.
        """
        return str(clamp_result(message, self._limits, tag=new_tag()))

    def masked(self, value: Any) -> Any:
        """Anything that is said of the call: without secrets, where that is the policy of its tool.

        It may take long, so nobody calls it on a loop that others wait for.
        """
        return value if self._masked is None else self._masked(value)

    @property
    def data(self) -> bytes:
        """A line for each; the first says how many came before them."""
        with self._lock:
            head = f"{earlier_messages(self._left_out)}\n".encode() if self._left_out else b""
            return head + b"".join(self._lines)

    def store_with(self, store: OutputStore, session: SessionInfo, facts: Facts) -> None:
        """From now on other processes can read them under the handle of `facts`."""
        self._place = (store, session, facts)
        self._loop = asyncio.get_running_loop()
        self._write_soon()

    def keep_with(self, store: OutputStore, session: SessionInfo, ended: Facts) -> None:
        """The call has ended before it was slow, without a result. Blocks."""
        self._place = (store, session, ended)
        self.write()

    async def finish(self, ended: Facts) -> None:
        """The call has ended. Where it gave nothing, they stay: they are all that is known of it."""
        self._loop = None
        if self._writing is not None:
            self._writing.cancel()
            await asyncio.wait((self._writing,))
        if not ended.measure.bytes:
            await asyncio.to_thread(self.write)

    def write(self) -> None:
        """Store them. What the store refuses can be read while the call runs, by this process."""
        with self._storing:  # one after the other: the last write has the last messages
            if self._place is None or self._is_stored:
                return
            store, session, facts = self._place
            self._is_stored = True
            with contextlib.suppress(StoreFault, OSError):
                store.remember(session, _NO_OUTPUT, _key(facts), self.data, durable=False)

    def _write_soon(self) -> None:
        if not self._is_stored and (self._writing is None or self._writing.done()):
            self._writing = asyncio.get_running_loop().create_task(self._write_until_all_are_stored())

    async def _write_until_all_are_stored(self) -> None:
        while not self._is_stored:
            await asyncio.to_thread(self.write)
            await asyncio.sleep(_REST_SECONDS)


def stored_messages(store: OutputStore, session: SessionInfo, facts: Facts) -> bytes:
    """What a call of any process has said. Empty if that is nothing."""
    return store.recall(session, _NO_OUTPUT, _key(facts)) or b""


def _key(facts: Facts) -> str:
    return facts.id.replace("-", "")
