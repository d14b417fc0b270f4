"""What is refused at the start: names that do not exist, values that cannot be, files that are not to be trusted.

The cases CONFIG-001, 002, 003, 005 and 006 of the collection of bad inputs (it has no 004).
"""

import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from inline_snapshot import snapshot

from holdall import config
from holdall.store.opening import checked
from holdall.values.errors import BadSetting, UsageError
from holdall.values.settings import Settings, by_name
from tests.config.conftest import Load
from tests.requirements import requirement


@requirement("settings:nearest-key", "settings:unknown-key")
@pytest.mark.parametrize(
    ("key", "near"),
    [
        ("maxInlineByte", "max_inline_bytes"),
        ("max_inline_byte", "max_inline_bytes"),
        ("MAX_INLINE_BYTES", "max_inline_bytes"),
        ("max-inline-bytes", "max_inline_bytes"),
        ("maxinlinebytes", "max_inline_bytes"),
        ("toolResponseMaxByte", "toolResponseMaxBytes"),
        ("asyncTokensThreshold", "asyncTokenThreshold"),
        ("async_tool_ttl", "asyncToolTTL"),
        ("storedir", "store_dir"),
        ("dialekt", "dialect"),
        ("tool", "tools"),
        ("notice_tokens", "notice_max_tokens"),
    ],
)
def test_config_001_a_misspelt_name_is_refused_and_the_nearest_one_is_named(load: Load, key: str, near: str) -> None:
    for where, found in ((str(load.file), {"text": f"{key} = 1"}), ("the front matter", {"front_matter": {key: 1}})):
        arguments: dict[str, Any] = found
        with pytest.raises(BadSetting) as refused:
            load(**arguments)
        assert refused.value.key == key
        assert str(refused.value) == (
            f"setting {key!r} in {where} is 1; there is no such setting; did you mean {near}? "
            "`holdall config show` lists all of them."
        )


@requirement("settings:nearest-key", "settings:unknown-key")
def test_config_001_a_name_that_is_like_none_is_refused_without_a_guess(load: Load) -> None:
    with pytest.raises(BadSetting) as refused:
        load(flags=("colour=blue",))
    assert str(refused.value) == snapshot(
        "setting 'colour' in --set is text; there is no such setting. `holdall config show` lists all of them."
    )


@requirement("settings:nearest-key")
@pytest.mark.parametrize(
    ("variable", "near"),
    [
        ("HOLDALL_MAX_INLINE_BYTE", "HOLDALL_MAX_INLINE_BYTES"),
        ("HOLDALL_DIALEKT", "HOLDALL_DIALECT"),
        ("HOLDALL_RETENTIONS", "HOLDALL_RETENTION"),
    ],
)
def test_config_001_a_slip_in_a_variable_is_refused_too(load: Load, variable: str, near: str) -> None:
    with pytest.raises(BadSetting, match=f"'{variable}' in the environment .* did you mean {near}[?]"):
        load("", flags=(), front_matter=None, **{variable: "1"})


def test_a_variable_that_is_no_slip_is_left_to_whoever_it_belongs_to(load: Load) -> None:
    assert load(HOLDALL_TEST_FULL="1", HOLDALL_X="2", HOLDALL_HOME="/tmp", HOLDALL_SESSION="s").settings == Settings()


@requirement("settings:nearest-key")
@given(st.sampled_from(sorted(by_name())), st.data())
def test_one_wrong_letter_is_always_seen_through(name: str, data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(name) - 1))
    wrong = name[:at] + "#" + name[at + 1 :]
    with pytest.raises(BadSetting) as refused:
        config.load(environment={}, front_matter={wrong: 1}, home="/tmp")
    near = refused.value.rule.partition("did you mean ")[2].partition("?")[0]
    assert by_name()[near].name == by_name()[name].name


@requirement("settings:unknown-key")
@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("api_key = 'sk-very-secret'", "text"),
        ("[upstreams.x]\ncommand = 'sh -c evil'\nenv = { TOKEN = 'sk-very-secret' }", "a table"),
        ("passwords = ['sk-very-secret']", "a list"),
    ],
)
def test_config_001_the_value_of_a_name_that_nobody_knows_may_be_a_secret(load: Load, text: str, shown: str) -> None:
    with pytest.raises(BadSetting) as refused:
        load(text)
    assert f" is {shown}; there is no such setting" in str(refused.value)
    assert "secret" not in str(refused.value)
    assert "secret" not in repr(refused.value.value)


