"""The flows of the documents, end to end: large, slow, sub-agents, a full window, a provider that says too long."""

import asyncio
import json
import signal
import sys
from pathlib import Path
from typing import Any

import pytest

from holdall.agent.agent_session import AgentSession
from holdall.agent.loop import run_agent, run_session
from holdall.agent.toolbox import Agent, AgentQuota
from holdall.bag import Holdall
from holdall.cli.agents import drawn_tree
from holdall.llm.catalogue import Price
from holdall.llm.protocol import Request
from holdall.llm.scripted import ScriptedModel
from holdall.values.chat import Reply, ToolCall
from holdall.values.errors import ModelFault, ModelOverflow, SessionLocked, TooLongForModel
from holdall.wire.agent_texts import CALL_INTERRUPTED
from tests.agent.shapes import acting, agent, newest_handle, notice_of, report, returned, tool
from tests.agent.test_loop import BIG, big, run, small
from tests.extract.shapes import Answer, said
from tests.requirements import requirement

pytestmark = pytest.mark.anyio


async def test_oversized_to_handle_to_extract(tmp_path: Path) -> None:
    """S0: Large tool output → handle → tool_output extract."""

    def model(request: Request) -> Reply | str:
        if not request.tools:  # it is asked about the output
            return said(request, Answer("it is line 777", ["line 777 of the output"]))
        if not returned(request):
            return Reply(calls=(ToolCall("a", "big", {}),))
        if len(returned(request)) == 1:
            asked = {"handle": newest_handle(request), "extract": "Which line is the 778th?", "mode": "full-chunked"}
            return Reply(calls=(ToolCall("b", "tool_output", asked),))
        return Reply(calls=(ToolCall("c", "final_report", {"report": "line 777"}),))

    scripted = ScriptedModel(model, window=40_000)
    found = await run(agent(tmp_path, scripted, tool("big", big), settings={"dialect": "extract"}))
    notice, abstract = (one.text for one in returned(scripted.requests[-1]))
    assert notice.startswith("Tool output is too large (")
    assert abstract.startswith("ABSTRACT FROM TOOL OUTPUT big WITH HANDLE session-")
    assert "STRATEGY:full-chunked:\n\n" in abstract
    assert "> line 777 of the output\n  (bytes " in abstract
    assert found.calls == len(scripted.requests), "with the calls of the extraction"


async def test_slow_to_wait_to_retrieve(tmp_path: Path) -> None:
    """S3: Slow Tool."""
    gate = asyncio.Event()

    async def slow() -> str:
        await gate.wait()
        return "the slow result"

    def let_go(_: Request) -> Reply:
        gate.set()
        return Reply(calls=(ToolCall("w", "wait_for_tool_output", {}),))

    model = acting(
        [("slow", {}), ("small", {})], let_go, [("get_tool_output", {"id": "$", "mode": "raw"})], report("got it")
    )
    one = agent(
        tmp_path,
        model,
        tool("slow", slow),
        tool("small", small),
        settings={"dialect": "async", "slow_after_seconds": 0.0},
    )
    found = await run(one)
    assert found.text == "got it"
    running, now, waited, raw = (one.text for one in returned(model.requests[-1]))
    assert running.startswith("Tool Output ID: ")
    assert now == "a small result"
    assert "### Running (" in notice_of(model.requests[1])
    assert waited.startswith("Completed tools:\n- slow (id: ")
    assert raw == "the slow result"


async def test_when_everything_runs_the_model_is_not_asked_until_something_has_come(tmp_path: Path) -> None:
    """S3 decision 22."""
    gate, started = asyncio.Event(), asyncio.Event()
    asked = 0

    async def slow() -> str:
        started.set()
        await gate.wait()
        return "the slow result"

    def second(request: Request) -> Reply:
        nonlocal asked
        asked += 1
        assert gate.is_set()
        assert "### Ready (1)" in notice_of(request)
        return Reply(calls=(ToolCall("r", "final_report", {"report": "done"}),))

    model = acting([("slow", {})], second)
    one = agent(tmp_path, model, tool("slow", slow), settings={"slow_after_seconds": 0.0})
    running = asyncio.ensure_future(run(one))
    await started.wait()
    for _ in range(50):
        await asyncio.sleep(0)
    assert asked == 0
    gate.set()
    assert (await running).text == "done"
    assert asked == 1


