"""What servers said of themselves, for the sessions over HTTP of one principal: which of them need a copy, and when.

A session that greets and lists starts nothing where a copy of the server lives: it gets what a copy said before that
was used, as afterwards a copy may speak of its own session. A server of the newer era keeps no session, so one copy is
for all; so is one that its configuration calls shared. Another gets a copy for each session, at its first request.
Nothing here is shared between principals, nor between clients that introduce themselves differently.
"""

import asyncio
import json
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from holdall.mcp.client.connection import Connection
from holdall.mcp.client.handshake import Greeting, Identity
from holdall.mcp.client.keeper import Ended, joined, shared
from holdall.mcp.client.protocol import METHOD_NOT_FOUND
from holdall.mcp.client.routes import Callbacks, Declined, weight
from holdall.values.errors import UpstreamFault, UpstreamRefused

LISTED = {
    "tools/list": "tools", "prompts/list": "prompts", "resources/list": "resources",
    "resources/templates/list": "resources",
}  # fmt: skip
"""Lists that a copy gives for others, and whose change makes them old."""
CHANGES = {f"notifications/{kind}/list_changed": kind for kind in set(LISTED.values())}
_LOG_MESSAGE = "notifications/message"
_MAX_PAGES, _MAX_PAGE_BYTES = 1000, 32 * 1024 * 1024  # of the lists of a server that are remembered

Page = dict[str, Any] | UpstreamRefused


class Member:
    """One session at one copy. `is_busy` tells whether a request of it is under way there."""

    def __init__(self, callbacks: Callbacks, is_busy: Callable[[], bool]) -> None:
        self.callbacks = callbacks
        self.is_busy = is_busy


