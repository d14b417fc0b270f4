"""How the library is used, with its types: pyright checks this file with everything else, and the tests run it."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, assert_type

import pytest

from holdall import (
    Answer,
    Dialect,
    Facts,
    Found,
    Holdall,
    HoldallError,
    Inline,
    Kept,
    Limits,
    Nodes,
    Passage,
    Running,
    Settings,
    Table,
    Taken,
    Tool,
    ToolPolicy,
    ToolSpec,
    Unkept,
    View,
    blocking,
)

pytestmark = pytest.mark.anyio


async def test_the_types_of_the_one_object(tmp_path: Path) -> None:
    settings = Settings(dialect="holdall", tools={"audit": ToolPolicy(store="always")})
    async with Holdall.open(session="s1", home=str(tmp_path / "home"), settings=settings) as bag:
        taken = await bag.take("word " * 50_000, tool="fetch", arguments={"url": "u"}, call_id="c1")
        assert_type(taken, Taken)
        assert_type(_handle(taken), str)
        handle = _handle(taken)
        async with bag.turn(tokens_left=4000) as turn:
            pending = turn.run(_double, tool="double", arguments={"word": "a"})
        assert_type(pending.result, Taken | Answer)
        assert pending.content == "aa"
        assert_type(bag.tools(), tuple[ToolSpec, ...])
        assert_type(bag.tools()[0].openai(), dict[str, Any])
        assert_type(await bag.call("context_tail", {"handle": handle}), Answer)
        assert_type(bag.owns("context_tail"), bool)
        assert_type(bag.instructions(), str)
        assert_type(await bag.read(handle, lines=(1, 2)), Passage)
        assert_type(await bag.grep(handle, "w"), Found)
        assert_type(await bag.query(handle, "select count(*) from t"), Table)
        assert_type(await bag.query((await bag.keep({"a": 1})).handle, path="$.a"), Nodes)
        assert_type(await bag.outputs(), Sequence[Facts])
        assert_type(bag.system_notice(turn=1, max_turns=2, tokens_used=1, window=10), str)


def _double(word: str) -> str:
    return word * 2


def _handle(taken: Taken) -> str:
    """Every case, so that pyright proves there is no other."""
    match taken:
        case Inline(content):
            return str(content)
        case Kept(artifact):
            return artifact.handle
        case Running(handle):
            return handle
        case Unkept(fault):
            assert_type(fault, HoldallError)
            raise fault


def test_the_same_without_a_loop(tmp_path: Path) -> None:
    with blocking.Holdall.open(home=str(tmp_path / "home")) as bag:
        taken = bag.take("word " * 50_000, tool="fetch")
        assert_type(taken, Taken)
        assert_type(bag.grep(_handle(taken), "w"), Found)
        assert_type(bag.call("context_tail", {"handle": _handle(taken)}), Answer)
        with bag.turn(tokens_left=4000) as turn:
            pending = turn.take("small")
        assert pending.content == "small"


def test_a_dialect_is_a_value() -> None:
    def notice(view: View) -> str:
        return f"kept as {view.handle}"

    schema = {"type": "object", "properties": {"handle": {"type": "string"}, "pattern": {"type": "string"}}}
    peek = Tool(name="peek", description="Search.", schema=schema, verb="grep")
    assert Dialect(name="mine", limits=Limits(tokens=10), notice=notice, tools=(peek,)).tool("peek") is peek