@requirement("runtime:spawn-agent", "runtime:tools-agents", "runtime:totals-to-root", "async:spawn-agent")
async def test_two_agents_in_the_background(tmp_path: Path) -> None:
    """S3: Parallel Subagents."""
    gate = asyncio.Event()

    async def wait_for_it() -> str:
        await gate.wait()
        return "now"

    price = Price(1.0, 1.0)

    def child(name: str) -> Agent:
        model = acting([("wait_for_it", {})], report(f"report of {name}"), price=price)
        return agent(tmp_path, model, tool("wait_for_it", wait_for_it), name=name, description=f"knows {name}")

    def let_go(_: Request) -> Reply:
        gate.set()
        return Reply(calls=(ToolCall("w", "wait_for_tool_output", {"all": True}),))

    spawned = [("spawn_agent", {"task": "look", "agent": name, "async": True}) for name in ("a", "b")]
    model = acting(
        [*spawned, ("task_status", {"status": "meanwhile"})], let_go, _read_both, report("a and b"), price=price
    )
    parent = agent(tmp_path, model, agents={"a": child("a"), "b": child("b")})
    async with parent.open_bag("s1", "", model) as bag:
        found = await run_agent(parent, bag, "go")
        tree = bag.tree().to_json()
        states = [facts.state for facts in await bag.outputs()]
    assert found.text == "a and b"
    read = [one.text for one in returned(model.requests[-1])][-2:]
    assert "report of a" in read[0]
    assert "report of b" in read[1]
    assert states == ["ready", "ready"]
    agents = [one for turn in tree["children"] for one in turn.get("children", []) if one["op"] == "agent"]
    assert [(one["name"], one["turns"]) for one in agents] == [("a", 2), ("b", 2)]
    assert tree["totals"]["model_calls"] == found.calls == 4 + 2 * 2
    assert tree["totals"]["cost"] == pytest.approx(found.usage.cost, abs=1e-5)


def _read_both(request: Request) -> Reply:
    handles = [
        line.split()[1] for one in returned(request)[:2] for line in one.text.splitlines() if line.startswith("handle:")
    ]
    return Reply(
        calls=tuple(ToolCall(f"r{at}", "context_read", {"handle": handle}) for at, handle in enumerate(handles))
    )


async def test_agents_are_bounded_in_number_and_depth(tmp_path: Path) -> None:
    child = agent(tmp_path, acting(report("child")), name="child")
    many = [("spawn_agent", {"task": "x", "agent": "child"})] * 4
    model = acting(many, [("spawn_agent", {"task": "x", "agent": "nobody"})], report())
    parent = agent(tmp_path, model, agents={"child": child})
    async with parent.open_bag("s1", "", model) as bag:
        await run_agent(parent, bag, "go", family=AgentQuota(max_agents=3))
    answers = [one.text for one in returned(model.requests[-1])]
    assert answers[:3] == ["child"] * 3
    assert answers[3].startswith("No more agents: this run may start 3 in all.")
    assert answers[4] == "The argument 'agent' must be one of child."
    lonely = acting(report())
    deep = agent(tmp_path, lonely, agents={"child": child})
    async with deep.open_bag("s2", "", lonely) as bag:
        await run_agent(deep, bag, "go", family=AgentQuota(max_depth=0))
    assert "spawn_agent" not in {spec.name for spec in lonely.requests[0].tools}


