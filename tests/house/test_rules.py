"""Rules of the house that no other tool checks: what a file may name, how long a module may be.

The forbidden words are put together from parts here, or this file would be the first to break its own rule.
"""

import ast
import os
import re
import subprocess
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
MADE_BY_TOOLS = {".git", ".dev", ".venv", ".hypothesis", "__pycache__", "dist", "build"}
MODULES = sorted((ROOT / "src").rglob("*.py"))

REGISTRY_HOSTS = re.compile(
    "|".join(("py" + r"pi\.org", "python" + r"hosted\.org", "npm" + r"js\.(org|com)", "deb" + r"\.debian\.org")),
    re.IGNORECASE,
)
MACHINE_PATHS = re.compile(r"(?<![A-Za-z0-9_.~/-])/(" + "|".join(("wo" + "rk", "fa" + "rm", "tmp/" + "lab")) + r")/")


@cache
def files_of_the_repository() -> list[Path]:
    """Tracked files and those that could be added; without git, all but what tools made."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    try:
        listed = subprocess.run(command, cwd=ROOT, capture_output=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError):  # no git on this machine, or an unpacked archive
        found = (path for path in ROOT.rglob("*") if not MADE_BY_TOOLS & set(path.relative_to(ROOT).parts))
    else:
        found = (ROOT / os.fsdecode(name) for name in listed.split(b"\0") if name)
    return sorted(path for path in found if path.is_file())


def places(forbidden: re.Pattern[str]) -> list[str]:
    return [
        f"{file.relative_to(ROOT)}:{number}: {line.strip()[:120]}"
        for file in files_of_the_repository()
        for number, line in enumerate(file.read_text(encoding="utf-8", errors="replace").splitlines(), 1)
        if forbidden.search(line)
    ]


def test_the_rules_look_at_real_files() -> None:
    names = {str(file.relative_to(ROOT)) for file in files_of_the_repository()}
    assert {"dev", "pyproject.toml", "requirements/dev.txt", "tests/house/test_rules.py"} <= names
    assert not any(name.startswith((".venv/", ".git/")) for name in names)


def test_no_file_names_a_package_registry() -> None:
    # A build takes the registry of the machine it runs on; a host in a file would override it for everybody.
    assert places(REGISTRY_HOSTS) == []


def test_no_file_names_a_path_of_one_machine() -> None:
    assert places(MACHINE_PATHS) == []


@pytest.mark.parametrize(
    ("forbidden", "text"),
    [
        (REGISTRY_HOSTS, "https://py" + "pi.org/simple"),
        (REGISTRY_HOSTS, "files.python" + "hosted.org"),
        (MACHINE_PATHS, "cd /wo" + "rk/main"),
    ],
)
def test_a_forbidden_word_is_recognised(forbidden: re.Pattern[str], text: str) -> None:
    assert forbidden.search(text)


def test_there_is_no_lock_file_that_records_a_registry() -> None:
    assert [
        file.name for file in files_of_the_repository() if file.name in {"uv.lock", "poetry.lock", "pdm.lock"}
    ] == []


def test_every_module_says_what_it_is() -> None:
    assert MODULES
    silent = [str(file.relative_to(ROOT)) for file in MODULES if not ast.get_docstring(ast.parse(file.read_bytes()))]
    assert silent == []


@pytest.mark.parametrize("script", ["dev", ".ci/run"])
def test_a_script_can_be_run_and_is_valid_shell(script: str) -> None:
    assert os.access(ROOT / script, os.X_OK)
    done = subprocess.run(["sh", "-n", script], cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
