"""Settings are checked on the way in: a complaint names the key, the value and the rule."""

import contextlib
import dataclasses
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from inline_snapshot import snapshot

from holdall.values.errors import BadSetting
from holdall.values.settings import Settings, ToolPolicy, by_name, check, default_of, kind_of, rule_of
from holdall.wire.dialects import DIALECTS
from tests.requirements import requirement

FIELDS = {one.name: one for one in dataclasses.fields(Settings)}
NUMBERS = [name for name, one in FIELDS.items() if one.metadata["least"] is not None]
WHOLE_NUMBERS = [name for name in NUMBERS if kind_of(FIELDS[name]) is int]
SWITCHES = [name for name, one in FIELDS.items() if kind_of(one) is bool]
TEXTS = [name for name in FIELDS if name not in (*NUMBERS, *SWITCHES, "tools")]
OF_A_TOOL = {one.name: one for one in dataclasses.fields(ToolPolicy)}


def complaint(**given_settings: Any) -> str:
    with pytest.raises(BadSetting) as refused:
        Settings(**given_settings)
    return str(refused.value)


@requirement("settings:bad-value")
@pytest.mark.parametrize(
    "value",
    [True, False, float("nan"), float("inf"), 1e999, -1e999, -1, 10**400, 10**5000, "5", b"5", [], {}],
    ids=lambda value: type(value).__name__,
)
@pytest.mark.parametrize("name", NUMBERS)
def test_what_is_no_number_of_the_range_is_refused_by_name_and_rule(name: str, value: Any) -> None:
    # CONFIG-002: the wrong type, NaN, a negative number, 1e999, true.
    with pytest.raises(BadSetting) as refused:
        Settings(**{name: value})
    assert (refused.value.key, refused.value.rule) == (name, rule_of(FIELDS[name]))
    assert refused.value.value is value
    assert len(str(refused.value)) < 300


@requirement("settings:bad-value")
@pytest.mark.parametrize("name", WHOLE_NUMBERS)
def test_a_whole_number_is_not_given_as_a_float(name: str) -> None:
    assert complaint(**{name: 4096.0}).startswith(f"setting {name!r} is 4096.0; it must be a whole number from ")


@requirement("settings:bad-value")
@pytest.mark.parametrize("name", NUMBERS)
def test_the_ends_of_a_range_are_inside_it(name: str) -> None:
    least, most = FIELDS[name].metadata["least"], FIELDS[name].metadata["most"]
    for value in (least, most):
        assert getattr(Settings(**{name: value}), name) == value
    for value in (least - 1, most + 1):
        assert rule_of(FIELDS[name]) in complaint(**{name: value})


@requirement("settings:bad-value")
@pytest.mark.parametrize("value", [5, True, b"x", ["x"], {}], ids=repr)
@pytest.mark.parametrize("name", TEXTS)
def test_what_must_be_text_is_text(name: str, value: object) -> None:
    assert rule_of(FIELDS[name]) in complaint(**{name: value})


@requirement("settings:bad-value")
@pytest.mark.parametrize("name", [name for name, one in FIELDS.items() if one.default is not None])
def test_only_what_may_be_left_out_may_be_none(name: str) -> None:
    assert rule_of(FIELDS[name]) in complaint(**{name: None})


@requirement("settings:bad-value")
@pytest.mark.parametrize("value", [0, 1, "true", "", [], 1.0], ids=repr)
@pytest.mark.parametrize("name", SWITCHES)
def test_a_switch_is_true_or_false_and_nothing_that_passes_for_it(name: str, value: object) -> None:
    assert complaint(**{name: value}) == f"setting {name!r} is {value!r}; it must be true or false"
    on: Any = True
    assert getattr(Settings(**{name: on}), name) is True


