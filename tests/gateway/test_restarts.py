"""A server that is started again: what its client asked of it once holds on."""

import os
import signal
from pathlib import Path

import pytest

from tests.gateway.support import gateway, plain, text_of, wire
from tests.upstream.support import lines_of, lives, until

pytestmark = pytest.mark.anyio


async def test_a_level_of_the_log_and_subscriptions_are_asked_for_again(tmp_path: Path) -> None:
    journal = tmp_path / "journal"
    async with wire(gateway(tmp_path, server=plain("plain", str(journal)))) as client:
        await client.greet()
        await client.result("logging/setLevel", {"level": "debug"})
        await client.result("logging/setLevel", {"level": "error"})
        await client.result("resources/subscribe", {"uri": "plain://one"})
        await client.result("resources/subscribe", {"uri": "plain://row/2"})
        first = int(text_of(await client.call("pid")))
        begun = len(lines_of(journal))
        os.kill(first, signal.SIGKILL)
        await until(lambda: not lives(first))
        await client.ask("tools/call", {"name": "pid"})  # it may find out only by this one
        assert int(text_of(await client.call("pid"))) != first
        again = [line.partition(" ")[0] for line in lines_of(journal)[begun:]]
        assert again == [
            "initialize", "notifications/initialized", "logging/setLevel", "resources/subscribe", "resources/subscribe",
        ]  # fmt: skip
        said = "\n".join(lines_of(journal)[begun:])
        assert '"level": "error"' in said
        assert '"level": "debug"' not in said
        assert '"plain://one"' in said
        assert '"plain://row/2"' in said
