"""Where settings come from, which place wins, and what Configuration says of it."""

import os
from pathlib import Path

import platformdirs
import pytest
from inline_snapshot import snapshot

from holdall import Kept, Unkept, config
from holdall.blocking import Holdall
from holdall.config import load_settings
from holdall.policy.decide import Limits, limits_of
from holdall.values.errors import BadSetting, UsageError
from holdall.values.retention import Retention
from holdall.values.settings import Settings
from holdall.wire.dialects import DIALECTS
from tests.config.conftest import Load
from tests.requirements import requirement


@requirement("settings:file-over-default", "settings:environment-over-file", "settings:flag-over-environment")
def test_flags_win_over_the_environment_over_the_file_over_defaults(load: Load) -> None:
    text = "answer_max_bytes = 1000\nanswer_max_tokens = 100\nquery_max_rows = 5"
    found = load(text, HOLDALL_ANSWER_MAX_TOKENS="200", HOLDALL_QUERY_MAX_ROWS="6", flags=("query_max_rows=7",))
    settings = found.settings
    assert (settings.answer_max_bytes, settings.answer_max_tokens, settings.query_max_rows) == (1000, 200, 7)
    assert settings.grep_seconds == Settings().grep_seconds
    assert found.sources == {
        "answer_max_bytes": str(load.file), "answer_max_tokens": "the environment", "query_max_rows": "--set",
        "home": "--home", "session": "default",
    }  # fmt: skip