@requirement("budget:guard-prices-notice", "budget:forced-final-turn", "budget:handle-even-then")
async def test_a_full_window_forces_the_final_turn_only_when_the_notice_does_not_fit(tmp_path: Path) -> None:
    """S0 decision 19: budget overflow → notice, not final turn."""
    model = acting([("big", {})], [("small", {})], report("went on"), window=8000)
    found = await run(agent(tmp_path, model, tool("big", big), tool("small", small)))
    assert (found.text, len(model.requests)) == ("went on", 3)
    assert "\nhandle: " in returned(model.requests[1])[0].text
    assert len(model.requests[1].tools) > 1
    async with agent(tmp_path, model).open_bag("s1", "", model) as bag:
        used = next(event.data["tokens"] for event in bag.history() if event.kind == "turn")
    tight = acting([("big", {})], report("had to end"), window=used + 256 + 350, max_output=256)
    found = await run(agent(tmp_path, tight, tool("big", big), max_turns=9), session="s2")
    assert found.text == "had to end"
    assert [spec.name for spec in tight.requests[-1].tools] == ["final_report"]
    assert "This is your final turn: the context window has no room for another turn with tools." in notice_of(
        tight.requests[-1]
    )
    assert "handle: " in returned(tight.requests[-1])[0].text, "the model still gets the handle"


@requirement(
    "budget:recovery-notices-first", "budget:recovery-compaction", "budget:compacted-kept", "budget:recovery-smaller",
    "budget:recovery-oversized",
)  # fmt: skip
async def test_a_provider_that_says_too_long_is_recovered_from(tmp_path: Path) -> None:
    """provider overflow → recovery → answer: first notices, then a compaction, and nothing is lost."""
    medium = "a line of a result of some length that says a little of everything\n" * 400  # fits inline, but it adds up

    async def some(n: int) -> str:
        return f"{n}: {medium}"

    real_window = 24_000

    def model(request: Request) -> Reply | str:
        size = sum(len(message.text) for message in request.messages) // 4
        if size > real_window:
            raise ModelOverflow("prompt is too long")
        if not request.tools:
            return said(request, Answer("five results were fetched"))
        turn = sum(1 for one in requests if one.tools) - 1
        if turn < 5:
            return Reply(calls=(ToolCall(f"c{turn}", "some", {"n": turn}),))
        return Reply(calls=(ToolCall("r", "final_report", {"report": "all five"}),))

    requests: list[Request] = []

    def noted(request: Request) -> Reply | str:
        requests.append(request)
        return model(request)

    one = agent(tmp_path, ScriptedModel(noted, window=200_000, max_output=1000), tool("some", some))
    async with one.open_bag("s1", "", one.model) as bag:
        found = await run_agent(one, bag, "Fetch five.")
        kept = [facts for facts in await bag.outputs() if facts.origin.tool == "conversation"]
        text = b"".join([chunk async for chunk in bag.stream(kept[0].handle)]).decode()
        assert (await bag.counters()).recoveries >= 1
    assert found.text == "all five"
    assert f"0: {medium}"[:200] in json.loads(text.splitlines()[1])["content"]
    last = [message.text for message in requests[-1].messages]
    assert any("earlier messages of this conversation are no longer shown" in text for text in last)


@requirement("budget:recovery-rounds", "budget:recovery-clear-error")
async def test_when_nothing_helps_the_error_is_clear_and_nothing_is_lost(tmp_path: Path) -> None:
    def model(request: Request) -> Reply:
        if len(requests_of(one)) > 3:
            raise ModelOverflow("context_length_exceeded")
        return Reply(calls=(ToolCall("a", "small", {}),))

    one = agent(tmp_path, ScriptedModel(model), tool("small", small))
    with pytest.raises(TooLongForModel, match="Nothing is lost: use a model with a larger window, and resume"):
        await run(one)
    again = acting(report("with a larger window"))
    found = await run(agent(tmp_path, again, tool("small", small)), "", resume=True)
    assert found.text == "with a larger window"


def requests_of(one: Any) -> list[Request]:
    return one.model.requests  # type: ignore[no-any-return]


# Stop, abort, one holder


