"""A release as it would go out: wheel and sdist, tried in fresh environments, and the licences of what they bring.

`./dev release` leaves them in .dev/release. Nothing is uploaded.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / ".dev" / "release"
_OWN_UV = ROOT / ".dev" / "uv" / "bin" / "uv"
_UNREACHABLE = re.compile(r"dns error|Connection refused|timed out|network|Failed to fetch|tcp connect", re.IGNORECASE)
_PINNED = re.compile(r"^([a-z0-9][\w.-]*)==(\S+?)(?: ; (.+?))? \\$", re.MULTILINE)


class NoRegistry(Exception):
    """There is nothing to install from."""


IN_FULL = (
    pytest.mark.registry,
    pytest.mark.skipif("HOLDALL_TEST_FULL" not in os.environ, reason="only with `./dev test registry`"),
)
"""For tests that ask the package registry, as no others do, or that take minutes and change little between releases."""


def in_full(test: object) -> object:
    for mark in IN_FULL:
        test = mark(test)
    return test


def uv(*arguments: str | Path, stdin: str = "") -> str:
    """What it prints. Raises NoRegistry if that cannot be reached."""
    program = str(_OWN_UV) if _OWN_UV.exists() else "uv"  # as ./dev has it
    done = subprocess.run(
        [program, *arguments], input=stdin, cwd=ROOT, capture_output=True, text=True, check=False, timeout=500
    )
    if done.returncode and _UNREACHABLE.search(done.stderr):
        raise NoRegistry(done.stderr.strip().splitlines()[-1])
    assert done.returncode == 0, done.stderr
    return done.stdout


def build(folder: Path, source: Path = ROOT, target: str = "") -> Path:
    """Both, or one of them. The backend is the pinned one of this environment: nothing is fetched."""
    only = ("--target", target) if target else ()
    command = [sys.executable, "-m", "hatchling", "build", *only, "--directory", str(folder)]
    done = subprocess.run(command, cwd=source, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return next(folder.glob("*.whl" if target == "wheel" else "*.tar.gz"))


def try_fresh(package: Path, extras: str, folder: Path) -> str:
    """Install it where nothing else is, and use it as its reader would. Raises NoRegistry."""
    environment = folder / "environment"
    uv("venv", "--quiet", "--clear", "--python", sys.executable, environment)
    uv("pip", "install", "--quiet", "--python", environment, f"holdall{extras} @ {package.as_uri()}")
    given = {
        "PATH": f"{environment / 'bin'}:{os.environ['PATH']}",
        "HOME": str(folder),
        "HOLDALL_HOME": str(folder / "kept"),
    }
    said: list[str] = []
    for command in (
        "holdall --version",
        "seq 100000 | holdall put --tool count",
        "holdall ls --json >ls.json",
        """holdall grep $(python -c 'import json; print(json.load(open("ls.json"))["outputs"][0]["handle"])') '^99999$'""",
        "holdall doctor",
    ):
        done = subprocess.run(
            command, shell=True, cwd=folder, env=given, capture_output=True, text=True, check=False, timeout=100
        )
        assert done.returncode == 0, f"$ {command}\n{done.stdout}{done.stderr}"
        said.append(done.stdout)
    assert "handle: " in "\n".join(said)
    assert ":99999" in said[3]
    return said[0].strip()


def licences() -> str:
    """As a page: of each package of requirements/run.txt, by what its own metadata says."""
    rows = [
        "# Licences",
        "",
        "Of everything that `holdall[all]` brings, as pinned, by its own metadata.",
        "",
    ]
    rows += ["| package | version | licence |", "|---|---|---|"]
    rows += [f"| {name} | {version} | {licence} |" for name, version, licence in found_licences()]
    return "\n".join(rows) + "\n"


def found_licences() -> Iterator[tuple[str, str, str]]:
    for name, version, condition in _PINNED.findall((ROOT / "requirements" / "run.txt").read_text("utf-8")):
        try:
            yield name, version, licence_in(metadata.metadata(name)) or "not said"
        except metadata.PackageNotFoundError:
            yield name, version, f"not installed here ({condition})"


def licence_in(described: "metadata.PackageMetadata") -> str:
    """The expression of PEP 639; else the classifiers, or the old field where that is a name and not a text."""
    if described["License-Expression"]:
        return described["License-Expression"]
    classified = [one for one in described.get_all("Classifier") or [] if one.startswith("License ::")]
    written = described["License"] or ""
    short = written if "\n" not in written and 0 < len(written) < 60 and written != "UNKNOWN" else ""
    return short or ", ".join(one.rpartition(" :: ")[2] for one in classified)


def main() -> None:
    shutil.rmtree(FOLDER, ignore_errors=True)
    FOLDER.mkdir(parents=True)
    build(FOLDER)
    (FOLDER / "LICENCES.md").write_text(licences(), "utf-8")
    for package, extras in ((next(FOLDER.glob("*.whl")), ""), (next(FOLDER.glob("*.tar.gz")), "[all]")):
        with tempfile.TemporaryDirectory() as folder:
            try:
                print(
                    f"{package.name}{extras}: works in a fresh environment, {try_fresh(package, extras, Path(folder))}"
                )
            except NoRegistry as problem:
                print(f"{package.name}{extras}: NOT tried, as the package registry cannot be reached: {problem}")
    print(*sorted(str(one.relative_to(ROOT)) for one in FOLDER.iterdir()), sep="\n")


if __name__ == "__main__":
    main()
