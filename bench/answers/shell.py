"""A shell for a model, confined: it has the programs of the machine, one output that it cannot write, and a scratch
folder. No network, no other file, no process of the host, no privilege; bounded in time, memory and what is shown.

Confined by namespaces (`unshare` of util-linux: user, mount, network, pid, ipc) with a root of its own that has nothing
else mounted, and without capabilities (`setpriv`). Where the machine refuses that, `problem` says so, and nothing runs.
"""

import asyncio
import contextlib
import os
import shlex
import shutil
import signal
from dataclasses import dataclass
from pathlib import Path

TOOLS = ("unshare", "setpriv", "prlimit", "mount", "umount", "pivot_root")
_PATH = "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"
FOLDER = "/output"
SECONDS, SHOWN_BYTES, SCRATCH_BYTES = 20.0, 8_192, 64 * 2**20
_CHUNK = 64 * 1024

# Runs as the first process of its namespaces. What is bound is bound without write, devices and set-uid.
_ENTER = r"""
set -e
root=$1 file=$2 scratch=$3 name=$4
shift 4
mount -t tmpfs -o size=1m,mode=755,nosuid,nodev tmpfs "$root"
cd "$root"
mkdir dev proc etc tmp output scratch old
bound() { mount --bind "$1" "$2"; mount -o "remount,bind,nosuid$3" "$2"; }
for at in usr bin sbin lib lib32 lib64; do
    if [ -L "/$at" ]; then cp -P "/$at" "$at"
    elif [ -d "/$at" ]; then mkdir "$at"; bound "/$at" "$at" ,nodev,ro
    fi
done
for at in alternatives ld.so.cache; do
    if [ -d "/etc/$at" ]; then mkdir "etc/$at"; bound "/etc/$at" "etc/$at" ,nodev,ro
    elif [ -f "/etc/$at" ]; then : >"etc/$at"; bound "/etc/$at" "etc/$at" ,nodev,ro
    fi
done
for at in null zero urandom; do : >"dev/$at"; bound "/dev/$at" "dev/$at" ""; done
: >"output/$name"
bound "$file" "output/$name" ,nodev,ro
bound "$scratch" scratch ,nodev
mount -t proc -o nosuid,nodev,noexec proc proc 2>/dev/null || :  # refused where the host hides parts of its own
pivot_root . old
umount -l old
rmdir old
mount -o remount,bind,ro,nosuid,nodev /
cd /scratch
unset OLDPWD
exec setpriv --no-new-privs --bounding-set=-all --inh-caps=-all --ambient-caps=-all -- "$@"
"""
_LIMITS = ("--as=2147483648", "--fsize=33554432", "--cpu=20", "--nproc=512")  # bytes, bytes, seconds, processes


@dataclass(frozen=True, slots=True)
class Shell:
    """One output, `file`, and the scratch folder of one question. `folder` is for both, and empty otherwise."""

    folder: Path
    file: Path
    confined: bool = True
    seconds: float = SECONDS

    @property
    def shown_path(self) -> str:
        return f"{FOLDER}/{self.file.name}" if self.confined else str(self.file)

    async def run(self, command: str) -> str:
        """What it printed, both streams together; how it ended, where that was not well."""
        scratch, root = self.folder / "scratch", self.folder / "root"
        for each in (scratch, root):
            each.mkdir(exist_ok=True)
        argv = ("prlimit", *_LIMITS, "--", "/bin/sh", "-c", command)
        if self.confined:
            namespaces = ("--user", "--map-root-user", "--mount", "--net", "--pid", "--ipc", "--fork", "--kill-child")
            places = (str(root), str(self.file), str(scratch), self.file.name)
            argv = ("unshare", *namespaces, "--", "/bin/sh", "-c", _ENTER, "sh", *places, *argv)
        process = await asyncio.create_subprocess_exec(
            *argv, cwd=scratch, stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT, start_new_session=True,
            env={"PATH": _PATH, "HOME": "/scratch" if self.confined else str(scratch), "LC_ALL": "C.UTF-8"},
        )  # fmt: skip
        said, total, late = await self._output(process)
        text = said.decode("utf-8", "replace")
        if total > len(said):
            text += f"\n[{total - len(said):,} more bytes are not shown: narrow the command]"
        if late:
            text += f"\n[stopped after {self.seconds:g} s]"
        elif process.returncode:
            text += f"\n[exit code {process.returncode}]"
        return (text + self._emptied(scratch)).strip() or "[no output]"

    async def _output(self, process: asyncio.subprocess.Process) -> tuple[bytes, int, bool]:
        """The first bytes, how many there were, and whether its time was over."""
        assert process.stdout is not None
        said, total, late = b"", 0, False
        try:
            async with asyncio.timeout(self.seconds):
                while chunk := await process.stdout.read(_CHUNK):
                    total += len(chunk)
                    said += chunk[: SHOWN_BYTES - len(said)]
                await process.wait()
        except TimeoutError:
            late = True
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            await process.wait()
        return said, total, late

    def _emptied(self, scratch: Path) -> str:
        """A limit for one file does not limit all of them."""
        sizes = (each.lstat().st_size for each in scratch.rglob("*"))
        if sum(sizes) <= SCRATCH_BYTES:
            return ""
        shutil.rmtree(scratch)
        return f"\n[the scratch folder held more than {SCRATCH_BYTES // 2**20} MB and was emptied]"


async def problem(folder: Path) -> str:
    """Why a shell cannot be confined on this machine; empty where it can. It is tried, not assumed."""
    if missing := [tool for tool in TOOLS if shutil.which(tool, path=_PATH) is None]:
        return f"{', '.join(missing)} of util-linux not installed"
    probe = folder / "probe"
    probe.write_text("inside\n", "utf-8")
    # The host's folder is not there, and no interface but its own loopback is (two lines of heads before it).
    said = await Shell(folder, probe).run(
        f"cat {FOLDER}/probe; ls {shlex.quote(str(folder))}; tail -n +4 /proc/net/dev"
    )
    if not said.startswith("inside\n"):
        return f"the namespaces were refused: {said[:200]}"
    seen = [line for line in said.split("\n")[1:] if "cannot access" not in line and "exit code" not in line]
    return f"more than expected can be seen inside: {seen}" if seen else ""
