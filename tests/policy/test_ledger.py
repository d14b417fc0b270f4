"""The ledger: ranges that are merged as they come, and counts that are folds over events."""

from hypothesis import given
from hypothesis import strategies as st

from holdall.policy.folds import Counters, Ledger, Ranges
from holdall.values.events import Event
from holdall.values.spans import Span
from tests.requirements import requirement

spans = st.lists(
    st.tuples(st.integers(0, 60), st.integers(0, 60)).map(lambda pair: Span(min(pair), max(pair))), max_size=30
)


@given(spans)
def test_ranges_are_the_set_of_their_bytes(added: list[Span]) -> None:
    ranges = Ranges()
    known: set[int] = set()
    for span in added:
        ranges.add(span)
        known |= set(range(span.start, span.end))
        assert ranges.bytes() == len(known)
    assert {byte for start, end in ranges.as_lists() for byte in range(start, end)} == known
    lists = ranges.as_lists()
    assert all(lists[at][1] < lists[at + 1][0] for at in range(len(lists) - 1)), "they neither touch nor overlap"
    for start in range(0, 60, 7):
        assert ranges.covers(Span(start, start + 3)) == (set(range(start, start + 3)) <= known)


def test_a_hundred_thousand_answers_cost_little_more_than_one() -> None:
    ranges = Ranges()
    for at in range(100_000):
        ranges.add(Span(at * 10, at * 10 + 10))
    assert ranges.as_lists() == [[0, 1_000_000]]


@given(spans, spans)
def test_ranges_of_one_event_are_added_as_one_by_one(before: list[Span], added: list[Span]) -> None:
    ones, together = Ranges(), Ranges()
    for span in (*before, *added):
        ones.add(span)
    together.add(*before)
    together.add(*added)
    assert together.as_lists() == ones.as_lists()


def test_a_forged_event_with_ranges_from_the_last_to_the_first_costs_their_number() -> None:
    ranges, many = Ranges(), 400_000  # minutes, if each of them moves all that are there
    ranges.add(*(Span(2 * at, 2 * at + 1) for at in range(many, 0, -1)))
    assert (len(ranges.starts), ranges.bytes()) == (many, many)


@requirement("ledger:per-session-and-artifact")
def test_each_output_has_its_own_coverage() -> None:
    ledger = Ledger()
    ledger.add(Event(1.0, "kept", handle="a", data={"shown": [[0, 10]]}))
    ledger.add(Event(2.0, "retrieved", handle="a", data={"shown": [[5, 20]], "scanned": [[0, 100]]}))
    ledger.add(Event(3.0, "retrieved", handle="b", data={"shown": [[0, 50], "nonsense", [9, 1], [1.5, 2]]}))
    assert ledger.of("a").to_json(100) == {"seen": 0.2, "retrievals": 1, "shown": [[0, 20]], "scanned": [[0, 100]]}
    assert ledger.of("b").share(100, plus=[Span(90, 100)]) == 0.6
    assert ledger.of("nobody").share(100) == 0
    assert ledger.of("nobody").share(0) == 1.0, "of nothing all has been seen"


@requirement(
    "watch:tokens-kept-out", "watch:retrievals-by-verb", "watch:extractions-by-strategy", "watch:fallbacks", "watch:recoveries",
)  # fmt: skip
def test_counters_are_a_fold_over_events() -> None:
    counters = Counters()
    for event in (
        Event(1.0, "inline"),
        Event(1.0, "kept", handle="a", data={"bytes": 100, "tokens": 5000, "content_tokens": 400, "replaced": True}),
        Event(1.0, "kept", handle="b", data={"bytes": 7, "tokens": 5, "content_tokens": 0, "replaced": False}),
        Event(1.0, "kept", handle="c", data={"bytes": 3, "tokens": 900, "replaced": True, "reader": "person"}),
        Event(1.0, "retrieved", handle="a", data={"verb": "grep", "tokens": 60}),
        Event(1.0, "retrieved", handle="a", data={"verb": "read", "tokens": 40}),
        Event(1.0, "retrieved", handle="a", data={"verb": "grep", "tokens": 1}),
        Event(1.0, "refused"),
        Event(1.0, "unkept"),
        Event(1.0, "passed", handle="a"),
        Event(1.0, "running", handle="c"),
        Event(1.0, "ended", handle="c"),
        Event(
            1.0,
            "asked",
            handle="a",
            data={"input_tokens": 20, "output_tokens": 3, "cost": 0.25, "estimated_tokens": 19},
        ),
        Event(1.0, "asked", handle="a", data={"input_tokens": 10, "output_tokens": 0, "cost": None}),
        Event(1.0, "extracted", handle="a", data={"strategy": "read-grep", "reason": "many-lines"}),
        Event(1.0, "extracted", handle="a", data={"strategy": "truncate", "reason": "fallback"}),
        Event(1.0, "turn"),
        Event(1.0, "spawned"),
        Event(1.0, "joined"),
        Event(1.0, "called", handle="a"),
        Event(1.0, "recovered"),
        Event(1.0, "reported"),
    ):
        counters.add(event)
    assert counters.to_json() == {
        "inline": 1, "kept": 3, "kept_for_people": 1, "unkept": 1, "kept_bytes": 110, "tokens_kept_out": 4600,
        "retrievals": {"grep": 2, "read": 1}, "retrieved_tokens": 101, "refused": 1, "passed_by_reference": 1, "background": 1,
        "extractions": {"read-grep": 1, "truncate": 1}, "fallbacks": 1, "turns": 1, "agents": 1, "recoveries": 1, "model_calls": 2, "model_tokens": 33, "model_input_tokens": 20, "estimated_tokens": 19,
        "model_cost": 0.25, "unpriced_calls": 1,
    }  # fmt: skip
    double = Counters()
    double.merge(counters)
    double.merge(counters)
    assert double.tokens_kept_out == 9200
    assert double.retrievals["grep"] == 4


def test_an_event_reads_back_as_it_was_written_and_unknown_kinds_are_passed_over() -> None:
    event = Event(1.5, "kept", "h", "t", "c", 0.25, "w", {"bytes": 3})
    assert Event.from_json(event.to_json()) == event
    assert Event.from_json({"at": 1, "event": "invented later"}) is None