async def test_stop_lets_what_runs_end_and_makes_the_next_turn_the_last(tmp_path: Path) -> None:
    session: AgentSession

    async def stopping() -> str:
        await session.stop()
        return "ended all the same"

    model = acting([("stopping", {})], report("wrapped up"))
    one = agent(tmp_path, model, tool("stopping", stopping))
    async with one.open_bag("s1", "", model) as bag:
        session = AgentSession(one, bag, drive=run_session)
        found = await run_session(session, "go")
    assert found.text == "wrapped up"
    assert returned(model.requests[1])[0].text == "ended all the same"
    assert "This is your final turn: it was stopped." in notice_of(model.requests[1])


@requirement("async:stop")
async def test_stop_of_the_bag_brings_the_final_turn(tmp_path: Path) -> None:
    async def stopping() -> str:
        await bag.stop()
        return "ended all the same"

    model = acting([("stopping", {})], report("wrapped up"))
    one = agent(tmp_path, model, tool("stopping", stopping))
    async with one.open_bag("s1", "", model) as bag:
        assert (await run_agent(one, bag, "go")).text == "wrapped up"
    assert [one.name for one in model.requests[1].tools] == ["final_report"]
    assert "This is your final turn: it was stopped." in notice_of(model.requests[1])


async def test_stop_does_not_wait_for_what_runs_in_the_background(tmp_path: Path) -> None:
    started = asyncio.Event()

    async def forever() -> str:
        started.set()
        await asyncio.Event().wait()
        return ""

    model = acting([("forever", {})], report("wrapped up"))
    settings = {"slow_after_seconds": 0.0, "grace_seconds": 0.0}
    one = agent(tmp_path, model, tool("forever", forever), settings=settings)
    async with asyncio.timeout(100), one.open_bag("s1", "", model) as bag:
        session = AgentSession(one, bag, drive=run_session)
        running = asyncio.ensure_future(run_session(session, "go"))
        await started.wait()
        await session.stop()
        assert (await running).text == "wrapped up"


@requirement("async:every-call-answered", "async:never-run-twice")
async def test_a_turn_is_in_the_transcript_before_the_wait_for_what_runs(tmp_path: Path) -> None:
    """The process may be killed in that wait: who resumes does not start the same calls again."""
    waiting = asyncio.Event()

    class Session(AgentSession):
        async def _wait_for_news(self) -> None:
            waiting.set()
            await asyncio.Event().wait()

    async def forever() -> str:
        await asyncio.Event().wait()
        return ""

    model = acting([("forever", {})], report())
    one = agent(tmp_path, model, tool("forever", forever), settings={"slow_after_seconds": 0.0, "grace_seconds": 0.0})
    async with asyncio.timeout(100), one.open_bag("s1", "", model) as bag:
        running = asyncio.ensure_future(run_session(Session(one, bag, drive=run_session), "go"))
        await waiting.wait()
        saved = [json.loads(line)["role"] for line in bag.records.transcript().splitlines()]
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
    assert saved[-2:] == ["assistant", "tool"]


@requirement("cli:run-resume", "way:nothing-lost-silently")
@pytest.mark.parametrize("seconds", [0.0, 1.5], ids=["at once", "while it was waited for"])
async def test_what_a_run_did_before_it_was_killed_in_a_call_is_in_its_tree(tmp_path: Path, seconds: float) -> None:
    script = (
        "import asyncio, os, signal, sys\nfrom pathlib import Path\n"
        "from holdall.agent.loop import run_agent\nfrom tests.agent.shapes import acting, agent, report, tool\n"
        "async def look() -> str:\n    return 'ticket 7'\n"
        f"async def pay() -> str:\n    await asyncio.sleep({seconds})\n    os.kill(os.getpid(), signal.SIGKILL)\n    return ''\n"
        "model = acting([('look', {})], [('pay', {})], report())\n"
        "one = agent(Path(sys.argv[1]), model, tool('look', look), tool('pay', pay))\n"
        "async def main():\n"
        "    async with one.open_bag('s1', '', model) as bag:\n        await run_agent(one, bag, 'go')\n"
        "asyncio.run(main())\n"
    )
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", script, str(tmp_path), cwd=Path(__file__).parents[2]
    )
    assert await process.wait() == -signal.SIGKILL

    def drawn(bag: Holdall) -> list[str]:
        return [line for line in drawn_tree(bag.records.tree().to_json()) if " ms" not in line or "tool" in line]

    model = acting(report("went on"))
    one = agent(tmp_path, model, tool("look", small), tool("pay", small))
    async with one.open_bag("s1", "", model) as bag:
        before = bag.records.tree().to_json()
        assert before["totals"]["model_calls"] == 2
        assert "inline · 8 chars" in next(line for line in drawn(bag) if "tool look" in line)
        assert any("tool pay · at least " in line for line in drawn(bag)) == (seconds > 1)
        await run_agent(one, bag, "", resume=True)
        (paid,) = [line for line in drawn(bag) if "tool pay" in line]
        assert "interrupted · no answer" in paid
        assert ("at least " in paid) == (seconds > 1)
        assert bag.records.tree().to_json()["totals"]["model_calls"] == 3


