"""What adapters stand on, without any framework: names of sessions, prefixes, tools before there is a session."""

import asyncio
import concurrent.futures
import dataclasses
import re
import subprocess
import sys
import threading
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from holdall import Settings, ToolPolicy, UsageError, blocking
from holdall.adapters import Additions, Conversations
from holdall.adapters.functions import wrap
from holdall.values.errors import MissingExtra
from holdall.wire.dialect import with_prefix
from holdall.wire.dialects import DIALECTS
from tests.requirements import requirement

LOG = "".join(f"line {n}: context_read(handle) of the tool, {n * 7919 % 10007}\n" for n in range(5000))
NAMES = re.compile(r"(?<!\w)(?:mcp__holdall__)?(?:context_\w+|wait_for_tool_output|tool_output)")


def of(home: Path, **options: Any) -> Conversations:
    return Conversations(home=str(home), **options)


def no_identity() -> object:
    return None


@requirement("adapter:conversations")
def test_a_conversation_without_identity_is_refused() -> None:
    with pytest.raises(UsageError, match="no identity"):
        Conversations().name(None, no_identity)


@requirement("adapter:conversations")
@pytest.mark.parametrize("identity", ["x" * 300, "two\nlines", "\ud800"])
def test_an_identity_that_cannot_be_a_name_has_one_of_its_own(identity: str) -> None:
    one, other = Conversations().name(None, lambda: identity), Conversations().name(None, lambda: identity + "x")
    assert one.startswith("conversation:conversation-")
    assert one != other


@requirement("adapter:conversations")
@pytest.mark.parametrize("length", [186, 187, 188, 200, 201])
def test_a_conversation_has_a_session_however_long_its_identity_is(tmp_path: Path, length: int) -> None:
    conversations = of(tmp_path)
    name = conversations.name(None, lambda: "x" * length)
    assert conversations.result_now(name, lambda: "small", tool="t", running=str) == "small"
    conversations.close()


@requirement("adapter:conversations")
def test_the_user_names_the_session_or_finds_its_name() -> None:
    assert Conversations(session="fixed").name(None, no_identity) == "fixed"
    assert Conversations(session=lambda context: f"{context}-1").name("user", no_identity) == "user-1"


@requirement("adapter:specs")
def test_all_tools_are_known_before_there_is_a_session() -> None:
    conversations = Conversations()
    names = [spec.name for spec in conversations.specs()]
    assert names == [
        "context_read",
        "context_grep",
        "context_tail",
        "context_query",
        "context_diff",
        "wait_for_tool_output",
    ]
    assert all(map(conversations.owns, names))
    assert not conversations.owns("fetch")
    assert "wait_for_tool_output" not in [spec.name for spec in Conversations(background=False).specs()]


@requirement("adapter:prefix")
def test_every_text_names_our_tools_with_the_prefix_and_no_data_is_changed(tmp_path: Path) -> None:
    dialect = with_prefix(DIALECTS["holdall"], "mcp__holdall__")
    settings = Settings(slow_after_seconds=0.0)
    ready = threading.Event()
    with blocking.Holdall.open(home=str(tmp_path), session="s", dialect=dialect, settings=settings) as bag:
        notice = bag.take(LOG, tool="fetch").content
        handle = re.search(r"handle: (\w+)", notice)
        assert handle
        running = bag.run(lambda: ready.wait(60), tool="slow")
        texts = [
            notice,
            bag.call("context_read", {"handle": handle[1]}).text,
            bag.call("mcp__holdall__context_grep", {"handle": handle[1], "pattern": "line 1"}).text,
            bag.call("context_reed", {"handle": handle[1]}).text,
            bag.call("context_read", {"handle": "none"}).text,
            running.content,
            bag.call("wait_for_tool_output", {"timeout": 0}).text,
            bag.system_notice(turn=1),
            bag.instructions(),
            *(spec.description for spec in bag.tools()),
        ]
        ready.set()
    found = 0
    for text in texts:
        for part in re.split(r"(?s)<(\d{3,})>\n.*?</\1>", text)[::2]:
            names = NAMES.findall(part.replace("'context_reed'", "").replace('pattern="context_read', ""))
            found += len(names)
            assert all(name.startswith("mcp__holdall__") for name in names), part
    assert found > 12
    assert "line 1: context_read(handle) of the tool" in texts[1]


