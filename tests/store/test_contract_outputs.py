"""What is kept is found again: by handle, by its long form, by call id, inside its session or not at all."""

import hashlib
import json
import os
import uuid
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from inline_snapshot import snapshot

from holdall.store.protocol import OutputStore, SessionInfo
from holdall.values.errors import AmbiguousCallId, UnknownHandle
from holdall.values.handles import LONGEST, SHORTEST, format_long, is_short
from holdall.values.outputs import Facts, Measure, Origin
from holdall.values.spans import BLOCK
from tests.requirements import requirement
from tests.store.support import Clock, StoreMaker, keep, one_store, read_back
from tests.values.bad_handles import HOSTILE

# Call ids and tool names that somebody might take for a path, a line or a name.
HOSTILE_NAMES = {
    "STORE-033 newline": "a\nb",
    "STORE-033 path": "../../etc",
    "STORE-033 NUL": "x\0y",
    "STORE-033 long": "n" * 10000,
    "STORE-035": "../../../../tmp/pwn",
    "STORE-037": "n" * 256,
    "surrogate": "\ud800",
    "terminal": "\x1b[31m",
    "record": "session.json",
    "blank": " ",
    **HOSTILE,
}


def refusal(store: OutputStore, session: SessionInfo, reference: str) -> UnknownHandle:
    with pytest.raises(UnknownHandle) as refused:
        store.resolve(session, reference)
    return refused.value


# ── Facts ───────────────────────────────────────────────────────────────────────────────────────────────────


@requirement("store:facts-of-the-call")
def test_the_facts_tell_of_the_call(store: OutputStore, session: SessionInfo, clock: Clock) -> None:
    origin = Origin(
        tool="fetch",
        server="web",
        arguments={"url": "https://example.org", "n": [1, None]},
        call_id="c1",
        terminal=True,
    )
    facts = store.put(session, [b"x"], origin)
    assert facts.origin == origin
    assert (facts.session, facts.created, facts.ended, facts.state) == (session.id, clock.now, clock.now, "ready")
    assert store.resolve(session, facts.handle) == facts


@requirement("store:facts-of-the-bytes")
def test_the_facts_tell_of_the_bytes(store: OutputStore, session: SessionInfo) -> None:
    data = '{"é": [1,\n2]}\n'.encode()
    facts = keep(store, session, data)
    assert facts.measure == Measure(
        bytes=15,
        chars=14,
        lines=2,
        longest_line=10,
        tokens=facts.measure.tokens,
        tokens_exact=False,
        tokenizer="estimate",
        sha256=hashlib.sha256(data).hexdigest(),
        kind="json",
    )
    assert 5 <= facts.measure.tokens <= 15


@requirement("measure:session-tokenizer")
def test_tokens_are_counted_by_the_tokenizer_of_the_store(make_store: StoreMaker) -> None:
    class Letters:
        name = "letters"

        def count(self, text: str) -> int:
            return len(text)

    store = make_store(tokenizer=Letters())
    measure = keep(store, store.open_session("s"), "five!").measure
    assert (measure.tokens, measure.tokens_exact, measure.tokenizer) == (5, True, "letters")


@requirement("measure:token-last-resort")
def test_a_tokenizer_that_fails_does_not_cost_the_output(make_store: StoreMaker) -> None:
    class Broken:
        name = "broken"

        def count(self, text: str) -> int:
            raise RuntimeError("no vocabulary")

    store = make_store(tokenizer=Broken())
    facts = keep(store, store.open_session("s"), "x" * 41)
    assert read_back(store, facts) == b"x" * 41
    assert (facts.measure.tokens, facts.measure.tokens_exact) == (11, False)


class Odd:
    def __str__(self) -> str:
        return "odd"