def test_a_program_can_take_the_settings_and_the_store_of_its_user(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file.write_text('store_dir = "/nowhere"\n[tools.vault]\nstore = "never"\n', "utf-8")
    file.chmod(0o600)
    monkeypatch.setenv("HOLDALL_CONFIG", str(file))
    monkeypatch.setenv("HOLDALL_HOME", str(tmp_path / "kept"))
    monkeypatch.setenv("HOLDALL_MAX_INLINE_TOKENS", "50")
    assert (Settings().max_inline_tokens, load_settings().max_inline_tokens) == (None, 50)
    with Holdall.open(settings=load_settings()) as bag:
        assert isinstance(bag.take("word " * 100, tool="x"), Kept)
        assert isinstance(bag.take("secret " * 100, tool="vault"), Unkept)
    assert list((tmp_path / "kept").glob("session-*"))


def test_front_matter_stands_between_the_environment_and_the_flags(load: Load) -> None:
    found = load(
        "query_max_rows = 5\nslow_after_seconds = 5",
        HOLDALL_QUERY_MAX_ROWS="6",
        HOLDALL_SLOW_AFTER_SECONDS="6",
        front_matter={"query_max_rows": 7, "slow_after_seconds": 7, "asyncTokenThreshold": 70},
        flags=("query_max_rows=8",),
    )
    settings = found.settings
    assert (settings.query_max_rows, settings.slow_after_seconds, settings.max_inline_tokens) == (8, 7, 70)
    assert [found.sources[name] for name in ("query_max_rows", "slow_after_seconds", "max_inline_tokens")] == [
        "--set", "the front matter", "the front matter",
    ]  # fmt: skip


def test_front_matter_changes_no_dialect_that_the_user_has_set(load: Load) -> None:
    """One without a fence is no stricter than another, nor is one that keeps all."""
    found = load("dialect = 'holdall'", front_matter={"dialect": "clamp"})
    assert found.settings.dialect == "holdall"
    assert "dialect stays 'holdall'" in found.notes[0]
    assert load("", front_matter={"dialect": "clamp"}).settings.dialect == "clamp"


def test_front_matter_can_say_that_there_is_none(load: Load) -> None:
    text = "max_inline_bytes = 5\nretention = 'keep'"
    settings = load(text, front_matter={"maxInlineBytes": None, "retention": None}).settings
    assert (settings.max_inline_bytes, settings.retention) == (None, None)
    with pytest.raises(BadSetting, match="'answer_max_bytes' in the front matter is None; it must be a whole number"):
        load(front_matter={"answer_max_bytes": None})


@requirement(
    "settings:document-names", "settings:max-inline-bytes", "settings:max-inline-chars", "settings:max-inline-tokens"
)
def test_the_names_of_the_documents_are_accepted(load: Load) -> None:
    text = (
        'toolResponseMaxBytes = 1\nmaxInlineChars = 2\nasyncTokenThreshold = 3\nstoreDir = "/tmp"\nasyncToolTTL = 86400'
    )
    settings = load(text).settings
    assert (settings.max_inline_bytes, settings.max_inline_chars, settings.max_inline_tokens) == (1, 2, 3)
    assert settings.retention == "1 day"
    assert load("maxInlineBytes = 9").settings.max_inline_bytes == 9
    assert load("[tools.fetch]\nmaxInlineBytes = 9").settings.tools["fetch"].max_inline_bytes == 9


def test_async_tool_ttl_is_in_seconds_wherever_it_is_written(load: Load) -> None:
    assert load(front_matter={"asyncToolTTL": 43_200}).settings.retention == "12 hours"
    assert load(flags=("asyncToolTTL=43200",)).settings.retention == "12 hours"
    assert load("asyncToolTTL = 'keep'").settings.retention == "keep"
    with pytest.raises(BadSetting) as refused:
        load("asyncToolTTL = -1")
    assert str(refused.value).removeprefix(f"setting 'asyncToolTTL' in {load.file}") == snapshot(
        " is -1; it must be a number of seconds from 0 to 3,153,600,000"
    )


@requirement(
    "settings:max-inline-lines", "settings:answer-max-bytes", "settings:answer-max-tokens", "settings:retention"
)
def test_the_defaults_are_those_of_the_dialect_and_of_the_spec() -> None:
    assert limits_of(Settings(), DIALECTS["holdall"].limits) == Limits(bytes=50 * 1024, lines=2000, tokens=10_000)
    assert limits_of(Settings(max_inline_lines=7), DIALECTS["refs"].limits) == Limits(
        bytes=16 * 1024, chars=4000, lines=7
    )
    assert (Settings().answer_max_bytes, Settings().answer_max_tokens) == (16384, 4000)
    assert Retention.of(None) == Retention(days=30.0)


@requirement("settings:store-dir")
def test_store_dir_names_the_data_folder_unless_the_environment_does(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file.write_text(f'store_dir = "{tmp_path}/kept"')
    file.chmod(0o600)
    env = {"HOLDALL_CONFIG": str(file)}
    found = config.load(environment=env)
    assert (found.home, found.sources["home"]) == (f"{tmp_path}/kept", str(file))
    monkeypatch.setenv("HOLDALL_HOME", f"{tmp_path}/home")
    env["HOLDALL_HOME"] = f"{tmp_path}/home"
    found = config.load(environment=env)
    assert (found.home, found.sources["home"]) == (f"{tmp_path}/home", "the environment")
    found = config.load(environment=env, flags=(f"store_dir={tmp_path}/flag",))
    assert (found.home, found.sources["home"]) == (f"{tmp_path}/flag", "--set")


def test_an_empty_home_is_none_wherever_it_is_said(file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOLDALL_HOME", f"{tmp_path}/home")
    env = {"HOLDALL_CONFIG": str(file), "HOLDALL_HOME": f"{tmp_path}/home"}
    file.write_text("")
    found = config.load(home="", environment=env)
    assert (found.home, found.sources["home"]) == (f"{tmp_path}/home", "the environment")
    file.write_text(f'store_dir = "{tmp_path}/kept"')
    found = config.load(home="", environment=env | {"HOLDALL_HOME": ""})
    assert (found.home, found.sources["home"]) == (f"{tmp_path}/kept", str(file))


def test_the_session_is_what_the_flag_says_else_the_environment(load: Load) -> None:
    assert (load().session, load().sources["session"]) == ("cli", "default")
    found = load(HOLDALL_SESSION="nightly")
    assert (found.session, found.sources["session"]) == ("nightly", "the environment")
    env = {"HOLDALL_CONFIG": str(load.file), "HOLDALL_SESSION": "nightly"}
    found = config.load(environment=env, session="mine", home="/tmp")
    assert (found.session, found.sources["session"]) == ("mine", "--session")


def test_sizes_may_have_units(load: Load) -> None:
    assert load('max_inline_bytes = "50 KiB"\nquota_bytes = "2GB"').settings.quota_bytes == 2_000_000_000
    assert load(flags=("max_inline_bytes=50 KiB",)).settings.max_inline_bytes == 51_200
    assert load(HOLDALL_REFERENCE_MAX_BYTES="2MiB").settings.reference_max_bytes == 2 << 20


@pytest.mark.parametrize(("text", "value"), [("true", True), ("false", False), ("True", True), ("FALSE", False)])
def test_a_switch_is_set_in_every_place(load: Load, text: str, value: bool) -> None:
    assert load(f"by_reference = {text.lower()}").settings.by_reference is value
    assert load(HOLDALL_BY_REFERENCE=text).settings.by_reference is value
    assert load(front_matter={"by_reference": value}).settings.by_reference is value
    assert load(flags=(f"by_reference={text}",)).settings.by_reference is value


@requirement("settings:bad-value")
@pytest.mark.parametrize("value", ["yes", "1", "on", "truth"])
def test_a_word_that_only_means_yes_is_no_switch(load: Load, value: str) -> None:
    with pytest.raises(BadSetting) as refused:
        load(flags=(f"by_reference={value}",))
    assert str(refused.value) == f"setting 'by_reference' in --set is {value!r}; it must be true or false"


@requirement("settings:bad-value")
@pytest.mark.parametrize("value", ["many", "-5", "", "1e999"])
def test_a_bad_value_in_the_environment_is_refused_too(load: Load, value: str) -> None:
    if not value:
        assert load(HOLDALL_QUERY_MAX_ROWS=value).settings.query_max_rows == 1000
        return
    with pytest.raises(BadSetting, match="'query_max_rows' in the environment"):
        load(HOLDALL_QUERY_MAX_ROWS=value)


def test_a_flag_without_a_value_is_refused(load: Load) -> None:
    with pytest.raises(UsageError) as refused:
        load(flags=("by_reference",))
    assert str(refused.value) == snapshot("--set takes NAME=VALUE, not 'by_reference'.")


def test_a_file_that_was_named_must_be_there(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="there is no configuration file"):
        config.load(environment={"HOLDALL_CONFIG": str(tmp_path / "none.toml")}, home="/tmp")


def test_the_path_of_the_file_is_known_whether_it_is_there_or_not(monkeypatch: pytest.MonkeyPatch) -> None:
    assert config.file_path({"HOLDALL_CONFIG": "/etc/holdall.toml"}) == "/etc/holdall.toml"
    monkeypatch.setenv("XDG_CONFIG_HOME", "/nowhere")
    if os.uname().sysname == "Linux":
        assert config.file_path({}) == "/nowhere/holdall/config.toml"
    assert config.file_path({}).endswith("config.toml")


def test_an_address_is_no_data_folder() -> None:
    with pytest.raises(BadSetting, match="'--home' is 's3://…'; it must be a folder, or a database"):
        config.load(home="s3://bucket/outputs")


def test_a_relative_folder_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", ".config")
    assert config.file_path({}) == os.path.expanduser("~/.config/holdall/config.toml")


@pytest.mark.parametrize("named", ["", "/elsewhere", "  "])
def test_the_file_is_where_platformdirs_looks(named: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", named)
    folder = platformdirs.user_config_dir("holdall", appauthor=False)
    assert config.file_path({}) == os.path.join(folder, "config.toml")
