"""Retention: how a rule is written, read back, and carried out."""

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from inline_snapshot import snapshot

from holdall.values.errors import BadSetting
from holdall.values.retention import DAY, Retention, parse
from holdall.values.settings import Settings, by_name
from holdall.wire.dialects import DIALECTS
from tests.requirements import requirement

rules = st.one_of(
    st.just(Retention(days=None, session=True)),
    st.just(Retention(days=None)),
    st.floats(min_value=0, max_value=36_500).map(lambda days: Retention(days=days)),
    st.integers(min_value=0, max_value=36_500).map(lambda days: Retention(days=float(days))),
)


@pytest.mark.parametrize(
    ("value", "rule", "shown"),
    [
        ("session", Retention(days=None, session=True), "session"),
        ("keep", Retention(days=None), "keep"),
        ("30", Retention(days=30.0), "30 days"),
        ("30 days", Retention(days=30.0), "30 days"),
        ("30d", Retention(days=30.0), "30 days"),
        (" 1 day ", Retention(days=1.0), "1 days"),
        ("0.5", Retention(days=0.5), "0.5 days"),
        (7, Retention(days=7.0), "7 days"),
        (0, Retention(days=0.0), "0 days"),
        (1 / 3, Retention(days=1 / 3), "0.3333333333333333 days"),
        (36_500, Retention(days=36_500.0), "36500 days"),
    ],
)
def test_a_rule_is_a_word_or_a_number_of_days(value: object, rule: Retention, shown: str) -> None:
    assert parse(value) == rule
    assert str(rule) == shown


@given(rules)
def test_a_rule_reads_back_from_its_text_as_itself(rule: Retention) -> None:
    assert parse(str(rule)) == rule
    assert parse(rule.told) == rule


@pytest.mark.parametrize(
    "text",
    [
        "30 days",
        "1 day",
        "1 hour",
        "36 hours",
        "90 minutes",
        "2 seconds",
        "100000 seconds",
        "0 days",
        "keep",
        "session",
    ],
)
def test_a_person_reads_a_rule_in_the_largest_unit_that_it_is_whole_in(text: str) -> None:
    assert parse(text).told == text


@requirement("settings:retention")
def test_a_rule_may_be_as_short_as_the_age_that_gc_takes() -> None:
    short = ["12h", "2w", "10m", "5s", "7d", "1 week", "3weeks"]
    assert [parse(text).told for text in short] == [
        "12 hours", "14 days", "10 minutes", "5 seconds", "7 days", "7 days", "21 days",
    ]  # fmt: skip


@pytest.mark.parametrize("seconds", [1, 2, 61, 3600, 43_201, 86_400, 604_800])
def test_a_number_of_seconds_is_told_without_decimals(seconds: int) -> None:
    told = parse(seconds / DAY).told
    assert "." not in told
    assert "e-" not in told


@requirement("settings:bad-value")
@pytest.mark.parametrize(
    "value",
    ["", "soon", "-1", "1 month", "2 hs", "30 days ago", "٣", "1e999", "36501", "inf", -1, 36_501, math.nan, math.inf, True,
     None, [], {}, 10**400],
)  # fmt: skip
def test_what_is_no_rule_is_refused(value: Any) -> None:
    with pytest.raises(BadSetting) as refused:
        parse(value, where="config.toml")
    assert refused.value.key == "retention"
    assert "it must be 'session', 'keep', a number of days from 0 to 36500, or a time such as 12h or 2 weeks" in str(
        refused.value
    )


@requirement("settings:bad-value")
@pytest.mark.parametrize("value", ["forever", "30 days ago", "", 30])
def test_settings_refuse_it_where_they_are_made(value: Any) -> None:
    with pytest.raises(BadSetting, match="'session', 'keep', a number of days from 0 to 36500, or a time such as 12h"):
        Settings(retention=value)
    assert Settings(retention="30").retention == "30"


def test_a_refusal_names_the_key_the_place_and_the_value() -> None:
    with pytest.raises(BadSetting) as refused:
        parse("1 month", key="asyncToolTTL", where="config.toml")
    assert str(refused.value) == snapshot(
        "setting 'asyncToolTTL' in config.toml is '1 month'; it must be 'session', 'keep', a number of days from 0 to 36500, or a time such as 12h or 2 weeks"
    )


@given(rules, st.floats(min_value=0, max_value=4e9))
def test_only_a_number_of_days_ever_expires(rule: Retention, created: float) -> None:
    if rule.session or rule.days is None:
        assert rule.expires_at(created) == math.inf
    else:
        assert rule.expires_at(created) == created + rule.days * DAY


@requirement("settings:retention", "store:retention-session-extract", "store:retention-session-async")
def test_outputs_are_kept_for_30_days_unless_set_or_for_their_session_in_two_dialects() -> None:
    assert Retention.of(None) == Retention() == Retention(days=30.0)
    assert Retention.of("7 days") == Retention(days=7.0)
    assert {name for name, dialect in DIALECTS.items() if dialect.keeps_for_session} == {"extract", "async"}
    assert Retention.of(None, session=True) == Retention(days=None, session=True)
    assert Retention.of("keep", session=True) == Retention(days=None)
    assert by_name()["asyncToolTTL"].name == "retention"
