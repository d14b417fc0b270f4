"""`holdall config`: every setting, its value, and where it came from; where the file is; what to do about a mistake."""

from dataclasses import fields
from pathlib import Path

import pytest
from inline_snapshot import snapshot

from holdall.values.settings import Settings
from tests.cli.program import Program
from tests.requirements import requirement


@pytest.fixture
def file(holdall: Program) -> Path:
    """The configuration file where the program looks for it by itself."""
    path = Path(holdall("config", "path").text.strip())
    path.parent.mkdir(parents=True)
    path.touch(mode=0o600)
    return path


@requirement("cli:config")
def test_config_show_says_where_each_value_came_from(holdall: Program, file: Path) -> None:
    file.write_text('maxInlineBytes = "9 KiB"\nanswer_max_tokens = 100\n[tools.fetch]\nstore = "never"\n')
    flags = ("--set", "query_max_rows=7", "--set", "tools.a.b.never_async=true", "--set", "dialect=refs")
    ran = holdall(*flags, "config", "show", env={"HOLDALL_ANSWER_MAX_TOKENS": "200", "HOLDALL_BY_REFERENCE": "true"})
    assert ran.code == 0
    header, *rows = ran.text.replace(str(file), "FILE").splitlines()
    own = {one.name for one in fields(Settings)} - {"tools"}
    assert {row.split()[0] for row in rows} == own | {"tools.fetch.store", "tools.a.b.never_async"}
    told = [header, *(row for row in rows if not row.endswith("  default"))]
    assert "\n".join(told) == snapshot("""\
SETTING                VALUE        FROM
dialect                refs         --set
max_inline_bytes       9216         FILE
max_inline_chars       4000         dialect refs
answer_max_tokens      200          the environment
by_reference           true         the environment
query_max_rows         7            --set
tools.fetch.store      never        FILE
tools.a.b.never_async  true         --set\
""")
    values = {row.split()[0]: row.split()[1] for row in rows}
    assert [values[name] for name in ("tools_listed", "max_inline_lines", "grep_seconds")] == [
        "when-needed",
        "-",
        "60.0",
    ]
    assert "retention              30 days      default" in rows
    assert ran.err == f"file     {file}\nhome     {holdall.home} (the environment)\nsession  cli (default)\n"


@requirement("cli:config", "cli:json-everywhere")
def test_config_show_has_a_json_form(holdall: Program, file: Path) -> None:
    file.write_text('[tools.fetch]\nstore = "never"\n')
    told = holdall("--set", "grep_seconds=5", "config", "show", "-s", "mine", "--json").json
    assert told["file"] == {"path": str(file), "exists": True}
    assert told["home"] == {"value": str(holdall.home), "source": "the environment"}
    assert told["session"] == {"value": "mine", "source": "--session"}
    assert told["settings"]["grep_seconds"] == {"value": 5.0, "source": "--set"}
    assert told["settings"]["max_inline_bytes"] == {"value": 51200, "source": "dialect holdall"}
    assert told["settings"]["quota_bytes"] == {"value": None, "source": "default"}
    assert told["tools"] == {"fetch": {"store": {"value": "never", "source": str(file)}}}


@requirement("cli:config", "settings:nearest-key", "cli:no-traceback")
def test_a_mistake_is_told_with_the_list_of_what_there_is(holdall: Program, file: Path) -> None:
    file.write_text("maxInlineByte = 1\n")
    message = (
        f"setting 'maxInlineByte' in {file} is 1; there is no such setting; did you mean max_inline_bytes? "
        "`holdall config show` lists all of them."
    )
    refused = holdall("ls")
    assert (refused.code, refused.out, refused.err) == (2, b"", f"holdall: {message}\n")
    shown = holdall("config", "show")
    assert shown.code == 2
    assert shown.err == (f"holdall: {message}\nThese are the defaults. Nothing runs until what is wrong is mended.\n")
    assert "max_inline_bytes       51200        dialect holdall\n" in shown.text
    as_json = holdall("config", "show", "--json")
    assert (as_json.code, as_json.out) == (2, b"")
    assert '"error": "BadSetting"' in as_json.err


@requirement("cli:config")
def test_config_path_leads_to_the_file_also_where_it_is_not_there_or_cannot_be_read(
    holdall: Program, file: Path
) -> None:
    assert holdall("config", "path", "--json").json == {"path": str(file), "exists": True}
    file.write_text("this is = not TOML")
    assert holdall("config", "path").text == f"{file}\n"
    file.unlink()
    assert holdall("config", "path", "--json").json == {"path": str(file), "exists": False}
    assert holdall("config", "show").err.startswith(f"file     {file} (not there)\n")
    named = holdall("config", "path", env={"HOLDALL_CONFIG": "/etc/holdall.toml"})
    assert named.text == "/etc/holdall.toml\n"


def test_config_alone_teaches(holdall: Program) -> None:
    ran = holdall("config", "--help")
    assert ran.code == 0
    for words in ("The later one of these wins:", "HOLDALL_RETENTION=keep", "[tools.fetch]", "--set tools.fetch.store"):
        assert words in ran.text
    for command in ("show", "path"):
        assert "--json" in holdall("config", command, "--help").text


@requirement("settings:untrusted-file")
def test_a_file_that_others_can_write_to_stops_every_command(holdall: Program, file: Path) -> None:
    file.write_text("query_max_rows = 3\n")
    file.chmod(0o666)
    for command in (("ls",), ("put",), ("config", "show")):
        ran = holdall(*command)
        assert ran.code == 2
        assert f"others can write to the configuration file {file}" in ran.err


@requirement("cli:config")
def test_no_password_of_a_url_is_shown(holdall: Program) -> None:
    url = "http://me:pa55@host/x?a=1&api_key=pa55"
    for name in ("objects", "model", "extraction_model"):
        for more in ((), ("--json",)):
            ran = holdall("--set", f"{name}=openai:m@{url}", "config", "show", *more)
            assert (ran.code, "pa55" in ran.text) == (0, False)
            assert "http://me:…@host/x?a=1&api_key=…" in ran.text
    handle = holdall.put(b"x")
    for name in (f"nobody:gpt@{url}", f"openai:gpt@{url}&window=big"):
        ran = holdall("extract", handle, "what?", "--model", name)
        assert ran.code == 2
        assert "http://me:…@host/x" in ran.err
        assert "pa55" not in ran.err
    assert "pa55" not in holdall("doctor", env={"HOLDALL_HOME": "postgresql://me:pa55@127.0.0.1:1/x"}).text
