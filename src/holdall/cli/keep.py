"""`put`, `exec`, `wait` and `stop`: keep what comes in, show what a model would see, continue after the shell."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import math
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from base64 import b64encode
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Annotated, Any, BinaryIO

import typer

from holdall.cli import progress, show
from holdall.cli.options import FAULT, FOUND_NOTHING, WRONG_USE, Handle, Options, command, print_error, reader_in
from holdall.cli.streams import StandardInput, StdoutError, drop_output
from holdall.text.escape import one_line, shell_quoted
from holdall.text.numbers import age, plural, size
from holdall.values.errors import HoldallError, QuotaReached, StoreFault, UsageError, json_name
from holdall.wire.verbs import WAIT

if TYPE_CHECKING:
    from holdall.bag import Holdall
    from holdall.values.outputs import Facts, State
    from holdall.values.spans import Totals
    from holdall.wire.answers import Waited

app = typer.Typer(rich_markup_mode=None)
_PIPE_BYTES = 1024 * 1024
_PATIENCE = 2.0  # seconds between asking a command to end and ending it
_NOT_FOUND, _NOT_EXECUTABLE, _BY_SIGNAL = 127, 126, 128


Tool = Annotated[str, typer.Option("--tool", help="Name of the tool that made the output.")]
CallId = Annotated[str, typer.Option("--call-id", help="Id of the call; it works like a handle afterwards.")]
Kind = Annotated[
    str, typer.Option("--kind", help="What text is read as: csv, log, json…; else it is told by its looks.")
]


@command(app)
async def put(
    options: Options,
    files: Annotated[
        list[str] | None, typer.Argument(metavar="[FILE]...", help="Files to keep; - is standard input (the default).")
    ] = None,
    tool: Tool = "",
    call_id: CallId = "",
    kind: Kind = "",
) -> int:
    """Keep files, or standard input; print what a model would see.

    Each file gets a handle, in their order. The name of a file is that of its tool, unless --tool says another. A file
    that cannot be read is reported, the others are kept, and the exit code is not 0.

    \b
    Example:  curl -s https://example.com/big.json | holdall put --tool fetch
              holdall put access.log error.log
    """
    if kind:
        _check_kind(kind)
    if not files or files == ["-"]:
        return await _put_stdin(options, tool, call_id, kind)
    if call_id and len(files) > 1:
        raise UsageError(f"a call id names one output, and there are {len(files):,} files: put them one by one.")
    if files.count("-") > 1:
        raise UsageError("standard input can be read once: name - once.")
    told: list[dict[str, Any]] = []
    codes: list[int] = []

    def refused(name: str, problem: HoldallError | OSError) -> tuple[dict[str, Any], int]:
        if isinstance(problem, StdoutError | BrokenPipeError):
            raise problem
        known = _cannot_read(name, problem) if isinstance(problem, OSError) else problem
        if not options.as_json or len(files) == 1:
            print_error(known, as_json=options.as_json)
        code = FAULT if isinstance(known, StoreFault) else WRONG_USE
        return {"file": name, "error": json_name(known), "message": str(known)}, code

    async with contextlib.AsyncExitStack() as session:
        bag: Holdall | None = None
        for name in files:
            by = tool or os.path.basename(name.rstrip("/")) * (name != "-")
            try:
                _check_may_be_stored(options, by)
                file = StandardInput("put") if name == "-" else _opened(name)
            except (HoldallError, OSError) as problem:
                flat, code = refused(name, problem)
            else:  # only now: to open the session may change how long all that is in it is kept
                bag = bag or await session.enter_async_context(options.open_bag())
                try:
                    flat, code = await _put_file(options, bag, file, name, (by, call_id, kind))
                except (HoldallError, OSError) as problem:
                    flat, code = refused(name, problem)
            told.append(flat)
            codes.append(code)
            if code > _BY_SIGNAL:  # whoever ends it does not want the others
                break
    if options.as_json and len(files) > 1:
        show.as_json({"outputs": told})
    elif options.as_json and not any(codes):
        show.as_json(told[0])
    return max(codes)


async def _put_file(
    options: Options, bag: Holdall, file: BinaryIO | StandardInput, name: str, origin: tuple[str, str, str]
) -> tuple[dict[str, Any], int]:
    """Keep one file, and print it unless all is told as JSON. Its JSON, and the exit code."""
    tool, call_id, kind = origin
    if isinstance(file, StandardInput):
        async with file.interrupted_by_signals():
            facts = await _keep_stdin(options, bag, file, tool, call_id, kind)
        ended_by = file.ended_by
    else:
        with file:
            total, doing = os.fstat(file.fileno()).st_size, f"keeping {one_line(name, 60)}"
            with progress.bytes_done(doing, total, quiet=options.as_json) as tick:
                facts = await bag.keep(
                    file, tool=tool, arguments={"file": name}, call_id=call_id, kind=kind, progress=tick
                )
        ended_by = 0
    flat = {"file": name} | await _told(bag, facts) if options.as_json else {}
    return flat, await _reported(options, bag, facts, ended_by, name)


def _opened(name: str) -> BinaryIO:
    if os.path.isdir(name):
        raise UsageError(
            f"{one_line(name, 200)} is a folder, and put keeps files: name those in it, as {name.rstrip('/')}/*."
        )
    return open(name, "rb", buffering=0)  # type: ignore[return-value]


def _cannot_read(name: str, problem: OSError) -> UsageError:
    reason = os.strerror(problem.errno) if problem.errno else str(problem)
    return UsageError(f"{one_line(name, 200) or repr(name)} cannot be read: {reason}. Nothing was kept of it.")


async def _put_stdin(options: Options, tool: str, call_id: str, kind: str) -> int:
    if sys.stdin.isatty():
        raise UsageError(
            "put keeps standard input, or files: pipe something into it, as in `some-command | holdall put`, or name "
            "a file."
        )
    _check_may_be_stored(options, tool)
    stdin = StandardInput("put")
    async with stdin.interrupted_by_signals(), options.open_bag() as bag:
        facts = await _keep_stdin(options, bag, stdin, tool, call_id, kind)
        if options.as_json:
            await _print_kept(options, bag, facts)
        return await _reported(options, bag, facts, stdin.ended_by)


async def _keep_stdin(
    options: Options, bag: Holdall, stdin: StandardInput, tool: str, call_id: str, kind: str
) -> Facts:
    with progress.bytes_done("keeping standard input", quiet=options.as_json) as tick:

        def told(done: int) -> None:
            tick(done)
            stdin.check_end()

        try:
            facts = await bag.keep(stdin, tool=tool, call_id=call_id, kind=kind, progress=told)
        except QuotaReached as problem:
            # A pipe gives what it had only once.
            saved = "`some-command | tee FILE | holdall put` has it in a file too, and `holdall exec` passes it on."
            problem.args = (f"{problem} Nothing of standard input was kept, and what was read of it is gone: {saved}",)
            raise
    stdin.release()
    return facts


async def _reported(options: Options, bag: Holdall, facts: Facts, ended_by: int, name: str = "") -> int:
    """For a person, what a model would see; the exit code."""
    if not options.as_json and ended_by and not facts.is_whole:
        sizes: dict[str, Any] = {"bytes": facts.measure.bytes, "tokens": facts.measure.tokens}
        about = {"handle": facts.handle, "tool": facts.origin.tool, "call_id": facts.origin.call_id}
        bag.journal.record("kept", **about, reason="interrupted", content_tokens=0, replaced=False, **sizes)
        show.about(f"interrupted · what had come is kept as {facts.handle} ({facts.state}) · {size_of(facts)}")
    elif not options.as_json:
        await _print_kept(options, bag, facts, name)
    return _BY_SIGNAL + ended_by if ended_by else FAULT if facts.state == "failed" else 0


@command(app, context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
async def exec_(
    options: Options,
    command: Annotated[list[str], typer.Argument(metavar="-- COMMAND...", help="The command and its arguments.")],
    tool: Tool = "",
    call_id: CallId = "",
    kind: Kind = "",
    background: Annotated[
        bool,
        typer.Option(
            "--background", "-b", help="Print its handle and return at once; it outlives the shell, and has no input."
        ),
    ] = False,
    report_to: Annotated[int, typer.Option(hidden=True)] = -1,
) -> int:
    """Run a command and keep its output; its exit code is ours.

    On a terminal the output is shown as it comes, with colours and other control signs as escapes; in a pipe you get
    what a model would see. Standard output and standard error are kept as they came, in one stream. While it runs,
    `holdall tail -f HANDLE` follows it, `holdall wait HANDLE` waits for its end or for a pattern, and
    `holdall stop HANDLE` ends it. No setting limits its time: tool_timeout_seconds and max_background_calls are for
    calls of the library, of agents and of gateways. timeout(1) does.

    \b
    Example:  holdall exec -- make -j2
              holdall exec --background -- make -j2 world
              holdall exec -- timeout 10m make check
    """
    if kind:
        _check_kind(kind)
    _check_may_be_stored(options, tool or os.path.basename(command[0]))
    if report_to >= 0:
        return await _execute(options, command, (tool, call_id, kind), lambda handle: _report(handle, report_to))
    if background:
        return await _start_keeper(options, command, {"--tool": tool, "--call-id": call_id, "--kind": kind})
    return await _execute(options, command, (tool, call_id, kind))


async def _execute(
    options: Options, command: list[str], origin: tuple[str, str, str], report: Callable[[str], None] | None = None
) -> int:
    """Run `command` with one pipe for both its streams, so that they are kept interleaved as they came.

    `origin` is its tool, call id and kind. `report` is called with the handle as soon as there is one; then nobody
    reads our own output.
    """
    import asyncio

    tool, call_id, kind = origin
    name = tool or os.path.basename(command[0])
    if (missing := _missing(command[0])) is not None:
        return _cannot_start(options, command[0], missing)
    async with options.open_bag() as bag:
        # First its place, then the command: one that was cut off has done a part of its work.
        writer = await bag.jobs.begin(
            tool=name, arguments={"command": command}, call_id=call_id, terminal=True, process=os.getpid(), kind=kind
        )
        try:
            process = await asyncio.to_thread(_start, command, report is not None)
        except (OSError, ValueError) as problem:
            await asyncio.to_thread(writer.finish, "failed", error="it could not be started")
            await bag.forget(writer.handle)
            return _cannot_start(options, command[0], problem)
        began = time.monotonic()
        about: dict[str, Any] = {"handle": writer.handle, "tool": name, "call_id": call_id}
        if report is not None:
            bag.journal.record("running", **about)
            report(writer.handle)
        stopped = _stopping(process, alone=report is not None)
        masks = bag.core.policy_of(name).redact  # then nobody gets what did not go through the store
        live = show.is_terminal(sys.stdout) and not options.as_json and not masks
        if show.is_terminal(sys.stderr):
            show.about(f"{writer.handle} running: holdall tail -f {writer.handle}{options.flags()}")
        written = [0]

        def keep(chunk: bytes) -> None:
            writer.write(chunk)
            written[0] += len(chunk)

        def text(seconds: float) -> str:
            return f"{writer.handle} {one_line(name, 40)} runs · {size(written[0])} · {progress.length(seconds)}"

        quiet = options.as_json or report is not None
        shown = contextlib.nullcontext() if live else progress.reported(text, quiet=quiet)
        passed = _PassedOn(live=live, masks=masks, as_json=options.as_json)
        with _staying_at_interrupts(stopped), shown:
            await asyncio.to_thread(_copy, process, keep, passed)
            code = await asyncio.to_thread(process.wait)
        how = (code, passed, stopped.is_set(), written[0])
        facts = await asyncio.to_thread(_finish, writer.handle, writer.finish, *how)
        sizes: dict[str, Any] = {"bytes": facts.measure.bytes, "tokens": facts.measure.tokens}
        if report is not None:
            seconds = time.monotonic() - began
            bag.journal.record("ended", **about, seconds=seconds, state=facts.state, why=facts.error, **sizes)
            return 0
        if live:
            bag.journal.record("kept", **about, reason="command", content_tokens=0, replaced=False, **sizes)
            show.about(f"{_ended(code)} · {_kept(bag, facts)} · {size_of(facts)}")
        else:
            try:
                passed.end_line()  # the notice begins on a line of its own
                await _show(options, bag, facts, "", passed)
            except (BrokenPipeError, StdoutError) as problem:
                passed.refuse(problem)
        return _code_after(options, passed, code, facts, written[0])


def _code_after(options: Options, passed: _PassedOn, code: int, facts: Facts, kept: int) -> int:
    """The exit code, after what could not be kept or shown."""
    if passed.fault is not None:
        part = f" {_what_is_kept(facts)}" if passed.refused is not None else ""
        passed.fault.args = (f"{passed.fault}{passed.told(kept)} The command ended: {_ended(code)}.{part}",)
        print_error(passed.fault, as_json=options.as_json)
        return FAULT
    if isinstance(passed.refused, StdoutError):
        raise _with_handle(passed.refused, facts)
    return code if code >= 0 else _BY_SIGNAL - code


def _missing(command: str) -> OSError | None:
    if shutil.which(command) is not None:
        return None
    why = errno.EACCES if os.path.exists(command) else errno.ENOENT
    return OSError(why, os.strerror(why))


def _start(command: list[str], alone: bool) -> subprocess.Popen[bytes]:
    """`alone`: in a group of its own, so that all that it starts can be ended with it."""
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, bufsize=0, start_new_session=alone
    )


def _stopping(process: subprocess.Popen[bytes], *, alone: bool) -> threading.Event:
    """SIGTERM, and the end of the terminal, are meant for the command: it gets SIGTERM, then SIGKILL, and its output is
    kept."""
    import asyncio

    asked = threading.Event()
    family: list[int] = []  # of a command that shares the group of its shell: it, and all that it had started

    def send(number: int) -> None:
        if not family and process.returncode is None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, number) if alone else os.kill(process.pid, number)
        for one in family:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                signal.pidfd_send_signal(one, number)

    def ask() -> None:
        asked.set()
        if not alone and not family and hasattr(os, "pidfd_open"):  # of Linux
            for pid in _with_children(process.pid):
                with contextlib.suppress(OSError):
                    family.append(os.pidfd_open(pid))  # another process may have its number by and by
        send(signal.SIGTERM)
        asyncio.get_running_loop().call_later(_PATIENCE, send, signal.SIGKILL)

    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGTERM, ask)
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # which nohup does
        loop.add_signal_handler(signal.SIGHUP, ask)
    return asked


def _with_children(pid: int) -> list[int]:
    """The process, its children, and theirs, as far as the system tells."""
    found = [pid]
    for one in found:  # which grows
        with contextlib.suppress(OSError, ValueError):
            for thread in os.listdir(f"/proc/{one}/task"):
                with open(f"/proc/{one}/task/{thread}/children", encoding="ascii") as listed:
                    found += map(int, listed.read().split())
    return found


def size_of(facts: Facts) -> str:
    return f"{plural(facts.measure.bytes, 'byte')}, {plural(facts.measure.lines, 'line')}"


def _kept(bag: Holdall, facts: Facts) -> str:
    """With how long, where that is short: whoever reads that it is kept relies on it."""
    rule = bag.session.retention
    if rule.session:
        return f"kept as {facts.handle} until its session ends, which no command does: holdall rm removes it"
    return f"kept as {facts.handle}" + (f" for {rule.told}" if rule.days is not None and rule.days < 1 else "")


async def _print_kept(options: Options, bag: Holdall, facts: Facts, name: str = "") -> None:
    """What a model would see, on standard output; the handle for a person on standard error."""
    try:
        await _show(options, bag, facts, name)
    except StdoutError as problem:
        raise _with_handle(problem, facts) from problem


def _with_handle(problem: StdoutError, facts: Facts) -> StdoutError:
    return StdoutError(f"{problem} {_what_is_kept(facts)}")


def _what_is_kept(facts: Facts) -> str:
    if facts.state != "interrupted":
        return f"The output is kept as {facts.handle}."
    return f"Of the output, the first {plural(facts.measure.bytes, 'byte')} are kept as {facts.handle}, and no more."


async def _told(bag: Holdall, facts: Facts) -> dict[str, Any]:
    fits = await bag.preview.fits(facts.handle)
    content = str((await bag.fetch.shown(facts.handle, ending=False)).content)
    kept = _kept(bag, facts) + (f" · {facts.error}" if facts.error else "")
    return {
        "handle": facts.handle,
        "long_handle": facts.long_handle,
        "facts": facts.to_json(),
        "inline": fits,
        "notice": kept if fits else content,  # nothing stands in the place of what is shown as it is
        **({"content": content} if fits else {}),
    }


async def _show(options: Options, bag: Holdall, facts: Facts, name: str, passed: _PassedOn | None = None) -> None:
    """`name` is that of the file, where it is one of several things that are kept; `passed` what was printed before."""
    from holdall.wire.notes import says_masked

    if options.as_json:
        told = show.json_text(await _told(bag, facts))
        begun = passed.begun_json() if passed is not None else ""
        print(f"{begun}, {told[1:]}" if begun else told, flush=True)
        return
    fits = await bag.preview.fits(facts.handle)
    content = str((await bag.fetch.shown(facts.handle, ending=False)).content)
    kept = _kept(bag, facts) + (f" · {one_line(name, 200)}" if name else "")
    kept += "".join(
        f" · {note}" for note in facts.measure.notes if says_masked(note)
    )  # nobody takes a mask for what came
    kept += f" · {facts.error}" if facts.error else ""
    if not fits and not content.endswith("\n"):
        content += "\n"
    data = content.encode("utf-8", "replace") if fits else show.encoded(content)
    show.content(data)
    show.end_line(data)
    if fits or bag.dialect.shorten is not None:  # then its handle may be nowhere in it
        show.about(kept)
    elif facts.error:
        show.about(f"{facts.handle} {facts.state}: {facts.error}")


# Before anything is read or run, and before the session is opened: what is refused changes nothing.


def _check_kind(kind: str) -> None:
    from holdall.formats.registry import checked_kind

    checked_kind(kind)


def _check_may_be_stored(options: Options, tool: str) -> None:
    """`put` and `exec` keep everything: refuse a tool whose outputs must not be stored."""
    from holdall.bag.core import policies_of, policy_of

    if policy_of(policies_of(options.configuration().settings), tool).store == "never":
        raise UsageError(
            f'outputs of {one_line(tool, 60)} are never stored (tools.{one_line(tool, 60)}.store = "never"), and '
            "put and exec store all that they are given. Nothing was read or run."
        )


def _widen(descriptor: int) -> None:
    """A pipe of a megabyte instead of 64 KiB: fewer switches between writer and reader."""
    with contextlib.suppress(OSError, AttributeError):
        fcntl.fcntl(descriptor, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)  # Linux only


class _PassedOn:
    """What a command writes that goes to our standard output: all of it on a terminal, else what the store refuses.

    With `masks` the latter is counted only. As JSON it is the first value of the one object, in base64: there is no
    other form that takes every byte, and nobody knows how much will come.
    """

    def __init__(self, *, live: bool, masks: bool, as_json: bool) -> None:
        self._live = live
        self._masks = masks
        self._as_json = as_json
        self._third = b""  # base64 takes three bytes at a time
        self._last = b""
        self.fault: StoreFault | OSError | None = None
        self.refused: StdoutError | BrokenPipeError | None = None
        self.bytes = 0  # that are not kept

    def add(self, chunk: bytes) -> None:
        self.bytes += len(chunk) * (self.fault is not None)
        if self.refused is None and not (self._masks and self.fault) and (self._live or self.fault):
            try:
                show.content(self._as_base64(chunk) if self._as_json else chunk)
                self._last = chunk[-1:]
            except (BrokenPipeError, StdoutError) as problem:
                self.refuse(problem)

    def refuse(self, problem: BrokenPipeError | StdoutError) -> None:
        """Standard output takes no more."""
        self.refused = self.refused or problem
        drop_output()

    def _as_base64(self, chunk: bytes) -> bytes:
        begin = b"" if self._last else b'{"not_kept": {"base64": "'
        data = self._third + chunk
        whole = len(data) - len(data) % 3
        self._third = data[whole:]
        return begin + b64encode(data[:whole])

    def begun_json(self) -> str:
        """What the object begins with; of that, all but its end is on standard output already."""
        if not self._as_json or self._masks or not self.bytes:
            return ""
        begin = "" if self._last else '{"not_kept": {"base64": "'
        return f'{begin}{b64encode(self._third).decode()}", "bytes": {self.bytes}}}'

    def end_line(self) -> None:
        if self._last not in (b"", b"\n") and not self._as_json and self.refused is None:
            show.content(b"\n")

    def told(self, kept: int) -> str:
        """What became of the bytes that are not kept, those from `kept` on."""
        if self._masks and self.bytes:
            why = "secrets of this tool are masked where it is kept."
            return f" The last {plural(self.bytes, 'byte')} could not be kept, and are not shown: {why}"
        if not self.bytes or (self._live and self.refused is None):
            return ""
        if self.refused is None:
            where = (
                "in not_kept of the JSON"
                if self._as_json
                else f"the first {plural(self.bytes, 'byte')} of standard output"
            )
            return f" From byte {kept:,} on, the output is {where}."
        why = str(self.refused) if isinstance(self.refused, StdoutError) else "its reader has closed it."
        return (
            f" From byte {kept:,} on, the output went to standard output instead, and {why} Of these "
            f"{plural(self.bytes, 'byte')}, those that had not been taken are lost."
        )


def _copy(process: subprocess.Popen[bytes], keep: Callable[[bytes], None], passed: _PassedOn) -> None:
    """All that the command writes, kept and, on a terminal, shown. No store and no stream that refuses stops it."""
    pipe = process.stdout
    if pipe is None:
        return
    _widen(pipe.fileno())
    while chunk := os.read(pipe.fileno(), _PIPE_BYTES):
        if passed.fault is None:
            try:
                keep(chunk)
            except (StoreFault, OSError) as problem:
                passed.fault = problem
        passed.add(chunk)


def _finish(handle: str, finish: Any, code: int, passed: _PassedOn, stopped: bool, written: int) -> Facts:
    state: State = "interrupted" if passed.fault is not None else "ready" if code == 0 else "failed"
    error = "" if code == 0 else _ended(code)
    if stopped and code != 0:
        state, error = "cancelled", f"it was asked to end ({error})"
    if passed.fault is not None:
        from holdall.wire.notes import not_all_kept

        error = not_all_kept(passed.fault)
    try:
        facts: Facts = finish(state, error=error, exit_code=code if code >= 0 else _BY_SIGNAL - code)
    except (StoreFault, OSError) as problem:
        # Its record says that it runs, and nobody holds it any more once we have ended: anyone who looks finds that
        # out.
        kept = f"What had been written until then is kept as {handle}, which counts as interrupted."
        rest = f"{passed.told(written)} The command ended: {_ended(code)}."
        if passed.bytes:
            rest += f" What comes before it: holdall read {handle} --bytes 0:{written}."
            print(f"{passed.begun_json()}}}" if passed.begun_json() else "", end="", flush=True)
        raise StoreFault(f"{problem} {kept}{rest}") from problem
    return facts


def _cannot_start(options: Options, command: str, problem: Exception) -> int:
    missing = isinstance(problem, FileNotFoundError) and shutil.which(command) is None
    reason = "there is no such command" if missing else (getattr(problem, "strerror", None) or str(problem))
    print_error(UsageError(f"cannot run {command[:200]!r}: {reason}. Nothing was kept."), as_json=options.as_json)
    return _NOT_FOUND if missing else _NOT_EXECUTABLE


def _ended(code: int) -> str:
    if code >= 0:
        return f"exit code {code}"
    try:
        return f"killed by {signal.Signals(-code).name}"
    except ValueError:
        return f"killed by signal {-code}"


@contextlib.contextmanager
def _staying_at_interrupts(asked: threading.Event) -> Any:
    """Ctrl-C also reaches the command, which is asked to end by it; this process stays to keep its output."""

    def stay(_number: int, _frame: object) -> None:
        asked.set()

    before = signal.signal(signal.SIGINT, stay)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


# Commands that continue after their shell: `exec --background`, `wait`, `stop`.
#
# A background command has a keeper, a process of ours that outlives the shell: it reads the command's output, keeps it,
# and holds the lock that tells everybody that it runs. Nothing has to be started for it, and nothing stays behind it.


_STOP_SECONDS = 10.0
_TOLD_CALLS = 3
_LOOK_SECONDS = 2.0  # between two looks at how much there is
_AGAIN_SECONDS = 0.05  # between two waits


async def _start_keeper(options: Options, command: list[str], origin: dict[str, str]) -> int:
    """Start a keeper and wait until it has a handle, no longer."""
    import asyncio
    import fcntl
    import termios

    with contextlib.suppress(OSError):  # it is closed, or no pipe
        if any(fcntl.ioctl(0, termios.FIONREAD, bytes(4))) and not os.isatty(0):
            show.about("what is piped in is not passed on to a command in the background")

    reading, writing = os.pipe()
    # The address of a database goes by the environment: everybody can see the arguments of a process.
    is_address = "://" in (options.home or "")
    reader = {"HOLDALL_READER": reader_in(options.configuration().session) or "model"}  # whoever reads what we print
    address = {"HOLDALL_HOME": options.home or ""} if is_address else {}
    given = {"--home": None if is_address else options.home, "--session": options.session, **origin}
    flags = [part for name, value in given.items() if value for part in (name, value)]
    flags += ["--json"] if options.as_json else []
    settings = [part for one in options.settings for part in ("--set", one)]
    keeper = subprocess.Popen(  # noqa: ASYNC220 - it is not waited for
        [sys.executable, "-P", "-m", "holdall", *settings, "exec", *flags, "--report-to", str(writing), "--", *command],
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, pass_fds=(writing,),
        start_new_session=True, env={**os.environ, **reader, **address},
    )  # fmt: skip
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        told = await asyncio.to_thread(pipe.read)
    if not told:
        _, problem = await asyncio.to_thread(keeper.communicate)
        sys.stderr.write(problem.decode("utf-8", "replace"))
        return keeper.returncode or FAULT
    keeper.returncode = 0  # nobody here waits for it
    handle = told.decode("ascii").strip()
    if options.as_json:
        show.as_json({"handle": handle, "state": "running", "keeper": keeper.pid})
    else:
        print(f"{handle} running")
    return 0


def _report(handle: str, report_to: int) -> None:
    """In the keeper process: its standard error is read only until it has a handle."""
    os.write(report_to, handle.encode("ascii"))
    os.close(report_to)
    # The facts of the output tell what goes wrong from here on.
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 2)


_TOLD = "70" * 16  # the key of a note about one output: that a wait has told of its end


@command(app, WAIT, several=True)
async def wait(options: Options, handle: list[str] | None, pattern: str | None, timeout: float | None) -> int:  # noqa: ASYNC109
    import asyncio

    async with options.read_bag() as bag:
        running = [one for one in await bag.outputs() if one.state == "running"]
        if pattern is not None and len(handle or ()) != 1:
            raise UsageError("a pattern is waited for in one output: give its handle.")
        if not handle and (untold := await _untold(bag)):
            return await _tell_ended(options, bag, untold)
        if not handle and not running:
            if options.as_json:
                show.as_json({"ended": [], "matched": [], "timed_out": False})
            else:
                show.about("nothing is running")
            return FOUND_NOTHING
        calls = [await bag.show(one) for one in dict.fromkeys(handle)] if handle else running
        waiting = _Waiting(calls, pattern, timeout, for_all=bool(handle))
        waits = [asyncio.ensure_future(_waited(bag, one.handle, pattern or "", timeout)) for one in calls]
        looking = asyncio.ensure_future(waiting.look(bag))
        with progress.reported(waiting.after, quiet=options.as_json):
            until = asyncio.ALL_COMPLETED if handle else asyncio.FIRST_COMPLETED
            done, others = await asyncio.wait(waits, return_when=until)
        for other in [*others, looking]:
            other.cancel()
        waited = [one.result() for one in waits if one in done]
        left = [
            facts.handle for facts, one in zip(calls, waits, strict=True) if one not in done or not one.result().ended
        ]
        timed_out = bool(left) and (bool(handle) or len(left) == len(calls))
        ended = [facts for one in waited for facts in one.ended]
        matched = [one.matched for one in waited if one.matched]
        if options.as_json:
            told = [facts.to_json() for facts in ended]
            show.as_json({"ended": told, "matched": matched, "timed_out": timed_out and not matched})
        for facts in [] if options.as_json else ended:
            print(_line(bag, facts))
        for one in [] if options.as_json else matched:
            words = f"holdall grep {one} {shell_quoted(pattern or '')}{options.flags()}"
            show.about(f"{one}: the pattern is there: {words}")
        for facts in ended if pattern is not None and not matched and not options.as_json else []:
            show.about(f"{facts.handle}: it has ended, and no line matches {one_line(pattern or '', 60)!r}")
        if timed_out and not matched and not options.as_json:
            which = f"{', '.join(left)} " if ended else ""
            show.about(f"{which}still running; the time is over")
        await _note_told(bag, ended)
        if ended and pattern is None:
            return max(FOUND_NOTHING * timed_out, *map(_code_of, ended))
        return 0 if matched else FOUND_NOTHING


async def _untold(bag: Holdall) -> list[Facts]:
    """Commands in the background that have ended since the last wait, or before the first: no wait has told of them."""
    import asyncio

    def look(kept: Sequence[Facts]) -> list[Facts]:
        begun = set(bag.journal.background_elsewhere())
        found = [one for one in kept if one.handle in begun and one.origin.process and one.ended is not None]
        found = [one for one in found if one.state not in ("running", "expired", "unreadable")]
        return [one for one in found if bag.store.recall(bag.session, *_told_key(one)) is None]

    return await asyncio.to_thread(look, await bag.outputs())


async def _tell_ended(options: Options, bag: Holdall, ended: Sequence[Facts]) -> int:
    if options.as_json:
        show.as_json({"ended": [facts.to_json() for facts in ended], "matched": [], "timed_out": False})
    else:
        for facts in ended:
            print(_line(bag, facts))
    await _note_told(bag, ended)
    return max(map(_code_of, ended))


async def _note_told(bag: Holdall, ended: Sequence[Facts]) -> None:
    """For the waits of other processes. The note goes with its output."""
    import asyncio

    for facts in ended:
        with contextlib.suppress(HoldallError, OSError):  # then it is told once more
            await asyncio.to_thread(bag.store.remember, bag.session, *_told_key(facts), b"told", durable=False)


def _told_key(facts: Facts) -> tuple[str, str]:
    return facts.id.replace("-", ""), _TOLD


async def _waited(bag: Holdall, handle: str, pattern: str, timeout: float | None) -> Waited:  # noqa: ASYNC109
    """As long as the person says, or until the end: `wait_max_seconds` bounds what a model waits at once."""
    import asyncio

    end = math.inf if timeout is None else time.monotonic() + timeout
    while True:
        left = end - time.monotonic()
        waited = await bag.wait(handle, pattern=pattern, timeout=None if timeout is None else left)
        if waited.ended or waited.matched or time.monotonic() >= end:
            return waited
        await asyncio.sleep(_AGAIN_SECONDS)  # a bound may be 0


class _Waiting:
    """What is waited for: which calls, which pattern, how much they have written, how long it may still take."""

    def __init__(self, calls: Sequence[Facts], pattern: str | None, timeout: float | None, *, for_all: bool) -> None:
        self._calls = calls
        self._which = "all" if for_all else "any"
        self._pattern = pattern
        self._timeout = timeout
        self._so_far: dict[str, Totals] = {}

    async def look(self, bag: Holdall) -> None:
        import asyncio

        while True:
            for one in self._calls[:_TOLD_CALLS]:
                with contextlib.suppress(HoldallError, OSError):
                    self._so_far[one.handle] = (await bag.fetch.find(one.handle, bytes=":0")).total
            await asyncio.sleep(_LOOK_SECONDS)

    def after(self, seconds: float) -> str:
        calls = [self._call(one) for one in self._calls[:_TOLD_CALLS]]
        more = f" and {len(self._calls) - len(calls):,} more" if len(calls) < len(self._calls) else ""
        which = (
            calls[0] if len(self._calls) == 1 else f"{self._which} of {len(self._calls):,}: {', '.join(calls)}{more}"
        )
        parts = [f"waiting for {which}"]
        if self._pattern:
            parts.append(f"until a line matches {one_line(self._pattern, 60)!r}")
        parts.append(progress.length(seconds))
        if self._timeout is not None:
            parts.append(f"at most {progress.length(self._timeout - seconds)} more")
        return " · ".join(parts)

    def _call(self, facts: Facts) -> str:
        told = f"{facts.handle} {one_line(facts.origin.tool, 30)}".rstrip()
        total = self._so_far.get(facts.handle)
        return f"{told} ({size(total.bytes)}, {plural(total.lines, 'line')})" if total else told


def _code_of(facts: Facts) -> int:
    """The exit code of a command, where all it wrote is kept; a call of an agent has none."""
    return FAULT if facts.state == "interrupted" else facts.exit_code or 0


@command(app)
async def stop(options: Options, handle: Handle) -> int:
    """End a command that runs in the background; what it has written is kept."""
    from holdall.bag.waits import runs_here

    async with options.read_bag() as bag:
        facts = await bag.show(handle)
        if facts.state != "running":
            how = "removed" if facts.is_removed else facts.state
            raise UsageError(f"output {facts.handle} is not running: it is {how}.")
        if not facts.origin.process:
            raise UsageError(f"output {facts.handle} is a call of an agent that runs: only that agent can end it.")
        # It holds the lock of a running output for as long as it lives, so no other has its number meanwhile; not here.
        if not runs_here(facts):
            raise UsageError(
                f"output {facts.handle} is written by process {facts.origin.process} of another machine or container: "
                "end it there."
            )
        os.kill(facts.origin.process, signal.SIGTERM)
        waited = await bag.wait(facts.handle, timeout=_STOP_SECONDS)
        if not waited.ended:
            os.kill(facts.origin.process, signal.SIGKILL)
            waited = await bag.wait(facts.handle, timeout=_STOP_SECONDS)
        if not waited.ended:
            raise StoreFault(f"output {facts.handle} is still running: process {facts.origin.process} does not end.")
        ended = waited.ended[0]
        if options.as_json:
            show.as_json(ended.to_json())
        else:
            print(_line(bag, ended))
        return 0


def _line(bag: Holdall, facts: Facts) -> str:
    why = f": {one_line(facts.error, 300)}" if facts.error else ""
    began = bag.journal.coverage(facts.handle).runs_since(facts.created)
    took = age((facts.ended or facts.created) - began)
    return f"{facts.handle} {facts.state}{why} · {size_of(facts)} · {took}"
