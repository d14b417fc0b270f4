"""The operation tree, a fold over events: what stands where, and what everything took."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdall.cli.agents import drawn_tree
from holdall.policy import folds
from holdall.policy.folds import Ledger, Tree
from holdall.values.events import EVENT_KINDS, Event
from tests.requirements import requirement

USED = {"model": "m", "input_tokens": 10, "output_tokens": 2, "cost": 0.5}


@requirement("runtime:operation-tree", "runtime:tree-from-events", "runtime:totals-to-root")
def test_what_happened_stands_under_its_turn_with_totals_at_the_root() -> None:
    tree = Tree.of(
        "s1",
        [
            Event(100.0, "turn", data={"number": 1, "tokens": 50}),
            Event(101.0, "asked", seconds=1.0, data=USED | {"op": ""}),
            Event(102.0, "called", handle="k3f9", tool="fetch", call_id="c1", seconds=0.5, data={"outcome": "kept"}),
            Event(102.0, "kept", handle="k3f9", data={"bytes": 100}),
            Event(103.0, "turn", data={"number": 2}),
            Event(104.0, "asked", seconds=0.5, data=USED | {"op": "q1", "purpose": "map", "chunk": 0}),
            Event(104.0, "asked", seconds=0.5, data=USED | {"op": "q1", "purpose": "reduce"}),
            Event(105.0, "extracted", handle="k3f9", tool="fetch", seconds=2.0, data=USED | {"op": "q1", "strategy": "full-chunked", "searched": [[0, 9]]}),
            Event(105.0, "spawned", tool="reader", data={"session": "child"}),
            Event(109.0, "joined", tool="reader", data={"session": "child", "input_tokens": 7, "output_tokens": 1, "cost": 1.0, "calls": 3}),
            Event(110.0, "reported", data={"status": "success"}),
        ],
    ).to_json()  # fmt: skip
    assert tree["totals"] == {
        "model_calls": 6,
        "input_tokens": 37,
        "output_tokens": 7,
        "cost": 2.5,
        "unpriced_calls": 0,
        "tool_calls": 1,
        "refused": 0,
        "failed": 0,
    }
    assert (tree["op"], tree["name"], tree["seconds"], tree["reported"]) == (
        "session",
        "s1",
        10.0,
        {"status": "success"},
    )
    first, second = tree["children"]
    assert [one["op"] for one in first["children"]] == ["model", "tool"]
    assert (first["children"][1]["handle"], first["children"][1]["seconds"]) == ("k3f9", 0.5)
    assert first["seconds"] == 3.0
    extraction, agent = second["children"]
    assert [one["purpose"] for one in extraction["children"]] == ["map", "reduce"]
    assert "cost" not in extraction
    assert (agent["op"], agent["name"], agent["seconds"], agent["calls"]) == ("agent", "reader", 4.0, 3)


@requirement("runtime:operation-tree")
def test_where_nobody_recorded_calls_those_that_were_refused_are_in_the_tree_too() -> None:
    asked = {"name": "context_read", "verb": "read", "why": "unknown"}
    events = [Event(1.0, "inline", tool="look"), Event(2.0, "refused", seconds=0.25, data=asked)]
    tree = Tree.of("s1", events).to_json(with_outputs=True)
    assert list(drawn_tree(tree)) == [
        "session s1 · 2 tool calls, 1 failed or cut short · 1.0 s",
        "├─ tool look · 0.0 s · inline",
        "└─ tool context_read · 0.2 s · refused",
    ]


@requirement("runtime:operation-tree")
def test_a_call_that_ended_with_its_agent_is_in_the_tree_before_and_after_somebody_resumes() -> None:
    begun = Event(103.0, "begun", tool="deploy", call_id="c1", seconds=1.0, by="p", data={"number": 1, "process": 1})
    events = [
        Event(100.0, "turn", data={"number": 1}),
        Event(101.0, "called", tool="look", call_id="c0", data={"outcome": "inline"}),
        begun,
        Event(106.5, "over", tool="deploy", call_id="c1", by="p", data={"number": 1}),
    ]
    left = "tool deploy · at least 4.5 s · interrupted · no answer"
    told = list(drawn_tree(Tree.of("s1", events).to_json()))
    assert told[0].startswith("session s1 · 1 turn · 0 model calls · 2 tool calls, 1 failed or cut short")
    assert [line.strip("│├└─ ") for line in told if "deploy" in line] == [left]
    resumed = [
        Event(200.0, "called", tool="deploy", call_id="c1", data={"outcome": "interrupted", "state": "interrupted"}),
        Event(201.0, "turn", data={"number": 2}),
        Event(203.0, "called", tool="deploy", call_id="c1", seconds=2.0, data={"outcome": "inline"}),
    ]
    after = list(drawn_tree(Tree.of("s1", [*events, *resumed]).to_json()))
    assert [line.strip("│├└─ ") for line in after if "deploy" in line] == [left, "tool deploy · 2.0 s · inline"]
    answered = Event(106.6, "called", tool="deploy", call_id="c1", seconds=4.5, data={"outcome": "inline"})
    assert Tree.of("s1", [*events, answered]).totals()["tool_calls"] == 2, "it is told once"


def test_calls_of_a_question_that_never_came_to_an_answer_are_counted_too() -> None:
    tree = Tree.of("s1", [Event(1.0, "asked", data=USED | {"op": "q1"})]).to_json()
    assert tree["totals"]["cost"] == 0.5


def test_of_nothing_there_is_an_empty_tree() -> None:
    assert Tree.of("s1", []).to_json()["totals"]["model_calls"] == 0


@requirement("runtime:operation-tree")
def test_a_call_that_went_to_the_background_is_told_with_its_end() -> None:
    """Whichever of the two events comes first."""
    called = Event(2.0, "called", handle="k3f9", tool="slow", seconds=0.3, data={"outcome": "running", "chars": 151})
    ended = Event(4.0, "ended", handle="k3f9", tool="slow", seconds=2.7, data={"state": "timed out"})
    turn = Event(1.0, "turn", data={"number": 1})
    for events in ([turn, called, ended], [turn, ended, called]):
        assert "slow · 2.7 s · in the background, timed out k3f9 · 151 chars" in "\n".join(
            drawn_tree(Tree.of("s", events).to_json())
        )
    assert "slow · 0.3 s · running k3f9" in "\n".join(drawn_tree(Tree.of("s", [turn, called]).to_json()))


@requirement("runtime:operation-tree")
def test_without_an_agent_of_ours_the_calls_are_those_whose_outputs_came() -> None:
    tree = Tree.of(
        "s",
        [
            Event(101.0, "kept", handle="k3f9", tool="fetch", call_id="c1", seconds=0.5, data={"bytes": 280_000}),
            Event(102.0, "inline", tool="small", call_id="c2", data={"chars": 3}),
            Event(103.0, "retrieved", handle="k3f9", tool="fetch", data={"verb": "grep", "name": "context_grep", "tokens": 846}),
            Event(104.0, "running", handle="yb4v", tool="slow", call_id="c3"),
            Event(109.0, "ended", handle="yb4v", tool="slow", seconds=5.25, data={"state": "ready", "bytes": 50}),
            Event(110.0, "retrieved", data={"verb": "wait", "name": "wait_for_tool_output"}),
            Event(110.0, "retrieved", handle="yb4v", tool="slow", data={"verb": "wait", "name": "wait_for_tool_output"}),
        ],
    ).to_json(with_outputs=True)  # fmt: skip
    assert list(drawn_tree(tree)) == [
        "session s · 5 tool calls · 9.5 s",
        "├─ tool fetch · 0.5 s · kept k3f9 · 280,000 bytes",
        "├─ tool small · 0.0 s · inline · 3 chars",
        "├─ tool context_grep · 0.0 s · about k3f9 · 846 tokens",
        "├─ tool slow · 5.2 s · in the background, ready yb4v · 50 bytes",
        "└─ tool wait_for_tool_output · 0.0 s",
    ]


@requirement("runtime:operation-tree", "runtime:totals-to-root")
def test_a_log_that_tells_of_more_than_a_tree_has_room_for_is_added_up_all_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def both(events: list[Event]) -> tuple[dict[str, Any], dict[str, Any]]:
        whole, bounded = Tree.of("s", events), Tree.of("s", [])
        with monkeypatch.context() as patched:
            patched.setattr(folds, "MOST_OPERATIONS", 7)
            bounded = Tree.of("s", events)
        assert bounded.totals() == whole.totals()
        return whole.to_json(with_outputs=True), bounded.to_json(with_outputs=True)

    def placed(node: dict[str, Any]) -> int:
        return sum(1 + placed(child) for child in node.get("children", ()))

    agent = [
        event
        for n in range(20)
        for event in (
            Event(100.0 + n, "turn", data={"number": n}),
            Event(100.1 + n, "asked", data=USED),
            Event(100.2 + n, "called", handle=f"k{n}", tool="fetch", data={"outcome": "running"}),
            Event(100.3 + n, "ended", handle=f"k{n}", data={"state": "ready"}),
            Event(100.4 + n, "asked", data=USED | {"op": f"q{n}"}),
            Event(100.5 + n, "extracted", handle=f"k{n}", data={"op": f"q{n}"}),
            Event(100.6 + n, "spawned", tool="reader", data={"session": f"child {n}"}),
            Event(100.7 + n, "joined", tool="reader", data={"session": f"child {n}", "calls": 2, "tool_calls": 3} | USED),
        )
    ]  # fmt: skip
    outputs = [Event(100.0 + n, "kept", handle=f"k{n}", tool="fetch", data={"bytes": n}) for n in range(20)]
    for events, operations, calls in ((agent, 120, 80), (outputs, 20, 20)):
        whole, bounded = both(events)
        assert whole["totals"] == bounded["totals"]
        assert whole["totals"]["tool_calls"] == calls
        assert (placed(whole), placed(bounded), bounded["left_out"]) == (operations, 7, operations - 7)
        assert "left_out" not in whole
        assert list(drawn_tree(bounded))[-1] == (
            f"… and {operations - 7} more operations: they are in the figures above, and have no line here."
        )


@requirement("ledger:shown")
def test_a_ledger_has_a_bound_and_says_of_any_more_outputs_that_nothing_was_seen(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(folds, "MOST_OUTPUTS", 3)
    ledger = Ledger()
    for n in (*range(5), 0):
        ledger.add(Event(1.0, "retrieved", handle=f"k{n}", data={"shown": [[0, 10]]}))
    assert [ledger.of(f"k{n}").share(10) for n in range(5)] == [1.0, 1.0, 1.0, 0.0, 0.0]
    assert ledger.of("k0").retrievals == 2


@requirement("runtime:operation-tree")
def test_a_question_takes_no_place_of_the_calls_around_it() -> None:
    events = [
        Event(101.0, "kept", handle="k3f9", tool="fetch", seconds=0.5, data={"bytes": 280_000}),
        Event(102.0, "asked", seconds=0.5, data={"op": "q1", "model": "m", "input_tokens": 9, "output_tokens": 3}),
        Event(102.1, "called", tool="Grep", data={"op": "q1"}),
        Event(102.5, "extracted", handle="k3f9", tool="fetch", seconds=1.0, data={"op": "q1"}),
        Event(103.0, "inline", tool="small", data={"chars": 3}),
    ]
    tree = Tree.of("s", events).to_json(with_outputs=True)
    assert [one["op"] for one in tree["children"]] == ["tool", "extraction", "tool"]
    assert (tree["totals"]["tool_calls"], tree["totals"]["model_calls"]) == (3, 1)


@requirement("runtime:operation-tree")
def test_calls_that_were_refused_or_failed_are_counted_with_those_of_agents_or_without() -> None:
    calls = {"tool_calls": 3, "refused": 1, "failed": 2}
    events = [
        Event(100.0, "turn", data={"number": 1}),
        Event(101.0, "spawned", tool="reader", data={"session": "child"}),
        Event(102.0, "joined", tool="reader", data={"session": "child", "calls": 2} | calls),
        *(
            Event(103.0, "called", tool="look", data={"outcome": outcome, "is_error": outcome == "refused"})
            for outcome in ("inline", "refused", "kept")
        ),
        Event(104.0, "called", tool="look", call_id="d", data={"outcome": "inline", "is_error": True}),
    ]
    root = Tree.of("s", events).root
    told = [{name: totals[name] for name in calls} for totals in (root.totals(), root.totals(agents=False))]
    own = {"tool_calls": 3, "refused": 1, "failed": 2}
    assert told == [{name: own[name] + calls[name] for name in calls}, own]
    assert root.totals(agents=False)["model_calls"] == 0
    outputs = [Event(100.0 + n, kind, tool="t") for n, kind in enumerate(("inline", "refused", "inline", "refused"))]
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(folds, "MOST_OPERATIONS", 2)
        totals = Tree.of("s", outputs).to_json(with_outputs=True)["totals"]
    assert {name: totals[name] for name in calls} == {"tool_calls": 2, "refused": 2, "failed": 2}


@requirement("runtime:operation-tree", "cli:run-resume")
@pytest.mark.parametrize("is_killed", [False, True])
def test_a_turn_ends_with_its_run_however_much_later_the_next_one_begins(is_killed: bool) -> None:
    told = {"outcome": "interrupted", "state": "interrupted", "is_error": True}
    events = [
        Event(101.0, "turn", by="a", data={"number": 1}),
        Event(102.0, "asked", by="a", seconds=0.5, data=USED),
        Event(103.0, "turn", by="a", data={"number": 2}),
        Event(104.0, "asked", by="a", seconds=0.5, data=USED),
        Event(104.5, "inline" if is_killed else "reported", by="a", tool="look", data={"status": "success"}),
        Event(1000.0, "called", by="b", tool="pay", call_id="c", data=told),  # by who resumes
        Event(1001.0, "turn", by="b", data={"number": 3}),
        Event(1003.0, "asked", by="b", seconds=0.5, data=USED),
        Event(1003.0, "reported", by="b", data={"status": "success"}),
    ]
    tree = Tree.of("s", events).to_json()
    assert [one["seconds"] for one in tree["children"]] == [2.0, 1.5 if is_killed else 1.0, 2.0]
    assert tree["run_seconds"] == 5.5


@requirement("runtime:operation-tree")
def test_what_a_person_asks_about_a_run_is_no_part_of_it() -> None:
    run = [
        Event(101.0, "turn", data={"number": 1, "tokens": 50}),
        Event(102.0, "asked", seconds=0.5, data={"model": "m", "input_tokens": 9, "output_tokens": 3}),
        Event(103.0, "reported", data={"status": "success"}),
    ]
    by = {"reader": "person", "op": "q1"}
    question = [
        Event(902.0, "asked", seconds=0.5, data=by | {"model": "m", "input_tokens": 900, "output_tokens": 3}),
        Event(902.1, "called", tool="Grep", data=by),
        Event(902.5, "extracted", handle="k3f9", tool="fetch", seconds=1.0, data=by),
    ]
    alone, both = Tree.of("s", run).to_json(), Tree.of("s", run + question).to_json()
    *of_run, asked = both.pop("children")
    assert (both, of_run) == ({name: one for name, one in alone.items() if name != "children"}, alone["children"])
    assert (asked["op"], asked["apart"], [one["op"] for one in asked["children"]]) == (
        "extraction",
        True,
        ["model", "tool"],
    )
    drawn = "\n".join(drawn_tree(Tree.of("s", run + question).to_json()))
    assert "─ question about k3f9 · by a person · 1.0 s" in drawn
    without_agent = Tree.of("s", question).to_json()
    assert without_agent["totals"]["model_calls"] == 1


_EVENTS = st.builds(
    Event,
    at=st.floats(0, 1e9),
    kind=st.sampled_from(EVENT_KINDS),  # type: ignore[arg-type]
    tool=st.text(max_size=5),
    seconds=st.floats(0, 1e6),
    data=st.dictionaries(
        st.sampled_from(["op", "session", "number", "cost", "input_tokens", "calls", "searched"]),
        st.none() | st.integers(-5, 5) | st.text(max_size=3) | st.booleans(),
    ),
)


@given(st.lists(_EVENTS, max_size=30))
def test_any_log_gives_a_tree(events: list[Event]) -> None:
    tree = Tree.of("s", events)
    tree.to_json()
    found: list[str] = []
    waiting = [tree.root]
    while waiting:
        one = waiting.pop()
        found.append(one.kind)
        waiting += one.children
    kinds = [("model", "asked"), ("extraction", "extracted"), ("tool", "called"), ("turn", "turn")]
    if not {"turn", "called"} & {event.kind for event in events}:
        kinds.remove(("tool", "called"))  # no agent of ours: its calls are those whose outputs came
    for kind, event_kind in kinds:
        least = sum(event.kind == event_kind for event in events)
        unended = len({event.handle for event in events if event.kind == "running"} - {""}) if kind == "tool" else 0
        unended += sum(event.kind == "begun" for event in events) if kind == "tool" else 0
        assert least <= found.count(kind) <= least + unended, "each stands somewhere, once"


def test_a_call_that_went_to_the_background_is_there_though_its_agent_was_killed() -> None:
    events = [
        Event(1.0, "turn", data={"number": 1}),
        Event(2.0, "running", handle="k3f9", tool="slow", call_id="c1"),
        Event(2.5, "running", handle="p8x2", tool="slow", call_id="c2"),
        Event(3.0, "called", handle="p8x2", tool="slow", call_id="c2", data={"outcome": "running"}),
        Event(9.0, "turn", data={"number": 2}),
        Event(9.5, "ended", handle="k3f9", seconds=8.0, data={"state": "interrupted"}),
    ]
    tree = Tree.of("s1", events).to_json()
    first, _second = tree["children"]
    assert [(one["handle"], one.get("state")) for one in first["children"]] == [("p8x2", None), ("k3f9", "interrupted")]
    assert tree["totals"]["tool_calls"] == 2


def test_what_is_removed_later_does_not_make_the_run_longer() -> None:
    events = [Event(1.0, "turn", data={"number": 1}), Event(5.5, "reported", data={"status": "success"})]
    assert (
        Tree.of("s1", [*events, Event(3600.0, "removed", "k3f9")]).root.seconds
        == Tree.of("s1", events).root.seconds
        == 4.5
    )
