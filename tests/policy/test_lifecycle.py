"""The table of a call's life, every pair of it; and the rule that says when a model may run."""

import itertools

import pytest
from inline_snapshot import snapshot

from holdall.policy.lifecycle import (
    NOT_NEW,
    STATES,
    STEPS,
    TRANSITIONS,
    CallState,
    IllegalStep,
    Response,
    after,
    diagram,
    has_ended,
    may_run,
)
from tests.requirements import requirement

KINDS: tuple[Response, ...] = ("output", "size notice", "failure", "retrieval", "running notice", "queued notice")


@requirement("async:states")
def test_every_step_is_the_tables_or_raises_and_changes_nothing() -> None:
    before = {state: dict(steps) for state, steps in TRANSITIONS.items()}
    for state, step in itertools.product(STATES, STEPS):
        if step in TRANSITIONS[state]:
            assert after(state, step) in STATES
        else:
            with pytest.raises(IllegalStep, match=f"a call that is {state} cannot have {step}"):
                after(state, step)
    assert before == TRANSITIONS


def test_what_has_ended_stays_as_it_ended_and_everything_else_can_end() -> None:
    assert {state for state in STATES if has_ended(state)} == {
        "ready",
        "failed",
        "cancelled",
        "timed out",
        "interrupted",
    }
    assert set(TRANSITIONS) == set(STATES), "empty rows included"
    for state in STATES:
        reached: set[CallState] = {state}
        for _ in STATES:
            reached |= {following for one in reached for following in TRANSITIONS[one].values()}
        assert any(has_ended(one) for one in reached)


def test_the_diagram_is_drawn_from_the_table() -> None:
    assert diagram() == snapshot("""\
stateDiagram-v2
    state "timed out" as timed_out
    [*] --> queued: dispatched
    [*] --> running: dispatched, a slot is free
    queued --> running: started
    queued --> cancelled: aborted
    queued --> timed_out: overdue
    queued --> interrupted: lost
    running --> ready: finished
    running --> failed: raised
    running --> cancelled: aborted
    running --> timed_out: overdue
    running --> interrupted: lost
    ready --> [*]
    failed --> [*]
    cancelled --> [*]
    timed_out --> [*]
    interrupted --> [*]\
""")


@requirement("async:every-call-answered", "async:something-new", "async:running-not-new")
def test_the_rule_of_decision_22_for_every_combination_of_three_calls() -> None:
    calls = ("a", "b", "c")
    for kinds in itertools.product((None, *KINDS), repeat=3):
        responses: dict[str, Response] = {
            call: kind for call, kind in zip(calls, kinds, strict=True) if kind is not None
        }
        for number in range(8):
            seen = {call for at, call in enumerate(calls) if number >> at & 1}
            answered = None not in kinds
            new = any(kind is not None and kind not in NOT_NEW and call not in seen
                      for call, kind in zip(calls, kinds, strict=True))  # fmt: skip
            assert may_run(calls, responses, seen) is (answered and new)


def test_the_rule_in_words() -> None:
    assert not may_run(["a"], {}, [])
    assert not may_run(["a"], {"a": "running notice"}, [])
    assert may_run(["a", "b"], {"a": "running notice", "b": "output"}, [])
    assert may_run(["a"], {"a": "size notice"}, []), "otherwise a turn of oversized results would never wake the model"
    assert not may_run(["a"], {"a": "output"}, ["a"])
