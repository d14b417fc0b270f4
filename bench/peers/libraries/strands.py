"""Strands Agents, in both of its ways: the plugin ContextOffloader, and the agent's own context_manager="auto".

A scripted model calls the tool once. What it gets in its next turn is the notice.
"""

import json
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from importlib import import_module
from pathlib import Path
from typing import Any

from bench.peers.patient import Page, Peer

_LINES = 1000  # asked for at a time; the tool cuts at its own limit, and the last number shown says how far it came
_NUMBERED = re.compile(r"^[> ] +(\d+)\| ", re.MULTILINE)
_TOTAL = re.compile(r"^\[Lines \d+-\d+ of (\d+)\]")
_CUT = "\n\n[output truncated, narrow your range]"

_strands: Any = import_module("strands")
_model: Any = import_module("strands.models.model")
_offloader: Any = import_module("strands.vended_plugins.context_offloader")


class Scripted(_model.Model):
    """Calls `fetch`, keeps what it is sent then, and says that it is done."""

    def __init__(self) -> None:
        self.sent: list[str] = []

    async def stream(self, messages: Any, *_given: Any, **_named: Any) -> AsyncIterator[dict[str, Any]]:
        results = [part["toolResult"] for message in messages for part in message["content"] if "toolResult" in part]
        self.sent = [block.get("text", "") for result in results for block in result["content"]]
        yield {"messageStart": {"role": "assistant"}}
        start: dict[str, Any] = {} if results else {"toolUse": {"toolUseId": "call-1", "name": "fetch"}}
        yield {"contentBlockStart": {"start": start}}
        yield {"contentBlockDelta": {"delta": {"text": "Done."} if results else {"toolUse": {"input": "{}"}}}}
        yield {"contentBlockStop": {}}
        yield {"messageStop": {"stopReason": "end_turn" if results else "tool_use"}}

    async def structured_output(self, *_given: Any, **_named: Any) -> AsyncIterator[dict[str, Any]]:
        yield {}

    def update_config(self, **_named: Any) -> None: ...

    def get_config(self) -> dict[str, Any]:
        return {}


class Strands:
    first: Any = 1

    def __init__(self, way: str) -> None:
        self._output: object = None
        self._reference = ""
        self._total = 0
        self._model: Any = Scripted()
        offloads = way == "ContextOffloader"
        self._tool = "retrieve_offloaded_content" if offloads else "retrieve_context"
        with_offloader: dict[str, Any] = {"plugins": [_offloader.ContextOffloader()]}
        self._agent: Any = _strands.Agent(
            model=self._model, tools=[self._fetch()], callback_handler=None, record_direct_tool_call=False,
            **(with_offloader if offloads else {"context_manager": "auto"}),
        )  # fmt: skip
        self._stash: Any = None if offloads else self._agent.context_manager.stash

    async def take(self, output: object) -> str:
        self._output = output
        await self._agent.invoke_async("Fetch it.")
        notice = "\n".join(self._model.sent)
        found = re.search(r"^\[Stored references:\]\n +(\S+)", notice, re.MULTILINE) or re.search(
            r"\[ref: ([^\]]+)\]$", notice
        )
        self._reference = found[1] if found else ""
        return notice

    async def read(self, place: Any) -> Page:
        last = min(place + _LINES - 1, self._total or place + _LINES - 1)
        text = self._call(line_range={"start": place, "end": last})
        total = _TOTAL.match(text)
        if total is None:
            return Page(text, "")
        self._total = int(total[1])
        body, _, _ = text.partition("\n\n")[2].partition(_CUT)
        numbers = _NUMBERED.findall(body)
        reached = int(numbers[-1]) if numbers else place
        return Page(text, _NUMBERED.sub("", body), reached + 1 if reached < self._total else None)

    async def search(self, needle: str) -> str:
        return self._call(pattern=needle)

    async def stored(self) -> bytes:
        """The text that its tool reads: blocks of JSON are kept indented, or indented when they are read."""
        if self._stash is not None:
            block = await self._stash.retrieve(self._reference)
        else:
            block = getattr(self._agent.tool, self._tool)(reference=self._reference)["content"][0]
        text = block["text"] if "text" in block else json.dumps(block["json"], indent=2)
        return text.encode()

    def _call(self, **arguments: Any) -> str:
        result = getattr(self._agent.tool, self._tool)(reference=self._reference, **arguments)
        return "\n".join(block.get("text", "") for block in result["content"])

    def _fetch(self) -> Any:
        def fetch() -> Any:
            """Fetch it."""
            block = {"text": self._output} if isinstance(self._output, str) else {"json": self._output}
            return {"status": "success", "content": [block]}

        return _strands.tool(fetch)


async def session(way: str, _folder: Path, body: Callable[[Peer], Awaitable[None]]) -> None:
    await body(Strands(way))
