"""What all parts of the bag share: one session of one store, with its dialect, limits, readers, model and journal; and
how it is opened.
"""

import asyncio
import concurrent.futures
import contextlib
import contextvars
import functools
import logging
import os
import re
import threading
import weakref
from collections import deque
from collections.abc import AsyncGenerator, Callable, Collection, Coroutine, Generator, Iterator, Mapping, Sequence
from dataclasses import replace
from math import inf
from typing import TYPE_CHECKING, Any, TypeVar, cast

from holdall.bag.journal import Journal, watchers
from holdall.bag.messages import Messages, stored_messages
from holdall.formats.kinds import PACKED_STREAMS
from holdall.policy.decide import Limits, limits_of
from holdall.store.deadline import within
from holdall.store.ids import new_mark, new_uuid
from holdall.store.open_outputs import Readers
from holdall.store.opening import default_home, empty_store, has_sessions, open_store
from holdall.store.protocol import OutputReader, OutputStore, OutputWriter, Quota, SessionInfo, session_by
from holdall.store.records import PREFIX
from holdall.text.escape import foreign
from holdall.text.marks import Mark
from holdall.text.numbers import with_article
from holdall.text.tokens import Tokenizer, count_in_pieces, tokenizer_named
from holdall.values.chat import Reply
from holdall.values.errors import (
    HoldallError,
    NoModel,
    OutputMissing,
    SessionClosed,
    SessionForked,
    StoreFault,
    ToolRaised,
    UnknownHandle,
    UsageError,
)
from holdall.values.handles import MEMBER, Foreign, Long, Short, checked_text, parse
from holdall.values.outputs import Facts, Origin
from holdall.values.record import record
from holdall.values.retention import Retention
from holdall.values.settings import Settings, ToolPolicy
from holdall.values.spans import Span
from holdall.verbs.read import UNBOUNDED, Bounds
from holdall.wire.dialect import Dialect, View, plain_running, text_problem
from holdall.wire.dialects import DIALECTS, dialect_of
from holdall.wire.notes import ours_without_mark, with_end, with_error

if TYPE_CHECKING:
    from holdall.background import Portal
    from holdall.bag.redaction import Redaction
    from holdall.llm.protocol import Model, Request
    from holdall.sql.worker import SqlWorker

_LOG = logging.getLogger("holdall")
_SIGN = re.compile(r"\S")  # in place: to copy the rest of a text behind each notice takes the square of its length

# Which model answers questions about outputs: the one of the settings, else the session's own.
#
# A model that was given by name is made when it is first asked, and closed with the session; a model that was passed in
# belongs to the caller.


class NoModelNeeded:
    """Stands in where a strategy asks no model. Asking it raises NoModel."""

    name, window, max_output, calls_tools, keeps_schema = "", 32_768, 1_024, False, False

    async def ask(self, request: "Request") -> Reply:  # noqa: ARG002 - there is nobody to ask
        raise NoModel

    async def close(self) -> None:
        pass


class Models:
    def __init__(self, settings: Settings, current: "Model | str | None", made: "dict[str, Model]") -> None:
        """`made` are those that were made by name so far."""
        self.chosen: Model | str | None = settings.extraction_model or current
        if settings.extraction_model:
            from holdall.llm.model_names import warn_of  # noqa: PLC0415 - most sessions name no model

            warn_of(settings.extraction_model)
        self._offered: Model | None = None
        self._made = made

    @property
    def configured(self) -> bool:
        return bool(self.chosen)

    def offer(self, model: "Model") -> None:
        """Use this model if none was named: that of a client, known only while it is connected."""
        if not self.chosen or self.chosen is self._offered:
            self.chosen = self._offered = model

    def withdraw(self, model: "Model") -> None:
        if self.chosen is model and self._offered is model:
            self.chosen = self._offered = None

    def named(self, given: "Model | str | None" = None, *, tool: str = "", asked: bool = True) -> "Model":
        """`given`, else the chosen one. Raises NoModel if there is none, unless it would not be asked anyway."""
        if not asked and not given:
            return NoModelNeeded()
        wanted = given or self.chosen
        if not wanted:
            raise NoModel(tool)
        if not isinstance(wanted, str):
            return wanted
        if wanted not in self._made:
            from holdall.llm.model_names import model_named  # noqa: PLC0415 - most sessions name no model

            self._made[wanted] = model_named(wanted)
        return self._made[wanted]


