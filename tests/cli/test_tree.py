"""`holdall show --tree`: a line for each operation, whatever is in it, also of runs that never ended."""

import re
from pathlib import Path
from typing import Any

import pytest
from inline_snapshot import snapshot

from holdall.cli.agents import drawn_tree
from tests.cli.agents import Agents, calls, report
from tests.cli.program import Program
from tests.requirements import requirement


@pytest.fixture
def agents(tmp_path: Path) -> Agents:
    return Agents.own(tmp_path)


def op(kind: str, name: str = "", *children: dict[str, Any], **data: Any) -> dict[str, Any]:
    return {"op": kind, "name": name, "seconds": 1.25, **data} | ({"children": list(children)} if children else {})


@requirement("runtime:operation-tree", "measure:escape-facts")
def test_every_kind_of_operation_has_its_line() -> None:
    usage = {"input_tokens": 1200, "output_tokens": 34}
    tree = op(
        "session", "s\x1b[2J1",
        op(
            "turn", "1",
            op("model", "openai:gpt-5", **usage, cost=0.0123, calls=3),
            op("tool", "fetch", outcome="kept", handle="k3f9", chars=498),
            op("tool", "bad\ntool", outcome="inline", is_error=True, chars=20, seconds=0.004),
            op("extraction", "fetch", op("model", "small", **usage), handle="k3f9", strategy="full-chunked", verified=2),
            op("agent", "counter", op("turn", "1", tokens=7), turns=1, **usage, cost=0.5),
            op("agent", "killed", seconds=0.0),
            tokens=900,
        ),
        op("turn", "2", op("model", "openai:gpt-5", why="429: slow down"), tokens=2000, why="30 turns are over"),
        totals={"model_calls": 4, "tool_calls": 2, "failed": 1, "input_tokens": 3600, "output_tokens": 102, "cost": 0.5123},
        reported={"status": "failure", "synthetic": True, "why": "30 turns are over"}, recovered={"round": 1},
    )  # fmt: skip
    assert "\n".join(drawn_tree(tree)) == snapshot("""\
session s\\x1b[2J1 · 2 turns · 4 model calls · 2 tool calls, 1 failed or cut short · 3,702 tokens · $0.5123 · 1.2 s · was made shorter for its model · no report of the model's: 30 turns are over
├─ turn 1 · 1.2 s · 900 tokens in it
│  ├─ model openai:gpt-5 · 1.2 s · 1,200 → 34 tokens · $0.0123 · 3 calls
│  ├─ tool fetch · 1.2 s · kept k3f9 · 498 chars
│  ├─ tool "bad\\ntool" · 4 ms · failed · inline · 20 chars
│  ├─ question about k3f9 · 1.2 s · full-chunked · 2 verified
│  │  └─ model small · 1.2 s · 1,200 → 34 tokens · price unknown
│  ├─ agent counter · 1.2 s · 1 turn · 1,200 → 34 tokens · $0.5000
│  │  └─ turn 1 · 1.2 s · 7 tokens in it
│  └─ agent killed · 0.0 s · did not end · 0 → 0 tokens
└─ turn 2 · 1.2 s · 2,000 tokens in it · the last one: 30 turns are over
   └─ model openai:gpt-5 · 1.2 s · 0 → 0 tokens · failed: 429: slow down\
""")


@pytest.mark.parametrize("odd", ["x", "NaN", float("nan"), float("inf"), 10**400, [1], {}, None, True])
def test_a_figure_that_is_none_is_shown_as_none(odd: Any) -> None:
    """A bundle can bring any JSON."""
    names = ("seconds", "tokens", "input_tokens", "output_tokens", "cost", "calls", "turns", "chars", "verified", "why")
    figures = dict.fromkeys(names, odd)
    kinds = ("turn", "model", "tool", "agent", "extraction", "unknown")
    totals = dict.fromkeys(("model_calls", "tool_calls", "input_tokens", "output_tokens", "cost"), odd)
    tree = op("session", "s", *(op(kind, "n", **figures) for kind in kinds), totals=totals)
    assert len(list(drawn_tree(tree | {"reported": odd, "totals": totals}))) == 7
    assert len(list(drawn_tree(tree | {"totals": odd}))) == 7


def test_a_run_without_a_report_says_so_and_what_a_stranger_named_is_cut() -> None:
    (first, second) = drawn_tree(op("session", "x" * 500, op("turn", "1")))
    assert first.startswith(f"session {'x' * 99}… · 1 turn · 0 model calls · ")
    assert first.endswith(" · no report yet")
    assert second == "└─ turn 1 · 1.2 s · 0 tokens in it"


def test_of_questions_that_a_person_asked_nothing_was_to_be_reported() -> None:
    totals = {"model_calls": 1, "input_tokens": 70, "output_tokens": 5}
    first, _ = drawn_tree(op("session", "cli", op("extraction", "who?"), totals=totals, interrupted=True))
    assert first == "session cli · 0 turns · 1 model call · 0 tool calls · 75 tokens · 1.2 s"


@requirement("runtime:operation-tree")
def test_a_command_has_the_time_that_it_ran_and_not_that_which_keeping_took(holdall: Program) -> None:
    assert holdall("exec", "--", "sh", "-c", "sleep 1; echo done").code == 0
    tree = holdall("show", "--tree", "cli", "--json").json
    (command,) = tree["children"]
    assert tree["seconds"] >= command["seconds"] >= 1.0


def test_where_the_log_is_gone_the_snapshot_is_shown(holdall: Program, agents: Agents) -> None:
    file = agents.agent(calls(("small", {})), report("done"))
    assert holdall("run", file, "x", "--session", "s1").code == 0
    before = holdall("show", "--tree", "s1").text
    assert before.count("turn") == 3
    (log,) = holdall.home.glob("session-*/events.ndjson")
    log.unlink()
    after = holdall("show", "--tree", "s1").text
    assert [line.split(" · ")[0] for line in after.splitlines()] == [
        line.split(" · ")[0] for line in before.splitlines()
    ]


def test_lines_are_no_wider_than_they_may_be(holdall: Program, agents: Agents) -> None:
    file = agents.agent({"error": "fault", "text": "very " * 200})
    assert holdall("run", file, "x", "--session", "s1").code == 3
    lines = holdall("show", "--tree", "s1").text.splitlines()
    assert max(map(len, lines)) == 200
    assert lines[-1].endswith("…")


def test_what_a_bundle_says_of_a_question_does_not_pass_for_our_verdict() -> None:
    node = {"op": "extraction", "handle": "k3f9 · 7 verified", "seconds": 1, "strategy": "7 verified"}
    tool = {"op": "tool", "name": "a · 7 verified", "outcome": "7 verified", "chars": 1}
    for one in (node, tool):
        told = list(drawn_tree({"op": "session", "name": "s", "children": [one]}))[-1]
        assert "7 verified" not in [part.strip() for part in re.sub(r'"[^"]*"', "", told).split("·")], told