@requirement("adapter:loops")
def test_an_adapter_serves_many_loops_and_threads_and_opens_again_after_it_was_closed(tmp_path: Path) -> None:
    conversations = of(tmp_path)

    async def small() -> str:
        return "small"

    async def ask() -> object:
        return await conversations.result("s", small, tool="t", running=str)

    assert [asyncio.run(ask()) for _ in range(2)] == ["small", "small"]
    assert conversations.result_now("s", lambda: "small", tool="t", running=str) == "small"
    conversations.close()
    conversations.close()
    assert conversations.result_now("s", lambda: LOG, tool="t", running=str) != LOG
    conversations.close()


@requirement("adapter:lost")
def test_handles_that_no_message_names_any_more_are_listed_again(tmp_path: Path) -> None:
    conversations = of(tmp_path)
    notice = conversations.result_now("s", lambda: LOG, tool="fetch", running=str)

    def additions(*texts: str) -> Additions:
        return request(conversations, *texts)

    assert additions(notice).notice == ""
    assert "## Kept Outputs" in additions("a summary").notice
    assert additions(notice).notice == ""
    conversations.close()
    assert "## Kept Outputs" in additions("a summary").notice  # resumed
    conversations.close()


@requirement("adapter:interrupts")
def test_what_a_call_raises_is_raised_as_it_was(tmp_path: Path) -> None:
    conversations = of(tmp_path)

    class Interrupt(BaseException):
        pass

    interrupt = Interrupt()

    def asks() -> str:
        raise interrupt

    async def asks_later() -> str:
        raise interrupt

    with pytest.raises(Interrupt) as raised:
        conversations.result_now("s", asks, tool="t", running=str)
    assert raised.value is interrupt
    with pytest.raises(Interrupt) as raised:
        asyncio.run(conversations.result("s", asks_later, tool="t", running=str))
    assert raised.value is interrupt
    conversations.close()


class Said(Exception):
    """As frameworks have them: it carries more than its text."""

    def __init__(self, text: str, code: int = 7) -> None:
        super().__init__(text)
        self.message, self.code = text, code


class StatusError(Exception):
    """As those of HTTP clients: its constructor cannot copy it."""

    def __init__(self, message: str, *, response: object) -> None:
        super().__init__(message)
        self.response = response


class GraphBubbleUp(Exception):
    """Named as LangGraph names what stops a run and asks."""


@requirement("adapter:interrupts")
@pytest.mark.parametrize("now", [True, False])
def test_an_error_that_is_large_or_holds_a_secret_tells_the_model_only_what_it_may_see(
    tmp_path: Path, now: bool
) -> None:
    secret = "ghp_" + "Ab3dE5gH7jK9mN1pQ3sT5vW7yZ9bC1dF3hJ5"
    settings = Settings(tools={"safe": ToolPolicy(redact=True)})
    conversations = of(tmp_path, settings=settings)

    def raised(error: Exception, tool: str) -> Exception:
        def fails() -> str:
            raise error

        async def fails_later() -> str:
            raise error

        def run() -> None:
            if now:
                conversations.result_now("c", fails, tool=tool, running=str)
            else:
                asyncio.run(conversations.result("c", fails_later, tool=tool, running=str))

        with pytest.raises(Exception) as caught:  # noqa: PT011 - of which kind is looked at below
            run()
        return caught.value

    large = raised(Said(LOG, 42), "plain")
    assert isinstance(large, Said)
    assert (large.code, large.__context__, str(large).startswith("plain failed with ")) == (42, None, True)
    assert large.message == str(large)
    with blocking.Holdall.open(home=str(tmp_path), session="c") as bag:
        (kept,) = bag.outputs()
        assert (kept.origin.is_error, "Traceback" in kept.origin.traceback) == (True, True)
    masked = raised(Said(f"failed with GITHUB_TOKEN={secret}"), "safe")
    assert secret not in f"{masked!r} {masked.__context__!r} {masked.__cause__!r}"
    for text in (f"GITHUB_TOKEN={secret}", f"GITHUB_TOKEN={secret}\n{LOG}"):
        other = raised(StatusError(text, response=object()), "safe")
        assert type(other) is StatusError
        assert (secret in str(other), other.__context__, other.__cause__) == (False, None, None)
        assert "GITHUB_TOKEN=*" in str(other) or "handle: " in str(other)
    assert type(raised(OSError(5, secret), "safe")) is RuntimeError, "its text is not that of its arguments"
    failed = raised(subprocess.CalledProcessError(3, [LOG]), "plain")
    assert isinstance(failed, subprocess.CalledProcessError)
    assert (failed.returncode, str(failed).startswith("plain failed with ")) == (3, True)
    for error in (KeyError(LOG), FileNotFoundError(2, LOG, "/p")):
        other = raised(error, "plain")
        assert isinstance(other, type(error))
        assert (str(other).startswith("plain failed with "), getattr(other, "errno", 2)) == (True, 2)
    small, asks = Said("no such host"), GraphBubbleUp(LOG)
    assert raised(small, "plain") is small
    assert raised(small, "safe") is small
    assert raised(asks, "plain") is asks
    conversations.close()