class Shared:
    """What sessions have in common that one process serves together. A session that was opened alone has its own.

    The store, the outputs that are open, the processes that run SQL, the models that were given by name; and in a pool
    the loop that outlives requests: whatever belongs to one loop (calls, waits, connections to models) lives there.
    """

    def __init__(self, store: OutputStore, portal: "Portal | None" = None, *, own_loop: bool = False) -> None:
        """With `own_loop` calls run on the loop of the portal, else on the one that made them."""
        self.store = store
        self.portal = portal
        self.own_loop = own_loop
        self.readers = Readers(store)
        self.models: dict[str, Model] = {}
        self._sql: SqlWorker | None = None
        self._lock = threading.Lock()

    @property
    def sql(self) -> "SqlWorker":
        """Made when the first SQL is asked."""
        with self._lock:
            if self._sql is None:
                from holdall.sql.worker import SqlWorker  # noqa: PLC0415 - most sessions ask no SQL

                self._sql = SqlWorker()
            return self._sql

    async def close_models(self) -> None:
        while self.models:
            await self.models.popitem()[1].close()

    def close(self, *, store: bool = True) -> None:
        self.readers.close()
        if self._sql is not None:
            self._sql.close()
        if store:
            self.store.close()


# This is where threads meet the event loop: below it everything is synchronous.


Answer = TypeVar("Answer")
NO_POLICY = ToolPolicy()
_REMEMBERED_CHARS = 8192
_REMEMBERED_NOTICES = 500
_AT_ONCE = 4  # verbs of one session
_UNKNOWN = "unknown tool"


@record
class Parts:
    """What a session is opened with."""

    store: OutputStore
    session: SessionInfo
    settings: Settings
    tokenizer: Tokenizer
    dialect: Dialect
    journal: Journal
    model: "Model | str | None" = None  # the session's own
    shared: Shared | None = None  # with the other sessions of a pool


def _as_providers_take_it(name: str) -> str:
    """The name of a tool where it may have no dots and the like."""
    return "".join(sign if sign.isascii() and (sign.isalnum() or sign in "_-") else "_" for sign in name)


def policies_of(settings: Settings) -> Mapping[str, ToolPolicy]:
    """By the names that tools may be called under. Of tables whose names come to the same, the strictest: a file may
    name a tool as providers do, and would lift what the user says of it.
    """
    found: dict[str, ToolPolicy] = {}
    for name, one in settings.tools.items():
        plain = _as_providers_take_it(name)
        if plain in found:
            from holdall.policy.setting_values import strictest  # noqa: PLC0415 - seldom are there two of a name

            one = strictest([found[plain], one])  # noqa: PLW2901
        found[plain] = one
    return found | {name: found[_as_providers_take_it(name)] for name in settings.tools}


def policy_of(policies: Mapping[str, ToolPolicy], tool: str, own: Collection[str] = ()) -> ToolPolicy:
    """The strictest of what its name has and, where several servers are told apart by a prefix (`files__read`), of
    what its own name has: how many servers there are, and what they are called, is up to a file that may be part of
    a checkout. `own` are others that it is known by: a neighbour that lists the same can change what it is shown as.
    """
    if not policies:
        return NO_POLICY
    # Only names as long as those of tables: someone else's may be megabytes, with a prefix at each of its signs.
    size = len(tool)
    places = sorted({size - len(name) for name in policies})
    starts = [at for at in places if at == 0 or (0 < at < size and tool.endswith("__", 0, at))]
    plain = _as_providers_take_it(tool[starts[0] :]) if starts else ""
    known = [*(tool[at:] for at in starts), *own]
    names = dict.fromkeys([*known, *(plain[at - starts[0] :] for at in starts), *map(_as_providers_take_it, own)])
    found = [policies[name] for name in names if name in policies]
    if len(found) < 2:
        return found[0] if found else NO_POLICY
    from holdall.policy.setting_values import strictest  # noqa: PLC0415 - seldom has a tool two of them

    return strictest(found)