class Copy:
    """A connection and the sessions that use it. What belongs to no call goes to all of them, where it can; a log
    message or a question goes to the one that has a request under way, and to none where several have.
    """

    def __init__(self, known: "KnownServer", connect: Callable[[Callbacks], Connection], first: Member) -> None:
        self.known = known
        known.sessions += 1
        self.members = [first]
        self.is_used = False  # for more than lists
        self.connection = connect(Callbacks(self.heard, self._ask))

    def uses(self, greeting: Greeting, method: str) -> int:
        """It is running now, for this. How old lists are that it gives."""
        self.known.started(self, greeting)
        self.is_used = self.is_used or method not in LISTED
        return self.known.age

    def _one(self) -> Member | None:
        members = self.members if len(self.members) == 1 else [one for one in self.members if one.is_busy()]
        return members[0] if len(members) == 1 else None

    async def heard(self, method: str, params: dict[str, Any]) -> None:
        """A notification that belongs to no call."""
        await self.known.changed(self, method)
        one = self._one()
        members = list(self.members) if method != _LOG_MESSAGE else [] if one is None else [one]
        for member in members:
            if member.callbacks.notify is not None:
                await member.callbacks.notify(method, params)

    async def _ask(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        one = self._one()
        if one is None or one.callbacks.ask is None:
            raise Declined(METHOD_NOT_FOUND, "It cannot be known which client is meant", method)
        return await one.callbacks.ask(method, params)


class KnownServer:
    """One server, for clients that introduce themselves alike."""

    def __init__(self) -> None:
        self.common: Copy | None = None  # the copy for all, where one is enough
        self.sessions = 0  # that have come and not left
        self._greeting: Greeting | None = None
        self._copies: list[Copy] = []
        self._starting: asyncio.Future[Greeting] | None = None
        self._pages: dict[tuple[str, str], tuple[Page, int]] = {}  # with their bytes
        self._age = 0  # grows with each change, so that a list that was asked for before is not kept
        self._watchers: dict[Copy, Callable[[str], Awaitable[None]]] = {}

    @property
    def greeting(self) -> Greeting | None:
        """What a copy said that still lives: without one nobody would tell of a change."""
        return self._greeting if self._living() else None

    async def greet(self, copy: Copy, changed: Callable[[str], Awaitable[None]]) -> Greeting:
        """What the server says of itself. `copy` is started where no other has said it; `changed` is told the method of
        a change while that is not so.
        """
        self._watchers[copy] = changed
        while self.greeting is None and self._starting is not None and not self._starting.done():
            await asyncio.wait((self._starting,))
        if (found := self.greeting) is not None:
            return found
        self._starting = shared(self._start(self.common or copy))  # the one for all may have died
        try:
            return await joined(self._starting)
        except Ended:
            raise UpstreamFault(copy.connection.name, "was closed before it was ready") from None

    async def _start(self, copy: Copy) -> Greeting:
        return self.started(copy, await copy.connection.start())

    def join(self, copy: Copy, member: Member) -> Copy:
        """The copy that this session uses from now on: the one for all, where there is one."""
        if self.common is None or self.common is copy or copy.connection.greeting is not None:
            return copy
        self._watchers.pop(copy, None)
        copy.members.remove(member)
        self.common.members.append(member)
        return self.common

    def started(self, copy: Copy, greeting: Greeting) -> Greeting:
        if copy not in self._copies:
            self._copies.append(copy)
            if self._greeting is not None and self._greeting != greeting:
                self._pages.clear()
            self._greeting = greeting
            if self.common is None and (greeting.modern or copy.connection.spec.shared):
                self.common = copy
        return greeting

    async def page(self, copy: Copy, method: str, params: Mapping[str, Any]) -> Page | None:
        """A list for a session whose own copy does not run; None if that has to be asked."""
        if copy.connection.greeting is not None or not self._living():
            return None
        given = {name: value for name, value in params.items() if name != "_meta"}
        key = method, json.dumps(given, sort_keys=True, default=str)
        source = next((one for one in self._copies if one.connection.greeting is not None and not one.is_used), None)
        if key not in self._pages and source is None:
            return None
        if key not in self._pages and source is not None:
            age = self._age
            try:
                found: Page = (await source.connection.request(method, given)).result
            except UpstreamRefused as refusal:
                found = refusal
            except UpstreamFault:
                return None
            if source.is_used or age != self._age:
                return found
            self._remember(key, found)
            return found
        return self._pages[key][0]

    def keep(self, copy: Copy, method: str, params: Mapping[str, Any], found: Page, age: int) -> None:
        """What a copy has answered to its own session is for the others, too, as long as it is not used."""
        given = {name: value for name, value in params.items() if name != "_meta"}
        if not copy.is_used and age == self._age:
            self._remember((method, json.dumps(given, sort_keys=True, default=str)), found)

    def _remember(self, key: tuple[str, str], found: Page) -> None:
        """Where there is room: a client may ask with whatever cursor it likes, and a server give one anew each time."""
        size = len(key[1]) + weight(found.data if isinstance(found, UpstreamRefused) else found, _MAX_PAGE_BYTES)
        others = sum(bytes_held for known, (_, bytes_held) in self._pages.items() if known != key)
        if len(self._pages) < _MAX_PAGES and others + size <= _MAX_PAGE_BYTES:
            self._pages[key] = found, size

    @property
    def age(self) -> int:
        return self._age

    async def changed(self, copy: Copy, method: str) -> None:
        """A copy has said that a list is another one now. Sessions without a copy are told."""
        if (kind := CHANGES.get(method)) is None:
            return
        self._age += 1
        self._pages = {key: page for key, page in self._pages.items() if LISTED[key[0]] != kind}
        for other, tell in list(self._watchers.items()):
            if other is not copy and other.connection.greeting is None and other is not self.common:
                await tell(method)

    async def left(self, copy: Copy, member: Member) -> None:
        """A session has gone: its copy ends, unless others use it."""
        self.sessions -= 1
        self._watchers.pop(copy, None)
        if member in copy.members:
            copy.members.remove(member)
        if copy.members:
            return
        if self.common is copy:
            self.common = None
        if copy in self._copies:
            self._copies.remove(copy)
        await copy.connection.aclose()

    def _living(self) -> bool:
        return any(one.connection.greeting is not None for one in self._copies)


LeftAnswers = OrderedDict[object, tuple[Callable[[], None], int]]  # how to forget each, and its bytes


class KnownServers:
    """The servers of a gateway, for one principal."""

    def __init__(self) -> None:
        self.held_bytes = 0  # of the requests that are under way, of all its sessions
        self.left: LeftAnswers = OrderedDict()
        self._servers: dict[tuple[str, str], KnownServer] = {}

    def of(self, server: str, identity: Identity) -> KnownServer:
        # A client may call itself something else each time.
        self._servers = {key: known for key, known in self._servers.items() if known.sessions}
        said = [identity.name, identity.version, identity.capabilities, identity.older]
        return self._servers.setdefault((server, json.dumps(said, sort_keys=True, default=str)), KnownServer())
