"""The reference pages can be built, hold every command, tool, public name and setting, and are not committed."""

import dataclasses
import pydoc
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import holdall
from holdall.values.settings import Settings, ToolPolicy, texts_of_fields
from holdall.wire.dialects import DIALECTS
from tests.docs import reference

ROOT = Path(__file__).parents[2]
SITE: dict[str, Any] = tomllib.loads((ROOT / "zensical.toml").read_text("utf-8"))


def test_the_page_of_commands_has_every_command() -> None:
    page = reference.commands()
    helped = subprocess.run(
        [sys.executable, "-m", "holdall", "--help"], capture_output=True, text=True, timeout=60, check=True
    ).stdout
    listed = re.findall(r"^[^\w-]{0,4}([a-z]+)  ", helped, re.MULTILINE)
    assert {"put", "grep", "gateway"} <= set(listed)
    assert [name for name in listed if f"\n## holdall {name}\n" not in page] == []


def test_the_page_of_tools_has_every_tool_of_every_dialect() -> None:
    page = reference.tools()
    assert [one.name for one in DIALECTS.values() if f"\n## Dialect `{one.name}`\n" not in page] == []
    names = {tool.name for one in DIALECTS.values() for tool in one.tools}
    assert names
    assert [name for name in names if f"\n### {name}\n" not in page] == []


def test_the_page_of_public_names_has_every_name() -> None:
    page = reference.api()
    missing = [name for name in holdall.__all__ if f"\n## {name}\n" not in page and f"\n| `{name}` |" not in page]
    assert missing == []


def test_the_page_of_settings_has_every_setting() -> None:
    page = reference.settings()
    names = [one.name for of in (Settings, ToolPolicy) for one in dataclasses.fields(of)]
    assert [name for name in names if f"\n| `{name}` |" not in page] == []


def test_every_setting_has_a_docstring_which_is_what_the_page_says() -> None:
    page = reference.settings()
    for of in (Settings, ToolPolicy):
        about = texts_of_fields(of)
        assert list(about) == [one.name for one in dataclasses.fields(of)]
        assert all(text[0].isupper() and text.endswith(".") and text in page for text in about.values())


def test_the_reference_is_built_where_git_ignores_it() -> None:
    ignored = (ROOT / ".gitignore").read_text("utf-8").splitlines()
    assert f"{reference.FOLDER.relative_to(ROOT)}/" in ignored


def test_every_public_name_says_what_it_is() -> None:
    assert reference.undocumented() == []


def test_every_page_is_in_the_navigation_of_the_site() -> None:
    folder = ROOT / "docs"
    written = [str(path.relative_to(folder)) for path in (*folder.glob("*.md"), *folder.glob("adapters/*.md"))]
    assert sorted(_paths(SITE["project"]["nav"])) == sorted(
        written + [f"reference/{name}" for name in reference.pages()]
    )


def _paths(nav: list[dict[str, Any]]) -> list[str]:
    found: list[str] = []
    for entry in nav:
        for target in entry.values():
            found += [target] if isinstance(target, str) else _paths(target)
    return found


def test_help_has_the_text_of_every_setting() -> None:
    for of in (Settings, ToolPolicy):
        told = pydoc.plain(pydoc.render_doc(of))
        assert [name for name, text in texts_of_fields(of).items() if f"{name}: {text} It must be " not in told] == []