def _has_table(policies: Mapping[str, ToolPolicy], tool: str) -> bool:
    """Under this very name. One that is longer than all of them is not looked through."""
    longest = max(map(len, policies), default=-1)
    return len(tool) <= longest and (tool in policies or _as_providers_take_it(tool) in policies)


def new_redaction(settings: Settings) -> "Redaction | None":
    """When a session is opened: without the extra that it needs, none is."""
    if not any(one.redact for one in settings.tools.values()):
        return None
    from holdall.bag.redaction import Redaction  # noqa: PLC0415 - few sessions mask, and its rules are heavy

    return Redaction()


# Threads for what takes its time


async def in_thread(function: Callable[..., object], keywords: Mapping[str, Any], *, is_tool: bool = False) -> object:
    """A thread of its own: in a shared pool a few slow tools or queries would keep everybody else from working.

    If the wait is cancelled, our own work stops where it next looks at its deadline. A tool cannot be stopped from
    outside and writes its last words: it continues, and its result is dropped.
    """
    loop = asyncio.get_running_loop()
    done: asyncio.Future[object] = loop.create_future()
    with within() as deadline:
        context = contextvars.copy_context()

    def tell(result: object, error: BaseException | None) -> None:
        if done.done():
            return
        if error is not None:
            done.set_exception(error)
        else:
            done.set_result(result)

    def work() -> None:
        result: object = None
        error: BaseException | None = None
        try:
            result = context.run(function, **keywords)
        except BaseException as raised:
            # A future cannot carry a StopIteration, and the others would end the loop that is waiting for it.
            plain = isinstance(raised, Exception) and not isinstance(raised, StopIteration)
            error = raised if plain else ToolRaised(raised)
        with contextlib.suppress(RuntimeError):  # the loop is gone: nobody waits any more
            loop.call_soon_threadsafe(tell, result, error)

    threading.Thread(target=work, name=f"holdall {getattr(function, '__name__', 'call')}", daemon=True).start()
    try:
        return await done
    except asyncio.CancelledError:
        if not is_tool:
            deadline.cancel()
        raise


class Turns:
    """At most `most` at once, on whichever loops they are; the others wait, without a thread."""

    def __init__(self, most: int) -> None:
        self._free = most
        self._waiting: deque[concurrent.futures.Future[None]] = deque()
        self._lock = threading.Lock()

    @contextlib.asynccontextmanager
    async def turn(self) -> AsyncGenerator[None]:
        with self._lock:
            mine = None if self._free else concurrent.futures.Future[None]()
            if mine is None:
                self._free -= 1
            else:
                self._waiting.append(mine)
        if mine is not None:
            try:
                await asyncio.wrap_future(mine)
            except asyncio.CancelledError:
                if not mine.cancel() and not mine.cancelled():  # its turn has just come
                    self._pass_on()
                raise
        try:
            yield
        finally:
            self._pass_on()

    def _pass_on(self) -> None:
        with self._lock:
            while self._waiting:
                following = self._waiting.popleft()
                if following.set_running_or_notify_cancel():
                    following.set_result(None)
                    return
            self._free += 1