@pytest.mark.parametrize(
    ("arguments", "kept"),
    [
        ({"a": [1, {"b": None}]}, {"a": [1, {"b": None}]}),
        ((1, 2), [1, 2]),
        ({"when": Odd(), "raw": b"\xff"}, {"when": "odd", "raw": "/w=="}),
        ({(1, 2): 3}, '{"(1, 2)": 3}'),
        ({"n": 10**5000}, "(not kept: a dict cannot be kept as JSON: Exceeds the limit (4300 digits) for integer string conversion; use sys.set_int_max_str_digits() to increase the limit.)"),
        ("\ud800", "\ud800"),
    ],
    ids=["json", "tuple", "objects", "keys", "digits", "surrogate"],
)  # fmt: skip
def test_arguments_of_any_kind_do_not_cost_the_output(
    store: OutputStore, session: SessionInfo, arguments: Any, kept: Any
) -> None:
    facts = keep(store, session, "result", arguments=arguments)
    assert read_back(store, facts) == b"result"
    assert store.resolve(session, facts.handle).origin.arguments == kept
    assert store.outputs(session) == [facts]


@requirement("store:bounded-arguments")
def test_of_very_large_arguments_the_record_has_the_beginning_and_says_so(
    store: OutputStore, session: SessionInfo
) -> None:
    large = {"text": "ü" * 100_000}
    written = json.dumps(large, ensure_ascii=False)
    digest = hashlib.sha256(written.encode()).hexdigest()
    facts = keep(store, session, "a", arguments=large)
    assert facts.origin.arguments == (f"{written[:16384]}… (the beginning of 100,012 characters, SHA-256 {digest})")
    many = keep(store, session, "b", arguments=[[]] * 1001)
    assert many.origin.arguments == json.dumps([[]] * 1001)  # all of them, as one value
    commas = {"csv": "a,b,c\n" * 1000, "numbers": [1] * 900}
    assert keep(store, session, "c", arguments=commas).origin.arguments == commas
    writer = store.begin(session, Origin(arguments=large))
    assert writer.facts.origin.arguments == facts.origin.arguments
    writer.finish()
    assert store.resolve(session, facts.handle) == facts


def test_arguments_that_hold_themselves_or_are_very_deep_are_told_as_text(
    store: OutputStore, session: SessionInfo
) -> None:
    loop: list[Any] = []
    loop.append(loop)
    assert keep(store, session, "a", arguments=loop).origin.arguments == (
        "(not kept: a list cannot be kept as JSON: Circular reference detected.)"
    )
    for depth in (200, 5000):
        deep: Any = 1
        for _ in range(depth):
            deep = [deep]
        facts = keep(store, session, "b", arguments=deep)
        assert facts.origin.arguments == "[" * depth + "1" + "]" * depth
        assert store.resolve(session, facts.handle) == facts


@requirement("store:artifact-immutable")
def test_a_kept_output_never_changes(make_store: StoreMaker) -> None:
    store = make_store()
    session = store.open_session("s")
    data = bytearray(b"first version")
    facts = keep(store, session, data)
    data[:] = b"other version"
    for other in ("first version", "something else", b"first"):
        keep(store, session, other, call_id=facts.handle)
    assert read_back(store, facts) == b"first version"
    again = make_store()
    assert again.resolve(again.open_session("s"), facts.handle) == facts
    assert read_back(again, facts) == b"first version"


# ── Reading ─────────────────────────────────────────────────────────────────────────────────────────────────


@one_store
@given(st.data())
def test_any_slice_is_exactly_those_bytes(store: OutputStore, session: SessionInfo, data: st.DataObject) -> None:
    size = data.draw(st.sampled_from([0, 1, 100, BLOCK - 1, BLOCK, BLOCK + 1, 3 * BLOCK, 40 * BLOCK + 17]))
    whole = hashlib.shake_128(size.to_bytes(4, "big")).digest(size)
    reader = store.open(keep(store, session, whole))
    near = st.sampled_from([0, 1, BLOCK - 1, BLOCK, BLOCK + 1, 33 * BLOCK, size, size + 1, size * 2])
    for _ in range(10):
        start = data.draw(st.integers(min_value=-5, max_value=size + 5) | near)
        end = data.draw(st.integers(min_value=-5, max_value=size + 5) | near)
        assert reader.read(start, end) == whole[max(0, start) : max(0, end)]
    reader.close()


