"""A dialect of one's own, as docs/dialects.md writes it, in under 30 lines; and one that fails."""

import asyncio
import logging
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from holdall import Ask, Dialect, Holdall, Kept, Limits, Running, Settings, Tool, UsageError, View
from holdall.wire.dialect import Cut
from tests.bag.shapes import LOG
from tests.requirements import requirement

_PAGE = Path(__file__).parents[2] / "docs" / "dialects.md"


@requirement("dialect:own-dialect")
def test_the_example_of_the_page_is_under_30_lines() -> None:
    """That it runs is proved with the other examples of the pages."""
    (code,) = re.findall(r"```python\n(.*?)```", _PAGE.read_text("utf-8"), re.DOTALL)
    dialect = code.split("async with")[0]
    assert len([line for line in dialect.splitlines() if line.strip()]) < 30
    assert "Dialect(" in dialect


def _schema(*required: str, **properties: str) -> dict[str, Any]:
    return {
        "type": "object",
        "required": required,
        "properties": {name: {"type": kind} for name, kind in properties.items()},
    }


@pytest.mark.anyio
@requirement("dialect:own-dialect")
async def test_an_answer_names_the_tools_of_the_dialect_that_continue_it(tmp_path: Path) -> None:
    tools = (
        Tool("peek", "Search.", _schema("handle", "pattern", handle="string", pattern="string"), verb="grep"),
        Tool("find", "Search.", _schema("handle", "pattern", handle="string", pattern="string", start="integer"), verb="grep"),
        Tool("look", "Read.", _schema("handle", handle="string", lines="string"), verb="read"),
        Tool("cut", "Read.", _schema("handle", handle="string", start="integer", length="integer"), verb="slice"),
    )  # fmt: skip
    async with opened(tmp_path, tools=tools) as bag:
        handle = (await bag.keep("".join(f"row {n}\n" for n in range(50_000)))).handle
        look = await bag.call("look", {"handle": handle})
        cut = await bag.call("cut", {"handle": handle, "start": 0, "length": 99_000})
        assert re.fullmatch(rf'Next: look\(handle="{handle}", lines="\d+:"\)', look.text.splitlines()[-1])
        assert re.fullmatch(rf'Next: cut\(handle="{handle}", start=\d+, length=\d+\)', cut.text.splitlines()[-1])
        found = await bag.call("find", {"handle": handle, "pattern": "row"})
        assert re.fullmatch(r"Next: same call, start=\d+", found.text.splitlines()[-1])
    async with opened(tmp_path, tools=tools[:1]) as bag:
        found = await bag.call("peek", {"handle": handle, "pattern": "row"})
        assert "50,000 matches" in found.text
        assert "Next: " not in found.text, "it has no tool for that"


@pytest.mark.anyio
@requirement("dialect:own-dialect")
async def test_a_bind_that_gives_no_ask_is_told(tmp_path: Path) -> None:
    schema = _schema("id", id="string")
    tool = Tool("find", "Search.", schema, verb="grep", bind=lambda given: {"handle": given["id"]})  # pyright: ignore
    async with opened(tmp_path, tools=(tool,)) as bag:
        with pytest.raises(
            UsageError, match=r"bind of the tool find gives a dict, not an Ask\(verb, handle, options\)\."
        ):
            await bag.call("find", {"id": "k3f9"})


@pytest.mark.anyio
@requirement("dialect:own-dialect")
async def test_what_a_bind_cannot_read_is_an_error_for_the_model_and_of_that_call_alone(tmp_path: Path) -> None:
    def bind(given: Any) -> Ask:
        return Ask("tail", given["id"], {"lines": int(given["lines"])})

    tool = Tool("peek", "The end.", _schema(id="string", lines="string"), verb="tail", bind=bind)
    async with opened(tmp_path, tools=(tool,)) as bag:
        kept = await bag.keep("a\n" * 50_000)
        async with bag.turn() as turn:
            beside = turn.run(lambda: "mail sent", tool="send_mail")
            wrong = [turn.call("peek", given) for given in ({}, {"id": kept.handle, "lines": "many\n# Next"})]
            right = turn.call("peek", {"id": kept.handle, "lines": "2"})
        assert beside.text == "mail sent"
        assert "a\na\n" in right.text
        assert all(one.is_error for one in wrong)
        assert "These arguments cannot be used (KeyError: 'id')" in wrong[0].text
        assert "These arguments cannot be used (ValueError: invalid literal" in wrong[1].text
        assert "\n#" not in wrong[1].text


# One that fails


def raises(_: Any) -> Any:
    raise KeyError("no such field")


def nameless(_: Any) -> str:
    return "it was large"


def endless(seen: Any) -> str:
    return f"{seen.handle} " * 10_000


