"""The loop of the page on the library, run with a scripted model: it finds a needle in an output that never fitted."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from inline_snapshot import snapshot

from tests.requirements import requirement

pytestmark = pytest.mark.anyio

_ROOT = Path(__file__).parents[2]
_SCHEMA = {"type": "function", "function": {"name": "fetch_log", "description": "", "parameters": {"type": "object"}}}


def _code(page: str) -> str:
    begun = (_ROOT / page).read_text("utf-8").partition("async def answer(")[2]
    return begun.partition("```")[0].partition("\n\n\n# A scripted model")[0].rstrip()


def test_the_loop_of_the_readme_is_that_of_the_library() -> None:
    assert _code("README.md") == _code("docs/library.md") != ""


def _loop() -> tuple[Any, int]:
    """The function of the page, and how many lines it has."""
    page = (_ROOT / "docs" / "library.md").read_text("utf-8")
    code = page.partition("```python\n")[2].partition("\n\n\n# A scripted model")[0]
    names: dict[str, Any] = {}
    exec(compile(code, "library.md", "exec"), names)
    return names["answer"], len([line for line in code.split("async def")[1].splitlines() if line.strip()])


def _fetch_log(day: str) -> str:
    lines = [f"{day} job {number} ok" for number in range(50_000)]
    lines[31_337] = f"{day} job 31337 ERROR disk 7 is gone"
    return "\n".join(lines)


@requirement("api:any-loop")
async def test_a_hand_written_loop_of_twenty_lines_never_loses_anything(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOLDALL_HOME", str(tmp_path / "kept"))
    seen: list[int] = []

    async def model(messages: list[dict[str, Any]], tools: list[dict[str, Any]]) -> dict[str, Any]:
        last = messages[-1]
        seen.append(len(last["content"]))
        if last["role"] == "user":
            assert messages[0]["role"] == "system"
            return _asks("fetch_log", {"day": "2026-11-15"})
        if match := re.search(r"handle: (\S+)", last["content"]):
            assert "context_grep" in [tool["function"]["name"] for tool in tools]
            return _asks("context_grep", {"handle": match[1], "pattern": "ERROR .*"})
        return {"role": "assistant", "content": re.findall(r"ERROR (.*)", last["content"])[0]}

    answer, lines = _loop()
    assert lines <= 20
    assert await answer("Which disk failed?", model, {"fetch_log": _fetch_log}, [_SCHEMA]) == "disk 7 is gone"
    assert max(seen) < 3000, "a megabyte and a half never reached the model"


async def test_the_loop_offers_the_users_tools_sends_strings_and_survives_what_a_model_gets_wrong(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOLDALL_HOME", str(tmp_path / "kept"))

    async def model(messages: list[dict[str, Any]], tools: list[dict[str, Any]]) -> dict[str, Any]:
        assert tools[0] is _SCHEMA
        assert all(isinstance(one["content"], str) for one in messages)
        done = [one for one in messages if one["role"] == "tool"]
        if len(done) == 3:
            return {"role": "assistant", "content": "\n".join(one["content"] for one in done)}
        broken = {"id": "2", "function": {"name": "rows", "arguments": '{"of": '}}
        calls = [_asks("rows", {"of": 2})["tool_calls"][0], broken, _asks("invented", {})["tool_calls"][0]]
        return {"role": "assistant", "content": "", "tool_calls": calls}

    answer, _ = _loop()
    assert await answer("How many?", model, {"rows": _rows}, [_SCHEMA]) == snapshot("""\
[{"row": 2}]
The arguments are not valid JSON: Expecting value: line 1 column 8 (char 7).
There is no tool 'invented'. Call one that is offered, or answer without it.\
""")


def _rows(of: int) -> list[dict[str, int]]:
    return [{"row": of}]


def _asks(name: str, arguments: dict[str, Any]) -> dict[str, Any]:
    function = {"name": name, "arguments": json.dumps(arguments)}
    return {"role": "assistant", "content": "", "tool_calls": [{"id": name, "function": function}]}
