"""The layers of ARCHITECTURE.md, proved by import-linter with the contracts in pyproject.toml.

A contract that cannot fail proves nothing, so each is also shown a small house in which it is broken.
"""

import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parents[2]
PYPROJECT = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
CONTRACTS = {contract["name"]: contract for contract in tomllib.loads(PYPROJECT)["tool"]["importlinter"]["contracts"]}

LAYERS = "Layers: data flows one way"
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
    return build_house(tmp_path)


def build_house(folder: Path) -> Path:
    """Every room that a contract can name, each empty, under the real contracts."""
    layers: list[str] = CONTRACTS[LAYERS]["layers"]
    for room in " | ".join(layers).replace("(", "").replace(")", "").split(" | "):
        (folder / "holdall" / room).mkdir(parents=True)
        (folder / "holdall" / room / "__init__.py").touch()
    for module in ("__init__", "text/excerpt", "values/left", "values/right", "adapters/one", "adapters/two",
                   "extract/truncate", "store/directory", "store/memory", "store/fleet"):  # fmt: skip
        (folder / "holdall" / f"{module}.py").touch()
    (folder / "pyproject.toml").write_text(PYPROJECT, encoding="utf-8")
    return folder


def test_an_empty_house_keeps_every_contract(small_house: Path) -> None:
    report = lint_imports(small_house)
    assert report.code == 0, report.text


BREAKS = [  # a module, a line in it, the contract that it breaks, and how the report names it there
    ("values/left", "import holdall.store", LAYERS, "holdall.values.left -> holdall.store (l.1)"),
    ("store/disk", "import holdall.llm", LAYERS, "holdall.store.disk -> holdall.llm (l.1)"),
    ("attic", "", LAYERS, "not listed as layers:\n\n- holdall.attic\n"),
    ("values/left", "import holdall.values.right", "No cycles between siblings", ".right -> .left (1 import)"),
    ("values/right", "import holdall.values.left", "No cycles between siblings", "in holdall.values."),
    ("adapters/one", "import holdall.adapters.two", "Adapters do not know each other",
     "holdall.adapters.one -> holdall.adapters.two (l.1)"),
    ("text/lines", "import os", PURE, "holdall.text.lines -> os (l.1)"),
    ("policy/decide", "from time import monotonic", PURE, "holdall.policy.decide -> time (l.1)"),
    ("store/disk", "import holdall.text.excerpt", PROTECTED, "holdall.store.disk -> holdall.text.excerpt (l.2)"),
    ("cli/read", "from holdall.store import disk", EDGES, "holdall.cli.read -> holdall.store.disk (l.1)"),
    ("bag/care", "from holdall.store.memory import MemoryStore", STORES, "holdall.bag.care -> holdall.store.memory (l.1)"),
    ("verbs/read", "import holdall.store.directory", STORES, "holdall.verbs.read -> holdall.store.directory (l.1)"),
]  # fmt: skip


@pytest.fixture(scope="module")
def broken(tmp_path_factory: pytest.TempPathFactory) -> Report:
    """A house in which everything is wrong at once: a run for each would cost more than all other gates but one."""
    folder = build_house(tmp_path_factory.mktemp("broken"))
    for module, line, _, _ in BREAKS:
        with (folder / "holdall" / f"{module}.py").open("a", encoding="utf-8") as file:
            file.write(f"{line}\n")
    return lint_imports(folder)


@pytest.mark.parametrize(("module", "line", "contract", "named"), BREAKS)
def test_a_contract_is_seen_to_break(broken: Report, module: str, line: str, contract: str, named: str) -> None:
    assert broken.code == 1
    assert f"{contract} BROKEN" in broken.text
    _, _, after = broken.text.partition(f"\n{contract}\n{'-' * len(contract)}\n")
    assert named in re.split(r"\n-{10,}\n", after)[0]
