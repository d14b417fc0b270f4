"""What one client talks to: it looks like one MCP server, and is as many as stand behind it.

Each method goes to the server it is meant for; unknown methods are passed on unchanged. Which server that is, is told
by names for tools and prompts, by who has listed it for resources, and by trying for everything else.
"""

import asyncio
import logging
import secrets
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

from holdall.bag import Holdall
from holdall.bag.holdall import use_plain_names
from holdall.llm.sampling import Role, Sampled, SampledModel
from holdall.mcp.client.handshake import Greeting
from holdall.mcp.client.routes import weight
from holdall.mcp.client.server_process import Bounds
from holdall.mcp.client.spec import ServerSpec
from holdall.mcp.gateway import calls, listing, messages
from holdall.mcp.gateway.calls import Begun, ToolCall
from holdall.mcp.gateway.client_side import Client, ClientRequest, Send
from holdall.mcp.gateway.known import KnownServers
from holdall.mcp.gateway.listeners import LISTEN, Listeners, follow, is_change, uris_of
from holdall.mcp.gateway.listing import LISTS, Catalogue, Names
from holdall.mcp.gateway.messages import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    METHOD_NOT_FOUND,
    Refusal,
    entries,
    envelope_of,
    table,
)
from holdall.mcp.gateway.relay import Caller, Relay
from holdall.mcp.gateway.siblings import Siblings
from holdall.text.escape import foreign
from holdall.values.errors import UpstreamFault
from holdall.values.record import record
from holdall.wire.notes import without_mark
from holdall.wire.tool import ToolSpec

# A server of the older era asks its client on the way; a client of the newer era can only be asked by a result.
#
# So the call continues here, its request is answered with the question, and when the client comes again with the answer
# it is handed to the server and the rest of the call is waited for. Nothing is called twice.


INTERACTIVE = frozenset(("tools/call", "prompts/get", "resources/read"))
_CAPABILITIES = {"sampling/createMessage": "sampling", "elicitation/create": "elicitation", "roots/list": "roots"}
_OURS = "holdall-question-"
_KEPT_SECONDS = 600.0  # a question that nobody answers for so long is given up

Work = Callable[[ClientRequest], Awaitable[dict[str, Any]]]


def _new_tag() -> str:
    return secrets.token_hex(4)


class Conversations:
    def __init__(self) -> None:
        self._open: dict[str, _Conversation] = {}

    async def answer(self, asked: ClientRequest, work: Work) -> dict[str, Any]:
        """The result of the call, or what its server wants to know first."""
        state = asked.params.get("requestState")
        if not isinstance(state, str) or not state.startswith(_OURS):
            one = _Conversation(asked, work)
        elif (found := self._open.pop(state, None)) is None:
            raise Refusal(INVALID_PARAMS, "This question is not open any more; make the call again")
        else:
            one = found
            one.go_on(asked)
        result = await one.next()
        if result is not None:
            return result
        state = _OURS + secrets.token_hex(16)
        self._open[state] = one
        one.keep(lambda: self._open.pop(state, None))
        return {"resultType": "input_required", "inputRequests": one.questions(), "requestState": state}

    async def close(self) -> None:
        for one in self._open.values():
            one.end()