@requirement("settings:bad-value")
@pytest.mark.parametrize(
    "text",
    [
        "maxInlineBytes = true",
        "maxInlineBytes = -1",
        "maxInlineBytes = 1.5",
        "maxInlineBytes = 'many'",
        "maxInlineBytes = [1]",
        "maxInlineBytes = 2026-01-01",
        "grep_seconds = nan",
        "grep_seconds = inf",
        "grep_seconds = 1e999",
        "retention = -1",
        "retention = 'soon'",
        "retention = true",
        "asyncToolTTL = -1",
        "asyncToolTTL = nan",
        "asyncToolTTL = true",
        "dialect = 'klingon'",
        "tools_listed = 'never'",
        "notice_max_tokens = 10",
        "by_reference = 'yes'",
        "answer_max_bytes = 1",
    ],
)
def test_config_002_a_bad_value_is_refused_with_key_value_rule_and_place(load: Load, file: Path, text: str) -> None:
    key = text.partition(" ")[0]
    with pytest.raises(BadSetting) as raised:
        load(text)
    message = str(raised.value)
    assert message.startswith(f"setting '{key}' in {file} is ")
    assert "must be" in message or "is not a size" in message


@requirement("settings:bad-file")
@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("\ufeff{}".encode(), "is not valid TOML"),
        (b"x" * 10_000_000, "has 10,000,000 bytes; at most 1,048,576 are read"),
        ("a = 1".encode("utf-16"), "is not UTF-8"),
        (b"a = ", "is not valid TOML"),
        (b"a = 1\na = 2", "is not valid TOML"),
        (b"a = " + b"[" * 100_000, "is nested too deeply"),
        (b"a = " + b"9" * 10_000, "is not valid TOML"),
    ],
)
def test_config_003_a_file_that_cannot_be_read_is_refused_with_the_reason(
    load: Load, content: bytes, reason: str
) -> None:
    with pytest.raises(UsageError, match=reason):
        load(content)


@pytest.mark.parametrize(
    ("content", "rows"),
    [
        (b"", 1000),
        (b"\xef\xbb\xbf", 1000),
        (b"\xef\xbb\xbfquery_max_rows = 3", 3),
        (b"# a comment\r\nquery_max_rows = 3\r\n", 3),
        (b"\tquery_max_rows\t=\t3", 3),
    ],
)
def test_config_003_an_empty_file_a_bom_crlf_and_tabs_are_no_matter(load: Load, content: bytes, rows: int) -> None:
    assert load(content).settings.query_max_rows == rows


@pytest.mark.parametrize("path", ["~", "$HOME", "relative", "/dev/null", "/proc/self"])
def test_config_005_a_store_dir_that_cannot_be_one_is_refused(load: Load, path: str) -> None:
    with pytest.raises(BadSetting, match=r"'store_dir' in .* it must be a"):
        load(f"store_dir = '{path}'")


def test_config_005_a_store_dir_that_is_a_file_or_a_loop_of_links_is_refused(load: Load, tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to(tmp_path / "b")
    (tmp_path / "b").symlink_to(tmp_path / "a")
    (tmp_path / "file").touch()
    for name in ("a", "file"):
        with pytest.raises(BadSetting, match="what is there is not one"):
            load(f"store_dir = '{tmp_path / name}'")


@requirement("settings:untrusted-file")
@pytest.mark.parametrize("mode", [0o666, 0o602, 0o620])
def test_config_006_a_file_that_others_can_write_to_is_not_read(load: Load, file: Path, mode: int) -> None:
    load("query_max_rows = 3")
    file.chmod(mode)
    with pytest.raises(
        UsageError, match=rf"others can write to the configuration file .*mode {mode:04o}.*not read.*chmod 600"
    ):
        config.load(environment={"HOLDALL_CONFIG": str(file)}, home="/tmp")


@requirement("settings:untrusted-file")
def test_config_006_a_file_that_is_none_is_not_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe", 0o600)
    for path in (tmp_path / "pipe", tmp_path):
        with pytest.raises(UsageError, match="is not a regular file"):
            config.load(environment={"HOLDALL_CONFIG": str(path)}, home="/tmp")


@requirement("settings:untrusted-file")
def test_config_006_nothing_in_the_current_folder_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    evil = "query_max_rows = 3\n[upstreams.x]\ncommand = 'sh -c evil'"
    for name in ("config.toml", "holdall.toml", ".holdall.toml", "pyproject.toml", ".holdall/config.toml"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(evil)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "empty"))
    found = config.load(
        home=str(tmp_path / "home"), environment={k: v for k, v in os.environ.items() if not k.startswith("HOLDALL_")}
    )
    assert found.settings == Settings()
    assert set(found.sources.values()) == {"--home", "default"}


@requirement("settings:untrusted-file", "settings:unknown-key")
def test_config_006_no_file_can_name_a_command_to_start(load: Load) -> None:
    with pytest.raises(BadSetting) as refused:
        load("[upstreams.x]\ncommand = 'sh -c evil'")
    assert str(refused.value).replace(str(load.file), "FILE") == snapshot(
        "setting 'upstreams' in FILE is a table; there is no such setting. `holdall config show` lists all of them."
    )


@pytest.mark.parametrize("home", ["host=localhost password=hunter2 dbname=x", "postgresql:/u:hunter2@h/db"])
def test_an_address_of_a_database_in_another_form_is_refused_without_its_password(home: str) -> None:
    with pytest.raises(BadSetting) as refused:
        checked(home, key="HOLDALL_HOME")
    assert "hunter2" not in str(refused.value)
