"""The gates that read the code: they run as tests, so that one command says whether all is well.

Each is called as `./dev lint` calls it, with the settings of pyproject.toml and nothing else. Only pyright leaves out the
tests, which take it as long as all else: `./dev lint` and `./dev test house` read them too.
"""

import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tests.docs import examples

ROOT = Path(__file__).parents[2]
TOOLS = Path(sys.executable).parent
FULL = bool(os.environ.get("HOLDALL_TEST_FULL"))


def complaints(*command: str) -> str:
    """What the tool printed when it was not content, or an empty string."""
    done = subprocess.run([TOOLS / command[0], *command[1:]], cwd=ROOT, capture_output=True, text=True, check=False)
    return f"{done.stdout}{done.stderr}\n(exit code {done.returncode})" if done.returncode else ""


def test_ruff_finds_nothing_to_complain_about() -> None:
    assert not (found := complaints("ruff", "check", "--no-fix", "--output-format=concise", ".")), found


def test_every_file_is_formatted_by_ruff() -> None:
    assert not (found := complaints("ruff", "format", "--check", "--output-format=concise", ".")), found


@pytest.mark.timeout(1800)  # the whole repository in one go, on a machine that other tests keep busy
def test_pyright_in_strict_mode_finds_no_error_in_the_repository_nor_in_an_example_of_a_page(tmp_path: Path) -> None:
    """In one run: each would read all of Holdall, and what that imports, for itself."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["pyright"]
    examples.write_with_a_mistake(tmp_path)
    read = [one for one in settings["include"] if FULL or one != "tests"]
    found = complaints("pyright", *read, str(tmp_path))
    errors = [line.strip() for line in found.splitlines() if " - error" in line]
    assert examples.without_the_mistake(errors) == [], found
    assert f"\n{len(errors)} error" in found, found
