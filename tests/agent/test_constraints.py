"""The "Non-Negotiable Constraints" of S0 that apply here, each by its words."""

import json
import re
import tomllib
from dataclasses import replace
from pathlib import Path

import pytest

from holdall import Holdall
from holdall.agent import loop
from holdall.agent.loop import run_agent
from holdall.cli.agents import drawn_tree, took
from holdall.llm.catalogue import Price
from holdall.llm.protocol import Model, Request
from holdall.llm.scripted import ScriptedModel
from holdall.text.numbers import money
from holdall.values.chat import Reply, ToolCall
from tests.agent.shapes import acting, agent, newest_handle, report, returned, tool
from tests.agent.test_loop import big
from tests.extract.shapes import Answer, finding, said
from tests.requirements import requirement

ROOT = Path(__file__).parents[2]


def _contracts() -> dict[str, dict[str, list[str]]]:
    text = (ROOT / "pyproject.toml").read_text("utf-8")
    return {one["name"]: one for one in tomllib.loads(text)["tool"]["importlinter"]["contracts"]}


def test_all_features_must_be_tested_across_main_components() -> None:
    """The suite itself fails where a requirement has no test; here: no gap of the runtime or of extraction is left."""
    open_gaps = [
        file.name
        for file in (ROOT / "tests" / "requirements").glob("*.toml")
        for gap in re.findall(r'^gap = "(.*)"$', file.read_text("utf-8"), re.MULTILINE)
        if gap in ("extraction", "session runtime")
    ]
    assert open_gaps == []


def test_tool_output_must_remain_isolated() -> None:
    """Extraction lies below the bag and the runtime, and no edge reaches into it."""
    layers = [layer.split(" | ") for layer in _contracts()["Layers: data flows one way"]["layers"]]
    floor_of = {room.strip("()"): floor for floor, rooms in enumerate(layers) for room in rooms}
    assert floor_of["extract"] > floor_of["bag"]
    assert "holdall.extract" in _contracts()["Edges reach the inside through the bag"]["forbidden_modules"]
    assert "holdall.agent" in _contracts()["Edges reach the inside through the bag"]["source_modules"]


def test_core_loops_must_not_grow() -> None:
    assert len(Path(loop.__file__).read_text("utf-8").splitlines()) < 150


@pytest.mark.anyio
@pytest.mark.parametrize("mode", ["full-chunked", "read-grep"])
async def test_tool_output_accounting_is_aggregated_and_stands_in_the_tree_and_its_snapshot(
    tmp_path: Path, mode: str
) -> None:
    """At the session level, similar to sub-agents; opTree and snapshots include the extraction's own calls."""

    def model(request: Request) -> Reply | str:
        if {spec.name for spec in request.tools} == {"Read", "Grep"} and not returned(request):
            file = request.messages[0].text.split("- Handle/filename: ")[1].split("\n")[0]
            return Reply(calls=(ToolCall("g", "Grep", {"filename": file, "pattern": "line 777 of"}),))
        if {spec.name for spec in request.tools} == {"Read", "Grep"} or not request.tools:
            return said(request, Answer("line 777", ["line 777 of the output"]))
        if not returned(request):
            return Reply(calls=(ToolCall("a", "big", {}),))
        if len(returned(request)) == 1:
            asked = {"handle": newest_handle(request), "extract": "Which?", "mode": mode}
            return Reply(calls=(ToolCall("b", "tool_output", asked),))
        return Reply(calls=(ToolCall("c", "final_report", {"report": "777"}),))

    scripted = ScriptedModel(model, window=60_000, price=Price(1.0, 1.0))
    one = agent(tmp_path, scripted, tool("big", big))
    async with one.open_bag("s1", "", scripted) as bag:
        await run_agent(one, bag, "go")
        counters = await bag.counters()
    snapshot = json.loads(next((tmp_path / "home").glob("session-*/tree.json")).read_text("utf-8"))
    (extraction,) = [one for turn in snapshot["children"] for one in turn["children"] if one["op"] == "extraction"]
    own = [child for child in extraction["children"] if child["op"] == "model"]
    assert extraction["strategy"] == mode
    assert len(own) == len(scripted.requests) - 3 > 0
    others = [(child["op"], child["name"]) for child in extraction["children"] if child not in own]
    assert others == ([] if mode == "full-chunked" else [("tool", "Grep")])
    assert counters.model_calls == snapshot["totals"]["model_calls"] == len(scripted.requests)
    used = [child["input_tokens"] + child["output_tokens"] for child in own]
    totals = snapshot["totals"]
    assert counters.model_tokens == totals["input_tokens"] + totals["output_tokens"] > sum(used) > 0


