"""A table for each tool that is treated differently: [tools.fetch] in the file, tools.fetch.store on the command line."""

import pytest
from inline_snapshot import snapshot

from holdall.values.errors import BadSetting, UsageError
from holdall.values.settings import ToolPolicy
from tests.config.conftest import Load
from tests.requirements import requirement


@requirement("settings:per-tool-tables")
def test_a_table_of_the_file_is_the_policy_of_its_tool(load: Load) -> None:
    found = load(
        """
        [tools.fetch]
        store = "never"
        max_inline_bytes = "4 KiB"
        by_reference = true

        [tools."mcp.approve"]
        never_async = true
        """
    )
    assert found.settings.tools == {
        "fetch": ToolPolicy(store="never", max_inline_bytes=4096, by_reference=True),
        "mcp.approve": ToolPolicy(never_async=True),
    }
    assert found.sources["tools.fetch.max_inline_bytes"] == found.sources["tools.mcp.approve.never_async"] == found.file


@requirement("settings:per-tool-tables", "settings:flag-over-environment")
def test_each_value_of_a_table_comes_from_the_last_place_that_has_it(load: Load) -> None:
    found = load(
        "[tools.fetch]\nstore = 'never'\nmax_inline_lines = 1\nmax_inline_chars = 1",
        front_matter={"tools": {"fetch": {"maxInlineChars": 2, "max_inline_lines": 2}, "other": {"store": "always"}}},
        flags=("tools.fetch.max_inline_lines=3", "tools.a.b.never_async=true", "tools.fetch.max_inline_bytes=1 KiB"),
    )
    assert found.settings.tools == {
        "fetch": ToolPolicy(store="never", max_inline_chars=2, max_inline_lines=3, max_inline_bytes=1024),
        "other": ToolPolicy(store="always"),
        "a.b": ToolPolicy(never_async=True),
    }
    assert {name: where for name, where in found.sources.items() if name.startswith("tools.")} == {
        "tools.fetch.store": found.file,
        "tools.fetch.max_inline_chars": "the front matter",
        "tools.fetch.max_inline_lines": "--set",
        "tools.fetch.max_inline_bytes": "--set",
        "tools.other.store": "the front matter",
        "tools.a.b.never_async": "--set",
    }


@requirement("settings:per-tool-tables", "settings:flag-over-environment")
def test_a_tool_in_quotes_on_the_command_line_is_that_of_the_file(load: Load) -> None:
    found = load(
        """
        [tools."sec.txt"]
        redact = false
        """,
        flags=('tools."sec.txt".redact=true', "tools.'sec.txt'.store=always"),
    )
    assert found.settings.tools == {"sec.txt": ToolPolicy(redact=True, store="always")}
    assert found.sources["tools.sec.txt.redact"] == "--set"


@requirement("settings:per-tool-tables", "settings:bad-value")
@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "store = 'sometimes'",
            snapshot("setting 'tools.fetch.store' in FILE is 'sometimes'; it must be one of oversized, always, never"),
        ),
        (
            "never_async = 'true'",
            snapshot("setting 'tools.fetch.never_async' in FILE is 'true'; it must be true or false"),
        ),
        ("by_reference = 1", snapshot("setting 'tools.fetch.by_reference' in FILE is 1; it must be true or false, or left out")),
        (
            "maxInlineBytes = -1",
            snapshot(
                "setting 'tools.fetch.maxInlineBytes' in FILE is -1; it must be a whole number from 1 to 1,099,511,627,776, or left out"
            ),
        ),
        (
            "maxInlineBytes = 'many'",
            snapshot(
                "setting 'tools.fetch.maxInlineBytes' in FILE is 'many'; 'many' is not a size; write bytes, or a number with kB, MB, GB, KiB, MiB or GiB."
            ),
        ),
    ],
)  # fmt: skip
def test_a_bad_value_is_refused_by_its_full_name_and_rule(load: Load, text: str, message: str) -> None:
    with pytest.raises(BadSetting) as refused:
        load(f"[tools.fetch]\n{text}")
    assert str(refused.value).replace(str(load.file), "FILE") == message


@requirement("settings:nearest-key", "settings:unknown-key", "settings:per-tool-tables")
def test_an_unknown_name_in_a_table_is_refused_with_the_nearest_one(load: Load) -> None:
    with pytest.raises(BadSetting) as refused:
        load(flags=("tools.fetch.stor=never",))
    assert str(refused.value) == snapshot(
        "setting 'tools.fetch.stor' in --set is text; there is no such setting of a tool; did you mean tools.fetch.store? `holdall config show` lists all of them."
    )
    for flag in ("redact=true", "store=never", "never_async=true"):
        with pytest.raises(BadSetting, match=rf"did you mean tools\.NAME\.{flag.partition('=')[0]}\?"):
            load(flags=(flag,))
    with pytest.raises(BadSetting) as refused:
        load("[tools.github.search]\nstore = 'never'")
    assert str(refused.value).replace(str(load.file), "FILE") == snapshot(
        "setting 'tools.github.search' in FILE is a table; there is no such setting of a tool. A name with a dot is written in quotes: [tools.\"github.search\"]. `holdall config show` lists all of them."
    )


@requirement("settings:per-tool-tables", "settings:bad-value")
@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("tools = 5", snapshot("setting 'tools' in FILE is 5; it must be a table with a table (in Python, a ToolPolicy) for each tool")),
        ("tools.fetch = 5", snapshot("setting 'tools.fetch' in FILE is 5; it must be a table, as in [tools.fetch]")),
        ("[[tools]]\nstore = 'never'", snapshot("setting 'tools' in FILE is [{'store': 'never'}]; it must be a table with a table (in Python, a ToolPolicy) for each tool")),
    ],
)  # fmt: skip
def test_what_is_no_table_is_refused(load: Load, text: str, message: str) -> None:
    with pytest.raises(BadSetting) as refused:
        load(text)
    assert str(refused.value).replace(str(load.file), "FILE") == message


@pytest.mark.parametrize("flag", ["tools=x", "tools.fetch=x", "tools..store=never", "tools.=x"])
def test_a_flag_names_a_tool_and_a_setting_of_it(load: Load, flag: str) -> None:
    with pytest.raises(UsageError) as refused:
        load(flags=(flag,))
    assert str(refused.value) == (
        f"--set takes tools.TOOL.NAME=VALUE, as in tools.fetch.store=never, for one tool; not {flag!r}."
    )


def test_the_environment_has_no_tables(load: Load) -> None:
    with pytest.raises(BadSetting, match="'tools' in the environment is 'fetch'; it must be a table"):
        load(HOLDALL_TOOLS="fetch")
