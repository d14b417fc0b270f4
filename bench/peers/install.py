"""An environment of its own for each library, made with uv as ./dev finds it. No registry is named here either."""

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from bench.lab import ROOT
from bench.peers.catalogue import Library
from bench.report import say

_CERTIFICATES = ("/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/cert.pem")
_VERSION = "import sys; from importlib.metadata import version; print(version(sys.argv[1]))"


class NotInstalled(Exception):
    """A library cannot be had here. The text names neither a host nor a path: it may be published."""


def installed(library: Library, folder: Path, *, newest: bool) -> tuple[Path, str]:
    """The Python that has the library, and the version that it has. Nothing is fetched where it is there already."""
    if not library.version:
        return Path(sys.executable), ""
    place = folder / library.name
    python = place / "bin" / "python"
    found = _version(python, library.name)
    if newest or found != library.version:
        wanted = library.name if newest else f"{library.name}=={library.version}"
        say(f"installing {wanted} …")
        _uv(["venv", "--quiet", "--clear", "--python", sys.executable, str(place)])
        _uv(["pip", "install", "--quiet", "--python", str(place), wanted])
        found = _version(python, library.name)
    return python, found


def _version(python: Path, distribution: str) -> str:
    if not python.exists():
        return ""
    asked = subprocess.run([python, "-c", _VERSION, distribution], capture_output=True, text=True, check=False)
    return asked.stdout.strip()


def _uv(arguments: Sequence[str]) -> None:
    beside = ROOT / ".dev" / "uv" / "bin" / "uv"
    uv = shutil.which("uv") or (str(beside) if beside.exists() else "")
    if not uv:
        raise NotInstalled("not installed: there is no uv, neither on the path nor in .dev/uv")
    done = subprocess.run([uv, *arguments], capture_output=True, text=True, check=False, env=_environment())
    if done.returncode:
        print(done.stderr.strip(), file=sys.stderr)
        raise NotInstalled("not installed: the package registry did not give it; is there a network?")


def _environment() -> dict[str, str]:
    """As in ./dev: uv reads neither PIP_* nor pip.conf, and a machine that names its mirror there means us too."""
    given = dict(os.environ)
    if not given.get("UV_DEFAULT_INDEX") and not given.get("UV_INDEX_URL"):
        mirror = given.get("PIP_INDEX_URL") or _pip_mirror()
        given |= {"UV_DEFAULT_INDEX": mirror} if mirror else {}
    if given.get("PIP_CERT"):
        given.setdefault("SSL_CERT_FILE", given["PIP_CERT"])
    if any(Path(store).exists() for store in _CERTIFICATES):
        given.setdefault("UV_SYSTEM_CERTS", "true")
    return given


def _pip_mirror() -> str:
    python = Path(sys.base_prefix) / "bin" / "python3"  # the environment that we run in has no pip
    asked = [python, "-m", "pip", "config", "get", "global.index-url"]
    return subprocess.run(asked, capture_output=True, text=True, check=False).stdout.strip() if python.exists() else ""