@requirement("settings:per-tool-tables", "settings:bad-value")
@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("store", "sometimes"),
        ("store", None),
        ("store", True),
        ("never_async", "true"),
        ("never_async", None),
        ("by_reference", 1),
        ("max_inline_bytes", 0),
        ("max_inline_bytes", True),
        ("max_inline_tokens", float("nan")),
        ("max_inline_lines", 1.5),
    ],
)
def test_the_policy_of_a_tool_is_checked_by_the_same_rules(name: str, value: Any) -> None:
    with pytest.raises(BadSetting) as refused:
        ToolPolicy(**{name: value})
    assert (refused.value.key, refused.value.rule) == (name, rule_of(OF_A_TOOL[name]))


@requirement("settings:per-tool-tables")
def test_a_tool_without_a_policy_of_its_own_is_as_all_others() -> None:
    assert dataclasses.asdict(ToolPolicy()) == snapshot(
        {
            "max_inline_bytes": None,
            "max_inline_chars": None,
            "max_inline_lines": None,
            "max_inline_tokens": None,
            "store": "oversized",
            "redact": False,
            "never_async": False,
            "by_reference": None,
        }
    )
    for name, one in OF_A_TOOL.items():
        if name in FIELDS:  # one rule for all tools and for one
            assert rule_of(one).removesuffix(", or left out") == rule_of(FIELDS[name]).removesuffix(", or left out")
            assert set(one.metadata["also"]) == set(FIELDS[name].metadata["also"])


@requirement("settings:per-tool-tables", "settings:bad-value")
@pytest.mark.parametrize(
    "tables", [None, [], "fetch", {"fetch": None}, {"fetch": {"store": "never"}}, {5: ToolPolicy()}], ids=repr
)
def test_tables_of_tools_are_policies_by_the_names_of_tools(tables: Any) -> None:
    assert complaint(tools=tables).endswith("; it must be a table with a table (in Python, a ToolPolicy) for each tool")


@requirement("settings:per-tool-tables")
def test_whoever_handed_the_tables_in_cannot_change_them_later() -> None:
    tables = {"fetch": ToolPolicy(store="never")}
    settings = Settings(tools=tables)
    tables["fetch"] = ToolPolicy()
    assert settings.tools == {"fetch": ToolPolicy(store="never")}
    assert hash(settings) == hash(Settings(tools=settings.tools))


@requirement("settings:bad-value")
def test_a_complaint_names_the_key_the_value_and_the_rule() -> None:
    assert complaint(max_inline_bytes=True) == snapshot(
        "setting 'max_inline_bytes' is True; it must be a whole number from 1 to 1,099,511,627,776, or left out"
    )
    assert complaint(grep_seconds=float("nan")) == snapshot(
        "setting 'grep_seconds' is nan; it must be a number from 0.1 to 86,400"
    )
    assert complaint(query_seconds="soon") == snapshot(
        "setting 'query_seconds' is 'soon'; it must be a number from 0.1 to 86,400"
    )
    assert complaint(answer_max_bytes=None) == snapshot(
        "setting 'answer_max_bytes' is None; it must be a whole number from 256 to 1,073,741,824"
    )
    assert complaint(dialect="klingon") == snapshot(
        "setting 'dialect' is 'klingon'; it must be one of holdall, extract, refs, async, clamp, legacy"
    )
    assert complaint(store_dir=5) == snapshot("setting 'store_dir' is 5; it must be text")
    with pytest.raises(BadSetting) as refused:
        check(FIELDS["answer_max_tokens"], -1, key="answerMaxTokens", where="config.toml")
    assert str(refused.value) == snapshot(
        "setting 'answerMaxTokens' in config.toml is -1; it must be a whole number from 64 to 1,073,741,824"
    )


@given(st.sampled_from(NUMBERS), st.integers() | st.floats() | st.booleans() | st.none() | st.text())
def test_a_value_is_taken_as_it_is_or_refused(name: str, value: Any) -> None:
    taken: Any = None
    with contextlib.suppress(BadSetting):
        taken = getattr(Settings(**{name: value}), name)
    assert taken is None or taken is value