class Core:
    def __init__(self, parts: Parts) -> None:
        self.store = parts.store
        self.session = parts.session
        self.settings = parts.settings
        self.dialect = parts.dialect
        self.tokenizer = parts.tokenizer
        self.journal = parts.journal
        self.shared = parts.shared or Shared(parts.store)
        self._is_alone = parts.shared is None
        self.models = Models(parts.settings, parts.model, self.shared.models)
        self.messages: dict[str, Messages] = {}  # of calls that run in the background here, by handle
        self.is_queued: Callable[[str], bool] = lambda _: False  # a call here that waits for a slot
        self.is_left = False  # nobody may use it any more; its calls continue
        self.is_closed = False
        self._process = os.getpid()
        self.shell: str | None = None  # notices are for a shell, whose commands need these options
        self.has_new_calls = False  # ids of calls begin anew with each connection: none of them is a call of before
        self.only_content = False  # who takes results sends what they are, images too, and never their text
        self._ends_session = True
        self.ending: concurrent.futures.Future[None] | None = None  # done when it has ended
        self._counted = functools.lru_cache(maxsize=16)(functools.partial(count_in_pieces, parts.tokenizer))
        self._turns = Turns(_AT_ONCE)
        self._calls = weakref.WeakValueDictionary[tuple[str, ...], Turns]()  # those whose outputs are taken now
        self._mark = parts.session.mark
        self._issued: deque[str] = deque(maxlen=_REMEMBERED_NOTICES)  # real notices, as they were written
        self.given: deque[int] = deque(maxlen=_REMEMBERED_NOTICES)  # hashes of texts in place of outputs
        self._limits = limits_of(parts.settings, parts.dialect.limits)
        self._redaction = new_redaction(parts.settings)
        self._policies = policies_of(parts.settings)
        self._own_names: dict[str, dict[str, None]] = {}  # of tools that have a policy and are shown under others
        careful = [name for name, one in self._policies.items() if one.store == "never" or one.redact]
        self.is_shown_as(_UNKNOWN, *careful)
        self.untold: set[str] = set()  # outputs of calls in the background, or cancelled, that nobody was told of yet
        self._kept: dict[str, Facts] | None = None
        self._looking = threading.Lock()
        self._hold = _held_open(parts.store, parts.session)  # last: nobody would let go of it where the above fails

    @property
    def kept(self) -> dict[str, Facts]:
        """What can be fetched, by handle, oldest first: also what an earlier run of this session has kept.

        Looked up when it is first needed: who reads one output of many need not wait for the others.
        """
        if self._kept is None:
            with self._looking:
                if self._kept is None:
                    found = self.store.outputs(self.session)
                    self._kept = {one.handle: one for one in found if one.state not in ("expired", "unreadable")}
        return self._kept

    async def on(self, handle: str, verb: Callable[[OutputReader], Answer], facts: Facts | None = None) -> Answer:
        """Run `verb` on an open output, in a thread; cancelled, it stops at its next read.

        Slow ones of this session wait for each other, and those of no other session wait for them.
        """
        async with self._turns.turn():
            return cast("Answer", await in_thread(functools.partial(self.at, handle, verb, facts), {}))

    @contextlib.asynccontextmanager
    async def call_alone(self, origin: Origin) -> AsyncGenerator[None]:
        """What is taken of the same call at once is taken one after the other: then the second is known."""
        if not origin.call_id or self.has_new_calls:
            yield
            return
        with self._looking:
            turns = self._calls.setdefault((origin.call_id, origin.tool, origin.server), Turns(1))
        async with turns.turn():
            yield

    def at(self, handle: str, verb: Callable[[OutputReader], Answer], facts: Facts | None = None) -> Answer:
        """The same in this thread. `facts` are those of an output that was looked up a moment ago."""
        self.check_open()
        with self.lease(handle, facts) as reader:
            return verb(reader)

    async def text_in(self, facts: Facts) -> Facts:
        """Of one packed text, as a gzip is: what a question about it is about. Of all else the same."""
        if facts.measure.kind in PACKED_STREAMS:
            with contextlib.suppress(HoldallError, OSError):
                inside = await self.on(f"{facts.handle}{MEMBER}", lambda reader: reader.facts)
                return inside if inside.measure.utf8 else facts
        return facts

    @contextlib.contextmanager
    def lease(self, handle: str, facts: Facts | None = None) -> Generator[OutputReader]:
        """An output, or a member of one, open for as long as the block lasts."""
        most, handle = self.settings.unpack_max_bytes, checked_text(handle)
        opening = self.shared.readers.lease(self.session, handle, facts, most_unpacked=most, pages=self._pages)
        with contextlib.ExitStack() as opened:
            with (
                self.known_here(),
                within(self.settings.query_seconds if MEMBER in handle else inf),  # to unpack it
            ):
                reader = opened.enter_context(opening)
            if reader.facts.packed is not None:
                self.journal.note_member(reader.facts)
            yield reader

    def resolve(self, reference: str) -> Facts:
        """The output that this names."""
        with self.known_here():
            return self.store.resolve(self.session, reference)

    @contextlib.contextmanager
    def known_here(self) -> Generator[None]:
        """Of what was kept here the store may know nothing any more: a folder that was removed is made anew by the next
        output. Whoever was shown such a handle is told that it is gone.
        """
        try:
            yield
        except UnknownHandle as unknown:
            lost = next((one for one in list((self._kept or {}).values()) if self._names(unknown.handle, one)), None)
            if lost is None:
                raise
            raise OutputMissing(lost.handle) from unknown

    def _names(self, reference: str, facts: Facts) -> bool:
        if not reference:  # as the id of a call it is that of each which has none
            return False
        match parse(reference, session=self.session.id):
            case Short(handle):
                return handle == facts.handle or reference == facts.origin.call_id
            case Long(_, id):
                return id == facts.id
            case Foreign(text):
                return text == facts.origin.call_id

    def outputs(self) -> Sequence[Facts]:
        """All that the session has kept; of what the store has forgotten, that it was there."""
        known = list((self._kept or {}).values())  # before the look: what comes later is not lost
        found = self.store.outputs(self.session)
        there = {one.handle for one in found}
        lost = [
            replace(one, state="unreadable", error=str(OutputMissing(one.handle)))
            for one in known
            if one.handle not in there
        ]
        return sorted([*found, *lost], key=lambda facts: (facts.place, facts.handle)) if lost else found

    def _pages(self, reader: OutputReader, wanted: str) -> Iterator[bytes]:
        from holdall.sql.pdf import pages_of  # noqa: PLC0415 - few outputs are PDFs

        return pages_of(reader, wanted, self.shared.sql.of(self.session.id), self.settings.query_seconds)

    def messages_of(self, facts: Facts) -> bytes:
        """What a call has said that has no output, if anything."""
        own = self.messages.get(facts.handle)
        return own.data if own is not None else stored_messages(self.store, self.session, facts)

    def drop(self, handle: str) -> None:
        """Nothing of it is held here any more."""
        self.kept.pop(handle, None)
        self.shared.readers.drop(self.session, handle)

    def check_open(self) -> None:
        """Raises SessionClosed after the end, in place of an error about some closed file."""
        if self.is_closed:
            raise SessionClosed
        if self.is_forked:
            raise SessionForked

    def check_in_use(self) -> None:
        """Raises SessionClosed after `detach`, too."""
        if self.is_left or self.is_closed:
            raise SessionClosed
        if self.is_forked:
            raise SessionForked

    @property
    def is_forked(self) -> bool:
        """Whether this is a copy in a forked process: its threads stayed behind, and locks may be held for ever."""
        return self._process != os.getpid()

    async def at_home(self, work: Coroutine[Any, Any, Answer]) -> Answer:
        """Run it on the loop of the pool, where there is one; else here."""
        portal = self.shared.portal
        return await (work if portal is None else portal.run(work))

    def loop_of_calls(self) -> asyncio.AbstractEventLoop | None:
        """The loop that a call from here is to run on; None if that is the one of its job."""
        shared = self.shared
        return asyncio.get_running_loop() if shared.portal is not None and not shared.own_loop else None

    def begin(self, origin: Origin, later: Callable[[], None] | None = None) -> OutputWriter:
        """An output that is being written. `later` is called where readers see some of it only after its write."""
        redaction = self.redaction_of(origin.tool)
        if redaction is None:
            return self.store.begin(self.session, origin, tokenizer=self.tokenizer)
        writer = self.store.begin(self.session, redaction.origin(origin), tokenizer=self.tokenizer)
        return redaction.writer(writer, later)

    def redaction_of(self, tool: str | None) -> "Redaction | None":
        """For what this tool gives, where its policy is to mask secrets; None: for what may be of any tool."""
        masks = self._redaction is not None and (tool is None or self.policy_of(tool).redact)
        return self._redaction if masks else None

    def policy_of(self, tool: str) -> ToolPolicy:
        if not self._policies:  # most sessions, and every call asks several times
            return NO_POLICY
        return policy_of(self._policies, tool, self._own_names.get(tool, ()))

    @property
    def unknown_tool(self) -> str:
        """What a result that does not say whose it is counts as: it may be of a tool whose outputs are not stored, or
        masked, and then the strictest of those policies hold for it.
        """
        return _UNKNOWN if _UNKNOWN in self._own_names else ""

    def is_shown_as(self, shown: str, *own: str) -> None:
        """That a tool has other names than this one: the policies of those hold all the same."""
        for name in own:
            if name != shown and _has_table(self._policies, name):
                self._own_names.setdefault(shown, {})[name] = None

    @property
    def limits(self) -> Limits:
        return self.limits_for("")

    @property
    def mark(self) -> str:
        """What only real notices of this session bear; stored with it."""
        if not self._mark:
            try:
                self._mark = self.store.mark(self.session)
            except (StoreFault, OSError):  # nothing can be stored: then it lasts as long as this object
                self._mark = new_mark()
        return self._mark

    @property
    def signature(self) -> str:
        """The mark as the dialect announces it; empty if its notices bear none."""
        match self.dialect.marked_by:
            case "text":
                return f"[{self.mark}]"
            case "handle":
                return f"{self.mark}-"
            case "session":
                return f"session-{self.session.id[:8]}"
            case _:
                return ""

    @property
    def mark_text(self) -> str:
        """For a notice; empty where the dialect has another place for the mark."""
        return self.signature if self.dialect.marked_by == "text" else ""

    def imitates(self, text: str | None) -> bool:
        """Whether a text bears the mark that only notices should: a tool has echoed what it saw, or was told.

        It could pass for a notice, so it is kept and shown inside a fence. Real notices that come again, to the letter
        and with nothing beside them, say nothing new.
        """
        if not text or not self.marks.is_in(text):
            return False
        # One behind the other and nothing between: one that stands inside of another could break its fence.
        issued, at = sorted(self._issued, key=len, reverse=True), 0
        while (sign := _SIGN.search(text, at)) is not None:
            notice = next((one for one in issued if one and text.startswith(one, sign.start())), None)
            if notice is None:
                return True
            at = sign.start() + len(notice)
        return False

    @functools.cached_property
    def marks(self) -> Mark:
        """The mark, and all that a model would take for it."""
        return Mark(self.signature)

    def without_mark(self, text: str, notices: Sequence[str] = ()) -> str:
        """A text of ours that is no notice. Where the mark is part of a handle, it stands in each."""
        return ours_without_mark(text, self.marks, notices) if self.mark_text else text

    def marked(self, text: str) -> str:
        """A text of ours with the mark at its end, and nowhere else."""
        return f"{self.without_mark(text)}\n\n{self.mark_text}" if self.mark_text else text

    def written(self, view: View) -> tuple[str, tuple[Span, ...]]:
        """The notice of the dialect, and the bytes that are in it as they are.

        A dialect of the user's own may raise, name no handle or say too much: then ours stands in, without calls of
        tools that this dialect may not have, and the reason is logged. So it does for a small output that is kept
        because it bears the mark: the words of other dialects are for what is too large.
        """
        from holdall.wire.notice import notice_and_shown, with_call  # noqa: PLC0415 - of a dialect that may never be used

        if view.imitates and self.dialect.both is None:
            text, shown = notice_and_shown(view, calls=False)
            if sum(span.end - span.start for span in shown) >= view.facts.measure.bytes:
                return text, shown
            ways: tuple[tuple[str, dict[str, Any]], ...] = (
                ("read", {}), ("slice", {"start": 0, "length": 1000}), ("extract", {}),
            )  # fmt: skip
            call = next((one for verb, given in ways if (one := self.dialect.go_on(verb, view.handle, given))), "")
            return with_call(text, call), shown
        text, shown = self.checked(
            lambda: self.dialect.written(view), _named_by(view), lambda: notice_and_shown(view, calls=False),
            text_of=lambda pair: pair[0],
        )  # fmt: skip
        return with_end(with_error(text, view.facts), view.facts), shown

    def running(self, view: View) -> str:
        """The same for a call that goes on in the background."""
        return self.checked(
            lambda: self.dialect.running(view),
            _named_by(view),
            lambda: plain_running(view),
            text_of=lambda text: text,
        )

    def checked(
        self,
        own: Callable[[], Answer],
        handle: str,
        ours: Callable[[], Answer],
        *,
        text_of: Callable[[Answer], object],
        most: int = 0,
    ) -> Answer:
        """What the dialect says, or what we say where that names no handle, is too long, or cannot be had."""
        longest = None if self.dialect.name in DIALECTS else max(most, self.settings.answer_max_bytes)
        try:
            said = own()
            problem = text_problem(text_of(said), handle, longest)
        except Exception as raised:
            said, problem = None, f"raised {type(raised).__name__}: {raised}"
        if said is not None and not problem:
            return said
        _LOG.warning("a text of the dialect %s %s; ours stands in", foreign(self.dialect.name), foreign(problem, 200))
        return ours()

    def issue(self, notice: str) -> str:
        """A notice that a model is about to get, or a note that stands beside one."""
        self._issued.append(notice)
        return notice

    def handle_of(self, facts: Facts) -> str:
        """As the dialect writes it."""
        return facts.long_handle if self.dialect.long_handles else self.shown_handle(facts.handle)

    def shown_handle(self, handle: str) -> str:
        """The same for a short one."""
        handle, sign, member = handle.partition(MEMBER)
        return self._shown_handle(handle) + sign + member

    def _shown_handle(self, handle: str) -> str:
        if self.dialect.long_handles:
            return self.kept[handle].long_handle if handle in self.kept else handle
        return self.signature + handle if self.dialect.marked_by == "handle" else handle

    def may_store(self, tool: str) -> bool:
        """Whether anything of what a tool gives may reach the store."""
        return self.dialect.stores and self.policy_of(tool).store != "never"

    def limits_for(self, tool: str) -> Limits:
        policy = self.policy_of(tool)
        return self._limits if policy is NO_POLICY else limits_of(self.settings, self.dialect.limits, policy)

    def bounds(self, *, bounded: bool = True) -> Bounds:
        if not bounded:
            return UNBOUNDED
        return Bounds(self.settings.answer_max_bytes, self.settings.answer_max_tokens, self.tokenizer)

    def count(self, text: str) -> int:
        """A notice is counted for the log, and again as a message of the conversation: the last ones are remembered."""
        return self._counted(text) if len(text) <= _REMEMBERED_CHARS else count_in_pieces(self.tokenizer, text)

    async def release(self, *, ends: bool) -> None:
        """Close what is open. Where the session `ends`, its retention rule is carried out."""
        if not self.is_closed:
            self.is_closed = True
            if self._is_alone:
                await self.shared.close_models()
            await asyncio.to_thread(self.let_go, ends=ends)

    def let_go(self, *, ends: bool) -> None:
        self.is_closed = True
        self.shared.readers.close(self.session)
        self.journal.flush()
        with contextlib.suppress(Exception):
            self.release_hold()
            if ends and self._ends_session:
                end_session(self.store, self.session)
        if self._is_alone:
            self.shared.close()

    def only_look(self) -> None:
        """It is the session of somebody else: leaving it ends nothing, and keeps nobody from ending it."""
        self._ends_session = False
        self.release_hold()

    def release_hold(self) -> None:
        """From now on the session may be ended by others who leave it."""
        hold, self._hold = self._hold, None
        if hold is not None:
            with contextlib.suppress(HoldallError, OSError):  # the process gives it back at its end
                hold()


