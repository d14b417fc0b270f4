"""The official conformance suite through the gateway; in full also without it: check by check the same."""

import asyncio
import json
import os
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.gateway.outside import NODE, NPM, REFERENCE, SCRIPTS, needs_npm
from tests.gateway.support import gateway
from tests.gateway.web import TOKEN, served
from tests.requirements import requirement
from tests.upstream.launch import sdk_server
from tests.upstream.support import http_server

pytestmark = [pytest.mark.anyio, needs_npm]

SUITE = str(NPM / "@modelcontextprotocol" / "conformance" / "dist" / "index.js")
DEADLINE = 180.0  # seconds, for a run of some ten, on a busy machine

FULL = bool(os.environ.get("HOLDALL_TEST_FULL"))
SCENARIOS = {"2025-11-25": 33, "2026-07-28": 50}

Checks = dict[str, Counter[tuple[str, str]]]
"""By scenario, how often each check ended how. What is only told for information is none."""


async def run(url: str, revision: str, folder: Path) -> Checks:
    """Everything that the suite has for servers of this revision, required or not."""
    words = [NODE, "--import", str(SCRIPTS / "bearer.mjs"), SUITE, "server", "--url", url]
    words += ["--requirements", revision, "--output-dir", str(folder)]
    process = await asyncio.create_subprocess_exec(
        *words,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        env={**os.environ, "MCP_TOKEN": TOKEN},
    )
    try:
        async with asyncio.timeout(DEADLINE):
            said, _ = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    found = checks_in(folder)
    assert found, said.decode()
    return found


def checks_in(folder: Path) -> Checks:
    found: Checks = {}
    for path in folder.glob("*/checks.json"):
        scenario = re.sub(r"^server-|-\d{4}-\d\d-\d\dT.*$", "", path.parent.name)
        checks: list[dict[str, Any]] = json.loads(path.read_text())
        found[scenario] = Counter((one["id"], one["status"]) for one in checks if one["status"] != "INFO")
    return found


def failures(checks: Checks) -> list[str]:
    bad = ("FAILURE", "WARNING")
    return sorted(f"{name}: {check}" for name, all_of_it in checks.items() for check, how in all_of_it if how in bad)


def passes(checks: Checks, scenarios: int) -> None:
    assert len(checks) == scenarios
    # The server does not know the extension for tasks; whatever else there is, it does.
    assert [one for one in failures(checks) if not one.startswith("tasks-")] == []


_STREAMED = {"2025-11-25": ("server-sse-multiple-streams", "server-sse-streams-functional")}


@pytest.mark.in_full(one_in=2)
@pytest.mark.timeout(600)
@pytest.mark.conformance
@requirement("gateway:any-server", "gateway:any-client")
@pytest.mark.parametrize(("revision", "scenarios"), SCENARIOS.items())
async def test_a_server_passes_the_conformance_suite_through_the_gateway(
    tmp_path: Path, revision: str, scenarios: int
) -> None:
    """In full also check by check as without the gateway, and, in the newer era, in front of a program."""
    with http_server(tmp_path, program=REFERENCE) as (spec, _):
        config = tmp_path / "mcp.json"
        config.write_text(json.dumps({"mcpServers": {"reference": {"type": "http", "url": spec.url}}}))
        words = gateway(tmp_path, "--http", "127.0.0.1:0", "--config", str(config))
        async with served(words, HOLDALL_GATEWAY_TOKEN=TOKEN) as (url, _, _):
            through = await run(url, revision, tmp_path / "through")
            passes(through, scenarios)
        if not FULL:
            return
        direct = await run(spec.url, revision, tmp_path / "direct")
        if revision in _STREAMED:  # looked at only where an answer is a stream; ours is plain JSON if it comes first
            scenario, check = _STREAMED[revision]
            assert direct[scenario].pop((check, "SUCCESS")) == 1
        assert direct == through
        if revision != "2026-07-28":  # each session of that era has a process of its own: that would take long
            return
        words = gateway(tmp_path, "--http", "127.0.0.1:0", server=[*sdk_server(REFERENCE)])
        async with served(words, HOLDALL_GATEWAY_TOKEN=TOKEN) as (url, _, _):
            assert await run(url, revision, tmp_path / "a program") == through
