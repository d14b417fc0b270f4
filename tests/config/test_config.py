"""Where settings come from, and what is refused at the start."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from holdall import config
from holdall.config import Configuration
from holdall.policy.limits import Limits, limits_of
from holdall.values.errors import BadSetting, WrongUse
from holdall.values.settings import Settings
from tests.requirements import requirement

Load = Callable[..., Configuration]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "config.toml"


@pytest.fixture
def load(file: Path, tmp_path: Path) -> Load:
    def loading(text: str | bytes = "", *, flags: tuple[str, ...] = (), **environment: str) -> Configuration:
        file.write_bytes(text if isinstance(text, bytes) else text.encode("utf-8"))
        file.chmod(0o600)
        env = {"HOLDALL_CONFIG": str(file), **environment}
        return config.load(environment=env, flags=flags, home=str(tmp_path / "home"))

    return loading


@requirement("settings:file-over-default", "settings:environment-over-file", "settings:flag-over-environment")
def test_flags_win_over_the_environment_over_the_file_over_defaults(load: Load) -> None:
    text = "answer_max_bytes = 1000\nanswer_max_tokens = 100\nquery_max_rows = 5"
    found = load(text, HOLDALL_ANSWER_MAX_TOKENS="200", HOLDALL_QUERY_MAX_ROWS="6", flags=("query_max_rows=7",))
    settings = found.settings
    assert (settings.answer_max_bytes, settings.answer_max_tokens, settings.query_max_rows) == (1000, 200, 7)
    assert settings.grep_seconds == Settings().grep_seconds
    assert found.sources["query_max_rows"] == "--set"


@requirement(
    "settings:document-names", "settings:max-inline-bytes", "settings:max-inline-chars", "settings:max-inline-tokens"
)
def test_the_names_of_the_documents_are_accepted(load: Load) -> None:
    text = (
        'toolResponseMaxBytes = 1\nmaxInlineChars = 2\nasyncTokenThreshold = 3\nstoreDir = "/tmp"\nasyncToolTTL = 86400'
    )
    settings = load(text).settings
    assert (settings.max_inline_bytes, settings.max_inline_chars, settings.max_inline_tokens) == (1, 2, 3)
    assert settings.retention == "1 days"
    assert load("maxInlineBytes = 9").settings.max_inline_bytes == 9


@requirement(
    "settings:max-inline-lines", "settings:answer-max-bytes", "settings:answer-max-tokens", "settings:retention"
)
def test_the_defaults_are_those_of_the_dialect_and_of_the_spec() -> None:
    assert limits_of(Settings()) == Limits(bytes=50 * 1024, lines=2000, tokens=10_000)
    assert limits_of(Settings(max_inline_lines=7, dialect="refs")) == Limits(bytes=16 * 1024, chars=4000, lines=7)
    assert (Settings().answer_max_bytes, Settings().answer_max_tokens, Settings().retention) == (16384, 4000, "30 days")


@requirement("settings:store-dir")
def test_store_dir_names_the_data_folder_unless_the_environment_does(file: Path, tmp_path: Path) -> None:
    file.write_text(f'store_dir = "{tmp_path}/kept"')
    file.chmod(0o600)
    assert config.load(environment={"HOLDALL_CONFIG": str(file)}).home == f"{tmp_path}/kept"


def test_sizes_may_have_units(load: Load) -> None:
    assert load('max_inline_bytes = "50 KiB"\nquota_bytes = "2GB"').settings.quota_bytes == 2_000_000_000


@requirement("settings:unknown-key")
@pytest.mark.parametrize("text", ["maxInlineByte = 1", "[upstreams.x]\ncommand = 'sh -c evil'"])
def test_an_unknown_key_is_refused_by_name(load: Load, text: str) -> None:
    with pytest.raises(
        BadSetting, match=r"(maxInlineByte|upstreams).*there is no such setting\. Settings are: answer_max_bytes"
    ):
        load(text)


@requirement("settings:bad-value")
@pytest.mark.parametrize(
    "text",
    [
        "maxInlineBytes = true",
        "maxInlineBytes = -1",
        "maxInlineBytes = 1.5",
        "maxInlineBytes = 'many'",
        "maxInlineBytes = [1]",
        "grep_seconds = nan",
        "grep_seconds = inf",
        "grep_seconds = 1e999",
        "retention = -1",
        "retention = 'soon'",
        "retention = true",
        "dialect = 'klingon'",
        "answer_max_bytes = 1",
    ],
)
def test_a_bad_value_is_refused_with_key_value_rule_and_place(load: Load, file: Path, text: str) -> None:
    key = text.partition(" ")[0]
    with pytest.raises(BadSetting) as raised:
        load(text)
    message = str(raised.value)
    assert message.startswith(f"setting '{key}' in {file} is ")
    assert "must be" in message or "is not a size" in message


@requirement("settings:bad-value")
@pytest.mark.parametrize("value", ["many", "-5", "", "1e999"])
def test_a_bad_value_in_the_environment_is_refused_too(load: Load, value: str) -> None:
    if not value:
        assert load(HOLDALL_QUERY_MAX_ROWS=value).settings.query_max_rows == 1000
        return
    with pytest.raises(BadSetting, match="'query_max_rows' in the environment"):
        load(HOLDALL_QUERY_MAX_ROWS=value)


@requirement("settings:bad-file")
@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("\ufeff{}".encode(), "is not valid TOML"),
        (b"x" * 10_000_000, "has 10,000,000 bytes; at most 1,048,576 are read"),
        ("a = 1".encode("utf-16"), "is not UTF-8"),
        (b"a = ", "is not valid TOML"),
    ],
)
def test_a_file_that_cannot_be_read_is_refused_with_the_reason(load: Load, content: bytes, reason: str) -> None:
    with pytest.raises(WrongUse, match=reason):
        load(content)


@pytest.mark.parametrize(
    "content", [b"", b"\xef\xbb\xbf", b"# a comment\r\nquery_max_rows = 3\r\n", b"\tquery_max_rows\t=\t3"]
)
def test_an_empty_file_a_bom_crlf_and_tabs_are_no_matter(load: Load, content: bytes) -> None:
    assert load(content).settings.query_max_rows in (3, 1000)


@requirement("settings:untrusted-file")
def test_a_file_that_others_can_write_to_is_not_read(load: Load, file: Path) -> None:
    load("query_max_rows = 3")
    file.chmod(0o666)
    with pytest.raises(WrongUse, match=r"others can write to the configuration file .*mode 0666.*chmod 600"):
        config.load(environment={"HOLDALL_CONFIG": str(file)}, home="/tmp")


def test_a_file_that_was_named_must_be_there(tmp_path: Path) -> None:
    with pytest.raises(WrongUse, match="there is no configuration file"):
        config.load(environment={"HOLDALL_CONFIG": str(tmp_path / "none.toml")}, home="/tmp")


@pytest.mark.parametrize("path", ["~", "$HOME", "relative", "/dev/null", "/proc/self"])
def test_a_store_dir_that_cannot_be_one_is_refused(load: Load, path: str) -> None:
    with pytest.raises(BadSetting, match=r"'store_dir' in .* it must be a"):
        load(f"store_dir = '{path}'")


def test_a_store_dir_that_is_a_loop_of_links_is_refused(load: Load, tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to(tmp_path / "b")
    (tmp_path / "b").symlink_to(tmp_path / "a")
    with pytest.raises(BadSetting, match="what is there is not one"):
        load(f"store_dir = '{tmp_path / 'a'}'")


def test_nothing_in_the_current_folder_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("config.toml", "holdall.toml", ".holdall.toml"):
        (tmp_path / name).write_text("query_max_rows = 3")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "empty"))
    found = config.load(
        home=str(tmp_path / "home"), environment={k: v for k, v in os.environ.items() if not k.startswith("HOLDALL_")}
    )
    assert found.settings == Settings()
