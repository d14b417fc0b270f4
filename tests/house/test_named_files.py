"""ARCHITECTURE.md and CONTRIBUTING.md name only files and modules that exist, and the map leaves out no package."""

import re
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "holdall"
PAGES = ("ARCHITECTURE.md", "CONTRIBUTING.md")

_FENCE = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
_CODE = re.compile(r"`([^`\n]+)`")
_FILE = re.compile(r"[\w.*-]+(?:/[\w.*-]*)+|[\w-]+\.(?:py|md|toml|txt|html|css|js)")
_MODULE = re.compile(r"holdall(?:\.[a-z_]+)+")
_MADE_BY_TOOLS = (".venv", ".dev")


def named(text: str) -> list[str]:
    """Paths and modules in the inline code of a page; a command counts with each of its words."""
    words = [word for code in _CODE.findall(_FENCE.sub("", text)) for word in code.split()]
    found = [word for word in words if _FILE.fullmatch(word) or _MODULE.fullmatch(word)]
    return [word for word in dict.fromkeys(found) if not word.startswith(_MADE_BY_TOOLS)]


def exists(name: str) -> bool:
    if _MODULE.fullmatch(name) and not name.endswith(".py"):
        return find_spec(name) is not None
    return any(list(base.glob(name)) for base in (ROOT, PACKAGE))


@pytest.mark.parametrize("page", PAGES)
def test_every_file_that_a_page_names_exists(page: str) -> None:
    names = named((ROOT / page).read_text("utf-8"))
    assert names
    assert [name for name in names if not exists(name)] == []


def test_the_map_names_every_package() -> None:
    text = (ROOT / "ARCHITECTURE.md").read_text("utf-8")
    listed = [path for path in PACKAGE.iterdir() if path.name[0] not in "_."]
    inside = [
        path for path in listed if path.is_file() or (path / "__init__.py").exists()
    ]  # not what an older version left
    parts = [f"{path.name}/" if path.is_dir() else path.name for path in inside if path.name != "py.typed"]
    assert parts
    assert [part for part in parts if f"`{part}`" not in text] == []


def test_a_name_of_a_file_that_is_gone_is_found() -> None:
    text = (
        "See `bag/gone.py`, `bag/take.py`, `gone/`, `holdall.nothing`, `holdall.blocking`, `./dev test tests/gone -x`."
    )
    assert named(text) == [
        "bag/gone.py", "bag/take.py", "gone/", "holdall.nothing", "holdall.blocking", "./dev", "tests/gone",
    ]  # fmt: skip
    assert [name for name in named(text) if not exists(name)] == [
        "bag/gone.py",
        "gone/",
        "holdall.nothing",
        "tests/gone",
    ]
