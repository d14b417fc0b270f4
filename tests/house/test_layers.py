"""The layers of ARCHITECTURE.md, proved by import-linter with the contracts in pyproject.toml.

A contract that cannot fail proves nothing, so each is also shown a small house in which it is broken.
"""

import subprocess
import sys
import tomllib
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parents[2]
PYPROJECT = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
CONTRACTS = {contract["name"]: contract for contract in tomllib.loads(PYPROJECT)["tool"]["importlinter"]["contracts"]}

PURE = "The core is pure"
PROTECTED = "Only these may show the model less than everything"
EDGES = "Edges reach the inside through the bag"
STORES = "Stores are known by their protocol"

# Forbidden and protected contracts stop at a module that does not exist. These are the rooms that belong in
# each list; the test below demands those that exist, and only those.
ROOMS = {
    (PURE, "source_modules"): {"values", "text", "formats", "policy", "wire"},
    (PROTECTED, "allowed_importers"): {"wire", "verbs", "sql", "extract.truncate"},
    (EDGES, "source_modules"): {"cli", "web", "mcp", "adapters", "agent"},
    (EDGES, "forbidden_modules"): {"store", "verbs", "extract", "search", "sql", "background"},
    (STORES, "protected_modules"): {"store.directory", "store.memory", "store.fleet"},
}


def exists(room: str) -> bool:
    place = ROOT.joinpath("src", "holdall", *room.split("."))
    return place.with_suffix(".py").is_file() or (place / "__init__.py").is_file()


class Report(NamedTuple):
    code: int
    text: str


def lint_imports(folder: Path) -> Report:
    # The folder comes first on the path: in the broken houses `holdall` must be theirs, not the installed one.
    command = [Path(sys.executable).parent / "lint-imports", "--no-logo", "--no-cache"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    return Report(done.returncode, done.stdout + done.stderr)


def test_every_import_runs_downhill() -> None:
    report = lint_imports(ROOT)
    assert report.code == 0, report.text


@pytest.mark.parametrize(("contract", "key"), ROOMS)
def test_a_contract_names_every_room_that_exists_and_no_other(contract: str, key: str) -> None:
    there = {f"holdall.{room}" for room in ROOMS[contract, key] if exists(room)}
    assert set(CONTRACTS[contract][key]) == there, f"mend {key} of {contract!r} in pyproject.toml"


@pytest.fixture
def small_house(tmp_path: Path) -> Path:
    """Every room that a contract can name, each empty, under the real contracts."""
    layers: list[str] = CONTRACTS["Layers: data flows one way"]["layers"]
    for room in " | ".join(layers).replace("(", "").replace(")", "").split(" | "):
        (tmp_path / "holdall" / room).mkdir(parents=True)
        (tmp_path / "holdall" / room / "__init__.py").touch()
    for module in ("__init__", "text/excerpt", "values/left", "values/right", "adapters/one", "adapters/two",
                   "extract/truncate", "store/directory", "store/memory", "store/fleet"):  # fmt: skip
        (tmp_path / "holdall" / f"{module}.py").touch()
    (tmp_path / "pyproject.toml").write_text(PYPROJECT, encoding="utf-8")
    return tmp_path


def test_an_empty_house_keeps_every_contract(small_house: Path) -> None:
    report = lint_imports(small_house)
    assert report.code == 0, report.text


@pytest.mark.parametrize(
    ("module", "line", "broken"),
    [
        ("values/left", "import holdall.store", "Layers: data flows one way"),
        ("store/disk", "import holdall.llm", "Layers: data flows one way"),
        ("attic", "", "Layers: data flows one way"),
        ("values/left", "import holdall.values.right", "No cycles between siblings"),
        ("adapters/one", "import holdall.adapters.two", "Adapters do not know each other"),
        ("text/lines", "import os", PURE),
        ("policy/decide", "from time import monotonic", PURE),
        ("store/disk", "import holdall.text.excerpt", PROTECTED),
        ("cli/read", "from holdall.store import disk", EDGES),
        ("bag/care", "from holdall.store.memory import MemoryStore", STORES),
        ("verbs/read", "import holdall.store.directory", STORES),
    ],
)
def test_a_contract_is_seen_to_break(small_house: Path, module: str, line: str, broken: str) -> None:
    (small_house / "holdall" / "values" / "right.py").write_text("import holdall.values.left\n", encoding="utf-8")
    (small_house / "holdall" / f"{module}.py").write_text(f"{line}\n", encoding="utf-8")
    report = lint_imports(small_house)
    assert report.code == 1
    assert f"{broken} BROKEN" in report.text
