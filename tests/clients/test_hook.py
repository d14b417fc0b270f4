"""What the models of real agents get with `holdall install AGENT --hook`, read off their requests.

By default those of one, whose hook sees files too; in full also of the one whose shell adds lines of its own, and others.
"""

import json
import re
import subprocess
import sys
from typing import Any

import pytest

from tests.clients.agents import AGENTS, ROOT
from tests.clients.conftest import FULL
from tests.clients.hook_trial import NEEDLE, SECONDS, TOOLS
from tests.clients.run import apart
from tests.clients.server import LARGE, badge_of
from tests.requirements import requirement

pytestmark = [pytest.mark.in_full(one_in=2), pytest.mark.clients, pytest.mark.timeout(2 * SECONDS)]


@pytest.fixture(scope="module", params=TOOLS if FULL else ["claude"])
def name(request: pytest.FixtureRequest) -> str:
    if AGENTS[request.param].folder is None:
        pytest.skip(f"{AGENTS[request.param].title} is missing: ./dev test clients installs it where there is one")
    return request.param


@pytest.fixture(scope="module")
def steps(name: str, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    folder = tmp_path_factory.mktemp(f"hook-{name}")
    command = [*apart(), sys.executable, "-m", "tests.clients.hook_trial", name, str(folder)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=SECONDS + 60, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    record: dict[str, Any] = json.loads((folder / "record.json").read_bytes())
    assert (record["code"], record["ended"], record["problem"]) == (0, True, ""), record["printed"][-3000:]
    return record["steps"]


def plain(text: str) -> str:
    """Without the numbers that an agent puts before the lines of a file, and the JSON around an error."""
    said: Any = json.loads(text) if text.startswith('{"error": ') else {"error": text}
    return re.sub(r"(?m)^ *\d+\t", "", said["error"])


def is_notice(text: str, tool: str, size: int | None, session: str) -> bool:
    pattern = (
        rf"{tool} returned {'[0-9,]+' if size is None else f'{size:,}'} bytes .*\)\n"
        rf"handle: (\w+)\n.*Next: holdall \w+ \1 .*-s {session}-\w{{8}}\s*$"
    )
    return len(text) < 2000 and re.match(pattern, plain(text), re.DOTALL) is not None


@requirement("hook:notices")
def test_results_over_the_limits_are_notices_in_the_request(name: str, steps: dict[str, str]) -> None:
    tools = TOOLS[name]
    numbers = "".join(f"{number}\n" for number in range(1, 200_001))
    # Gemini CLI adds lines of its own to what a command has written.
    whole = len(f"{numbers}{NEEDLE}\n{numbers}") if name != "gemini" else None
    assert is_notice(steps["middle"], tools.shell, None, tools.session), steps["middle"][:500]
    assert is_notice(steps["saved"], tools.shell, whole, tools.session), steps["saved"][:500]
    assert is_notice(steps["server"], "visits/text", None, tools.session), steps["server"][:500]
    assert is_notice(steps["server-saved"], "visits/text", None, tools.session), steps["server-saved"][:500]
    assert f"{LARGE:,} lines" in steps["server-saved"]


@requirement("hook:notices")
def test_the_model_finds_a_line_with_its_shell(name: str, steps: dict[str, str]) -> None:
    assert NEEDLE in steps["saved, searched"]
    assert badge_of("text") in steps["server, searched"]
    assert badge_of("text") in steps["server-saved, searched"]
    if name == "claude":  # the others read less of a file at once than is over our limits
        assert is_notice(steps["read"], "Read", None, "cc")
        assert "1234 words on a line" in steps["read, searched"]


@requirement("hook:small")
def test_small_results_are_shown_as_without_the_hook(steps: dict[str, str]) -> None:
    assert "small" in steps["small"].split()
    assert len(steps["small"]) < 100


def test_a_command_that_fails_is_never_called_kept_where_it_is_cut(name: str, steps: dict[str, str]) -> None:
    """The hooks of Claude Code can change no result that is an error: the documentation says so."""
    is_kept = "\nhandle: " in steps["failed"]
    assert is_kept == (name != "claude"), steps["failed"][:500]