@requirement("async:every-call-answered", "async:never-run-twice", "cli:run-resume")
async def test_who_resumes_a_run_that_was_killed_in_a_call_tells_the_model_of_that_call(tmp_path: Path) -> None:
    """Without it the model would make the same call again: a second payment."""
    began, sent = asyncio.Event(), list[str]()

    async def pay() -> str:
        sent.append("paid")
        began.set()
        await asyncio.Event().wait()
        return ""

    model = acting([("small", {}), ("pay", {})], report())
    tools = (tool("small", small), tool("pay", pay))
    one = agent(tmp_path, model, *tools, settings={"async_enabled": False, "grace_seconds": 0.0})
    async with asyncio.timeout(100), one.open_bag("s1", "", model) as bag:
        running = asyncio.ensure_future(run_agent(one, bag, "go"))
        await began.wait()
        at_that_moment = bag.records.transcript()  # what a kill -9 leaves
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
    again = acting(report("went on"))
    other = agent(tmp_path, again, *tools)
    async with other.open_bag("s2", "", again) as bag:
        bag.records.append_transcript(at_that_moment)
        assert (await run_agent(other, bag, "", resume=True)).text == "went on"
    assert [(one.name, one.text, one.is_error) for one in returned(again.requests[0])] == [
        ("small", CALL_INTERRUPTED, True),
        ("pay", CALL_INTERRUPTED, True),
    ]
    assert sent == ["paid"]


async def test_a_resumed_run_starts_its_agents_in_sessions_of_their_own(tmp_path: Path) -> None:
    """A session holds one conversation; that of the first child is not continued by the second."""
    child = agent(tmp_path, acting(report("a child's")), name="child")
    spawn = [("spawn_agent", {"task": "x", "agent": "child"})]
    await run(agent(tmp_path, acting(spawn, report()), agents={"child": child}))
    one = agent(tmp_path, acting(spawn, report()), agents={"child": child})
    async with one.open_bag("s1", "", one.model) as bag:
        await run_agent(one, bag, "again", resume=True)
        assert sorted(info.name for info, *_ in await bag.care.sessions()) == ["s1", "s1/child-1", "s1/child-2"]


@pytest.mark.parametrize(
    "calls",
    [
        (ToolCall("a", "nope", {}), ToolCall("b", "forever", {})),
        (ToolCall("a", "small", []), ToolCall("b", "forever", {})),
        (ToolCall("a", "small", {}), ToolCall("a", "forever", {})),
    ],
    ids=["no such tool", "no object", "the same id twice"],
)
async def test_a_refusal_and_an_output_are_news_beside_a_slow_call(tmp_path: Path, calls: tuple[ToolCall, ...]) -> None:
    async def forever() -> str:
        await asyncio.Event().wait()
        return ""

    def both(_: Request) -> Reply:
        return Reply(calls=calls)

    model = acting(both, report("asked at once"))
    settings = {"slow_after_seconds": 0.01, "grace_seconds": 0.0}
    one = agent(tmp_path, model, tool("forever", forever), tool("small", small), settings=settings)
    async with asyncio.timeout(100):
        assert (await run(one)).text == "asked at once"