@dataclasses.dataclass
class Blob:
    """As frameworks have them: a payload, and words about it."""

    data: str
    title: str = ""
    _id: str = ""


SECRET = "ghp_" + "Ab3dE5gH7jK9mN1pQ3sT5vW7yZ9bC1dF3hJ5"


class Sealed:
    """Of which nothing can be changed."""

    __slots__ = ()
    data = "small"

    def __str__(self) -> str:
        return f"GITHUB_TOKEN={SECRET}"


@requirement("store:tool-redacts")
@pytest.mark.parametrize("now", [True, False])
def test_what_a_result_holds_beside_its_outputs_is_masked_too(tmp_path: Path, now: bool) -> None:
    said = f"GITHUB_TOKEN={SECRET}"
    conversations = of(tmp_path, settings=Settings(tools={"safe": ToolPolicy(redact=True)}))

    def data_of(value: Any) -> list[object]:
        return [value.data]

    def nothing_of(_: Any) -> list[object]:
        return []

    def with_data(value: Any, new: list[object]) -> Any:
        return dataclasses.replace(value, data=new[0])

    def result(value: Any, tool: str = "safe", take: Callable[[Any], list[object]] = data_of) -> Any:
        async def later() -> Any:
            return value

        if now:
            return conversations.result_now("c", lambda: value, tool=tool, running=str, take=take, put=with_data)
        return asyncio.run(conversations.result("c", later, tool=tool, running=str, take=take, put=with_data))

    for blob in (Blob("small", title=said), Blob("small", _id=said), Blob(LOG, title=said)):
        shown = result(blob)
        assert type(shown) is Blob
        assert SECRET not in str(shown)
        assert "GITHUB_TOKEN=*" in str(shown)
    assert result(Blob("small", title=said), "plain").title == said
    assert SECRET not in str(result(Blob(said), take=nothing_of))
    assert result(Sealed()).startswith("[not shown and not kept: ")

    class Event(dict[str, Any]):
        """As a framework has them: a dictionary with more than its members."""

        id = 0

    event = Event(type="result", data={"password": SECRET})
    event.id = 7
    for _ in range(2):  # what is masked already stays as it is, too
        shown = event = result(event, take=nothing_of)
        assert (type(shown), shown.id, shown["type"]) == (Event, 7, "result")
        assert shown["data"] == {"password": "*" * len(SECRET)}
    conversations.close()


@requirement("store:tool-redacts")
def test_without_the_rules_for_secrets_no_adapter_is_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing() -> None:
        raise MissingExtra("google-re2", "redact", "masking")

    monkeypatch.setattr("holdall.bag.redaction.usual_rules", missing)
    with pytest.raises(MissingExtra):
        of(tmp_path, settings=Settings(tools={"env": ToolPolicy(redact=True)}))
    of(tmp_path, settings=Settings(tools={"env": ToolPolicy(store="never")})).close()


@requirement("adapter:background")
def test_calls_that_run_already_are_not_said_to_be_queued(tmp_path: Path) -> None:
    conversations = of(tmp_path, settings=Settings(slow_after_seconds=0.01, max_background_calls=2))
    end = threading.Event()

    def slow() -> str:
        end.wait(60)
        return "done"

    notices = [conversations.result_now("c", slow, tool="slow", running=str, call_id=str(n)) for n in range(4)]
    assert all("is still running" in one for one in notices)
    end.set()
    conversations.close()