_OPEN = "open"


def _held_open(store: OutputStore, session: SessionInfo) -> Callable[[], None] | None:
    """Of a session whose outputs go when it ends: others who leave it meanwhile do not end it."""
    if session.retention.session:
        with contextlib.suppress(HoldallError, OSError):
            return store.claim(session, _OPEN, shared=True, wait=True)  # until one that is being ended has ended
    return None


def end_session(store: OutputStore, session: SessionInfo) -> None:
    """Carry out its retention rule, as it is now, unless somebody else has it open: the last one does. Where nobody
    can say whether somebody has, nothing is removed.
    """
    last = store.claim(session, _OPEN) if session.retention.session else None
    if last is not None:
        try:
            store.end_session(store.find_session(PREFIX + session.id) or session)
        finally:
            last()


def _named_by(view: View) -> str:
    return view.facts.long_handle if view.long_handle else view.facts.handle


# How a session is opened: its store, its dialect, its tokenizer, its journal, and now and then a sweep.
#
# And how a store is opened by somebody who only looks at what there is.


def settings_of(given: Settings | None) -> Settings:
    """Of the caller, who may have no type checker."""
    if given is None:
        return Settings()
    if isinstance(cast("object", given), Settings):
        return given
    raise UsageError(
        f"settings are an object of the class Settings, not {with_article(type(given).__name__)}: "
        "write settings=Settings(dialect=…, max_inline_tokens=…)."
    )


