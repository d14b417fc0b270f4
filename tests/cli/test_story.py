"""The main job as a person does it: ten megabytes on one line, paged back, and a needle found in the middle."""

import base64
import json
import os
import shutil
import subprocess
from typing import Any

import pytest

from tests.cli.program import PROGRAM, Program
from tests.requirements import requirement

TEN_MEGABYTES = 10 * 1024 * 1024


@requirement("read:every-byte-reachable", "read:long-single-line", "grep:window", "store:no-cut-at-10-mb")
def test_ten_megabytes_on_one_line_come_back_by_pages_and_a_needle_is_found(holdall: Program) -> None:
    line = bytearray(base64.b64encode(os.urandom(TEN_MEGABYTES)))
    middle = len(line) // 2
    line[middle : middle + 8] = b"<NEEDLE>"
    data = bytes(line)
    handle = holdall.put(data)

    got, at, step = bytearray(), 0, 2_000_000
    while at < len(data):
        page = holdall("read", handle, "--bytes", f"{at}:{at + step}")
        assert page.code == 0
        got += page.out
        at += step
    assert bytes(got) == data

    found = holdall("grep", handle, "<NEEDLE>", "--json")
    assert len(found.out) < 4096
    (match,) = found.json["matches"]
    assert match["byte"] == middle
    assert holdall("read", handle, "--bytes", f"{match['byte']}:{match['end']}").out == b"<NEEDLE>"
    assert len(holdall("grep", handle, "<NEEDLE>").out) < 4096


@pytest.mark.in_full(one_in=3)
@requirement("store:handle-confined", "store:handle-grammar")
@pytest.mark.skipif(shutil.which("strace") is None, reason="strace is not installed")
@pytest.mark.parametrize("handle", ["../../../etc/passwd", "/etc/passwd", "/proc/self/environ", "file:///etc/passwd"])
def test_a_hostile_handle_never_reaches_the_file_system(holdall: Program, handle: str) -> None:
    holdall.put(b"x")
    trace = holdall.home.parent / "trace"
    command = ["strace", "-f", "-o", str(trace), "-e", "trace=file", PROGRAM, "read", handle]
    ran = subprocess.run(command, env=holdall.environment(), capture_output=True, check=False, timeout=60)
    if b"ptrace" in ran.stderr:
        pytest.skip("strace may not trace here")
    assert ran.returncode == 2
    opened = [line for line in trace.read_text("utf-8", "replace").splitlines() if "execve(" not in line]
    assert opened
    assert not [line for line in opened if f'"{handle}' in line or handle.strip("./") + '"' in line]


@requirement("store:128-random-bits")
def test_sequential_guesses_at_long_handles_never_hit(holdall: Program) -> None:
    told = holdall("put", "--json", stdin=b"x").json
    session, _, id = told["long_handle"].partition("/")
    assert len(session.removeprefix("session-").replace("-", "") + id.replace("-", "")) * 4 == 256
    last = int(id[-6:], 16)
    guesses = [f"{session}/{id[:-6]}{(last + step) % 2**24:06x}" for step in range(1, 30)]
    assert {holdall("cat", guess).code for guess in guesses} == {2}
    assert holdall("cat", told["long_handle"]).out == b"x"


@requirement("measure:flat-memory", "read:every-byte-reachable")
def test_store_014_one_very_long_line_is_kept_in_flat_memory_and_comes_back(holdall: Program) -> None:
    """A gigabyte in full (HOLDALL_TEST_FULL), a sixteenth of it by default."""
    size = 1 << 30 if os.environ.get("HOLDALL_TEST_FULL") else 1 << 26
    told, peak = _put_and_peak(holdall, f"head -c {size} /dev/zero | tr '\\0' x", size)
    nothing, least = _put_and_peak(holdall, "true", 0)
    assert nothing["facts"]["bytes"] == 0
    assert peak - least < 32 * 1024  # kilobytes
    assert (told["facts"]["lines"], told["facts"]["longest_line"]) == (1, size)
    assert len(told["notice"]) < 2000
    sums = f"{PROGRAM} cat {told['handle']} | sha256sum; head -c {size} /dev/zero | tr '\\0' x | sha256sum"
    ran = subprocess.run(["bash", "-c", sums], env=holdall.environment(), capture_output=True, check=True, timeout=100)
    assert len(set(ran.stdout.split())) == 2  # one hash, twice, and the dash of sha256sum
    assert holdall("read", told["handle"], "--bytes", f"{size - 3}:").out == b"xxx"


def _put_and_peak(holdall: Program, source: str, size: int) -> tuple[dict[str, Any], int]:
    """What `put` told of what `source` printed, and the most memory that it had, in kilobytes."""
    making = subprocess.Popen(["bash", "-c", source], stdout=subprocess.PIPE)
    keeping = subprocess.Popen(
        [PROGRAM, "put", "--json"], stdin=making.stdout, stdout=subprocess.PIPE, env=holdall.environment()
    )
    assert making.stdout is not None
    assert keeping.stdout is not None
    making.stdout.close()
    told = json.loads(keeping.stdout.read())
    keeping.stdout.close()
    _, status, usage = os.wait4(keeping.pid, 0)
    keeping.returncode = os.waitstatus_to_exitcode(status)
    assert (keeping.returncode, making.wait(timeout=100)) == (0, 0)
    assert told["facts"]["bytes"] == size
    return told, usage.ru_maxrss
