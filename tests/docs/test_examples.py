"""The examples of the pages are typed: mypy and pyright, each in strict mode, find nothing in them."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs import examples

ROOT = Path(__file__).parents[2]
TOOLS = Path(sys.executable).parent
_STRICT = ("--strict", "--no-error-summary", "--no-color-output")
_WRONG = "from holdall import Holdall\nasync with Holdall.open() as bag:\n    print((await bag.take(1)).contents)\n"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("examples")
    assert len(examples.write_all(folder)) > 20
    (folder / "wrong.py").write_text(examples.as_module(_WRONG))
    return folder


@pytest.mark.adapters
@pytest.mark.timeout(1800)
@pytest.mark.skipif("HOLDALL_TEST_FULL" not in os.environ, reason="only with `./dev test adapters`")
@pytest.mark.parametrize("framework", examples.frameworks_elsewhere())
def test_the_example_of_a_framework_with_its_own_environment_is_typed_too(framework: str, tmp_path: Path) -> None:
    python = ROOT / ".dev" / "adapters" / framework / "bin" / "python"
    if not python.exists():
        pytest.skip(f"its environment is missing: ./dev test adapters {framework}")
    assert examples.write_of(framework, tmp_path)
    (tmp_path / "wrong.py").write_text(examples.as_module(_WRONG))
    cache = f"--cache-dir={ROOT / '.dev' / 'mypy'}"
    assert _complaints(TOOLS / "mypy", *_STRICT, "--python-executable", python, cache, ".", cwd=tmp_path) == []
    (tmp_path / "pyrightconfig.json").write_text(json.dumps({"typeCheckingMode": "strict", "pythonVersion": "3.11"}))
    assert _complaints(TOOLS / "pyright", "--pythonpath", python, ".", cwd=tmp_path) == []


def _complaints(*command: str | Path, cwd: Path) -> list[str]:
    """The lines that name a mistake, without the one that is made on purpose, which each must find."""
    done = subprocess.run([*command], cwd=cwd, capture_output=True, text=True, timeout=1500, check=False)
    lines = [line.strip() for line in done.stdout.splitlines() if "error:" in line or " - error" in line]
    assert any("wrong.py" in line and "contents" in line for line in lines), done.stdout + done.stderr
    return [line for line in lines if "wrong.py" not in line]


@pytest.mark.timeout(1800)  # without a cache it reads half of what is installed
def test_mypy_in_strict_mode_finds_nothing_in_any_example(folder: Path) -> None:
    cache = f"--cache-dir={ROOT / '.dev' / 'mypy'}"
    found = _complaints(TOOLS / "mypy", *_STRICT, cache, ".", cwd=folder)
    assert found == []


@pytest.mark.timeout(1800)
def test_pyright_in_strict_mode_finds_nothing_in_any_example(folder: Path) -> None:
    config = {"typeCheckingMode": "strict", "pythonVersion": "3.11", "venvPath": str(ROOT), "venv": ".venv"}
    (folder / "pyrightconfig.json").write_text(json.dumps(config))
    assert _complaints(TOOLS / "pyright", ".", cwd=folder) == []