def check_model(given: "Model | str | None") -> None:
    """Of one that is named: a name that says nothing is refused before anything is asked."""
    if isinstance(given, str) and given:
        from holdall.llm.model_names import check_name  # noqa: PLC0415 - most sessions name no model

        check_name(given)


def opened(
    *,
    session: str | None,
    home: str | None,
    settings: Settings | None,
    dialect: Dialect | None,
    store: OutputStore | None,
    tokenizer: Tokenizer | None,
    clock: Callable[[], float],
    parent: str,
) -> Parts:
    settings = settings_of(settings)
    tokenizer = tokenizer or tokenizer_named(settings.tokenizer)
    if isinstance(named := cast("object", dialect), str):
        raise UsageError(f"a dialect that ships is chosen by its name in the settings: Settings(dialect={named!r}).")
    if isinstance(named := cast("object", store), (str, os.PathLike)):
        raise UsageError(f"a folder to keep outputs in is given as its home: Holdall.open(home={os.fspath(named)!r}).")
    dialect = dialect or dialect_of(settings)
    is_own = store is None
    store = store or store_of(home, settings, dialect, tokenizer, clock)
    info = open_session(store, new_uuid() if session is None else session, settings, dialect, parent)
    if is_own:
        sweep_if_due(store)
    return Parts(store, info, settings, tokenizer, dialect, journal_of(store, info, clock))


