"""Several processes in one store, and a stream that is larger than the memory it may take."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from textwrap import dedent

import pytest

from holdall.store.directory import upkeep
from holdall.store.directory.store import DirectoryStore
from holdall.values.errors import SessionLocked
from tests.requirements import requirement
from tests.store.support import payload, read_back

WRITERS = 3
EACH = 15

WRITER = """
    import json, sys
    from holdall.store.directory.store import DirectoryStore
    from holdall.values.outputs import Origin

    home, name = sys.argv[1:]
    store = DirectoryStore(home)
    print("ready", flush=True)
    sys.stdin.readline()  # all of them start at once
    own, shared = store.open_session(f"own {name}"), store.open_session("shared")
    kept = []
    for number in range(%d):
        for session in (own, shared):
            text = f"{name} {number}"
            facts = store.put(session, [text.encode()], Origin(call_id=text))
            kept.append([session.name, facts.handle, text])
        kept.append(["shared", store.put(shared, [b"the same"], Origin()).handle, "the same"])
    store.close()
    print(json.dumps(kept))
"""


@requirement("store:several-processes", "session:several-writers")
def test_several_processes_keep_outputs_in_one_session_and_none_is_lost(home: Path) -> None:
    writers = [
        subprocess.Popen(
            [sys.executable, "-c", dedent(WRITER % EACH), str(home), str(number)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for number in range(WRITERS)
    ]
    for writer in writers:
        assert writer.stdout is not None
        assert writer.stdout.readline() == "ready\n"
    kept: list[tuple[str, str, str]] = []
    for writer in writers:
        assert writer.stdin is not None
        writer.stdin.write("go\n")
        writer.stdin.flush()
    for writer in writers:
        told, _ = writer.communicate(timeout=60)
        assert writer.returncode == 0
        kept += [tuple(one) for one in json.loads(told)]

    store = DirectoryStore(str(home))
    sessions = {session.name: session for session in store.sessions()}
    assert set(sessions) == {"shared", *(f"own {number}" for number in range(WRITERS))}
    shared = [handle for name, handle, _ in kept if name == "shared"]
    assert len(shared) == len(set(shared)) == len(store.outputs(sessions["shared"])) == 2 * WRITERS * EACH
    for name, handle, text in kept:
        facts = store.resolve(sessions[name], handle)
        assert read_back(store, facts) == text.encode()
        if text != "the same":
            assert store.resolve(sessions[name], text) == facts
    assert len(payload(home, sessions["shared"])) == WRITERS * EACH + 1
    assert [verdict.problem for verdict in upkeep.verify(store) if verdict.problem] == []
    assert upkeep.sweep(store) == upkeep.Sweep()
    store.close()


STREAM = """
    import os, sys
    from holdall.store.directory.store import DirectoryStore
    from holdall.store.sources import Source
    from holdall.values.outputs import Origin

    def peak():
        # Not from `resource`: its maximum begins with that of the process that started this one.
        with open("/proc/self/status") as status:
            return next(int(line.split()[1]) for line in status if line.startswith("VmHWM"))

    def parts(megabytes):
        block = os.urandom(65536 - 40) + "a line of é text\\n".encode() * 2
        for number in range(16 * megabytes):
            yield number.to_bytes(4, "big") + block

    store = DirectoryStore(sys.argv[1])
    session = store.open_session("s")
    store.put(session, Source(parts(8)), Origin())  # everything is loaded, the threads have run once
    before = peak()
    if sys.argv[3] == "pipe":
        source = Source(sys.stdin.buffer)
    else:
        source = Source(parts(int(sys.argv[2])))
    facts = store.put(session, source, Origin())
    print(facts.measure.bytes, peak() - before)
    store.close()
"""


@requirement("measure:flat-memory")
@pytest.mark.skipif(sys.platform != "linux", reason="reads the peak from /proc")
def test_memory_stays_flat_while_a_stream_is_kept(home: Path) -> None:
    """96 MB from an iterator; in full, 1 GB through a pipe as well."""
    forms = [("96", "iterator")]
    if os.environ.get("HOLDALL_TEST_FULL"):
        forms.append(("1024", "pipe"))
    for megabytes, form in forms:
        command = [sys.executable, "-c", dedent(STREAM), str(home), megabytes, form]
        feed = f"head -c {int(megabytes) * 1024 * 1024} /dev/urandom" if form == "pipe" else "true"
        feeder = subprocess.Popen(["sh", "-c", feed], stdout=subprocess.PIPE)
        done = subprocess.run(command, stdin=feeder.stdout, capture_output=True, text=True, check=True, timeout=110)
        assert feeder.stdout is not None
        feeder.stdout.close()
        feeder.wait()
        kept, grown = map(int, done.stdout.split())
        assert kept >= int(megabytes) * 1024 * 1000
        assert grown <= 32 * 1024


@requirement("session:lease", "session:lease-says-who")
def test_a_killed_process_holds_nothing(tmp_path: Path) -> None:
    code = """
        import sys
        from holdall.store.directory.store import DirectoryStore
        store = DirectoryStore(sys.argv[1])
        with store.lease(store.open_session("s1"), "the one that dies"):
            print("held", flush=True)
            sys.stdin.read()
    """
    home = str(tmp_path / "home")
    child = subprocess.Popen(
        [sys.executable, "-c", dedent(code), home], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert child.stdout is not None
    assert child.stdout.readline() == "held\n"
    store = DirectoryStore(home)
    session = store.open_session("s1")
    with pytest.raises(SessionLocked, match="the one that dies"), store.lease(session, "second"):
        pytest.fail("it is held")
    os.kill(child.pid, signal.SIGKILL)
    child.communicate(timeout=100)
    with store.lease(session, "second"):
        pass
