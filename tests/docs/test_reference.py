"""Every command, tool, setting and public name is documented, and the pages that list them are made from the code."""

import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

from tests.docs import reference

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("name", list(reference.pages()))
def test_the_page_is_what_the_code_says(name: str) -> None:
    made = reference.pages()[name]()
    assert (ROOT / "docs" / name).read_text("utf-8") == made, "write it anew: python -m tests.docs.reference"


def test_every_public_name_says_what_it_is() -> None:
    assert reference.undocumented() == []


def test_every_page_has_its_place_in_the_site_and_no_other_has() -> None:
    site: dict[str, Any] = tomllib.loads((ROOT / "zensical.toml").read_text("utf-8"))
    listed = sorted(_paths(site["project"]["nav"]))
    assert listed == sorted(path.name for path in (ROOT / "docs").glob("*.md"))


def _paths(nav: list[dict[str, Any]]) -> list[str]:
    found: list[str] = []
    for entry in nav:
        for target in entry.values():
            found += [target] if isinstance(target, str) else _paths(target)
    return found


def test_the_site_is_built_without_a_warning_and_asks_nothing_of_others(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "docs", tmp_path / "docs")
    shutil.copy(ROOT / "zensical.toml", tmp_path)
    built = subprocess.run(
        [Path(sys.executable).parent / "zensical", "build", "--strict"],
        cwd=tmp_path, capture_output=True, text=True, timeout=100, check=False,
    )  # fmt: skip
    assert built.returncode == 0, built.stdout + built.stderr
    index = (tmp_path / ".dev" / "site" / "index.html").read_text("utf-8")
    assert "Nothing is lost silently" in index
    for kind in ('src="http', 'src="//', '<link rel="stylesheet" href="http', "@import"):
        assert kind not in index