def test_an_unset_limit_is_none_and_a_set_one_may_be_unset_again() -> None:
    assert Settings().max_inline_bytes is None
    assert dataclasses.replace(Settings(max_inline_bytes=5), max_inline_bytes=None) == Settings()


def test_settings_do_not_change_once_they_are_made() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        Settings().dialect = "clamp"  # pyright: ignore[reportAttributeAccessIssue]


@requirement("settings:answer-max-bytes", "settings:answer-max-tokens", "settings:notice-max-tokens")
def test_an_answer_has_at_most_16_kib_and_4000_tokens_and_a_notice_250_tokens_unless_set() -> None:
    assert (Settings().answer_max_bytes, Settings().answer_max_tokens) == (16 * 1024, 4000)
    assert Settings().notice_max_tokens == 250


def test_every_setting_has_a_default_that_fits_its_own_rule() -> None:
    for name, one in FIELDS.items():
        assert getattr(Settings(), name) == default_of(one)
        assert rule_of(one).startswith("it must be ")


@requirement("settings:max-chunks", "settings:chunk-overlap-percent", "settings:long-line-bytes")
def test_what_extraction_is_set_to() -> None:
    settings = Settings()
    assert (settings.max_chunks, settings.long_line_bytes) == (1, 1000)
    assert settings.chunk_overlap_percent is None, "10, unless the dialect says otherwise"
    assert (DIALECTS["holdall"].chunk_overlap_percent, DIALECTS["async"].chunk_overlap_percent) == (10.0, 5.0)


def test_the_names_of_the_documents_lead_to_our_own() -> None:
    names = by_name()
    assert {alias: one.name for alias, one in names.items() if alias != one.name} == snapshot(
        {
            "toolResponseMaxBytes": "max_inline_bytes",
            "maxInlineBytes": "max_inline_bytes",
            "maxInlineChars": "max_inline_chars",
            "asyncTokenThreshold": "max_inline_tokens",
            "asyncToolTTL": "retention",
            "storeDir": "store_dir",
            "async": "async_enabled",
            "asyncTimeoutSecs": "slow_after_seconds",
            "toolTimeout": "tool_timeout_seconds",
            "maxTurns": "max_turns",
            "contextWindow": "window",
            "maxOutputTokens": "max_output",
            "extractionModel": "extraction_model",
            "MAX_CHUNKS_FOR_FULL_MODE": "max_chunks",
            "overlapPercent": "chunk_overlap_percent",
            "avgLineBytesThreshold": "long_line_bytes",
        }
    )
    assert all(names[one.name].name == one.name for one in FIELDS.values())
    own = by_name(ToolPolicy)
    assert {alias: one.name for alias, one in own.items() if alias != one.name} == snapshot(
        {
            "toolResponseMaxBytes": "max_inline_bytes",
            "maxInlineBytes": "max_inline_bytes",
            "maxInlineChars": "max_inline_chars",
            "asyncTokenThreshold": "max_inline_tokens",
        }
    )


def test_an_unknown_name_is_refused_with_the_nearest() -> None:
    tokens: dict[str, Any] = {"max_inline_token": 5}
    with pytest.raises(TypeError) as refused:
        Settings(**tokens)
    assert str(refused.value) == snapshot("Settings has no setting 'max_inline_token'; did you mean max_inline_tokens?")
    with pytest.raises(TypeError, match="did you mean max_inline_tokens"):
        ToolPolicy(**tokens)
    with pytest.raises(TypeError) as refused:
        Settings(redact=True)  # pyright: ignore[reportCallIssue]
    assert str(refused.value) == "Settings has no setting 'redact'; did you mean tools={NAME: ToolPolicy(redact=…)}?"
    with pytest.raises(TypeError) as refused:
        ToolPolicy(colour="red")  # pyright: ignore[reportCallIssue]
    assert str(refused.value) == snapshot("ToolPolicy has no setting 'colour'; help(ToolPolicy) lists all of them.")
