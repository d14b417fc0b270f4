"""The facts of an output: their spelling on disk says all of it, and a wrong one is told from a right one."""

import dataclasses
import json
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdall.formats.registry import KINDS
from holdall.values.handles import format_long
from holdall.values.outputs import Facts, Measure, Origin, State

plain_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=10,
)
counts = st.integers(min_value=0, max_value=2**60)
times = st.floats(min_value=0, max_value=4e9)
origins = st.builds(
    Origin, tool=st.text(), server=st.text(), arguments=plain_json, call_id=st.text(), terminal=st.booleans(),
    masked=st.booleans(),
)  # fmt: skip
measures = st.builds(
    Measure,
    bytes=counts,
    chars=counts,
    lines=counts,
    longest_line=counts,
    tokens=counts,
    tokens_exact=st.booleans(),
    tokenizer=st.text(),
    sha256=st.text(),
    kind=st.sampled_from(KINDS),
    utf8=st.booleans(),
    notes=st.lists(st.text()).map(tuple),
    surrogates=st.text(),
)
all_facts = st.builds(
    Facts,
    handle=st.text(),
    id=st.text(),
    session=st.text(),
    created=times,
    origin=origins,
    measure=measures,
    state=st.sampled_from([state for state in get_args(State) if state != "unreadable"]),
    ended=st.none() | times,
    file=st.text(),
    error=st.text(),
    exit_code=st.none() | st.integers(min_value=-255, max_value=255),
    order=st.floats(min_value=0, max_value=1e11),
)

SOME = Facts(handle="k3f9", id="i", session="s", created=1.5)


@given(all_facts)
def test_facts_read_back_from_json_as_themselves(facts: Facts) -> None:
    assert Facts.from_json(json.loads(json.dumps(facts.to_json()))) == facts


@given(all_facts)
def test_every_fact_is_in_the_json_under_its_own_name(facts: Facts) -> None:
    names = {field.name for part in (Facts, Origin, Measure) for field in dataclasses.fields(part)}
    told = names - {"origin", "measure", "packed"}  # of a member, which has no record
    # Most outputs have none of them.
    rare = {
        "process_mark": facts.origin.process_mark,
        "surrogates": facts.measure.surrogates,
        "order": facts.order,
        "masked": facts.origin.masked,
        "read_as": facts.origin.read_as,
        "part_of": facts.origin.part_of,
    }
    assert set(facts.to_json()) == told - {name for name, value in rare.items() if not value}


@pytest.mark.parametrize(
    ("key", "value"), [("kind", "a\npoem"), ("kind", ""), ("state", "asleep"), ("state", "unreadable")]
)
def test_a_kind_that_is_no_name_or_a_state_that_nobody_knows_is_refused(key: str, value: str) -> None:
    with pytest.raises(ValueError, match="unknown kind or state"):
        Facts.from_json(SOME.to_json() | {key: value})


@pytest.mark.parametrize("later", ["is_error", "traceback", "process"])
def test_records_from_before_there_was_such_a_name_are_read(later: str) -> None:
    flat = SOME.to_json()
    del flat[later]
    assert Facts.from_json(flat) == SOME


@pytest.mark.parametrize("missing", sorted(set(SOME.to_json()) - {"is_error", "traceback", "process"}))
def test_facts_without_one_of_their_names_are_refused(missing: str) -> None:
    flat: dict[str, Any] = SOME.to_json()
    del flat[missing]
    with pytest.raises(KeyError):
        Facts.from_json(flat)


def test_the_long_handle_is_made_of_session_and_id() -> None:
    assert SOME.long_handle == format_long("s", "i") == "session-s/i"


@pytest.mark.parametrize("state", get_args(State))
def test_only_what_ended_by_itself_is_whole(state: State) -> None:
    assert dataclasses.replace(SOME, state=state).is_whole == (state == "ready")
    # A command that failed has still written all that it wrote.
    assert dataclasses.replace(SOME, state=state, exit_code=1).is_whole == (state in ("ready", "failed"))