@requirement("async:stop-ends-waits")
async def test_a_stop_ends_the_wait_of_a_model(tmp_path: Path) -> None:
    """The first Ctrl-C: nobody waits for a minute until it is heard."""
    waiting = asyncio.Event()

    async def forever() -> str:
        await asyncio.Event().wait()
        return ""

    async def small_tool() -> str:
        return "news"

    def wait(_: Request) -> Reply:
        waiting.set()
        return Reply(calls=(ToolCall("w", "wait_for_tool_output", {}),))

    model = acting([("forever", {}), ("small", {})], wait, report("wrapped up"))
    settings = {"slow_after_seconds": 0.01, "grace_seconds": 0.0, "wait_max_seconds": 3600.0}
    one = agent(tmp_path, model, tool("forever", forever), tool("small", small_tool), settings=settings)
    async with asyncio.timeout(100), one.open_bag("s1", "", model) as bag:
        session = AgentSession(one, bag, drive=run_session)
        running = asyncio.ensure_future(run_session(session, "go"))
        await waiting.wait()
        await session.stop()
        assert (await running).text == "wrapped up"
    assert returned(model.requests[-1])[-1].text.startswith("Still running:\n- forever (id: ")


@pytest.mark.parametrize(("status", "more"), [("success", ""), ("failure", "\n[the status of this report is failure]")])
async def test_how_an_agent_reports_to_have_ended_is_told_to_its_parent(tmp_path: Path, status: str, more: str) -> None:
    child = agent(tmp_path, acting(report("could not do it", status=status)), name="child")
    model = acting([("spawn_agent", {"task": "x", "agent": "child"})], report())
    await run(agent(tmp_path, model, agents={"child": child}))
    assert returned(model.requests[-1])[-1].text == f"could not do it{more}"


async def test_reports_on_different_tasks_are_not_told_by_their_difference(tmp_path: Path) -> None:
    lines = "".join(f"{n} words of a report\n" for n in range(8000))
    child = agent(tmp_path, acting(report(f"{lines}cats\n"), report(f"{lines}dogs\n")), name="child")
    tasks = [[("spawn_agent", {"task": f"about {what}", "agent": "child"})] for what in ("cats", "dogs")]
    model = acting(*tasks, report())
    parent = agent(tmp_path, model, agents={"child": child})
    await run(parent)
    assert [one.text.partition(" · ")[0] for one in returned(model.requests[-1])] == [
        "child returned 182,895 bytes"
    ] * 2


async def test_cancelling_a_run_cancels_its_agents_and_their_tools(tmp_path: Path) -> None:
    cancelled = asyncio.Event()
    started = asyncio.Event()

    async def forever() -> str:
        started.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.set()
            raise
        return ""

    child = agent(tmp_path, acting([("forever", {})]), tool("forever", forever), name="child")
    parent = agent(tmp_path, acting([("spawn_agent", {"task": "x", "agent": "child"})]), agents={"child": child})
    running = asyncio.ensure_future(run(parent))
    await started.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    async with asyncio.timeout(100):
        await cancelled.wait()


async def test_a_second_agent_in_the_session_is_told_who_holds_it(tmp_path: Path) -> None:
    one = agent(tmp_path, acting(report()))
    async with one.open_bag("s1", "", one.model) as bag, one.open_bag("s1", "", one.model) as other:
        with bag.lease("the agent first, process 1"), pytest.raises(SessionLocked, match="the agent first, process 1"):
            await run_agent(one, other, "go")


# The operation tree


