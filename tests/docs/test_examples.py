"""The examples of the pages are typed: mypy and pyright, each in strict mode, find nothing in them.

Pyright reads those of this environment together with the repository: tests/house/test_lint.py.
"""

import ast
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
# What comes with the packages that examples use, and is no part of what they see of them. Two thirds of all that mypy
# would read: types of the APIs of models.
_UNREAD = [
    "_pytest", "anthropic", "beartype", "cryptography", "dns", "griffe", "jinja2", "joserfc", "key_value", "langgraph_sdk",
    "langsmith", "logfire_api", "openapi_pydantic", "opentelemetry", "psycopg", "pytest", "requests", "rich", "urllib3",
    "websockets",
    *(f"openai.{kind}.{part}" for kind in ("resources", "types") for part in (
        "admin", "beta", "evals", "fine_tuning", "live", "realtime", "responses", "webhooks",
    )),
    # The classes of one registry: what they have in common takes mypy twice as long as all else together.
    *(f"pydantic_ai.capabilities.{part}" for part in (
        "_tool_search", "batch_model_requests", "caching", "citations", "content_filter", "file_understanding",
        "image_generation", "include_return_schemas", "instrumentation", "local_workspace", "mcp", "model_fallback",
        "native_tool", "prefix_tools", "prepare_tools", "process_history", "reinject_system_prompt", "set_tool_metadata",
        "thinking", "toolset", "web_fetch", "web_search", "x_search",
    )),
]  # fmt: skip


@pytest.mark.adapters
@pytest.mark.timeout(1800)
@pytest.mark.skipif("HOLDALL_TEST_FULL" not in os.environ, reason="only with `./dev test adapters`")
@pytest.mark.parametrize("framework", examples.frameworks_elsewhere())
def test_the_example_of_a_framework_with_its_own_environment_is_typed_too(framework: str, tmp_path: Path) -> None:
    python = ROOT / ".dev" / "adapters" / framework / "bin" / "python"
    if not python.exists():
        pytest.skip(f"its environment is missing: ./dev test adapters {framework}")
    assert examples.write_of(framework, tmp_path)
    (tmp_path / "wrong.py").write_text(examples.as_module(examples.WRONG))
    assert _complaints(TOOLS / "mypy", *_STRICT, "--python-executable", python, _cache(), ".", cwd=tmp_path) == []
    (tmp_path / "pyrightconfig.json").write_text(json.dumps({"typeCheckingMode": "strict", "pythonVersion": "3.11"}))
    assert _complaints(TOOLS / "pyright", "--pythonpath", python, ".", cwd=tmp_path) == []


def _cache() -> str:
    return f"--cache-dir={ROOT / '.dev' / 'mypy'}"


def _complaints(*command: str | Path, cwd: Path) -> list[str]:
    """The lines that name a mistake, without the one that is made on purpose, which each must find."""
    done = subprocess.run([*command], cwd=cwd, capture_output=True, text=True, timeout=1500, check=False)
    lines = [line.strip() for line in done.stdout.splitlines() if "error:" in line or " - error" in line]
    return examples.without_the_mistake(lines)


@pytest.mark.in_full
@pytest.mark.timeout(1800)  # without a cache it reads half of what is installed
def test_mypy_in_strict_mode_finds_nothing_in_any_example(tmp_path: Path) -> None:
    examples.write_with_a_mistake(tmp_path)
    read = {name for file in tmp_path.glob("*.py") for name in _imported(file)}
    # What they use must have its types.
    assert [name for name in read if f"{name}.".startswith(tuple(f"{one}." for one in _UNREAD))] == []
    unread = ",".join(f"{name}.*" for name in _UNREAD)
    (tmp_path / "mypy.ini").write_text(f"[mypy]\n[mypy-{unread}]\nfollow_imports = skip\n")
    assert _complaints(TOOLS / "mypy", *_STRICT, _cache(), ".", cwd=tmp_path) == []


def _imported(file: Path) -> set[str]:
    nodes = [*ast.walk(ast.parse(file.read_bytes()))]
    names = {f"{one.module}.{name.name}" for one in nodes if isinstance(one, ast.ImportFrom) for name in one.names}
    return names | {name.name for one in nodes if isinstance(one, ast.Import) for name in one.names}