@requirement("adapter:functions")
def test_a_coroutine_function_is_waited_for_since_its_loop_may_end_with_the_call(tmp_path: Path) -> None:
    async def slow() -> str:
        await asyncio.sleep(0.1)
        return "done"

    tools = wrap(slow, home=str(tmp_path), settings=Settings(slow_after_seconds=0.01))
    assert asyncio.run(tools[0]()) == "done"


# Calls in the background


def in_loop(conversations: Conversations, tool: Callable[[], Any], name: str = "slow", call_id: str = "c") -> Any:
    """The coroutine by which the frameworks with a loop call a tool."""
    return conversations.result("s", tool, tool=name, running=str, call_id=call_id)


def states(home: Path) -> dict[str, str]:
    """By tool, as another program finds them."""
    conversations = of(home)
    with conversations.of("s") as bag:
        found = {one.origin.tool: one.state for one in bag.core.kept.values()}
    conversations.close()
    return found


@requirement("adapter:background")
@pytest.mark.parametrize("now", [True, False])
def test_a_call_is_said_to_run_since_it_was_made(tmp_path: Path, now: bool) -> None:
    conversations = of(tmp_path, settings=Settings(slow_after_seconds=0.3))
    end = threading.Event()

    async def run() -> None:
        await in_loop(conversations, lambda: asyncio.to_thread(end.wait, 60))
        look()

    def look() -> None:
        with conversations.of("s") as bag:
            [running] = bag.jobs.still_running()
        end.set()
        assert running.seconds >= 0.3

    if now:
        conversations.result_now("s", lambda: end.wait(60), tool="slow", running=str)
        look()
    else:
        asyncio.run(run())
    conversations.close()


@requirement("adapter:background")
def test_what_a_wait_has_just_shown_is_not_said_to_be_ready(tmp_path: Path) -> None:
    conversations = of(tmp_path, settings=Settings(slow_after_seconds=0.0))
    end = threading.Event()
    told = conversations.result_now("s", lambda: str(end.wait(60)), tool="slow", running=str)
    end.set()
    with conversations.of("s") as bag:
        wait_for_end(bag)
    assert "### Ready (1)" in request(conversations, told).notice
    assert "True" in conversations.answer_now("s", "wait_for_tool_output", {}).text
    assert request(conversations, told).notice == ""
    conversations.close()


def wait_for_end(bag: Any) -> None:
    """Of all calls, without being told of it."""
    bag.core.shared.portal.call(bag.jobs.ended(list(bag.jobs.calls)))


def request(conversations: Conversations, *texts: str) -> Additions:
    return conversations.request_now("s", turn=2, texts=lambda: texts)


@requirement("adapter:lost")
def test_the_list_of_what_is_kept_prefers_what_has_something_in_it(tmp_path: Path) -> None:
    conversations = of(tmp_path)
    with conversations.of("s") as bag:
        portal = conversations.pool.portal
        for n in range(3):
            portal.call(bag.keep(f"{LOG}{n}", tool=f"full{n}"))
        for n in range(30):
            writer = portal.call(bag.jobs.begin(tool="empty", call_id=str(n)))
            bag.core.kept[writer.handle] = writer.finish("interrupted")
    notice = request(conversations, "a summary").notice
    assert [tool for tool in ("full0", "full1", "full2") if tool in notice] == ["full0", "full1", "full2"]
    assert "… and 13 more" in notice
    conversations.close()