@requirement("runtime:operation-tree", "runtime:snapshots", "runtime:tree-from-events", "ledger:in-operation-tree")
async def test_the_tree_is_a_fold_over_the_log_and_a_file_on_disk(tmp_path: Path) -> None:
    def model(request: Request) -> Reply | str:
        if not request.tools:
            return said(request, Answer("777", ["line 777 of the output"]))
        turn = len(returned(request))
        steps: list[tuple[str, dict[str, Any]]] = [
            ("big", {}), ("tool_output", {"handle": newest_handle(request), "extract": "q", "mode": "full-chunked"}),
            ("final_report", {"report": "777"}),
        ]  # fmt: skip
        name, arguments = steps[turn]
        return Reply(calls=(ToolCall(f"c{turn}", name, arguments),))

    one = agent(tmp_path, ScriptedModel(model, window=60_000, price=Price(1.0, 2.0)), tool("big", big))
    async with one.open_bag("s1", "", one.model) as bag:
        found = await run_agent(one, bag, "go")
        tree = bag.tree().to_json()
    on_disk = json.loads(next((tmp_path / "home").glob("session-*/tree.json")).read_text())
    assert on_disk["totals"] == tree["totals"]
    assert [turn["op"] for turn in tree["children"]] == ["turn"] * 3
    assert [one["op"] for one in tree["children"][0]["children"]] == ["model", "tool"]
    second = tree["children"][1]["children"]
    extraction = next(one for one in second if one["op"] == "extraction")
    assert {child["op"] for child in extraction["children"]} == {"model"}
    assert extraction["verified"] == 1
    assert tree["totals"]["model_calls"] == found.calls == 3 + len(extraction["children"])
    assert tree["reported"]["turns"] == 3
    (share,) = tree["reported"]["seen"].values()
    assert 0 < share < 0.01
    assert BIG[:100] not in json.dumps(tree)


@requirement("runtime:totals-to-root")
async def test_the_tree_counts_agents_that_did_not_end_by_their_own_logs(tmp_path: Path) -> None:
    model = acting(report())
    one = agent(tmp_path, model)
    parent = ""
    for name in ("s1", "s1/child-1", "s1/child-1/child-1"):
        async with one.open_bag(name, parent, model) as bag:
            if parent:
                async with one.open_bag(f"session-{parent}", "", model) as above:
                    above.journal.record("spawned", tool="child", session=bag.session.id)
                    above.journal.record("spawned", tool="again", session=bag.session.id)
            parent = bag.session.id
            bag.journal.record("turn", number=1)
            bag.journal.record("asked", purpose="turn", model="m", input_tokens=100, output_tokens=10, cost=0.5)
    async with one.open_bag("s1", "", model) as bag:
        tree = bag.tree().to_json()
    agents = [one for turn in tree["children"] for one in turn["children"] if one["op"] == "agent"]
    assert sorted(one.get("cost", 0.0) for one in agents) == [0.0, 1.0]
    totals = tree["totals"]
    assert (totals["model_calls"], totals["input_tokens"], totals["output_tokens"]) == (3, 300, 30)
    assert totals["cost"] == 1.5


@requirement("way:sub-agent-results", "session:parent", "api:open-parent")
async def test_a_report_that_is_too_large_is_kept_like_any_output(tmp_path: Path) -> None:
    child = agent(tmp_path, acting(report(BIG)), name="child")
    model = acting([("spawn_agent", {"task": "x", "agent": "child"})], report())
    parent = agent(tmp_path, model, agents={"child": child})
    async with parent.open_bag("s1", "", model) as bag:
        await run_agent(parent, bag, "go")
        (facts,) = await bag.outputs()
        assert (facts.origin.tool, facts.measure.bytes) == ("child", len(BIG))
        sessions = {one.name: one for one in bag.store.sessions()}
        assert sessions["s1/child-1"].parent == bag.session.id
    assert "\nhandle: " in returned(model.requests[1])[0].text


@requirement("store:retention-tree-stays")
async def test_when_the_outputs_of_a_session_go_the_tree_stays(tmp_path: Path) -> None:
    one = agent(tmp_path, acting([("big", {})], report()), tool("big", big), settings={"retention": "session"})
    await run(one)
    (folder,) = (tmp_path / "home").glob("session-*")
    assert not list(folder.glob("*.txt"))
    tree = json.loads((folder / "tree.json").read_text())
    assert tree["totals"]["tool_calls"] == 1


