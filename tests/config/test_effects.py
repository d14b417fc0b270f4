"""What a loaded setting changes for the model: its dialect, its notice, its tools, and one tool's own policy."""

from pathlib import Path

import pytest

from holdall import Holdall, Inline, Kept, Unkept
from tests.config.conftest import Load
from tests.requirements import requirement

pytestmark = pytest.mark.anyio

LOG = "".join(f"2026-01-01 00:00:{n % 60:02} INFO job {n} by worker {n % 7}\n" for n in range(3000))


def opened(load: Load, text: str, tmp_path: Path) -> Holdall:
    return Holdall.open(home=str(tmp_path / "kept"), settings=load(text).settings)


@requirement("settings:dialect")
@pytest.mark.parametrize(
    ("dialect", "words", "tool"),
    [
        ("holdall", ")\nhandle: ", "context_read"),
        ("refs", "ContextRef: {", "context.read"),
        ("extract", "Call tool_output(handle = ", "tool_output"),
        ("async", "Use get_tool_output(", "get_tool_output"),
    ],
)
async def test_dialect_names_the_texts_and_the_tools(
    load: Load, tmp_path: Path, dialect: str, words: str, tool: str
) -> None:
    async with opened(load, f"dialect = '{dialect}'", tmp_path) as bag:
        taken = await bag.take(LOG, tool="fetch")
        assert isinstance(taken, Kept)
        assert words in taken.content
        assert bag.owns(tool)
        assert tool in [spec.name for spec in bag.tools()]


@requirement("settings:notice-max-tokens")
async def test_a_notice_takes_at_most_the_tokens_that_are_set(load: Load, tmp_path: Path) -> None:
    sizes: list[int] = []
    for tokens in (150, 500):
        async with opened(load, f"notice_max_tokens = {tokens}", tmp_path) as bag:
            lines = "".join(f"{word} {n} failed: ERROR E{n}\n" for n in range(3000) for word in ("build", "test"))
            taken = await bag.take(lines, tool="fetch")
            sizes.append(bag.core.count(taken.content))
            assert sizes[-1] <= tokens
    assert sizes[0] < sizes[1]


@requirement("settings:tools-listed")
async def test_tools_are_listed_once_something_is_kept_or_always(load: Load, tmp_path: Path) -> None:
    async with opened(load, "", tmp_path) as bag:
        assert bag.tools() == ()
        await bag.take(LOG)
        assert bag.tools()
    async with opened(load, "tools_listed = 'always'", tmp_path) as bag:
        assert bag.tools()
        assert bag.tools(final_turn=True) == ()


@requirement("settings:per-tool-tables")
async def test_the_table_of_a_tool_changes_that_tool_and_no_other(load: Load, tmp_path: Path) -> None:
    text = """
        [tools.small]
        max_inline_bytes = 10
        [tools.vault]
        store = "never"
        [tools.audit]
        store = "always"
        """
    async with opened(load, text, tmp_path) as bag:
        line = "a line of some length\n"
        assert isinstance(await bag.take(line, tool="other"), Inline)
        assert isinstance(await bag.take(line, tool="small"), Kept)
        kept = await bag.take(line, tool="audit")
        assert isinstance(kept, Kept)
        assert kept.content is line
        secret = await bag.take(LOG, tool="vault")
        assert isinstance(secret, Unkept)
        assert "not to be stored" in secret.content
        assert {facts.origin.tool for facts in await bag.outputs()} == {"small", "audit"}
        assert b"worker" not in b"".join(path.read_bytes() for path in (tmp_path / "kept").rglob("*") if path.is_file())


@requirement("dialect:refs-snippets")
async def test_the_ends_of_a_notice_of_refs_are_as_long_as_is_set(load: Load, tmp_path: Path) -> None:
    lines = "".join(f"line {n} of the output\n" for n in range(5000))

    async def shown(settings: str) -> str:
        async with opened(load, f"dialect = 'refs'\n{settings}", tmp_path) as bag:
            return str((await bag.take(lines, tool="fetch")).content)

    few = await shown("snippet_lines = 3")
    assert ("line 2 of" in few, "line 3 of" in few) == (True, False)
    assert ("line 4997 of" in few, "line 4996 of" in few) == (True, False)
    small = await shown("snippet_bytes = 100")
    assert ("line 3 of" in small, "line 6 of" in small) == (True, False)
    large = await shown("snippet_lines = 1000\nsnippet_bytes = 10000")
    assert all(f"line {n} of" in large for n in (0, 300, 4700, 4999))
    assert "line 2000 of" not in large
