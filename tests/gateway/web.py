"""A gateway over HTTP, and the official client in front of it."""

import asyncio
import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import httpx2
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from tests.gateway.support import SOON, end
from tests.upstream.launch import forked, neutral_folder

TOKEN = "a-token-of-at-least-16"


@asynccontextmanager
async def served(words: list[str], **environment: str) -> AsyncGenerator[tuple[str, asyncio.subprocess.Process, str]]:
    """Its URL, its process, and what it said about its token."""
    clean = {key: value for key, value in os.environ.items() if not key.startswith("HOLDALL_")} | environment
    process = await asyncio.create_subprocess_exec(
        *forked(words), stderr=asyncio.subprocess.PIPE, env=clean, cwd=neutral_folder()
    )
    assert process.stderr is not None
    try:
        async with asyncio.timeout(SOON):
            url = (await process.stderr.readline()).decode().split("listening on ")[1].strip()
            token = "" if "HOLDALL_GATEWAY_TOKEN" in environment else (await process.stderr.readline()).decode()
        yield url, process, token
    finally:
        await end(process)


@asynccontextmanager
async def client_at(url: str, token: str, mode: str, **options: Any) -> AsyncGenerator[Client]:
    headers = {"Authorization": f"Bearer {token}"}
    async with (
        httpx2.AsyncClient(headers=headers, timeout=SOON) as http,
        Client(streamable_http_client(url, http_client=http), mode=mode, cache=None, **options) as client,
    ):
        yield client
