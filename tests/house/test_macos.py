"""macOS, without a Mac: what can be checked on another system. docs/stability.md says what was never run."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.house import release

ROOT = Path(__file__).parents[2]
TOOLS = Path(sys.executable).parent

# Names that only Linux has. Each is used where its absence is expected (`hasattr`, a suppressed AttributeError), which
# `test_the_library_works_without_what_only_linux_has` tries.
LINUX_ONLY = {
    "fcntl": {
        "F_ADD_SEALS", "F_GETPIPE_SZ", "F_SEAL_GROW", "F_SEAL_SEAL", "F_SEAL_SHRINK", "F_SEAL_WRITE", "F_SETPIPE_SZ",
    },
    "os": {"MFD_ALLOW_SEALING", "MFD_CLOEXEC", "getxattr", "memfd_create"},
    "resource": {"prlimit"},
}  # fmt: skip


@release.in_full  # it takes as long as a tenth of all other tests together
@pytest.mark.timeout(1800)  # all of the source in one go, on a machine that other tests keep busy
def test_every_name_that_is_used_exists_on_macos_or_is_known_not_to() -> None:
    command = [TOOLS / "pyright", "--pythonplatform", "Darwin", "--outputjson", "src"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    found = json.loads(done.stdout)["generalDiagnostics"]
    missing = {one["message"] for one in found if one.get("rule") == "reportAttributeAccessIssue"}
    assert missing == {
        f'"{name}" is not a known attribute of module "{module}"'
        for module, names in LINUX_ONLY.items()
        for name in names
    }


_TRIAL = """
import asyncio, fcntl, importlib, json, os, pkgutil, resource, sys, tempfile


def import_all():
    import holdall

    for one in pkgutil.walk_packages(holdall.__path__, "holdall."):
        if not one.name.startswith("holdall.adapters.") and one.name != "holdall.__main__":
            importlib.import_module(one.name)


import_all()  # what others wrote is imported as on Linux, since it was built for it; ours a second time, below
for name in [name for name in sys.modules if name.partition(".")[0] == "holdall"]:
    del sys.modules[name]
for module, names in json.loads(sys.argv[1]).items():
    for name in names:
        delattr(sys.modules[module], name)
sys.platform = "darwin"
import_all()
import holdall


async def main(store, home):
    async with holdall.Holdall.open(store=store, home=home, session="s") as bag:
        taken = await bag.take("".join(f"line {n}\\n" for n in range(50_000)), tool="t")
        found = await bag.grep(taken.handle, "line 4999[0-9]")
        table = await bag.query(taken.handle, "select count(*) from t")
        rows = await bag.keep('{"rows": [{"id": 1}, {"id": 2}]}', tool="t")
        nodes = await bag.query(rows.handle, path="$.rows[1].id")
        done = await bag.run(holdall.Command([sys.executable, "-c", "print('x' * 100_000)"]), tool="c")
        end = await bag.tail(done.handle)
        print(found.total, table.rows, nodes.nodes[0].text, len(end.text) > 0)


asyncio.run(main(holdall.MemoryStore(), None))
with tempfile.TemporaryDirectory() as home:
    asyncio.run(main(None, home))
"""


@pytest.mark.in_full
def test_the_library_works_without_what_only_linux_has() -> None:
    names = json.dumps({module: sorted(names) for module, names in LINUX_ONLY.items()})
    done = subprocess.run(
        [sys.executable, "-c", _TRIAL, names], capture_output=True, text=True, timeout=100, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["10 ((50000,),) 2 True"] * 2


@release.in_full
@pytest.mark.timeout(600)
def test_everything_that_is_pinned_has_a_wheel_for_macs_with_apple_silicon(tmp_path: Path) -> None:
    arguments = ["--python-platform", "aarch64-apple-darwin", "--only-binary", ":all:", "--require-hashes"]
    arguments += ["--target", str(tmp_path), "--python", sys.executable, "-r", str(ROOT / "requirements" / "run.txt")]
    try:
        release.uv("pip", "install", "--dry-run", "--quiet", *arguments)
    except release.NoRegistry as problem:
        pytest.skip(f"the package registry cannot be reached: {problem}")
