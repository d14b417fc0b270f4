"""`show --tree`: what an agent did in a session, from the session's log. Sub-agents' own trees stand inside of it."""

import asyncio
import json
import os
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast

from holdall.bag import Holdall
from holdall.bag.core import store_as_it_is
from holdall.cli import show as screen
from holdall.cli.extract_show import money
from holdall.cli.options import FOUND_NOTHING, common, configuration
from holdall.cli.sessions import Known, session_named, sessions_at
from holdall.config import SESSION_VARIABLE, Configuration
from holdall.text.escape import one_line
from holdall.text.numbers import grouped, plural
from holdall.values.errors import NothingFound

_WIDEST = 200  # where nobody says how wide it may be
_MOST_DEEP = 8

Node = Mapping[str, Any]


async def show(wanted: str | None, home: str | None, session: str | None, as_json: bool) -> int:
    wanted = wanted or session or common.session or os.environ.get(SESSION_VARIABLE)
    found = configuration(home)
    chosen = session_named(found, wanted) if wanted else _newest_run(found)
    known = {one.id: one for one in sessions_at(found)}
    tree = await _tree(chosen, known, home) if chosen is not None else None
    if chosen is None or not tree or not tree.get("children"):
        name = f' in session "{one_line(chosen.name, 100)}"' if chosen is not None else ""
        told = f"no agent has run{name} yet: holdall run AGENT.md"
        if as_json:
            raise NothingFound(told)
        screen.about(told)
        return FOUND_NOTHING
    if as_json:
        screen.as_json(tree | {"session": chosen.id, "session_name": chosen.name})
        return 0
    width = shutil.get_terminal_size((_WIDEST, 0)).columns if screen.is_terminal(sys.stdout) else _WIDEST
    for line in drawn(tree):
        print(line if len(line) <= width else line[: width - 1] + "…")
    return 0


def _newest_run(found: Configuration) -> Known | None:
    """Only a session that an agent ran in has a snapshot of its tree."""
    with store_as_it_is(found.home, found.settings) as store:
        for one in store.sessions() if store is not None else ():
            if not one.parent and store is not None and store.tree(one) is not None:
                return Known(one.name, one.id, one.parent)
    return None


async def _tree(chosen: Known, known: Mapping[str, Known], home: str | None, depth: int = 0) -> dict[str, Any]:
    """From the log, which a killed run leaves complete; where that is gone, the newest snapshot."""
    found = configuration(home)
    async with Holdall.open(home=found.home, session=chosen.folder, settings=found.settings) as bag:
        tree = await asyncio.to_thread(lambda: bag.tree().to_json())
        saved = None if tree.get("children") else await asyncio.to_thread(bag.store.tree, bag.session)
    if saved is not None:
        tree = cast("dict[str, Any]", json.loads(saved))
    for agent in _agents(tree):
        child = known.get(str(agent.get("session")))
        if child is not None and depth < _MOST_DEEP:
            agent["children"] = (await _tree(child, known, home, depth + 1)).get("children", [])
    return tree


def _agents(node: Node) -> Iterator[dict[str, Any]]:
    for one in node.get("children", ()):
        if one["op"] == "agent":
            yield one
        else:
            yield from _agents(one)


def drawn(tree: Node) -> Iterator[str]:
    """A line for each operation, none of them with a line break or an escape of somebody else's in it."""
    yield _root(tree)
    yield from _below(tree, "")


def _below(node: Node, indent: str) -> Iterator[str]:
    children = cast("Sequence[Node]", node.get("children", ()))
    for at, child in enumerate(children):
        is_last = at == len(children) - 1
        yield f"{indent}{'└─ ' if is_last else '├─ '}{_told(child)}"
        yield from _below(child, indent + ("   " if is_last else "│  "))


def _root(tree: Node) -> str:
    totals = cast("Node", tree.get("totals", {}))
    turns = sum(1 for one in tree.get("children", ()) if one["op"] == "turn")
    parts = [
        f"session {one_line(str(tree.get('name', '')), 100)}",
        plural(turns, "turn"),
        plural(int(totals.get("model_calls", 0)), "model call"),
        plural(int(totals.get("tool_calls", 0)), "tool call"),
        f"{grouped(int(totals.get('input_tokens', 0)) + int(totals.get('output_tokens', 0)))} tokens",
        *_cost(totals),
        _seconds(tree),
    ]
    if "recovered" in tree:
        parts.append("was made shorter for its model")
    reported = cast("Node | None", tree.get("reported"))
    if reported is None:
        parts.append("no report yet")
    else:
        status = "no report of the model's" if reported.get("synthetic") else f"reported {reported.get('status')}"
        why = str(reported.get("why") or "")
        parts.append(one_line(f"{status}: {why}" if why else status, 120))
    return " · ".join(parts)


def _told(node: Node) -> str:
    match node["op"]:
        case "turn":
            why = f"the last one: {node['why']}" if node.get("why") else ""
            parts = [f"turn {node['name']}", _seconds(node), f"{_number(node, 'tokens')} tokens in it", why]
        case "model":
            calls = plural(int(node.get("calls", 0)), "call") if node.get("calls") else ""
            parts = [f"model {node['name']}", _seconds(node), _tokens(node), *_cost(node), calls, _why(node)]
        case "tool":
            failed = "failed" if node.get("is_error") else ""
            what = " ".join(str(part) for part in (node.get("outcome", ""), node.get("handle", "")) if part)
            parts = [f"tool {node['name']}", _seconds(node), failed, what, f"{_number(node, 'chars')} chars"]
        case "agent":
            turns = plural(int(node["turns"]), "turn") if "turns" in node else "did not end"
            parts = [f"agent {node['name']}", _seconds(node), turns, _tokens(node), *_cost(node)]
        case "extraction":
            proved = f"{node['verified']} verified" if "verified" in node else ""
            parts = [f"question about {node.get('handle', '')}", _seconds(node), str(node.get("strategy", "")), proved]
        case other:
            parts = [str(other), str(node.get("name", ""))]
    return one_line(" · ".join(part for part in parts if part), 1000)


def _seconds(node: Node) -> str:
    seconds = float(node.get("seconds", 0.0))
    return f"{seconds:.1f} s" if seconds >= 0.1 or not seconds else f"{seconds * 1000:.0f} ms"


def _tokens(node: Node) -> str:
    return f"{_number(node, 'input_tokens')} → {_number(node, 'output_tokens')} tokens"


def _number(node: Node, name: str) -> str:
    return grouped(int(node.get(name) or 0))


def _cost(node: Node) -> list[str]:
    return [money(float(node["cost"]))] if node.get("cost") else []


def _why(node: Node) -> str:
    return f"failed: {node['why']}" if node.get("why") else ""
