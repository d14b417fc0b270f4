"""Bare functions with what they return kept, and our tools as functions: in every framework that takes functions."""

import asyncio
import functools
import inspect
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, get_type_hints

import pytest
from inline_snapshot import snapshot

from holdall import UsageError
from holdall.adapters.functions import wrap
from holdall.blocking import Holdall
from tests.adapters.contract import NEEDLE, example, fetch_some, handle_in, small
from tests.requirements import requirement

RESULT = {"rows": [1, 2]}


def rows(first: int, *, last: int = 9) -> dict[str, list[int]]:
    """Some rows."""
    return RESULT


def _lines(last: str) -> str:
    return "".join(f"line {number} of many\n" for number in range(5_000)) + last + "\n"


def by_name(tools: list[Callable[..., Any]]) -> dict[str, Any]:
    return {tool.__name__: tool for tool in tools}


def test_what_is_no_function_is_refused_at_once_and_a_name_of_ours_is_left_out(tmp_path: Path) -> None:
    def context_read() -> str:
        """Not ours."""
        return "mine"

    wrong: list[Any] = [[small], "small", None]
    for one in wrong:
        with pytest.raises(UsageError, match="wrap takes functions, each by itself"):
            wrap(one, session="s", home=str(tmp_path))
    with pytest.warns(UserWarning, match="name of a tool of Holdall: context_read"):
        tools = wrap(small, context_read, session="s", home=str(tmp_path))
    names = [tool.__name__ for tool in tools]
    assert len(names) == len(set(names))
    assert "Not ours." not in [tool.__doc__ for tool in tools]


def test_what_fits_and_is_no_text_is_passed_and_nothing_is_kept_of_it(tmp_path: Path) -> None:
    def draw() -> bytes:
        return b"\x89PNG\r\n\x1a\n\0"

    drawing = by_name(wrap(draw, session="s", home=str(tmp_path)))["draw"]
    assert drawing() == draw()
    with Holdall.open(home=str(tmp_path), session="s") as bag:
        assert not bag.outputs()


@requirement("adapter:functions")
def test_each_argument_is_recorded_under_its_own_name(tmp_path: Path) -> None:
    def cat(*paths: str) -> str:
        return _lines(paths[-1])

    def some(a: int, *rest: int, k: int = 1, **more: int) -> str:
        return _lines(str(a))

    tools = by_name(wrap(cat, some, session="s", home=str(tmp_path)))
    first, second = tools["cat"]("a", "b"), tools["cat"]("a", "c")
    assert handle_in(first) != handle_in(second)
    assert "changed" not in second, "another call, and not the same one again"
    tools["some"](1, 2, 3, x=4)
    with Holdall.open(home=str(tmp_path), session="s") as bag:
        assert [one.origin.arguments for one in bag.outputs()] == [
            {"paths": ["a", "b"]}, {"paths": ["a", "c"]}, {"a": 1, "rest": [2, 3], "x": 4}
        ]  # fmt: skip


def test_an_object_that_can_be_called_has_the_name_that_notices_give_it(tmp_path: Path) -> None:
    class Finder:
        def __call__(self) -> str:
            return _lines("found")

    tools = by_name(wrap(Finder(), functools.partial(rows, 1), session="s", home=str(tmp_path)))
    assert tools["Finder"]().startswith("Finder returned")
    assert tools["rows"]() is RESULT


def test_an_error_with_a_constructor_of_its_own_stays_what_it_is(tmp_path: Path) -> None:
    class Refused(Exception):
        def __init__(self, status: int, body: str) -> None:
            super().__init__(f"{status}: {body}")
            self.status = status

    def post() -> None:
        raise Refused(502, "x" * 200_000)

    with pytest.raises(Refused, match="handle: ") as caught:
        by_name(wrap(post, session="s", home=str(tmp_path)))["post"]()
    assert caught.value.status == 502


@requirement("adapter:functions")
def test_a_wrapped_function_keeps_what_is_large_and_passes_what_fits(tmp_path: Path) -> None:
    tools = by_name(wrap(fetch_some, rows, session="s", home=str(tmp_path)))
    assert tools["rows"](1, last=2) is RESULT
    notice = tools["fetch_some"]()
    handle = handle_in(notice)
    assert len(notice) < 4000
    assert NEEDLE in tools["context_grep"](handle, NEEDLE)
    assert NEEDLE in tools["context_grep"](handle=handle, pattern=NEEDLE)
    again = by_name(wrap(session="s", home=str(tmp_path)))
    assert NEEDLE in again["context_grep"](handle, NEEDLE)


@requirement("adapter:functions")
def test_coroutine_functions_stay_such_and_so_are_our_tools(tmp_path: Path) -> None:
    async def fetch_later() -> str:
        return fetch_some()

    tools = by_name(wrap(fetch_later, session="s", home=str(tmp_path)))
    assert all(map(inspect.iscoroutinefunction, tools.values()))
    notice = asyncio.run(tools["fetch_later"]())
    assert NEEDLE in asyncio.run(tools["context_grep"](handle_in(notice), NEEDLE))


@requirement("adapter:functions")
def test_signatures_and_docstrings_are_those_of_the_tools(tmp_path: Path) -> None:
    tools = by_name(wrap(rows, session="s", home=str(tmp_path)))
    assert inspect.signature(tools["rows"]) == inspect.signature(rows)
    assert tools["rows"].__doc__ == rows.__doc__
    tail = tools["context_tail"]
    assert str(inspect.signature(tail)) == snapshot("(handle: str, lines: int | None = None) -> str")
    assert get_type_hints(tail)["return"] is str
    assert tail.__doc__ == snapshot("""\
Last lines of a kept output.

Args:
    handle: handle
    lines: lines\
""")


@requirement("adapter:functions")
def test_an_error_is_raised_as_it_was_and_sessions_are_apart(tmp_path: Path) -> None:
    problem = ValueError("no such shop")

    def fails() -> str:
        raise problem

    tools = by_name(wrap(fails, fetch_some, home=str(tmp_path)))
    with pytest.raises(ValueError, match="no such shop") as raised:
        tools["fails"]()
    assert raised.value is problem
    handle = handle_in(tools["fetch_some"]())
    others = by_name(wrap(small, home=str(tmp_path)))
    assert re.search("No output is kept", others["context_grep"](handle, NEEDLE))


@requirement("adapter:functions")
def test_the_session_may_be_found_when_a_tool_is_called(tmp_path: Path) -> None:
    called: list[str] = []

    def session(tool: str) -> str:
        called.append(tool)
        return "s"

    tools = by_name(wrap(small, session=session, home=str(tmp_path)))
    tools["small"]()
    tools["context_read"]("none")
    assert called == ["small", "context_read"]


@requirement("adapter:functions")
def test_the_page_of_functions_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOLDALL_HOME", str(tmp_path / "home"))

    def fetch(name: str) -> str:
        """Fetch the rows."""
        return fetch_some()

    names = example("functions", fetch=fetch)
    assert NEEDLE in by_name(names["tools"])["context_grep"](handle_in(names["text"]), NEEDLE)