@pytest.mark.anyio
@requirement("runtime:totals-to-root", "runtime:extractions-in-totals", "extract:priced", "watch:price-unknown")
@pytest.mark.parametrize("priced", ["all", "extraction", "none"])
async def test_questions_of_a_sub_agent_are_in_every_total_up_to_the_root(tmp_path: Path, priced: str) -> None:
    """The report, its JSON, the line that a person reads, the tree and what the parent was told; a price that nobody
    knows is said to be unknown in each."""
    price = Price(1.0, 1.0)
    reader = finding(
        lambda _: Answer("line 777", ["line 777 of"]), window=60_000, price=None if priced == "none" else price
    )
    of_turns = price if priced == "all" else None
    asked = ("tool_output", {"handle": "$", "extract": "Which?", "mode": "full-chunked"})
    child_model = acting([("big", {})], [asked], report("777"), price=of_turns)
    plain = agent(tmp_path, child_model, tool("big", big), name="child")

    def open_bag(session: str, parent: str, _: Model) -> Holdall:
        return plain.open_bag(session, parent, reader)

    child = replace(plain, open_bag=open_bag)
    model = acting([("spawn_agent", {"task": "look", "agent": "child"})], report("child says 777"), price=of_turns)
    one = agent(tmp_path, model, agents={"child": child})
    async with one.open_bag("s1", "", model) as bag:
        found = await run_agent(one, bag, "go")
        tree = bag.tree().to_json()
        line = took(found, bag, 1.0)
    calls = len(model.requests) + len(child_model.requests) + len(reader.requests)
    assert len(reader.requests) >= 1
    flat = found.to_json()
    assert found.calls == flat["model_calls"] == tree["totals"]["model_calls"] == calls
    tokens = tree["totals"]["input_tokens"] + tree["totals"]["output_tokens"]
    assert found.usage.tokens == tokens > 0
    assert f"{calls} model calls" in line
    unknown = {"all": 0, "extraction": calls - len(reader.requests), "none": calls}[priced]
    assert flat["unpriced_calls"] == tree["totals"]["unpriced_calls"] == unknown
    assert (flat["cost"] is None) == (priced == "none")
    if priced == "all":
        assert flat["cost"] == pytest.approx(tokens / 1e6)
        assert f" tokens · {money(tree['totals']['cost'])} · 1.0 s" in line
    elif priced == "extraction":
        assert f" tokens · at least {money(tree['totals']['cost'])} ({unknown} calls of unknown price) · 1.0 s" in line
    else:
        assert " tokens · price unknown · 1.0 s" in line
    drawn = list(drawn_tree(tree))
    assert line.split(" · ")[-2] in drawn[0]
    (agent_line,) = [one for one in drawn if "agent child" in one]
    assert ("price unknown" in agent_line, "of unknown price" in agent_line) == (
        priced == "none",
        priced == "extraction",
    )


@pytest.mark.parametrize("mode", ["auto", "full-chunked", "read-grep", "truncate"])
def test_a_real_model_covers_all_modes(mode: str) -> None:
    """Phase 3 Tier1."""
    assert f'"{mode}"' in (ROOT / "tests" / "model" / "test_extraction.py").read_text("utf-8")
