"""What the model of the real Claude Code gets with `holdall install claude-code --hook`, read off its requests."""

import json
import re
import subprocess
import sys
from typing import Any

import pytest

from tests.clients.agents import AGENTS, ROOT
from tests.clients.hook_trial import NEEDLE, SECONDS
from tests.clients.run import apart
from tests.clients.server import LARGE, badge_of
from tests.requirements import requirement

pytestmark = [pytest.mark.clients, pytest.mark.timeout(2 * SECONDS)]


@pytest.fixture(scope="module")
def steps(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    if AGENTS["claude"].folder is None:
        pytest.skip("Claude Code is missing: ./dev test clients installs it where there is one for the platform")
    folder = tmp_path_factory.mktemp("hook")
    command = [*apart(), sys.executable, "-m", "tests.clients.hook_trial", str(folder)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=SECONDS + 60, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    record: dict[str, Any] = json.loads((folder / "record.json").read_bytes())
    assert (record["code"], record["ended"], record["problem"]) == (0, True, ""), record["printed"][-3000:]
    return record["steps"]


def plain(text: str) -> str:
    """Without the numbers that the agent puts before the lines of a file."""
    return re.sub(r"(?m)^ *\d+\t", "", text)


def is_notice(text: str, tool: str, size: int) -> bool:
    pattern = (
        rf"{tool} returned {size:,} bytes .*Too large to show; all of it is kept\.\nhandle: (\w+)\n.*"
        rf"Next: holdall \w+ \1 .*-s cc-[0-9a-f]{{8}}\s*$"
    )
    return len(text) < 2000 and re.match(pattern, plain(text), re.DOTALL) is not None


@requirement("hook:notices")
def test_results_over_the_limits_are_notices_in_the_request(steps: dict[str, str]) -> None:
    numbers = "".join(f"{number}\n" for number in range(1, 200_001))
    assert is_notice(steps["middle"], "Bash", len("".join(f"{number}\n" for number in range(1, 6001))) - 1)
    assert is_notice(steps["saved"], "Bash", len(f"{numbers}{NEEDLE}\n{numbers}"))
    assert is_notice(steps["read"], "Read", sum(len(f"{one} words on a line of a file\n") for one in range(1950)))
    assert "visits/text returned" in steps["server"]
    assert "visits/text returned" in steps["server-saved"]
    assert f"{LARGE:,} lines" in steps["server-saved"]


@requirement("hook:notices")
def test_the_model_finds_a_line_with_its_shell(steps: dict[str, str]) -> None:
    assert NEEDLE in steps["saved, searched"]
    assert "1234 words on a line" in steps["read, searched"]
    assert badge_of("text") in steps["server, searched"]
    assert badge_of("text") in steps["server-saved, searched"]


@requirement("hook:small")
def test_small_results_are_shown_as_without_the_hook(steps: dict[str, str]) -> None:
    assert steps["small"] == "small"
    assert plain(steps["few"]).splitlines()[:20] == [f"{number} words on a line of a file" for number in range(20)]


def test_a_command_that_fails_is_shown_as_the_agent_shows_it(steps: dict[str, str]) -> None:
    """Its hooks can change no result that is an error: the documentation says so."""
    assert steps["failed"].startswith("Exit code 3\n")
    assert "handle: " not in steps["failed"]