class _Conversation:
    def __init__(self, asked: ClientRequest, work: Work) -> None:
        self._asked = asked  # the server knows only this one, however often the client comes
        self._waiting: dict[str, tuple[dict[str, Any], asyncio.Future[dict[str, Any]]]] = {}
        self._news = asyncio.Event()
        self._timer: asyncio.TimerHandle | None = None
        asked.ask_client = self._ask
        self._task = asyncio.ensure_future(work(asked))

    def questions(self) -> dict[str, Any]:
        self._news.clear()
        return {key: question for key, (question, _) in self._waiting.items()}

    def go_on(self, again: ClientRequest) -> None:
        """The client has come again: from now on the call is this request of it."""
        if self._timer is not None:
            self._timer.cancel()
        self._asked.id, self._asked.meta, self._asked.open = again.id, again.meta, True
        answers = table(again.params.get("inputResponses"))
        for key, (_, future) in list(self._waiting.items()):
            if key in answers and not future.done():
                future.set_result(table(answers[key]))
            elif not future.done():
                self._news.set()  # it is asked again

    async def next(self) -> dict[str, Any] | None:
        """The result; None if there is a question before it."""
        news = asyncio.ensure_future(self._news.wait())
        try:
            await asyncio.wait((self._task, news), return_when=asyncio.FIRST_COMPLETED)
            return self._task.result() if self._task.done() else None
        except asyncio.CancelledError:
            self.end()
            raise
        finally:
            news.cancel()

    def keep(self, forget: Callable[[], object]) -> None:
        def over() -> None:
            forget()
            self.end()

        self._timer = asyncio.get_running_loop().call_later(_KEPT_SECONDS, over)

    def end(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._task.cancel()

    async def _ask(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        _, capabilities = envelope_of(self._asked.params)
        if _CAPABILITIES.get(method) not in capabilities:
            raise Refusal(METHOD_NOT_FOUND, "The client cannot be asked this", method)
        key = f"question-{len(self._waiting) + 1}-{secrets.token_hex(4)}"
        future: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        self._waiting[key] = ({"method": method, "params": params}, future)
        self._news.set()
        try:
            return await future
        finally:
            del self._waiting[key]


# The client's own model, for questions about kept outputs: a client that lets servers sample needs no key of ours.


_METHOD = "sampling/createMessage"


def model_of(client: Client) -> SampledModel:
    async def create_message(messages: list[tuple[Role, str]], *, system: str, max_tokens: int) -> Sampled:
        params: dict[str, Any] = {
            "messages": [{"role": role, "content": {"type": "text", "text": text}} for role, text in messages],
            "maxTokens": max_tokens,
        }
        result = await client.ask(_METHOD, params | ({"systemPrompt": system} if system else {}))
        stopped, model = result.get("stopReason"), result.get("model")
        return Sampled(_text(result.get("content")), stopped if isinstance(stopped, str) else None, str(model or ""))

    return SampledModel(create_message)


def _text(content: object) -> str:
    blocks = entries(content) or [content]
    return "\n".join(text for block in blocks if isinstance(text := table(block).get("text"), str))


_LOG = logging.getLogger("holdall.gateway")
_TOOLS_CHANGED = "notifications/tools/list_changed"
_START_SECONDS = 8.0  # how long a client waits for the slowest of several servers
_MAX_SAID_BYTES = 64 * 1024  # what a client says of itself is held for as long as its session lives
_MAX_TASKS = 1000  # that a client may ask for
_MAX_TASK_ARGUMENTS = 4096  # bytes
_LONGEST_NAME = 10_000  # of a tool or a prompt
_EVERYWHERE = frozenset(("logging/setLevel",))
_BY_URI = frozenset(("resources/read", "resources/subscribe", "resources/unsubscribe"))


@record
class GatewayState:
    """Shared by all clients of a gateway: its servers, and the prefixes of their names."""

    servers: Sequence[ServerSpec]
    prefix: str | None = None


class Front:
    """The handler of one client. Requests run side by side."""

    def __init__(
        self,
        gateway_state: GatewayState,
        bag: Holdall,
        send: Send,
        siblings: Siblings | None = None,
        known: KnownServers | None = None,
    ) -> None:
        """`siblings` are the other gateways of this client, where it has started several; `known` is what the other
        sessions of its principal know of the servers, over HTTP.
        """
        self.client = Client(send, self)
        self._gateway_state = gateway_state
        self._bag = bag
        bag.core.only_content = bag.core.has_new_calls = True
        self._siblings = siblings
        self._known = known
        if siblings is not None:
            siblings.on_turn = self._notify_changes
        self._relay: Relay | None = None
        self._listeners = Listeners(self.client)
        self._conversations = Conversations()
        self._tasks: OrderedDict[str, Begun] = OrderedDict()  # by the ids of their servers, newest last
        names = [spec.name for spec in gateway_state.servers]
        reserved = {tool.plain_name for tool in bag.dialect.tools} | {tool.name for tool in bag.dialect.tools}
        use_plain_names(bag)  # as they are listed
        self._names = Names(names, reserved=reserved, prefix=gateway_state.prefix)
        self._prompts = Names(names, prefix=gateway_state.prefix)
        self._catalogue: Catalogue | None = None
        self._told: tuple[str, ...] | None = None  # our tools, as the client knows them
        self._model: SampledModel | None = None  # the client's own

    @property
    def revision(self) -> str:
        """What the client speaks; empty while that is not known."""
        return self._relay.caller.revision if self._relay is not None else ""

    def ending(self) -> None:
        """Cancel listeners, and let another gateway of the client list our tools."""
        self._listeners.close()
        if self._siblings is not None:
            self._siblings.leave_turn()

    async def close(self) -> None:
        """The client has gone: close its servers. The bag is closed by its owner."""
        self.ending()
        if self._model is not None:
            self._bag.models.withdraw(self._model)
        await self.client.gone()
        await self._conversations.close()
        if self._relay is not None:
            await self._relay.close()

    # The handler

    async def request(self, asked: ClientRequest) -> dict[str, Any]:
        revision = messages.asks_modern(asked.method, asked.params)
        if asked.method == "initialize":
            return await self._initialize(asked)
        if revision and asked.method in messages.REMOVED:
            raise Refusal(METHOD_NOT_FOUND, "Method not found", asked.method)
        if asked.method == "ping":
            return {}
        relay, catalogue = self._opened(asked, revision)
        try:
            if relay.caller.modern and asked.method in INTERACTIVE:
                result = await self._conversations.answer(asked, lambda one: self._answer(relay, catalogue, one))
            else:
                result = await self._answer(relay, catalogue, asked)
        except UpstreamFault as fault:
            raise Refusal(INTERNAL_ERROR, self._last_words(fault)) from fault
        self._notify_changes()
        return result

    async def notified(self, method: str, params: dict[str, Any]) -> None:
        if self._relay is not None and method != "notifications/initialized":
            await self._relay.tell(method, params)

    async def input_schema(self, shown: str, params: dict[str, Any]) -> Mapping[str, Any]:
        """Of a server's tool, by the name that the client sees; empty if it cannot be known."""
        if self._bag.owns(shown):
            return {}
        call = ClientRequest("", "tools/call", params)
        relay, _ = self._opened(call, messages.asks_modern(call.method, params))
        try:
            server, name = self._meant(self._names, shown, "tool")
            tools = await relay.servers[server].tools()
        except (Refusal, UpstreamFault):
            return {}
        return next((table(tool.get("inputSchema")) for tool in tools if tool.get("name") == name), table(None))

    # The methods

    async def _answer(self, relay: Relay, catalogue: Catalogue, asked: ClientRequest) -> dict[str, Any]:
        method, params = asked.method, asked.params
        if method == "server/discover":
            return await self._discover(relay)
        if method == LISTEN:
            async with relay.holding(params):
                return await self._listen(relay, catalogue, asked)
        if method in LISTS:
            return await self._list(catalogue, asked)
        if method == "tools/call":
            return await self._call(relay, catalogue, asked)
        if method == "resources/read" and calls.is_ours(params.get("uri")):
            result = await calls.read(self._bag, str(params["uri"]))
            return messages.completed(method, result, {}) if relay.caller.modern else result
        if method == "prompts/get":
            server, name = self._meant(self._prompts, params.get("name"), "prompt")
            return await relay.forward(relay.servers[server], asked, {**params, "name": name})
        if method in _BY_URI:
            place = catalogue.place_of(str(params.get("uri")))
            return await self._tried(relay, asked, first=place)
        if method.startswith("tasks/"):
            return await self._task(relay, catalogue, asked)
        if method == "completion/complete":
            return await self._complete(relay, catalogue, asked)
        if method in _EVERYWHERE:
            return await self._everywhere(relay, asked)
        return await self._tried(relay, asked)

    async def _list(self, catalogue: Catalogue, asked: ClientRequest) -> dict[str, Any]:
        """One page of a list. Our tools are at the end of the last."""
        try:
            page = await catalogue.page(asked)
        except (Refusal, UpstreamFault):
            if self._siblings is not None and asked.method == "tools/list":
                self._siblings.pass_on()  # a client shows no tool of a server whose list fails, ours among them
            raise
        if asked.method != "tools/list" or isinstance(page.get("nextCursor"), str):
            return page
        return {**page, "tools": [*page["tools"], *map(listing.as_listed, self._ours())]}

    async def _call(self, relay: Relay, catalogue: Catalogue, asked: ClientRequest) -> dict[str, Any]:
        name = asked.params.get("name")
        if isinstance(name, str) and self._bag.owns(name):
            async with relay.holding(asked.params):
                answer = calls.of_answer(await self._bag.call(name, asked.params.get("arguments")))
            return messages.completed(asked.method, answer, {}) if relay.caller.modern else answer
        server, tool = self._meant(self._names, name, "tool")
        arguments = asked.params.get("arguments")
        if not isinstance(arguments, dict | None):
            raise Refusal(INVALID_PARAMS, "The arguments of a tool must be an object")
        self._bag.core.is_shown_as(str(name), tool, f"{server}__{tool}", f"mcp__{server}__{tool}")
        begun = Begun(server, tool, str(name), cast("dict[str, Any]", arguments or {}))
        result = await ToolCall(relay, relay.servers[server], asked, begun).run(self._bag, catalogue.tool(begun.shown))
        if task := calls.task_in(result):
            if (of := self._tasks.get(task, begun).server) != server:  # who asks for it by this id would get the other
                raise Refusal(
                    INTERNAL_ERROR,
                    f'The tool runs, and nobody can ask for its result: the server "{foreign(server)}" calls its task '
                    f'"{foreign(task)}", and so does the server "{foreign(of)}"',
                )
            small = len(messages.encode(begun.arguments)) <= _MAX_TASK_ARGUMENTS  # all of them are held for long
            self._tasks[task] = begun if small else begun._replace(arguments={"task": task})
            if len(self._tasks) > _MAX_TASKS:
                self._tasks.popitem(last=False)
        return result

    async def _task(self, relay: Relay, catalogue: Catalogue, asked: ClientRequest) -> dict[str, Any]:
        """What a task comes to is the result of its call: it has the limits and the policy of its tool."""
        begun = self._tasks.get(str(asked.params.get("taskId")))
        if asked.method != "tasks/result":
            server, redaction = "" if begun is None else begun.server, self._bag.core.redaction_of(None)
            try:
                found = await self._tried(relay, asked, first=server)
            except Refusal as refusal:
                said = await relay.masked(server, [refusal.message, refusal.data], None)
                raise Refusal(refusal.code, *said) from refusal
            return found if redaction is None else await asyncio.to_thread(calls.with_masked_status, found, redaction)
        if begun is None:
            raise Refusal(INVALID_PARAMS, "Unknown task: its call did not come through this session")
        return await ToolCall(relay, relay.servers[begun.server], asked, begun).run(
            self._bag, catalogue.tool(begun.shown)
        )

    async def _complete(self, relay: Relay, catalogue: Catalogue, asked: ClientRequest) -> dict[str, Any]:
        reference = table(asked.params.get("ref"))
        if reference.get("type") == "ref/prompt":
            server, name = self._meant(self._prompts, reference.get("name"), "prompt")
            params = {**asked.params, "ref": {**reference, "name": name}}
            return await relay.forward(relay.servers[server], asked, params)
        return await self._tried(relay, asked, first=catalogue.place_of(str(reference.get("uri"))))

    def _meant(self, names: Names, shown: object, what: str) -> tuple[str, str]:
        # A longer one is looked through many times on its way, and is nobody's.
        found = names.meant(shown) if isinstance(shown, str) and len(shown) <= _LONGEST_NAME else None
        if found is None:
            raise Refusal(INVALID_PARAMS, f"Unknown {what}: {foreign(str(shown))}")
        return found

    async def _tried(self, relay: Relay, asked: ClientRequest, *, first: str = "") -> dict[str, Any]:
        """At the server that is meant; where nobody knows which, at one after the other until one does not refuse."""
        if first:
            return await relay.forward(relay.servers[first], asked)
        if relay.only is not None:
            return await relay.forward(relay.only, asked)
        last: Refusal | None = None
        for connection in relay.servers:
            try:
                return await relay.forward(connection, asked)
            except Refusal as refusal:
                last = refusal if last is None or last.code == METHOD_NOT_FOUND else last
            except UpstreamFault as fault:
                _LOG.warning("%s", fault)
        try:
            raise last or Refusal(METHOD_NOT_FOUND, "Method not found", asked.method)
        finally:
            del last  # it would hold this frame, with all that the client sent, and the frame it

    async def _everywhere(self, relay: Relay, asked: ClientRequest) -> dict[str, Any]:
        if relay.only is not None:
            return await relay.forward(relay.only, asked)
        found = await asyncio.gather(*(relay.forward(one, asked) for one in relay.servers), return_exceptions=True)
        results = [one for one in found if isinstance(one, dict)]
        refusals = [one for one in found if isinstance(one, Refusal)]
        del found
        if results:
            return results[0]
        try:
            raise refusals[0] if refusals else Refusal(METHOD_NOT_FOUND, "Method not found")
        finally:
            del refusals  # as above

    # Greeting

    async def _initialize(self, asked: ClientRequest) -> dict[str, Any]:
        params = asked.params
        revision = listing.negotiated(params.get("protocolVersion"))
        caller = Caller(revision, table(params.get("clientInfo")), table(params.get("capabilities")))
        if self._relay is not None and self._relay.speaks_newer:
            # It tried the newer era first, and not every server speaks that: those that did are greeted again.
            gone, self._relay = self._relay, None
            await gone.close()
        relay = self._open(caller)
        greetings = await self._greetings(relay)
        if "sampling" in caller.capabilities and self._model is None:
            self._model = model_of(self.client)
            self._bag.models.offer(self._model)
        capabilities = self._capabilities(greetings)
        instructions = listing.instructions_of(greetings, self._instructions(), _new_tag)
        return listing.initialize_result(revision, greetings, capabilities, instructions)

    async def _discover(self, relay: Relay) -> dict[str, Any]:
        greetings = await self._greetings(relay)
        if any(not greeting.modern for greeting in greetings.values()):
            # A client of both eras continues with the handshake, in which such a server can ask its client.
            raise Refusal(METHOD_NOT_FOUND, "Method not found", "server/discover")
        instructions = listing.instructions_of(greetings, self._instructions(), _new_tag)
        return listing.discover_result(greetings, self._capabilities(greetings), instructions)

    async def _greetings(self, relay: Relay) -> dict[str, Greeting]:
        found = await relay.greetings(_START_SECONDS)
        faults = [one for one in found.values() if isinstance(one, UpstreamFault)]
        for fault in faults:
            _LOG.warning("%s", fault)
        ready = {name: one for name, one in found.items() if isinstance(one, Greeting)}
        if faults and len(faults) == len(found):  # there is nothing to be in front of
            raise Refusal(INTERNAL_ERROR, " ".join(map(self._last_words, faults)))
        return ready

    def _last_words(self, fault: UpstreamFault) -> str:
        """It has the server's last words, which a client may show its model."""
        return without_mark(str(fault), self._bag.core.marks)

    def _capabilities(self, greetings: Mapping[str, Greeting]) -> dict[str, Any]:
        changing = self._siblings is not None or not self._lists_always
        found = list(greetings.values())
        if len(self._gateway_state.servers) != 1 and len(found) == 1:
            found.append(Greeting("", {}))  # the others are still to come
        dialect = self._bag.dialect
        return listing.capabilities_of(found, changing=changing, offers=bool(dialect.tools), keeps=dialect.stores)

    def _instructions(self) -> str:
        """Once for a client: they come with our tools, where it is known by now who lists them."""
        said = bool(self._bag.dialect.tools) and (not self._lists_always or self._has_turn(claim=True))
        return self._bag.instructions() if said else ""

    def _opened(self, asked: ClientRequest, revision: str) -> tuple[Relay, Catalogue]:
        if self._relay is None or (revision and not self._relay.caller.revision):
            info, capabilities = messages.envelope_of(asked.params)
            self._open(Caller(revision, info, capabilities))
        if self._relay is None or self._catalogue is None:
            raise Refusal(INTERNAL_ERROR, "The gateway is not open")
        return self._relay, self._catalogue

    def _open(self, caller: Caller) -> Relay:
        """The servers get to know the client once: one that goes on in the other era is the same client."""
        if weight([caller.info, caller.capabilities], _MAX_SAID_BYTES) > _MAX_SAID_BYTES:
            raise Refusal(INVALID_PARAMS, f"A client may say {_MAX_SAID_BYTES // 1024} KiB of itself at most")
        if self._relay is None:
            core = self._bag.core
            bounds, redaction = Bounds(message_bytes=core.settings.server_max_bytes), core.redaction_of(None)
            masks = None if redaction is None else redaction.masked
            servers = self._gateway_state.servers
            self._relay = Relay(servers, self.client, caller, self._heard, self._known, bounds, masks, core.marks)
            self._catalogue = Catalogue(self._relay, self._names, self._prompts)
        self._relay.caller = replace(self._relay.caller, revision=caller.revision, capabilities=caller.capabilities)
        return self._relay

    # What changes

    async def _listen(self, relay: Relay, catalogue: Catalogue, asked: ClientRequest) -> dict[str, Any]:
        self._listeners.check(asked)
        subscriptions = [asyncio.ensure_future(follow(relay, catalogue, asked, uri)) for uri in uris_of(asked)]
        try:
            return await self._listeners.listen(asked)
        finally:
            for task in subscriptions:
                task.cancel()

    async def _heard(self, server: str, method: str, params: dict[str, Any]) -> None:
        """A notification of a server's that belongs to no call. What it says of another's task is not passed on."""
        known = self._tasks.get(str(params["taskId"])) if params and "taskId" in params else None
        if known is not None and known.server != server:
            return
        if self._relay and params:
            task = {name: value for name, value in params.items() if name == "taskId"}  # which a client compares
            params = {**await self._relay.masked(server, params, None), **task}
        if not self._relay or not self._relay.caller.modern:
            self.client.notify(method, params or None)
        elif is_change(method):
            self._listeners.heard(method, params)
        else:
            self.client.notify(method, params or None)

    @property
    def _lists_always(self) -> bool:
        return self._bag.settings.tools_listed == "always"

    def _has_turn(self, *, claim: bool) -> bool:
        """Whether it is this gateway that lists our tools."""
        return self._siblings is None or (self._siblings.claim_turn() if claim else self._siblings.has_turn)

    def _ours(self, *, claim: bool = True) -> Sequence[ToolSpec]:
        """Our tools. Where they are listed always the list never changes: that would cost the client its caches."""
        if not self._lists_always:
            ours = self._bag.tools()
        else:
            asks = self._bag.models.configured or not self._bag.dialect.extracts_with_model
            ours = tuple(tool.spec for tool in self._bag.dialect.tools if asks or tool.verb != "extract")
        return ours if ours and self._has_turn(claim=claim) else ()

    def _notify_changes(self) -> None:
        names = tuple(tool.name for tool in self._ours(claim=not self._lists_always))
        if self._told is not None and names != self._told:
            if self._relay is not None and self._relay.caller.modern:
                self._listeners.heard(_TOOLS_CHANGED, {})
            else:
                self.client.notify(_TOOLS_CHANGED)
        self._told = names
