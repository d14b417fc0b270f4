"""Starts a program of `confined` in a mount namespace of its own, or without the rights of root."""

import functools
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.faults.harness import ROOT

MOUNT = 'mount -t tmpfs -o "$0" tmpfs "$1" && shift && exec "$@"'
SECONDS = 100


@functools.cache
def way_in() -> list[str] | None:
    """How this machine lets us mount something that nobody else sees."""
    for way in (["unshare", "-m"], ["unshare", "-rm"]):
        try:
            done = subprocess.run(
                [*way, "sh", "-c", MOUNT, "size=64k", "/mnt", "true"],
                capture_output=True,
                timeout=SECONDS,
                check=False,
            )
        except FileNotFoundError:
            return None
        if done.returncode == 0:
            return way
    return None


def on_a_disk(scene: str, disk: Path, options: str) -> None:
    """The scene on a tmpfs mounted at `disk`, which must end well."""
    way = way_in()
    if way is None:
        pytest.skip("no mount namespace: neither `unshare -m` nor `unshare -rm` is permitted here (Linux only)")
    disk.mkdir()
    _must_end_well([*way, "sh", "-c", MOUNT, options, str(disk), *_program(scene, disk)])


def without_rights(scene: str, disk: Path) -> None:
    """The scene as a user who is not root: as `nobody` where we are root, else as we are."""
    disk.mkdir()
    _must_end_well([*_program(scene, disk), *(["as nobody"] if os.geteuid() == 0 else [])])


def _program(scene: str, disk: Path) -> list[str]:
    return [sys.executable, "-m", "tests.faults.confined", scene, str(disk)]


def _must_end_well(command: list[str]) -> None:
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=SECONDS, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