@requirement("adapter:background")
def test_a_loop_that_closes_gives_the_calls_on_it_their_grace(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """`asyncio.run` cancels what is left on its loop."""
    conversations = of(tmp_path, settings=Settings(slow_after_seconds=0.0, grace_seconds=60.0))
    end = threading.Event()

    async def slow() -> str:
        await asyncio.to_thread(end.wait, 60)
        return "done"

    async def run() -> None:
        await in_loop(conversations, slow)
        asyncio.get_running_loop().call_later(0.1, end.set)

    asyncio.run(run())
    conversations.close()
    assert states(tmp_path) == {"slow": "ready"}
    assert "slow still runs in the background, and its event loop is closing" in caplog.text


@requirement("adapter:background")
def test_after_its_grace_a_call_is_cancelled_with_its_loop(tmp_path: Path) -> None:
    conversations = of(tmp_path, settings=Settings(slow_after_seconds=0.0, grace_seconds=0.0))
    asyncio.run(in_loop(conversations, lambda: asyncio.sleep(60)))
    conversations.close()
    assert states(tmp_path) == {"slow": "cancelled"}


@requirement("adapter:background")
def test_a_call_that_ended_while_its_loop_stood_still_is_not_said_to_run(tmp_path: Path) -> None:
    """`run_sync` of some frameworks runs one loop from time to time."""
    conversations = of(tmp_path, settings=Settings(slow_after_seconds=0.0))
    loop, end = asyncio.new_event_loop(), threading.Event()
    thread = concurrent.futures.ThreadPoolExecutor(1)
    done = thread.submit(end.wait, 60)

    async def slow() -> str:
        await asyncio.ensure_future(asyncio.ensure_future(asyncio.wrap_future(done)))
        return LOG

    loop.run_until_complete(in_loop(conversations, slow))
    end.set()
    done.result()
    added = loop.run_until_complete(conversations.request("s", turn=2, texts=lambda: ()))
    assert "### Running" not in added.notice
    assert "### Ready (1)" in added.notice
    loop.close()
    thread.shutdown()
    conversations.close()


PROGRAM = """
import asyncio, logging, sys, threading
from holdall import Settings
from holdall.adapters import Conversations

grace, end = float(sys.argv[2]), threading.Event()
conversations = Conversations(home=sys.argv[1], settings=Settings(slow_after_seconds=0.0, grace_seconds=grace))

class Told(logging.Handler):
    def emit(self, record):
        print(record.getMessage(), file=sys.stderr)
        if grace:
            end.set()  # not before the program ends

logging.getLogger("holdall").addHandler(Told())

async def run():
    slow = lambda: asyncio.to_thread(end.wait) if grace else asyncio.Event().wait()
    await conversations.result("s", slow, tool="loop", running=str)

asyncio.new_event_loop().run_until_complete(run())
conversations.result_now("s", end.wait, tool="thread", running=str)
"""


@requirement("adapter:background")
@pytest.mark.parametrize(("grace", "state"), [("60", "ready"), ("0", "cancelled")])
def test_a_program_that_ends_keeps_what_its_calls_in_the_background_give(
    tmp_path: Path, grace: str, state: str
) -> None:
    command = [sys.executable, "-c", PROGRAM, str(tmp_path), grace]
    ran = subprocess.run(command, capture_output=True, timeout=60, check=True)
    assert states(tmp_path) == {"loop": state, "thread": state}
    said = ran.stderr.decode()
    assert "The program ends, and 2 calls still run in the background: loop (" in said
    assert len(said.splitlines()) == 1, said


@requirement("adapter:functions")
def test_the_traceback_of_a_tool_is_its_own(tmp_path: Path) -> None:
    """ag2 shows it to the model."""

    def fails() -> str:
        raise ValueError("no such host")

    async def fails_later() -> str:
        raise ValueError("no such host")

    [now, *_], [later, *_] = wrap(fails, home=str(tmp_path)), wrap(fails_later, home=str(tmp_path))
    for call in (now, lambda: asyncio.run(later())):
        with pytest.raises(ValueError, match="no such host") as caught:
            call()
        names = [frame.name for frame in traceback.extract_tb(caught.tb)]
        ours = names.index("now" if call is now else "later")
        assert names[ours:] in (["now", "fails"], ["later", "fails_later"])


@pytest.mark.parametrize("dialect", ["holdall", "clamp", "refs"])
@pytest.mark.parametrize("more", [{"tools": {"vault": ToolPolicy(store="never")}}, {"session_quota_bytes": 1}])
def test_what_cannot_be_made_shorter_is_shown_where_no_room_is_left(
    tmp_path: Path, dialect: Any, more: dict[str, Any]
) -> None:
    conversations = of(tmp_path, settings=Settings(window=8_000, dialect=dialect, **more))
    with conversations.of("c") as bag:
        conversations._rooms[bag] = 0  # pyright: ignore[reportPrivateUsage]
        said = conversations.result_now("c", lambda: "ten words " * 5, tool="vault", running=str)
    assert said.startswith("ten words ")
    conversations.close()
