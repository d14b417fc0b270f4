"""Commands that go on after their shell: `exec --background`, `wait`, `stop`.

A background command has a keeper, a process of ours that outlives the shell: it reads the command's output, keeps it,
and holds the lock that tells everybody that it runs. Nothing has to be started for it, and nothing stays behind it.
"""

import asyncio
import json
import os
import signal
import subprocess
import sys

from holdall.cli import keep, show
from holdall.cli.options import FAULT, FOUND_NOTHING, common, look_bag
from holdall.text.numbers import age
from holdall.values.errors import StoreFault, WrongUse
from holdall.values.outputs import Facts

_STOP_SECONDS = 10.0


async def execute(
    command: list[str], tool: str, call_id: str, home: str | None, session: str | None, as_json: bool
) -> int:
    """Start a keeper and wait until it has a handle, no longer."""
    reading, writing = os.pipe()
    options = [
        *(["--home", home] if home else []), *(["--session", session] if session else []),
        *(["--tool", tool] if tool else []), *(["--call-id", call_id] if call_id else []),
        *(["--json"] if as_json else []),
    ]  # fmt: skip
    settings = [part for one in common.settings for part in ("--set", one)]
    keeper = subprocess.Popen(  # noqa: ASYNC220 - it is not waited for
        [sys.executable, "-m", "holdall", *settings, "exec", *options, "--report-to", str(writing), "--", *command],
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, pass_fds=(writing,),
        start_new_session=True,
    )  # fmt: skip
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        told = await asyncio.to_thread(pipe.read)
    if not told:
        _, problem = await asyncio.to_thread(keeper.communicate)
        sys.stderr.write(problem.decode("utf-8", "replace"))
        return keeper.returncode or FAULT
    keeper.returncode = 0  # it goes on by itself: nobody here waits for it
    handle = told.decode("ascii").strip()
    if as_json:
        show.as_json({"handle": handle, "state": "running", "keeper": keeper.pid})
    else:
        print(f"{handle} running")
    return 0


async def keep_in_background(
    command: list[str], tool: str, call_id: str, home: str | None, session: str | None, as_json: bool,
    report_to: int,
) -> int:  # fmt: skip
    """The keeper itself. Only what it complains about before it has a handle is read by anybody."""

    def report(handle: str) -> None:
        os.write(report_to, handle.encode("ascii"))
        os.close(report_to)
        # Nobody reads what we would complain about from here on: the facts of the output tell it.
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, 2)

    return await keep.execute(command, tool, call_id, home, session, as_json, report)


async def wait(
    handle: str | None, pattern: str | None, seconds: float | None, home: str | None, session: str | None, as_json: bool
) -> int:
    async with look_bag(home, session) as bag:
        running = [one for one in await bag.outputs() if one.state == "running"]
        if handle is None and pattern is not None:
            raise WrongUse("a pattern is waited for in one output: give its handle.")
        if handle is None and not running:
            if as_json:
                show.as_json({"ended": [], "matched": [], "timed_out": False})
            else:
                show.about("nothing is running")
            return FOUND_NOTHING
        chosen = [handle] if handle is not None else [one.handle for one in running]
        waits = [asyncio.ensure_future(bag.wait(one, pattern=pattern or "", timeout=seconds)) for one in chosen]
        done, others = await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        for other in others:
            other.cancel()
        waited = [one.result() for one in done]
        ended = [facts for one in waited for facts in one.ended]
        matched = [one.matched for one in waited if one.matched]
        if as_json:
            told = [facts.to_json() for facts in ended]
            show.as_json({"ended": told, "matched": matched, "timed_out": not ended and not matched})
        for facts in [] if as_json else ended:
            print(_line(facts))
        for one in [] if as_json else matched:
            show.about(f"{one}: the pattern is there: holdall grep {one} {json.dumps(pattern)}")
        if not ended and not matched and not as_json:
            show.about("still running; the time is over")
        return 0 if (matched or (ended and pattern is None)) else FOUND_NOTHING


async def stop(handle: str, home: str | None, session: str | None, as_json: bool) -> int:
    async with look_bag(home, session) as bag:
        facts = await bag.show(handle)
        if facts.state != "running":
            raise WrongUse(f"output {facts.handle} is not running: it is {facts.state}.")
        if not facts.origin.process:
            raise WrongUse(f"output {facts.handle} is a call of an agent that runs: only that agent can end it.")
        # Who holds the lock of a running output is the process that its record names: no other can have its number.
        os.kill(facts.origin.process, signal.SIGTERM)
        waited = await bag.wait(facts.handle, timeout=_STOP_SECONDS)
        if not waited.ended:
            os.kill(facts.origin.process, signal.SIGKILL)
            waited = await bag.wait(facts.handle, timeout=_STOP_SECONDS)
        if not waited.ended:
            raise StoreFault(f"output {facts.handle} is still running: process {facts.origin.process} does not end.")
        ended = waited.ended[0]
        if as_json:
            show.as_json(ended.to_json())
        else:
            print(_line(ended))
        return 0


def _line(facts: Facts) -> str:
    why = f": {facts.error}" if facts.error else ""
    took = age((facts.ended or facts.created) - facts.created)
    return f"{facts.handle} {facts.state}{why} · {keep.size_of(facts)} · {took}"
