"""The Python examples of the pages as modules, so that type checkers can read them."""

import ast
import re
import textwrap
from importlib.util import find_spec
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "ARCHITECTURE.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
FENCE = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
TOP_LEVEL_AWAIT = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT  # as in a notebook

WRONG = "from holdall import Holdall\nasync with Holdall.open() as bag:\n    print((await bag.take(1)).contents)\n"

_FETCH = "def fetch(name: str) -> str:\n    return name\n"
_MODEL = 'model = ""\n'
# LangChain and Strands leave types of their own open.
_OPEN = "# pyright: reportUnknownVariableType=false, reportUnknownMemberType=false\n"
# Names that the page of a framework leaves to its reader: a model, a tool, options.
_GIVEN = {
    "agent_framework": "from typing import Any\nclient: Any = None\n" + _FETCH,
    "claude_agent": "from claude_agent_sdk import ClaudeAgentOptions\nmy_options = ClaudeAgentOptions()\n",
    "fastmcp": _FETCH,
    "functions": _FETCH,
    "google_adk": _MODEL + _FETCH,
    "langchain": _OPEN + _MODEL + _FETCH,
    "openai_agents": _MODEL + _FETCH,
    "pydantic_ai": _MODEL + _FETCH,
    "strands": _OPEN + _MODEL + _FETCH,
}
_IMPORTED = {
    "agent_framework": "agent_framework",
    "claude_agent": "claude_agent_sdk",
    "google_adk": "google.adk",
    "openai_agents": "agents",
}


def write_all(folder: Path) -> list[Path]:
    """One module for each example of each page; of the frameworks those that are installed here."""
    files: list[Path] = []
    for page in PAGES:
        files += _write(page, folder, "")
    for framework in _GIVEN:
        if is_installed(framework):
            files += write_of(framework, folder)
    return files


def write_with_a_mistake(folder: Path) -> None:
    """The same, and one in which something is wrong: a type checker that does not see it has seen nothing."""
    assert len(write_all(folder)) > 20
    (folder / "wrong.py").write_text(as_module(WRONG), "utf-8")


def without_the_mistake(lines: list[str]) -> list[str]:
    """Of the lines that a type checker has printed, those about other examples."""
    assert any("wrong.py" in line and "contents" in line for line in lines), lines
    return [line for line in lines if "wrong.py" not in line]


def write_of(framework: str, folder: Path) -> list[Path]:
    return _write(ROOT / "docs" / "adapters" / f"{framework}.md", folder, _GIVEN[framework])


def frameworks_elsewhere() -> list[str]:
    """Those with an environment of their own, which `./dev test adapters` makes."""
    return [framework for framework in _GIVEN if not is_installed(framework)]


def is_installed(framework: str) -> bool:
    name = _IMPORTED.get(framework, framework)
    try:
        return framework == "functions" or find_spec(name) is not None
    except ModuleNotFoundError:  # of a package that the name is in
        return False


def _write(page: Path, folder: Path, given: str) -> list[Path]:
    files: list[Path] = []
    for number, example in enumerate(FENCE.findall(page.read_text("utf-8"))):
        name = f"{'adapters_' if page.parent.name == 'adapters' else ''}{page.stem}_{number}"
        files.append(folder / f"{name.lower().replace('-', '_')}.py")
        files[-1].write_text(given + as_module(example), "utf-8")
    return files


def as_module(example: str) -> str:
    """Type checkers refuse `await` outside a function: from the first such statement on, an example is the body of one."""
    tree = ast.parse(example)
    awaits = [one.lineno for one in tree.body if _awaits(one)]
    if not awaits:
        return example
    lines = example.splitlines(keepends=True)
    before, rest = "".join(lines[: awaits[0] - 1]), "".join(lines[awaits[0] - 1 :])
    return f"{before}async def example() -> None:\n{textwrap.indent(rest, '    ')}"


def _awaits(statement: ast.stmt) -> bool:
    waiting: list[ast.AST] = [statement]
    while waiting:
        one = waiting.pop()
        if isinstance(one, ast.Await | ast.AsyncFor | ast.AsyncWith):
            return True
        if not isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            waiting += ast.iter_child_nodes(one)
    return False