def test_an_open_output_stays_readable_beside_others(store: OutputStore, session: SessionInfo) -> None:
    first, second = keep(store, session, "first"), keep(store, session, "second")
    readers = [store.open(facts) for facts in (first, second, first)]
    assert [reader.read(0, 100) for reader in readers] == [b"first", b"second", b"first"]
    assert readers[0].facts == first
    for reader in readers:
        reader.close()
        reader.close()  # twice does no harm


def test_outputs_are_listed_oldest_first(store: OutputStore, session: SessionInfo, clock: Clock) -> None:
    kept: list[Facts] = []
    for number in range(5):
        kept.append(keep(store, session, f"output {number}"))
        clock.now += 1
    assert store.outputs(session) == kept


def test_the_stamp_of_an_output_stays_as_long_as_its_facts(store: OutputStore, session: SessionInfo) -> None:
    facts = keep(store, session, "x")
    stamp = store.stamp(facts)
    keep(store, session, "y")
    assert stamp is not None
    assert store.stamp(facts) == stamp
    assert store.stamp(replace(facts, handle="bbbbbbbbbbbb")) is None


# ── Handles ─────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.in_full(one_in=3)
@requirement("store:short-handles")
def test_handles_are_short_and_no_two_in_a_session_are_the_same(store: OutputStore, session: SessionInfo) -> None:
    handles = [keep(store, session, "same" if number % 2 else str(number)).handle for number in range(200)]
    assert len(set(handles)) == 200
    assert all(is_short(handle) and SHORTEST <= len(handle) <= LONGEST for handle in handles)
    assert len({len(handle) for handle in handles}) == 1


@requirement("store:long-handles")
def test_an_output_is_found_by_its_long_handle_and_its_bare_uuid(store: OutputStore, session: SessionInfo) -> None:
    facts = keep(store, session, "x")
    assert facts.long_handle == f"session-{session.id}/{facts.id}"
    assert store.resolve(session, facts.long_handle) == facts
    assert store.resolve(session, facts.id) == facts


@requirement("store:128-random-bits")
def test_a_long_handle_is_made_of_two_random_uuids(store: OutputStore) -> None:
    # HANDLE-024: each has 122 random bits, and both are needed.
    sessions = [store.open_session(f"s{number}") for number in range(3)]
    outputs = [keep(store, one, "x").id for one in sessions for _ in range(3)]
    drawn = [uuid.UUID(text) for text in outputs + [one.id for one in sessions]]
    assert all(one.version == 4 and one.variant == uuid.RFC_4122 for one in drawn)
    assert len(set(drawn)) == len(drawn)


@requirement("store:foreign-as-unknown")
def test_guessing_near_a_uuid_hits_nothing(store: OutputStore, session: SessionInfo) -> None:
    # HANDLE-024
    facts = keep(store, session, "x")
    number = uuid.UUID(facts.id).int
    for step in range(-50, 51):
        guess = str(uuid.UUID(int=(number + step) % 2**128))
        if step:
            refusal(store, session, guess)
            refusal(store, session, format_long(session.id, guess))


@requirement("store:handle-exact")
def test_a_handle_is_found_exactly_or_not_at_all(store: OutputStore, session: SessionInfo) -> None:
    # HANDLE-023
    facts = keep(store, session, "x")
    for handle in (facts.handle, facts.long_handle, facts.id):
        for other in (
            handle.upper(),
            handle.replace("-", "") + "\u0301",
            handle + "\u0301",
            " " + handle,
            handle + "\n",
        ):
            refusal(store, session, other)


