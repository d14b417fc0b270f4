"""Every call that a notice offers works as it stands: it runs, is taken, and finds something."""

from pathlib import Path

import pytest

from holdall import Holdall, Settings
from tests.requirements import requirement
from tests.wire.notices import SHAPES, calls_in

pytestmark = pytest.mark.anyio
_BENCH = Path(__file__).parents[2] / "../shared/bench/artifacts"
_REAL = sorted(file.name for file in _BENCH.iterdir()) if _BENCH.is_dir() else []
_NOTHING = (" 0 match", " 0 rows", " 0 values", "nothing there", "no lines of")
_ONE_VERB = ("blank", "bytes")  # there is nothing to look for


async def run_calls(bag: Holdall, output: str | bytes, what: str) -> list[str]:
    """The names of the tools that were called."""
    kept = await bag.keep(output, tool="fetch")
    calls = calls_in(await bag.notice(kept.handle))
    assert 1 <= len(calls) <= 4, what
    for name, arguments in calls:
        assert arguments["handle"] == kept.handle
        answer = await bag.call(name, arguments)
        told = f"{what}: {name} {arguments}: {answer.text[:300]}"
        assert not answer.is_error, told
        assert not any(nothing in answer.text.split("\n")[0] for nothing in _NOTHING), told
        assert "…" not in str(arguments.values()), told
    return [name for name, _ in calls]


@requirement("notice:example-calls", "notice:how-to-go-on")
async def test_every_call_of_a_notice_runs_and_finds_something(tmp_path: Path) -> None:
    settings = Settings(dialect="holdall")
    async with Holdall.open(session="s", home=str(tmp_path / "h"), settings=settings) as bag:
        for shape, output in SHAPES.items():
            names = await run_calls(bag, output, shape)
            assert len(set(names)) > 1 or shape in _ONE_VERB, shape


@pytest.mark.skipif(not _REAL, reason="the real outputs of ../shared/bench are not here")
@pytest.mark.parametrize("name", _REAL)
async def test_the_calls_of_real_outputs_run_too(name: str, tmp_path: Path) -> None:
    settings = Settings(dialect="holdall")
    async with Holdall.open(session="s", home=str(tmp_path / "h"), settings=settings) as bag:
        names = await run_calls(bag, (_BENCH / name).read_bytes(), name)
        assert "context_grep" in names or "context_query" in names
