"""What importing Holdall and short commands leave alone. Seconds are measured by `./dev bench speed --only startup`."""

import subprocess
import sys

import pytest

PLAIN = "from holdall import Holdall"
OPENED = """
import asyncio, tempfile
from holdall import Holdall

async def main():
    async with Holdall.open(session="s", home=tempfile.mkdtemp()) as bag:
        await bag.take("short")
        await bag.keep("text")
asyncio.run(main())
"""
NEVER = {
    "duckdb", "re2", "mcp", "pydantic", "httpx", "anyio", "typer", "rich", "opentelemetry", "jinja2",
    "holdall.sql", "holdall.extract", "holdall.search", "holdall.agent", "holdall.mcp", "holdall.web", "holdall.cli",
    "holdall.store.memory", "holdall.store.bundle", "holdall.formats.shapes", "holdall.formats.json_outline",
}  # fmt: skip
ON_IMPORT = NEVER | {
    "sqlite3", "ctypes", "platformdirs", "uuid", "secrets", "random", "decimal", "fractions", "difflib", "tomllib",
    "holdall.store.directory",
}  # fmt: skip


def imported_by(program: str) -> set[str]:
    shown = f"{program}\nimport sys; print(*sys.modules)"
    ran = subprocess.run([sys.executable, "-I", "-c", shown], capture_output=True, text=True, timeout=60, check=True)
    return set(ran.stdout.split())


@pytest.mark.parametrize(("program", "unwanted"), [(PLAIN, ON_IMPORT), (OPENED, NEVER)], ids=["imported", "opened"])
def test_what_few_need_is_not_imported_by_all(program: str, unwanted: set[str]) -> None:
    assert imported_by(program) & unwanted == set()


def test_the_names_above_exist() -> None:
    """Else the test above would pass for a module that was renamed."""
    names = sorted(name for name in ON_IMPORT if name.startswith("holdall"))
    assert imported_by("import " + ", ".join(names)) >= set(names)