@pytest.mark.in_full(one_in=3)
@requirement("store:handle-grammar", "store:handle-confined")
@pytest.mark.parametrize("reference", HOSTILE_NAMES.values(), ids=HOSTILE_NAMES.keys())
def test_what_is_no_handle_is_answered_like_an_unknown_one(
    store: OutputStore, session: SessionInfo, reference: str
) -> None:
    facts = keep(store, session, "x")
    unknown = str(refusal(store, session, "bbbbbbbbbbbb"))
    assert unknown == (
        f'no output is kept under "bbbbbbbbbbbb" in session "s1". Kept: {facts.handle}. (`holdall ls` lists them.)'
    )
    assert str(refusal(store, session, reference)) == str(UnknownHandle(reference, session="s1", known=[facts.handle]))


def test_the_empty_reference_is_nobodys_even_where_call_ids_are_empty(store: OutputStore, session: SessionInfo) -> None:
    keep(store, session, "x", call_id="")
    refusal(store, session, "")


@requirement("store:inside-session", "store:foreign-as-unknown")
def test_no_reference_reaches_an_output_of_another_session(store: OutputStore, session: SessionInfo) -> None:
    mine = keep(store, session, "mine")
    other = store.open_session("s2")
    theirs = keep(store, other, "theirs", call_id="c1")
    for reference in (theirs.handle, theirs.long_handle, theirs.id, "c1", format_long(other.id, mine.id)):
        if reference != mine.handle:
            unknown = UnknownHandle(reference, session="s1", known=[mine.handle])
            assert str(refusal(store, session, reference)) == str(unknown)
    assert store.resolve(other, theirs.long_handle) == theirs
    assert store.outputs(session) == [mine]


# ── Call ids ────────────────────────────────────────────────────────────────────────────────────────────────


@requirement("store:call-id-as-handle")
def test_an_output_is_found_by_its_call_id(store: OutputStore, session: SessionInfo) -> None:
    facts = keep(store, session, "x", call_id="toolu_01A")
    keep(store, session, "y", call_id="toolu_01B")
    assert store.resolve(session, "toolu_01A") == facts


@requirement("store:call-id-reused")
def test_a_call_id_that_is_used_twice_makes_two_outputs_and_names_both(
    store: OutputStore, session: SessionInfo, clock: Clock
) -> None:
    # STORE-034
    first = keep(store, session, "first", call_id="call_1")
    clock.now += 1
    second = keep(store, session, "second", call_id="call_1")
    assert first.handle != second.handle
    assert (read_back(store, first), read_back(store, second)) == (b"first", b"second")
    with pytest.raises(AmbiguousCallId) as refused:
        store.resolve(session, "call_1")
    assert refused.value.handles == (first.handle, second.handle)
    assert str(refused.value) == (
        f'2 outputs have the call id "call_1". Use one of their handles: {first.handle}, {second.handle}.'
    )


@requirement("store:call-id-reused")
def test_a_call_id_means_what_is_left_of_its_outputs(store: OutputStore, session: SessionInfo, clock: Clock) -> None:
    first = keep(store, session, "first", call_id="call_1")
    clock.now += 1
    second = keep(store, session, "second", call_id="call_1")
    store.remove(session, [first])
    assert store.resolve(session, "call_1") == second
    store.remove(session, [second])
    assert store.resolve(session, "call_1").handle == second.handle


@pytest.mark.in_full(one_in=3)
@requirement("store:call-id-confined", "store:tool-name-confined")
@pytest.mark.parametrize("name", HOSTILE_NAMES.values(), ids=HOSTILE_NAMES.keys())
def test_a_call_id_or_tool_name_is_data_whatever_it_looks_like(
    store: OutputStore, session: SessionInfo, name: str
) -> None:
    facts = keep(store, session, "content", call_id=name, tool=name, server=name)
    assert store.resolve(session, name) == facts
    assert facts.origin == Origin(tool=name, server=name, call_id=name)
    assert read_back(store, facts) == b"content"