def open_session(store: OutputStore, name: str, settings: Settings, dialect: Dialect, parent: str) -> SessionInfo:
    """What the settings say holds in a store of the caller's, too: quotas, and how long outputs are kept.

    A rule of retention that they give holds for a session that is there already, too; that is logged. The one that a
    dialect brings is for new sessions.
    """
    if parent:
        above = session_by(store, parent)
        if above is None:
            raise UsageError(f'there is no session "{foreign(parent)}" that "{foreign(name)}" could be a part of.')
        parent = above.id
    rule, before = None, None
    if settings.retention is not None or dialect.keeps_for_session:
        before = store.find_session(name)
        if settings.retention is not None or before is None:
            rule = Retention.of(settings.retention, session=dialect.keeps_for_session)
    info = store.open_session(name, retention=rule, parent=parent)
    if rule is not None and before is not None and before.retention != info.retention:
        _LOG.warning(
            "retention of session %s changed from %s to %s, for all that is in it",
            foreign(info.name), before.retention.told, info.retention.told,
        )  # fmt: skip
    return replace(info, quota=_quota_of(settings))


def _quota_of(settings: Settings) -> Quota:
    return Quota(settings.quota_bytes, settings.session_quota_bytes)


def store_of(
    home: str | None, settings: Settings, dialect: Dialect, tokenizer: Tokenizer, clock: Callable[[], float]
) -> OutputStore:
    home = home or settings.store_dir or default_home()
    if not isinstance(cast("object", home), (str, os.PathLike)):
        kind = with_article(type(home).__name__)
        raise UsageError(f"home is the path of a folder to keep outputs in, not {kind}: write home='/path/to/it'.")
    return open_store(
        os.fspath(home),  # a Path does as well
        tokenizer=tokenizer,
        retention=Retention.of(settings.retention, session=dialect.keeps_for_session),
        quota=_quota_of(settings),
        clock=clock,
        settings=settings,
    )


def sweep_if_due(store: OutputStore) -> None:
    if store.sweep_due():
        with contextlib.suppress(StoreFault):  # a store that cannot be tidied can still be read
            store.sweep()


def journal_of(
    store: OutputStore, session: SessionInfo, clock: Callable[[], float], portal: "Portal | None" = None
) -> Journal:
    journal = Journal(store, session, clock=clock, portal=portal)
    journal.watchers |= watchers()
    return journal


@contextlib.contextmanager
def open_existing_store(home: str, settings: Settings) -> Generator[OutputStore | None]:
    """The store in `home`, with no session opened and nothing tidied up; None if nothing was ever kept in it.

    So reading creates neither a session nor a folder, and a dry run finds everything that would be removed.
    """
    if not has_sessions(home):
        yield None
        return
    store = open_store(home, tokenizer=tokenizer_named(settings.tokenizer), settings=settings)
    try:
        yield store
    finally:
        store.close()


def empty_view_store() -> OutputStore:
    """A store to look at in place of one in which nothing is kept yet; it leaves nothing on disk."""
    return empty_store()
