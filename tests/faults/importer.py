"""A program that imports bundles, or removes outputs, and is disturbed at one step. It reads tasks from standard input, one JSON line each.

For each it forks a process of its own, which is the one that is killed, and answers with a line of JSON: that
process's status, and what it said.
"""

import json
import os
import signal
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

from holdall.store.bundle.restore import import_bundle
from holdall.store.bundle.stream import open_bundle
from holdall.store.directory.store import DirectoryStore
from holdall.values.errors import HoldallError
from tests.faults.hooks import Fault, Hooks

SECONDS_AT_MOST = 60


def run(task: dict[str, Any]) -> dict[str, Any]:
    fault = Fault(task["number"], task["mode"]) if task["number"] else None
    hooks = Hooks(fault, record=False)
    hooks.install()
    try:
        with closing(DirectoryStore(task["home"])) as store:
            if "removed" in task:
                remove(store, task["removed"])
            else:
                with open_bundle(task["bundle"]) as read:
                    import_bundle(store, read)
    except HoldallError as problem:
        return {"refused": type(problem).__name__, "message": str(problem), "steps": hooks.taken}
    return {"steps": hooks.taken}


def remove(store: DirectoryStore, call_ids: list[str]) -> None:
    """Outputs of the session "s1", or all of it where none are named."""
    session = store.open_session("s1")
    if call_ids:
        store.remove(session, [store.resolve(session, one) for one in call_ids])
    else:
        store.remove_session(session)


def serve() -> None:
    for line in sys.stdin:
        task: dict[str, Any] = json.loads(line)
        told = Path(task["report"])
        child = os.fork()
        if child == 0:
            signal.alarm(SECONDS_AT_MOST)
            try:
                os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # what the hooks say of the fault that fires
                done = json.dumps(run(task))
                told.write_text(done)
            except BaseException as problem:
                sys.excepthook(type(problem), problem, problem.__traceback__)
                os._exit(70)
            os._exit(0)
        _, status = os.waitpid(child, 0)
        said: dict[str, Any] = json.loads(told.read_text()) if told.exists() else {}
        told.unlink(missing_ok=True)
        print(json.dumps({"status": os.waitstatus_to_exitcode(status), **said}), flush=True)


if __name__ == "__main__":
    serve()