@requirement("notice:system-kept-handles")
async def test_after_a_resume_the_notice_lists_what_is_kept(tmp_path: Path) -> None:
    first = ScriptedModel([Reply(calls=(ToolCall("a", "big", {}),)), ModelFault("down")])
    with pytest.raises(ModelFault):
        await run(agent(tmp_path, first, tool("big", big)))
    again = acting(report("went on"))
    await run(agent(tmp_path, again, tool("big", big)), "", resume=True)
    assert newest_handle(again.requests[0]) in notice_of(again.requests[0])
    assert "# System Notice" in notice_of(again.requests[0])


@requirement("runtime:approval-unchanged")
async def test_a_tool_that_asks_for_approval_is_asked_by_whoever_made_it(tmp_path: Path) -> None:
    asked: list[dict[str, Any]] = []

    async def guarded(**arguments: Any) -> str:
        asked.append(arguments)
        raise PermissionError("the user said no")

    model = acting([("guarded", {"path": "/"})], report())
    await run(agent(tmp_path, model, tool("guarded", guarded)))
    assert asked == [{"path": "/"}], "once, with what the model wrote, and nobody else decides"
    (answer,) = returned(model.requests[1])
    assert (answer.is_error, "the user said no" in answer.text) == (True, True)


@requirement("clamp:in-recovery", "budget:recovery-notices-first")
async def test_in_the_dialect_that_clamps_recovery_clamps(tmp_path: Path) -> None:
    wide = "word " * 9000  # one line of 45,000 bytes: under the limits of the dialect, over 30 % of this window

    def model(request: Request) -> Reply:
        if sum(len(message.text) for message in request.messages) > 120_000:
            raise ModelOverflow("prompt is too long")
        if not returned(request):
            return Reply(calls=(ToolCall("a", "wide", {}), ToolCall("b", "wide", {})))
        return Reply(calls=(ToolCall("r", "final_report", {"report": "done"}),))

    async def wide_tool() -> str:
        return wide * 2

    scripted = ScriptedModel(model, window=200_000, max_output=1000)
    one = agent(tmp_path, scripted, tool("wide", wide_tool), settings={"dialect": "clamp", "max_inline_bytes": 200_000})
    found = await run(one)
    assert found.text == "done"


@pytest.mark.parametrize(
    ("output", "strategy"),
    [
        (json.dumps([{"id": n, "text": f"entry {n} of the export"} for n in range(20_000)]), "full-chunked"),
        (BIG, "read-grep"),
    ],
    ids=["one-line JSON", "many lines"],
)
async def test_auto_reads_one_line_whole_and_searches_many(tmp_path: Path, output: str, strategy: str) -> None:
    """S0: huge single-line JSON → full-chunked; standard multi-line text → read-grep."""

    async def export() -> str:
        return output

    def model(request: Request) -> Reply | str:
        names = {spec.name for spec in request.tools}
        if names == {"Read", "Grep"}:
            if returned(request):
                return said(request, Answer("found it", ["line 777 of the output"]))
            file = request.messages[0].text.split("- Handle/filename: ")[1].split("\n")[0]
            return Reply(calls=(ToolCall("g", "Grep", {"filename": file, "pattern": "line 777 "}),))
        if not names:  # a chunk, or the summary of all
            has = "entry 777 of" in request.messages[-1].text
            return said(request, Answer("found it", ["entry 777 of the export"]) if has else None)
        if not returned(request):
            return Reply(calls=(ToolCall("a", "export", {}),))
        if len(returned(request)) == 1:
            asked = {"handle": newest_handle(request), "extract": "Where is 777?"}
            return Reply(calls=(ToolCall("b", "tool_output", asked),))
        return Reply(calls=(ToolCall("c", "final_report", {"report": returned(request)[1].text}),))

    one = agent(tmp_path, ScriptedModel(model, window=60_000), tool("export", export), settings={"dialect": "extract"})
    found = await run(one)
    assert f"STRATEGY:{strategy}:\n\nfound it\n> " in found.text
    assert ", verified)" in found.text