def listed(view: View) -> Any:
    return [view.handle]


def fine(view: View) -> str:
    return f"kept: {view.handle}"


WRONG: dict[str, tuple[Any, str]] = {
    "raises": (raises, "raised KeyError: 'no such field'"),
    "no handle": (nameless, "does not name the handle"),
    "too long": (endless, "is too long: 50,000 bytes, at most 16,384"),
    "no text": (listed, "gave a list, not a text"),
}


def opened(folder: Path, **fields: Any) -> Holdall:
    dialect = replace(Dialect(name="own", limits=Limits(bytes=1000), notice=fine, races=True), **fields)
    settings = Settings(slow_after_seconds=60.0)
    return Holdall.open(home=str(folder / "home"), session="s", dialect=dialect, settings=settings)


@pytest.mark.anyio
@requirement("dialect:own-dialect-fails", "store:take-never-raises")
@pytest.mark.parametrize("wrong", WRONG)
async def test_where_a_notice_of_ones_own_is_none_ours_stands_in(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, wrong: str
) -> None:
    notice, why = WRONG[wrong]
    goes_on = asyncio.Event()

    async def slow() -> str:
        await goes_on.wait()
        return LOG

    async with opened(tmp_path, notice=notice, running=notice) as bag:
        taken = await bag.take(LOG, tool="fetch")
        assert isinstance(taken, Kept)
        first, second, *rest = taken.content.split("\n")
        assert first.startswith("fetch returned 168,900 bytes · 5,000 lines · ")
        assert second == f"handle: {taken.handle}"
        assert "context_" not in "".join(rest)  # it has no such tools
        async with bag.turn() as turn:
            pending = turn.run(slow, tool="crawl", background=True)
        goes_on.set()
        assert isinstance(pending.result, Running)
        assert pending.content == f"crawl is still running; what it writes is kept under {pending.result.handle}."
    said = f"a text of the dialect own {why}; ours stands in"
    assert [one.getMessage() for one in caplog.records if one.levelno == logging.WARNING] == [said] * 2


@pytest.mark.anyio
@requirement("dialect:own-dialect-fails")
@pytest.mark.parametrize("wrong", ["raises", "no handle", "too long"])
async def test_where_a_part_of_ones_own_is_none_ours_stands_in(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, wrong: str
) -> None:
    def good(cut: Cut) -> str:
        return f"{str(cut.result)[:100]} … {cut.handle}"

    async with opened(tmp_path, shorten=WRONG[wrong][0]) as bag:
        taken = await bag.take(LOG, tool="fetch")
        assert isinstance(taken, Kept)
        assert taken.content.startswith(LOG[:500])
        assert taken.handle in taken.content
        assert len(taken.content) <= 1000
        assert "ours stands in" in caplog.text
        bag.core.dialect = replace(bag.core.dialect, shorten=good)
        assert (await bag.take(LOG)).content.startswith(f"{LOG[:100]} … ")


SCHEMA: dict[str, Any] = {"type": "object", "required": ["handle"], "properties": {"handle": {"type": "string"}}}


@requirement("dialect:own-dialect-checked")
@pytest.mark.parametrize(
    ("tool", "complaint"),
    [
        (Tool("peek", "", SCHEMA, verb="peek"), "there is no verb 'peek': read, grep, tail, slice, query, diff, list"),
        (Tool("peek at", "", SCHEMA), "a name has letters, digits, _ . and -, at most 64"),
        (Tool("peek", "", {"type": "objekt"}), 'its schema must have "type": "object", and "properties" by name'),
        (Tool("peek", "", SCHEMA | {"required": ["id"]}), '"required" lists names of its properties'),
        (Tool("peek", "", SCHEMA, verb="grep"), "grep needs pattern, which is not in the schema"),
        (Tool("peek", "", SCHEMA | {"properties": {"handle": {}, "id": {}}}), "read has no argument 'id'"),
        (Tool("peek", "", SCHEMA | {"properties": {"handle": {"type": "text"}}}), "no type that JSON knows"),
        (Tool("peek", "", SCHEMA | {"x": {1}}), "its schema is not JSON"),
    ],
    ids=lambda one: one if isinstance(one, str) else "",
)
def test_a_tool_that_no_model_could_use_is_refused_when_the_dialect_is_made(tool: Tool, complaint: str) -> None:
    with pytest.raises(UsageError, match=re.escape(complaint)):
        Dialect(name="own", limits=Limits(), notice=fine, tools=(tool,))
    with pytest.raises(UsageError, match="another tool has that name"):
        Dialect(name="own", limits=Limits(), notice=fine, tools=(Tool("peek", "", SCHEMA), Tool("peek", "", SCHEMA)))
