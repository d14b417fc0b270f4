"""Large results in every form: kept whole whatever their characters, and never many times over in memory."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.gateway.servers.odd_server import LINE, rows_of
from tests.gateway.servers.odd_server import result as answered
from tests.gateway.servers.odd_server import text_of as written
from tests.gateway.support import HERE, WAITS, Wire, gateway, text_of, wire
from tests.gateway.test_keeping import handle_in
from tests.upstream.launch import unforked
from tests.upstream.support import http_server

pytestmark = pytest.mark.anyio
SIZE = 1_100_000  # from a megabyte on a text is taken out of its message


def odd(folder: Path) -> list[str]:
    return [sys.executable, str(HERE / "servers" / "odd_server.py"), str(folder / "starts")]


async def stored(client: Wire, result: dict[str, Any]) -> str:
    """All that is kept under the first link of a result."""
    link = next(block["uri"] for block in result["content"] if block["type"] == "resource_link")
    return str((await client.result("resources/read", {"uri": link}))["contents"][0]["text"])


async def test_a_large_text_is_kept_byte_for_byte_and_the_rest_of_its_result_stays(tmp_path: Path) -> None:
    whole = written(SIZE)
    async with wire(gateway(tmp_path, before=WAITS, server=odd(tmp_path))) as client:
        await client.greet()
        result = await client.call("text", bytes=SIZE)
        assert await stored(client, result) == whole
        assert result["later"] == {"kept": "as is"}
        assert result["content"][0]["annotations"] == {"audience": ["user"]}
        assert len(text_of(result)) < 4000
        twin = await client.call("twin", bytes=SIZE)
        assert await stored(client, twin) == whole
        assert twin["structuredContent"]["handle"] == handle_in(text_of(twin))  # it is the same text, kept once
        other = await client.call("other twin", bytes=SIZE)
        assert await stored(client, other) == whole
        apart = await client.call("context_tail", handle=other["structuredContent"]["handle"], lines=1)
        assert "\nand more\n" in text_of(apart)  # and no JSON around it
        two = await client.call("two", bytes=SIZE)
        assert await stored(client, two) == f"{whole}\n{whole}"
        error = await client.call("error", bytes=SIZE)
        assert error["isError"] is True
        assert await stored(client, error) == whole
        half = await client.call("half", bytes=SIZE)
        assert await stored(client, half) == whole + "\ufffd"


async def test_a_large_text_that_fits_is_shown_as_it_came(tmp_path: Path) -> None:
    limits = [f"max_inline_{unit}=100000000" for unit in ("bytes", "lines", "tokens")]
    shown = [word for limit in limits for word in ("--set", limit)]
    async with wire(gateway(tmp_path, before=shown, server=odd(tmp_path))) as client:
        await client.greet()
        result = await client.call("twin", bytes=SIZE)
        assert result == {
            "content": [{"type": "text", "text": written(SIZE), "annotations": {"audience": ["user"]}}],
            "structuredContent": {"result": written(SIZE)},
        }


async def test_a_large_text_in_the_background_is_whole_under_its_handle(tmp_path: Path) -> None:
    async with wire(gateway(tmp_path, before=["--set", "slow_after_seconds=0"], server=odd(tmp_path))) as client:
        await client.greet()
        handle = handle_in(text_of(await client.call("text", bytes=SIZE)))
        assert "Ended" in text_of(await client.call("wait_for_tool_output", handle=handle))
        tail = text_of(await client.call("context_tail", handle=handle))
        assert f"{len(written(SIZE).encode())}" in tail.replace(",", "")
        assert "\U0001f600" in tail


@pytest.mark.in_full
async def test_large_structured_content_is_kept_whole_and_once(tmp_path: Path) -> None:
    rows = rows_of(SIZE)
    async with wire(gateway(tmp_path, before=WAITS, server=odd(tmp_path))) as client:
        await client.greet()
        twin = await client.call("data", bytes=SIZE)
        assert json.loads(await stored(client, twin)) == rows
        assert twin["structuredContent"]["handle"] == handle_in(text_of(twin))
        alone = await client.call("data alone", bytes=SIZE)
        found = await client.call(
            "context_query", handle=alone["structuredContent"]["handle"], sql="select len(rows) as found from t"
        )
        assert str(len(rows["rows"])) in text_of(found)
        blocks = await client.call("blocks", bytes=SIZE)
        assert await stored(client, blocks) == "\n".join(json.dumps(row, indent=2) for row in rows["rows"])
        beside = await client.call("data beside", bytes=SIZE)
        assert await stored(client, beside) == written(2_000_000)
        assert beside["structuredContent"]["handle"] != handle_in(text_of(beside))
        needle = await client.call(
            "context_grep", handle=beside["structuredContent"]["handle"], pattern="\u2014 \U0001f600"
        )
        assert f"{len(rows['rows']):,}" in text_of(needle)


async def test_large_structured_content_that_fits_is_shown_as_it_came(tmp_path: Path) -> None:
    limits = [f"max_inline_{unit}=100000000" for unit in ("bytes", "lines", "tokens")]
    shown = [word for limit in limits for word in ("--set", limit)]
    async with wire(gateway(tmp_path, before=shown, server=odd(tmp_path))) as client:
        await client.greet()
        assert await client.call("data alone", bytes=SIZE) == {"content": [], "structuredContent": rows_of(SIZE)}


class Memory:
    """How high the memory of a process has been above what it was."""

    def __init__(self, pid: int | str) -> None:
        self._process = Path("/proc") / str(pid)
        self._before = self._told("VmRSS")

    def begin(self) -> None:
        (self._process / "clear_refs").write_text("5")

    def grown(self) -> int:
        return self._told("VmHWM") - self._before

    def _told(self, name: str) -> int:
        lines = (self._process / "status").read_text().splitlines()
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(name))


tells_memory = pytest.mark.skipif(
    not Path("/proc/self/clear_refs").exists(), reason="only Linux tells how high memory has been"
)


@pytest.mark.in_full(one_in=4)
@tells_memory
@pytest.mark.parametrize("tool", ["text", "data", "data alone", "data beside"])
async def test_memory_stays_within_three_times_a_result_however_often_one_comes(tmp_path: Path, tool: str) -> None:
    # A notice itself takes a few megabytes: up to 8 MB are read whole for its figures.
    size = {"data": 8_000_000, "data alone": 12_000_000}.get(tool, 16_000_000)
    sent = len(json.dumps(answered(tool, {"bytes": size}), ensure_ascii=False).encode())
    async with wire(unforked(gateway(tmp_path, before=WAITS, server=odd(tmp_path)))) as client:
        await client.greet()
        await client.call("text", bytes=200_000)  # what any large result needs is there now
        memory = Memory(text_of(await client.call("parent")))
        for _ in range(2):
            memory.begin()
            assert "handle" in str(await client.call(tool, bytes=size))
            assert memory.grown() < 3 * sent


@pytest.mark.in_full(one_in=3)
@tells_memory
@pytest.mark.parametrize("tool", ["meta", "new block", "failure"])
async def test_memory_stays_within_six_times_what_is_large_in_an_odd_place(tmp_path: Path, tool: str) -> None:
    size = 16_000_000
    sent = len(json.dumps(answered(tool, {"bytes": size}), ensure_ascii=False).encode())
    async with wire(unforked(gateway(tmp_path, before=WAITS, server=odd(tmp_path)))) as client:
        await client.greet()
        await client.call("text", bytes=200_000)
        memory = Memory(text_of(await client.call("parent")))
        memory.begin()
        kept = await client.call(tool, bytes=size)
        assert memory.grown() < 6 * sent
        assert bool(kept.get("isError")) == (tool == "failure")
        assert LINE[:-1].replace('"', '\\"') in await stored(client, kept)


@tells_memory
async def test_memory_stays_within_three_times_a_result_over_http(tmp_path: Path) -> None:
    with http_server(tmp_path) as (spec, _):
        config = tmp_path / "mcp.json"
        config.write_text(json.dumps({"mcpServers": {"web": {"type": "http", "url": spec.url}}}))
        async with wire(unforked(gateway(tmp_path, "--config", str(config), before=WAITS))) as client:
            await client.greet()
            await client.call("big", bytes=200_000)
            memory = Memory(client.process.pid)
            for _ in range(2):
                memory.begin()
                assert "handle: " in text_of(await client.call("big", bytes=16_000_000))
                assert memory.grown() < 3 * 16_000_000


@tells_memory
async def test_what_calls_in_the_background_gave_is_let_go(tmp_path: Path) -> None:
    words = gateway(tmp_path, before=["--set", "slow_after_seconds=0"], server=odd(tmp_path))
    async with wire(unforked(words)) as client:
        await client.greet()
        memory: Memory | None = None
        for _ in range(6):
            handle = handle_in(text_of(await client.call("text", bytes=10_000_000)))
            assert "Ended" in text_of(await client.call("wait_for_tool_output", handle=handle))
            memory = memory or Memory(client.process.pid)
        assert memory is not None
        memory.begin()
        await client.call("parent")
        assert memory.grown() < 25_000_000  # and not 50, which they have