def test_a_handle_goes_before_a_call_id_of_the_same_letters(store: OutputStore, session: SessionInfo) -> None:
    facts = keep(store, session, "real")
    keep(store, session, "pretender", call_id=facts.handle)
    assert store.resolve(session, facts.handle) == facts


# ── Identical outputs ───────────────────────────────────────────────────────────────────────────────────────


@requirement("store:identical-own-handles")
def test_identical_outputs_have_each_their_own_handle_and_facts(
    store: OutputStore, session: SessionInfo, clock: Clock
) -> None:
    first = keep(store, session, "same", call_id="a", tool="one")
    clock.now += 1
    second = keep(store, session, iter([b"sa", "me"]), call_id="b", tool="two")
    assert first.handle != second.handle
    assert first.id != second.id
    assert first.measure == second.measure
    assert [facts.origin.tool for facts in store.outputs(session)] == ["one", "two"]
    assert store.resolve(session, "b") == second
    assert read_back(store, first) == read_back(store, second) == b"same"


# ── Progress ────────────────────────────────────────────────────────────────────────────────────────────────


def test_progress_is_told_with_the_bytes_taken_so_far_and_once_more_at_the_end(
    store: OutputStore, session: SessionInfo
) -> None:
    told: list[int] = []
    parts = [os.urandom(1000) for _ in range(10)]
    store.put(session, parts, Origin(), progress=told.append)
    assert told == [*(1000 * (number + 1) for number in range(10)), 10_000]


@pytest.mark.parametrize(("call", "kept"), [(1, b"one "), (3, b"one two")])
@pytest.mark.parametrize(("problem", "state"), [(ValueError("enough"), "failed"), (KeyboardInterrupt(), "cancelled")])
def test_what_progress_raises_ends_the_output_there(
    store: OutputStore, session: SessionInfo, call: int, kept: bytes, problem: BaseException, state: str
) -> None:
    calls: list[int] = []

    def tick(done: int) -> None:
        calls.append(done)
        if len(calls) == call:
            raise problem

    facts = store.put(session, iter([b"one ", b"two"]), Origin(), progress=tick)
    assert (facts.state, read_back(store, facts)) == (state, kept)
    assert store.resolve(session, facts.handle) == facts


def test_notes_are_asked_for_once_everything_was_taken(store: OutputStore, session: SessionInfo) -> None:
    seen: list[str] = []

    def parts() -> Any:
        yield b"x"
        seen.append("taken")

    facts = store.put(session, parts(), Origin(), notes=lambda: list(seen))
    assert facts.measure.notes == ("taken",)


def test_an_unknown_handle_is_told_what_is_kept(store: OutputStore, session: SessionInfo, clock: Clock) -> None:
    assert str(refusal(store, session, "k3f9")) == snapshot(
        'no output is kept under "k3f9" in session "s1". Kept: nothing yet. (`holdall ls` lists them.)'
    )
    handles: list[str] = []
    for number in range(10):
        clock.now += 1
        handles.insert(0, keep(store, session, str(number)).handle)
    shown = ", ".join(handles[:8])
    assert str(refusal(store, session, "x")).endswith(f"Kept: {shown} and 2 more. (`holdall ls` lists them.)")


@requirement("store:list-order")
def test_outputs_are_listed_as_they_were_kept_whatever_the_clock_does(
    make_store: StoreMaker, session: SessionInfo, clock: Clock, home: Path
) -> None:
    stores = [make_store(), make_store()]  # as two processes that take turns
    kept: list[str] = []
    for number, days in enumerate((0, -3, 1, -5000, 9000, -20)):
        clock.pass_days(days)
        one = stores[number % 2]
        facts = keep(one, session, f"output {number}") if number % 3 else one.begin(session, Origin()).finish()
        assert facts.created == clock.now
        kept.append(facts.handle)
        for index in home.glob("index.sqlite*") if number == 3 else ():  # it is a cache
            index.unlink()
    for one in (*stores, make_store()):
        assert [facts.handle for facts in one.outputs(session)] == kept
