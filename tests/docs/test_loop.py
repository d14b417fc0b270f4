"""The loop of the page on the library, run with a scripted model: it finds a needle in an output that never fitted."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.requirements import requirement

pytestmark = pytest.mark.anyio

_PAGE = Path(__file__).parents[2] / "docs" / "library.md"


def _loop() -> tuple[Any, int]:
    """The function of the page, and how many lines it has."""
    code = _PAGE.read_text("utf-8").partition("```python\n")[2].partition("\n\n\n# A scripted model")[0]
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
    assert await answer("Which disk failed?", model, {"fetch_log": _fetch_log}) == "disk 7 is gone"
    assert max(seen) < 3000, "a megabyte and a half never reached the model"


def _asks(name: str, arguments: dict[str, Any]) -> dict[str, Any]:
    function = {"name": name, "arguments": json.dumps(arguments)}
    return {"role": "assistant", "content": "", "tool_calls": [{"id": name, "function": function}]}
