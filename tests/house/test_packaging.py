"""What somebody gets who installs Holdall: few packages, every import declared, types included."""

import ast
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Iterator
from email.parser import Parser
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import holdall

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def requirements_of(name: str, extras: frozenset[str]) -> list[Requirement]:
    """The direct requirements of an installed package on this system, with these of its extras."""
    lines = metadata.requires(name) or []
    environments = [{"extra": extra} for extra in extras or {""}]
    wanted = [Requirement(line) for line in lines]
    return [r for r in wanted if r.marker is None or any(r.marker.evaluate(env) for env in environments)]


def installed_with(name: str) -> set[str]:
    """Every package that a plain `pip install` of this one leaves behind, itself included."""
    found = {str(canonicalize_name(name))}
    waiting = [(name, frozenset[str]())]
    seen = set(waiting)
    while waiting:
        package, extras = waiting.pop()
        for requirement in requirements_of(package, extras):
            found.add(canonicalize_name(requirement.name))
            if (entry := (requirement.name, frozenset(requirement.extras))) not in seen:
                seen.add(entry)
                waiting.append(entry)
    return found


def test_a_plain_install_is_fewer_than_15_packages() -> None:
    packages = installed_with("holdall")
    assert {
        "duckdb",
        "typer",
        "mdurl",
    } <= packages  # mdurl is three steps away: the walk goes all the way down
    assert len(packages) < 15, sorted(packages)


def test_the_extra_called_all_brings_every_other_extra_but_those_of_frameworks() -> None:
    extras: dict[str, list[str]] = PROJECT["optional-dependencies"]
    (everything,) = map(Requirement, extras["all"])
    frameworks = {file.stem.replace("_", "-") for file in (ROOT / "requirements" / "adapters").glob("*.in")} - {"bare"}
    assert everything.name == "holdall"
    assert frameworks <= extras.keys()
    assert everything.extras == extras.keys() - {"all"} - frameworks


NEWER_STANDARD_LIBRARY = {"annotationlib"}
"""Modules that Python has got since 3.11, imported only where it has them."""


FRAMEWORKS = {
    "agent_framework": "agent-framework-core",
    "agents": "openai-agents",
    "claude_agent_sdk": "claude-agent-sdk",
    "google": "google-adk",
    "strands": "strands-agents",
}
"""Whose packages are not in this environment, by what an adapter imports."""


def modules_imported_by(file: Path) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(ast.parse(file.read_bytes())):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            names.add(node.module)
    return {name.partition(".")[0] for name in names}


def test_every_import_of_another_package_is_declared_as_a_dependency_or_an_extra() -> None:
    groups: list[list[str]] = [PROJECT["dependencies"], *PROJECT["optional-dependencies"].values()]
    declared = {canonicalize_name(Requirement(line).name) for group in groups for line in group}
    owners = {**{module: [package] for module, package in FRAMEWORKS.items()}, **metadata.packages_distributions()}
    undeclared = [
        f"{file.relative_to(ROOT)}: {module}"
        for file in sorted((ROOT / "src").rglob("*.py"))
        for module in modules_imported_by(file) - sys.stdlib_module_names - NEWER_STANDARD_LIBRARY - {"holdall"}
        if not declared & {canonicalize_name(owner) for owner in owners.get(module, [])}
    ]
    assert undeclared == []


def test_the_version_is_the_same_everywhere() -> None:
    assert holdall.__version__ == PROJECT["version"] == metadata.version("holdall")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[zipfile.ZipFile]:
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(folder)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    (file,) = folder.glob("*.whl")
    with zipfile.ZipFile(file) as opened:
        yield opened


def test_the_wheel_is_typed_and_holds_every_module_and_nothing_else(wheel: zipfile.ZipFile) -> None:
    source = ROOT / "src"
    expected = {str(file.relative_to(source)) for file in source.rglob("*") if file.suffix in {".py", ".typed"}}
    packed = {name for name in wheel.namelist() if ".dist-info/" not in name}
    assert "holdall/py.typed" in packed
    assert {name for name in packed if name.endswith((".py", ".typed"))} == expected
    assert all(name.startswith("holdall/") for name in packed)


def test_the_wheel_states_its_licence_and_its_command(wheel: zipfile.ZipFile) -> None:
    about = f"holdall-{PROJECT['version']}.dist-info"
    described = Parser().parsestr(wheel.read(f"{about}/METADATA").decode())
    assert described["License-Expression"] == "Apache-2.0"
    assert wheel.read(f"{about}/licenses/LICENSE") == (ROOT / "LICENSE").read_bytes()
    assert "holdall = holdall.__main__:main" in wheel.read(f"{about}/entry_points.txt").decode()
