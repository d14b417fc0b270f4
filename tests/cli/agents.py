"""Agents' files for tests of the real program: scripted models, tools in a module beside them, servers in mcp.json.

A script names a kept output by the id of the call that made it, which works like its handle.
"""

import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

SERVER = str(Path(__file__).with_name("mcp_server.py"))
TOOLS = '''
import asyncio, pathlib, time

HERE = pathlib.Path(__file__).parent


def fetch_log() -> str:
    """The log of the day."""
    print("a tool that prints")
    return "".join(f"line {n} of the log {'FAILED' if n == 777 else 'ok'}\\n" for n in range(4_000))


def small(word: str = "a small result") -> str:
    """Returns the word."""
    return word


async def gate() -> str:
    """Waits until somebody opens it."""
    (HERE / "begun").touch()
    while not (HERE / "open").exists():
        await asyncio.sleep(0.01)
    return "it was opened"


def stuck() -> str:
    """Never returns, and cannot be stopped."""
    (HERE / "begun").touch()
    time.sleep(3600)
    return ""


def bad() -> str:
    """Raises."""
    raise ValueError("no such city\\x1b[2J")
'''
WRAPPED = '<ai-agent-{1}-FINAL format="text">'
NONCE = r"<ai-agent-([0-9a-f]+)-FINAL"


def calls(*made: tuple[str, Mapping[str, Any]] | tuple[str, Mapping[str, Any], str], **more: Any) -> dict[str, Any]:
    """A reply that calls: each is a name, its arguments, and, where it matters, its id."""
    told = [{"name": one[0], "arguments": one[1]} | ({"id": one[2]} if len(one) > 2 else {}) for one in made]
    return {"calls": told} | more


def report(text: str, **more: Any) -> dict[str, Any]:
    return calls(("final_report", {"report": text} | more))


def report_when(seen: str, text: str) -> dict[str, Any]:
    """A report, as text in the wrapper, once the model has read this."""
    return {"when": f"{NONCE}.*{seen}", "text": WRAPPED + text}


@dataclass(frozen=True)
class Agents:
    folder: Path

    @staticmethod
    def own(home: Path) -> "Agents":
        """In the configuration folder of the user with this home: nobody is asked about them."""
        folder = home / ".config" / "holdall" / "agents"
        folder.mkdir(parents=True)
        return Agents(folder)

    def __post_init__(self) -> None:
        (self.folder / "day_tools.py").write_text(TOOLS)

    def script(self, *replies: Any, name: str = "model", **options: Any) -> str:
        """The name of a model with these replies."""
        path = self.folder / f"{name}.json"
        path.write_text(json.dumps({"replies": replies, "price": {"input": 1, "output": 4}} | options))
        return f"scripted:{path}"

    def write(self, front: str, body: str = "You find things.", *, name: str = "finder") -> str:
        """The path of an agent's file."""
        path = self.folder / f"{name}.md"
        path.write_text(f"---\n{front}\n---\n{body}\n")
        return str(path)

    def agent(self, *replies: Any, more: str = "", tools: str = "fetch_log, small", name: str = "finder") -> str:
        """An agent with tools of the module, whose model has these replies."""
        listed = ", ".join(f"day_tools:{tool}" for tool in tools.split(", ")) if tools else ""
        model = self.script(*replies, name=f"{name}-model")
        return self.write(f"model: {model}\ntools: [{listed}]\n{more}", name=name)

    def servers(self, **servers: Mapping[str, Any]) -> str:
        """The name of an mcp.json; a server without a command is the small one of these tests."""
        told = {name: self.small_server(name) | dict(about) for name, about in servers.items()}
        (self.folder / "mcp.json").write_text(json.dumps({"mcpServers": told}))
        return "mcp.json"

    def small_server(self, name: str = "small") -> dict[str, Any]:
        return {"command": sys.executable, "args": [SERVER, str(self.pids(name))]}

    def pids(self, name: str = "small") -> Path:
        return self.folder / f"{name}.pids"
