"""The flows of S3 as stories, with the exact texts that a model reads. Plain calls stand in for sub-agents."""

import asyncio
from pathlib import Path

import pytest
from inline_snapshot import snapshot

from holdall import Running
from tests.bag.shapes import LOG, opened
from tests.bag.test_background import Slow
from tests.requirements import requirement

pytestmark = pytest.mark.anyio


@pytest.fixture
def fixed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Handles, tags and times that can stand in a snapshot."""
    handles = iter(f"h2{sign}{other}" for sign in "bcdfgh" for other in "bcdfgh")

    def handle(_: int) -> str:
        return next(handles)

    def age(*_: object) -> float:
        return 7.2

    monkeypatch.setattr("holdall.store.directory.sessions.new_mark", lambda: "m5rkt")
    monkeypatch.setattr("holdall.store.directory.folder.new_handle", handle)
    monkeypatch.setattr("holdall.bag.tools.new_fence_tag", lambda: "7d1a7d1a")
    monkeypatch.setattr("holdall.background.Jobs.age", age)


async def test_a_large_tool_response(tmp_path: Path, fixed: None) -> None:
    """The tool returns at once, and too much."""

    async def fetcher() -> str:
        return LOG

    async with opened(tmp_path, dialect="async") as bag:
        taken = await bag.run(fetcher, tool="fetcher")
        assert taken.content == snapshot("""\
Tool Output ID: m5rkt-h2bb
Tool: fetcher
Size: ~89000 tokens

Use get_tool_output("m5rkt-h2bb", mode) to retrieve this output:
- "extract": Extract specific information you need
- "slice": Get bytes around an anchor string\
""")
        whole = await bag.call("get_tool_output", {"id": "h2bb", "mode": "raw"})
        assert whole.text == snapshot("Response too large (168900 bytes, ~89000 tokens). Use extract or slice mode.")
        around = {"id": "h2bb", "mode": "slice", "slice": {"anchor": "job 503", "window": 60}}
        assert (await bag.call("get_tool_output", around)).text == snapshot("""\
lines 503–505 of 5000 · bytes and chars 16486–16553 of 168900 · <0.1 % seen
<7d1a7d1a>
502
2026-01-01 00:00:23 ERROR job 503
2026-01-01 00:00:24 INFO job \n\
</7d1a7d1a>
Next: get_tool_output("m5rkt-h2bb", "slice", slice = {"start": 16553, "length": 67})\
""")
        assert bag.system_notice(turn=2, max_turns=10, tokens_used=57_600, window=128_000) == snapshot("""\
# System Notice

This is turn 2 of 10.
Your context window is 45% full.

## Async Tool Status

### Ready (1)
- fetcher (id: m5rkt-h2bb, ~89K tokens, exceeds threshold, 1 retrieval)

---

You now need to decide your next move:
1. Call tools to advance your task
2. Retrieve/examine async tool outputs using get_tool_output(id, mode) or wait_for_tool_output()
3. Provide your final report/answer

Use get_tool_output(id, "raw"|"extract"|"slice") to retrieve.
Use wait_for_tool_output() to block until a running tool completes.\
""")


@requirement("notice:no-examined-state")
async def test_a_slow_tool(tmp_path: Path, fixed: None) -> None:
    """The clock wins; the model goes on with other work, waits, and fetches what has become small enough."""
    call = Slow("pricing: 7 EUR\n")
    async with opened(tmp_path, dialect="async", slow_after_seconds=0.0) as bag:
        taken = await bag.run(call, tool="fetcher")
        assert isinstance(taken, Running)
        assert taken.content == snapshot("""\
Tool Output ID: m5rkt-h2bb
Tool: fetcher

When the System Notice shows this tool is ready, use get_tool_output("m5rkt-h2bb", mode) to retrieve its output.\
""")
        early = await bag.call("get_tool_output", {"id": "h2bb", "mode": "raw"})
        assert early.text == "Tool not ready. Use wait_for_tool_output."
        assert bag.system_notice(turn=2, max_turns=10) == snapshot("""\
# System Notice

This is turn 2 of 10.

## Async Tool Status

### Running (1)
- fetcher (id: m5rkt-h2bb, running 7.2s)

---

You now need to decide your next move:
1. Call tools to advance your task
2. Wait for running tools using wait_for_tool_output()
3. Provide your final report/answer

Use wait_for_tool_output() to block until a running tool completes.\
""")
        call.end.set()
        assert (await bag.call("wait_for_tool_output", {})).text == snapshot("""\
Completed tools:
- fetcher (id: m5rkt-h2bb, size: 15B)\
""")
        assert bag.system_notice(turn=3, max_turns=10) == snapshot("""\
# System Notice

This is turn 3 of 10.

## Async Tool Status

### Ready (1)
- fetcher (id: m5rkt-h2bb, ~6 tokens)

---

You now need to decide your next move:
1. Call tools to advance your task
2. Retrieve/examine async tool outputs using get_tool_output(id, mode) or wait_for_tool_output()
3. Provide your final report/answer

Use get_tool_output(id, "raw"|"extract"|"slice") to retrieve.
Use wait_for_tool_output() to block until a running tool completes.\
""")
        assert (await bag.call("get_tool_output", {"id": "h2bb", "mode": "raw"})).text == "pricing: 7 EUR\n"
        assert "1 retrieval)" in bag.system_notice(turn=4)
        assert (await bag.call("wait_for_tool_output", {})).text == "No async tools running."


async def test_parallel_subagents(tmp_path: Path, fixed: None) -> None:
    """Two go on side by side; each is fetched when it is ready, in the order in which they end."""
    agents = {"agent_a": Slow("report of a"), "agent_b": Slow(LOG)}
    async with opened(tmp_path, dialect="async", slow_after_seconds=0.0) as bag:
        async with bag.turn() as turn:
            pending = [turn.run(agent, tool=name) for name, agent in agents.items()]
        assert all(isinstance(one.result, Running) for one in pending)
        ids = {one.name: one.result.handle for one in pending if isinstance(one.result, Running)}
        agents["agent_a"].end.set()
        first = await bag.call("wait_for_tool_output", {})
        assert first.text == f"Completed tools:\n- agent_a (id: m5rkt-{ids['agent_a']}, size: 11B)"
        assert (await bag.call("get_tool_output", {"id": ids["agent_a"], "mode": "raw"})).text == "report of a"
        waiting = asyncio.ensure_future(bag.call("wait_for_tool_output", {}))
        agents["agent_b"].end.set()
        assert (await waiting).text == f"Completed tools:\n- agent_b (id: m5rkt-{ids['agent_b']}, size: 164KB)"
        refused = await bag.call("get_tool_output", {"id": ids["agent_b"], "mode": "raw"})
        assert refused.is_error


@requirement("async:no-async-legacy")
async def test_without_async_the_async_dialect_is_legacy(tmp_path: Path) -> None:
    async with opened(tmp_path, dialect="async", async_enabled=False) as bag:
        assert bag.dialect.name == "legacy"
        assert bag.tools() == ()
        assert "truncated" in (await bag.take(LOG)).content
