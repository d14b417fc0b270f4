"""What every adapter promises, as one suite: a framework's own test module says how an agent is run there.

    class TestAsync(Contract):
        framework = LangChain(is_async=True)

The model is scripted: a function that is given each request as the model gets it, and says what the model answers. What a
framework does not allow is in its `limits`, with the reason; a limit that is none any more fails, too.
"""

import asyncio
import json
import math
import random
import re
import threading
import zlib
from collections.abc import Callable, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Literal, Protocol

import pytest

from holdall import Settings, blocking
from holdall.policy.decide import room_of_turn
from holdall.text.tokens import tokenizer_named
from tests.requirements import requirement

NEEDLE = "needle-7f3a91"
BROKEN = "the disk of the tool is broken"
QUESTION = "delete everything?"
DELETED = "everything is deleted"


@cache
def big(rows: int = 145_000) -> str:
    """JSON on one line, by default 10 MB of it; the needle is once in it."""
    made = [{"id": n, "name": f"name {n}", "note": f"{n * 7919 % 100003} of the rows, told again"} for n in range(rows)]
    made[rows // 3 * 2]["note"] = NEEDLE
    return json.dumps({"rows": made})


@cache
def noise(size: int) -> bytes:
    """A PNG of about so many bytes: dots of any colour, which nothing makes smaller."""
    side = math.isqrt(size // 3)
    dots = b"".join(b"\0" + random.Random(row).randbytes(side * 3) for row in range(side))

    def chunk(kind: bytes, data: bytes) -> bytes:
        return len(data).to_bytes(4) + kind + data + zlib.crc32(kind + data).to_bytes(4)

    head = side.to_bytes(4) * 2 + bytes((8, 2, 0, 0, 0))
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(dots, 0)) + chunk(b"IEND", b"")


# What goes in, and what is seen


@dataclass(frozen=True)
class Call:
    """A call that the model makes."""

    tool: str
    arguments: Mapping[str, Any] = field(default_factory=dict[str, Any])
    id: str = "call-1"


@dataclass(frozen=True)
class Got:
    """A tool's result as the model gets it."""

    text: str
    is_error: bool = False  # as far as the framework tells a model
    images: tuple[bytes, ...] = ()


@dataclass(frozen=True)
class Request:
    """One request to the model, as far as the contract looks at it."""

    results: Mapping[str, Got]  # by the id of their call; all that are in the messages
    tools: tuple[str, ...]
    system: str = ""
    text: str = ""  # of all messages


Says = str | Sequence[Call]  # the answer, or the calls of one turn
Script = Callable[[list[Request]], Says]  # is given all requests so far


@dataclass
class Ran:
    """One run of an agent to its end. `saved` is what the framework keeps of the conversation, `events` what it streams,
    `traces` what it tells those who watch; each as text.
    """

    answer: str
    requests: list[Request]
    saved: str = ""
    events: str = ""
    traces: str = ""

    @property
    def last(self) -> Mapping[str, Got]:
        return self.requests[-1].results


Limit = Literal["saved", "events", "traces", "room", "background", "interrupt", "static"]


class Framework(Protocol):
    """How a framework is driven. `Adapter` is whatever its one line gives; None stands for the bare framework."""

    is_async: bool  # whether tools are coroutines
    # bench.adapters sets `is_lean`: then a run saves, streams and traces nothing, since that costs more than a call.
    limits: Mapping[Limit, str]  # what it does not allow, and why

    def adapter(self, home: Path, **options: Any) -> Any:
        """The adapter as a user makes it, with these keywords."""
        ...

    def close(self, adapter: Any) -> None: ...

    def run(self, adapter: Any, script: Script, tools: Sequence[Any], *, conversation: str = "c1") -> Ran:
        """Run an agent until the model answers. Tools are functions with a docstring, or of `image_tool`."""
        ...

    def image_tool(self, name: str, image: bytes) -> Any:
        """A tool of the framework's own kind that returns this PNG."""
        ...

    def passed_on(self, adapter: Any) -> tuple[object, object]:
        """For a small result: the object that the framework made of it, and the one that the adapter passed on."""
        ...

    def interrupted(self, adapter: Any) -> tuple[str, str]:
        """A tool asks a person QUESTION in the framework's way: what reached the person, and what the model got after
        the person agreed (DELETED)."""
        ...


# Scripts


def handle_in(text: str) -> str:
    found = re.search(r"^handle: (\S+)|under the handle (\S+)|handle[ =:\"]+([a-z0-9]+)", text, re.MULTILINE)
    assert found, text[:2000]
    return next(one for one in found.groups() if one).rstrip(".,;)")


def calls_then_answers(*calls: Call) -> Script:
    """All of them in one turn, then the answer."""
    return lambda requests: list(calls) if len(requests) == 1 else "done"


def tool_named(request: Request, name: str) -> str:
    """As the model sees it: some frameworks write a prefix before it."""
    return next(one for one in request.tools if one.endswith(name))


def finds_the_needle(tool: Callable[[], Any], handle: str = "") -> Script:
    """Calls the tool, searches what its notice names, or this handle, and answers with what was found."""

    def script(requests: list[Request]) -> Says:
        now = requests[-1]
        if len(requests) == 1:
            return [Call(tool.__name__)]
        if len(requests) == 2:
            asked = {"handle": handle or handle_in(now.results["call-1"].text), "pattern": NEEDLE}
            return [Call(tool_named(now, "context_grep"), asked, "call-2")]
        return now.results["call-2"].text

    return script


# Tools. Coroutines where the framework is asynchronous: they are called on its loop, as those of a user are.


def as_tool(function: Callable[..., Any], *, is_async: bool) -> Any:
    if not is_async:
        return function

    async def called() -> Any:
        return function()

    called.__name__, called.__doc__ = function.__name__, function.__doc__
    called.__annotations__ = dict(function.__annotations__)
    return called


def fetch() -> str:
    """Fetch the rows."""
    return big()


def fetch_some() -> str:
    """Fetch some of the rows: 200 KB."""
    return big(3000)


def small() -> str:
    """A few words."""
    return "just a few words"


def rows() -> dict[str, Any]:
    """Rows by name."""
    return {"rows": [{"id": 1, "name": "ä"}, {"id": 2, "name": None}], "total": 2}


def many_rows() -> dict[str, Any]:
    """Many rows by name."""
    return json.loads(big(3000))


def fails() -> str:
    """It always fails."""
    raise RuntimeError(BROKEN)


def part() -> str:
    """A part that fits alone: about 6,000 tokens."""
    return "\n".join(f"{n}: line of a part, {n * 7919 % 1009}" for n in range(450))


class Contract:
    """Subclass it as `TestX` and set `framework`."""

    framework: Framework
    session = "conversation:c1"  # what the adapter calls the session of that conversation

    @contextmanager
    def adapter(self, home: Path, **options: Any) -> Any:
        adapter = self.framework.adapter(home, **options)
        try:
            yield adapter
        finally:
            self.framework.close(adapter)

    def tools(self, *functions: Callable[..., Any]) -> list[Any]:
        return [as_tool(one, is_async=self.framework.is_async) for one in functions]

    def limited(self, limit: Limit) -> bool:
        return limit in self.framework.limits

    @requirement("adapter:needle", "adapter:saved-state")
    def test_a_needle_in_10_mb_of_one_line_is_found_and_only_the_notice_is_saved(self, tmp_path: Path) -> None:
        with self.adapter(tmp_path) as adapter:
            ran = self.framework.run(adapter, finds_the_needle(fetch), self.tools(fetch))
        notice = ran.requests[1].results["call-1"].text
        assert NEEDLE in ran.answer
        assert NEEDLE not in notice
        assert len(notice) < 4000
        assert len(ran.requests[1].text) < 8000
        inside = "name 64321"  # in the output only; without a quote, which some of these places escape
        places: dict[Limit, str] = {"saved": ran.saved, "events": ran.events, "traces": ran.traces}
        for place, said in places.items():
            assert (inside in said) == self.limited(place), f"{place}: {self.framework.limits.get(place)}"
            assert said, f"{place} are not looked at"

    @requirement("adapter:same-object")
    def test_a_small_result_is_the_same_object(self, tmp_path: Path) -> None:
        with self.adapter(tmp_path) as adapter:
            made, passed = self.framework.passed_on(adapter)
        assert passed is made

    @requirement("adapter:same-object")
    @pytest.mark.parametrize("tool", [small, rows, fails])
    def test_what_fits_reaches_the_model_as_without_the_adapter(self, tmp_path: Path, tool: Callable[[], Any]) -> None:
        script = calls_then_answers(Call(tool.__name__))

        def outcome(adapter: Any) -> object:
            try:
                return [one.results for one in self.framework.run(adapter, script, self.tools(tool)).requests]
            except Exception as problem:  # a framework may let the error of a tool end the run
                return type(problem), str(problem)

        with self.adapter(tmp_path) as adapter:
            assert outcome(adapter) == outcome(None)

    @requirement("adapter:same-object")
    def test_our_tools_are_not_seen_and_nothing_is_told_while_nothing_is_kept(self, tmp_path: Path) -> None:
        script = calls_then_answers(Call("small"))
        with self.adapter(tmp_path) as adapter:
            ran = self.framework.run(adapter, script, self.tools(small))
        bare = self.framework.run(None, script, self.tools(small))
        if self.limited("static"):
            assert set(bare.requests[0].tools) < set(ran.requests[0].tools)
        else:
            assert ran.requests == bare.requests

    @requirement("adapter:structured")
    def test_a_large_structured_result_is_kept_as_json(self, tmp_path: Path) -> None:
        def script(requests: list[Request]) -> Says:
            now = requests[-1]
            if len(requests) == 1:
                return [Call("many_rows")]
            if len(requests) == 2:
                path = {"handle": handle_in(now.results["call-1"].text), "path": "$.rows[2000].note"}
                return [Call(tool_named(now, "context_query"), path, "call-2")]
            return now.results["call-2"].text

        with self.adapter(tmp_path) as adapter:
            ran = self.framework.run(adapter, script, self.tools(many_rows))
        assert NEEDLE in ran.answer

    @requirement("adapter:image")
    def test_a_small_image_passes_and_a_large_one_is_kept(self, tmp_path: Path) -> None:
        little, large = noise(2000), noise(1_100_000)
        tools = [self.framework.image_tool("icon", little), self.framework.image_tool("photo", large)]
        calls = calls_then_answers(Call("icon", id="call-1"), Call("photo", id="call-2"))
        with self.adapter(tmp_path) as adapter:
            ran = self.framework.run(adapter, calls, tools)
        bare = self.framework.run(None, calls, tools)
        assert ran.last["call-1"] == bare.last["call-1"]
        assert ran.last["call-1"].images == (little,)
        assert ran.last["call-2"].images == ()
        assert kept(tmp_path, self.session, handle_in(ran.last["call-2"].text)) == large

    @requirement("adapter:interrupts")
    def test_an_interrupt_passes_as_it_was(self, tmp_path: Path) -> None:
        if self.limited("interrupt"):
            return
        with self.adapter(tmp_path) as adapter:
            asked, got = self.framework.interrupted(adapter)
        assert QUESTION in asked
        assert DELETED in got

    @requirement("adapter:room")
    def test_calls_of_one_turn_share_the_room(self, tmp_path: Path) -> None:
        calls = [Call("part", id=f"call-{n}") for n in range(6)]
        window = 40_000
        with self.adapter(tmp_path, settings=Settings(window=window)) as adapter:
            ran = self.framework.run(adapter, calls_then_answers(*calls), self.tools(part))
        whole = [one for one in ran.last.values() if one.text == part()]
        assert len(ran.last) == len(calls)
        if self.limited("room"):
            assert len(whole) == len(calls)
            return
        assert 0 < len(whole) < len(calls)
        count = tokenizer_named("auto").count
        assert sum(count(one.text) for one in ran.last.values()) <= room_of_turn(window, 0)

    @requirement("adapter:conversations")
    def test_two_conversations_are_apart(self, tmp_path: Path) -> None:
        with self.adapter(tmp_path) as adapter:
            first = self.framework.run(
                adapter, finds_the_needle(fetch_some), self.tools(fetch_some), conversation="one"
            )
            handle = handle_in(first.requests[1].results["call-1"].text)
            asks = finds_the_needle(fetch_some, handle)
            second = self.framework.run(adapter, asks, self.tools(fetch_some), conversation="two")
        assert NEEDLE in first.answer
        assert handle_in(second.requests[1].results["call-1"].text) != handle
        assert f'No output is kept under "{handle}"' in second.answer

    @requirement("adapter:resume")
    def test_a_conversation_is_resumed_by_its_name_after_a_restart(self, tmp_path: Path) -> None:
        with self.adapter(tmp_path) as adapter:
            before = self.framework.run(
                adapter, finds_the_needle(fetch_some), self.tools(fetch_some), conversation="same"
            )
        handle = handle_in(before.requests[1].results["call-1"].text)

        def asks_again(requests: list[Request]) -> Says:
            now = requests[-1]
            if len(requests) == 1:
                name = tool_named(now, "context_grep")
                return [Call(name, {"handle": handle, "pattern": NEEDLE}, "call-9")]
            return now.results["call-9"].text

        with self.adapter(tmp_path) as adapter:  # another object, as another process has
            after = self.framework.run(adapter, asks_again, self.tools(fetch_some), conversation="same")
        assert NEEDLE in after.answer

    @requirement("adapter:background")
    def test_a_slow_tool_goes_to_the_background_and_is_fetched_later(self, tmp_path: Path) -> None:
        if self.limited("background"):
            return
        ready = threading.Event()

        def slow() -> str:
            """Takes its time."""
            assert ready.wait(60)
            return f"it took long: {NEEDLE}"

        async def slow_later() -> str:
            """Takes its time."""
            return await asyncio.to_thread(slow)

        slow_later.__name__ = "slow"

        def script(requests: list[Request]) -> Says:
            now = requests[-1]
            if len(requests) == 1:
                return [Call("slow")]
            if len(requests) == 2:
                ready.set()
                handle = handle_in(now.results["call-1"].text)
                return [Call(tool_named(now, "wait_for_tool_output"), {"handle": handle}, "call-2")]
            return now.results["call-2"].text

        tool = slow_later if self.framework.is_async else slow
        with self.adapter(tmp_path, settings=Settings(slow_after_seconds=0.05)) as adapter:
            ran = self.framework.run(adapter, script, [tool])
        assert NEEDLE not in ran.requests[1].text
        assert NEEDLE in ran.answer


def kept(home: Path, session: str, handle: str) -> bytes:
    """All bytes of an output, read by another program."""
    with blocking.Holdall.open(home=str(home), session=session) as bag:
        return b"".join(bag.fetch.stream(handle))


def example(name: str, **given: Any) -> dict[str, Any]:
    """What the page of a framework shows, run with these names beside what it imports; the names that it made."""
    page = Path(__file__).parents[2] / "docs" / "adapters" / f"{name}.md"
    [code] = re.findall(r"```python\n(.*?)```", page.read_text("utf-8"), re.DOTALL)
    names: dict[str, Any] = dict(given)
    exec(compile(code, page, "exec"), names)
    return names
