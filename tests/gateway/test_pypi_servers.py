"""The servers that PyPI has, direct and through the gateway, in both eras of the protocol."""

import subprocess
from pathlib import Path
from typing import Any

import pytest
from mcp import Client

from tests.gateway.outside import but_ours, exact, link_in, needs_git, python_server, text_of, whole
from tests.gateway.support import gateway, official
from tests.gateway.test_keeping import handle_in
from tests.requirements import requirement

pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("mode", ["legacy", "auto"])]


def plain(result: Any) -> str:
    """As it came, the order of keys included."""
    return exact(result.model_dump(mode="json", by_alias=True, exclude_unset=True))


async def same_tools(direct: Client, through: Client) -> None:
    theirs, ours = await direct.list_tools(), await through.list_tools()
    found = [but_ours(one.model_dump(mode="json", by_alias=True, exclude_unset=True)) for one in (theirs, ours)]
    assert exact(found[1]) == exact(found[0])


async def same_results(direct: Client, through: Client, calls: list[tuple[str, dict[str, Any]]]) -> None:
    for tool, arguments in calls:
        theirs, ours = await direct.call_tool(tool, arguments), await through.call_tool(tool, arguments)
        assert plain(ours) == plain(theirs), tool


@requirement("gateway:any-server")
async def test_time_is_the_same_through_the_gateway(tmp_path: Path, mode: str) -> None:
    server = python_server("mcp-server-time", "--local-timezone", "Europe/Zurich")
    winter = {"source_timezone": "UTC", "time": "12:00", "target_timezone": "Asia/Tokyo"}
    async with official(server, mode) as direct, official(gateway(tmp_path, server=server), mode) as through:
        assert through.protocol_version == direct.protocol_version
        await same_tools(direct, through)
        await same_results(direct, through, [("convert_time", winter), ("convert_time", {**winter, "time": "noon"})])
        now = await through.call_tool("get_current_time", {"timezone": "Asia/Tokyo"})
        assert "Asia/Tokyo" in text_of(now)


def git(repository: Path, *words: str) -> str:
    done = subprocess.run(
        ["git", "-c", "user.name=A", "-c", "user.email=a@example.org", "-C", str(repository), *words],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    return done.stdout


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A commit of 20,000 lines, and as many that are not committed."""
    path = tmp_path_factory.mktemp("repository")
    git(path, "init", "--quiet", "--initial-branch", "main")
    rows = [f"row {number}: nothing special\n" for number in range(20_000)]
    (path / "rows.txt").write_text("".join(rows))
    git(path, "add", ".")
    git(path, "commit", "--quiet", "--message", "Rows")
    rows[12_345] = "row 12345: the needle stands here\n"
    (path / "rows.txt").write_text("".join(f"{row[:-1]} again\n" for row in rows))
    return path


@pytest.mark.in_full(one_in=2)
@needs_git
@requirement("gateway:oversized-notice")
async def test_a_large_diff_is_a_handle_and_all_of_it_can_be_reached(
    tmp_path: Path, repository: Path, mode: str
) -> None:
    server = python_server("mcp-server-git", "--repository", str(repository))
    at = {"repo_path": str(repository)}
    async with official(server, mode) as direct, official(gateway(tmp_path, server=server), mode) as through:
        await same_tools(direct, through)
        small: list[tuple[str, dict[str, Any]]] = [
            ("git_status", at),
            ("git_log", {**at, "max_count": 1}),
            ("git_branch", {**at, "branch_type": "local"}),
            ("git_status", {"repo_path": "/nowhere"}),
        ]
        await same_results(direct, through, small)
        for tool in ("git_diff_unstaged", "git_show"):
            arguments = at if tool == "git_diff_unstaged" else {**at, "revision": "HEAD"}
            theirs = text_of(await direct.call_tool(tool, arguments))
            assert len(theirs) > 400_000
            kept = await through.call_tool(tool, arguments)
            assert len(text_of(kept).encode()) < 4000
            assert await whole(through, link_in(kept)) == theirs
        diff = handle_in(text_of(await through.call_tool("git_diff_unstaged", at)))
        found = await through.call_tool("context_grep", {"handle": diff, "pattern": "needle stands here again"})
        assert "+row 12345: the needle stands here again" in text_of(found)
