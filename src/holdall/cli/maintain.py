"""The commands that look after the store: gc, rm, verify, stats, doctor."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Generator
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import typer

from holdall.cli import progress, show
from holdall.cli.options import FAULT, OneSession, Options, command, complete_handle, session_named
from holdall.text.escape import one_line, without_passwords
from holdall.text.numbers import grouped, money, parse_age, plural, size
from holdall.values.errors import HoldallError, StoreFault, UsageError

if TYPE_CHECKING:
    from collections import Counter

    from holdall.bag import Care
    from holdall.policy.folds import Counters

app = typer.Typer(rich_markup_mode=None)


@contextlib.contextmanager
def _care(options: Options) -> Generator[Care]:
    """No session is opened for it; one that was named must exist."""
    from holdall.bag import Care

    found = options.configuration()
    chosen = session_named(found, found.session).folder if options.session else None
    with Care.of(found.home, found.settings, session=chosen) as care:
        yield care


@command(app, session=OneSession)
async def gc(
    options: Options,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would go.")] = False,
    older_than: Annotated[
        str | None, typer.Option("--older-than", metavar="AGE", help="Also outputs that are older: 12h, 7d, 2w.")
    ] = None,
) -> int:
    """Remove what has expired and, after an hour, what killed writers left. Expired outputs leave tombstones.

    All sessions; with --session that one and those of its agents. What is still being written stays. --older-than
    counts from when an output was made, also in sessions whose retention is `keep`: an imported one is as old as the
    original.

    \b
    Example:  holdall gc --older-than 7d --dry-run
              holdall gc --session build --older-than 12h
    """
    seconds = parse_age(older_than) if older_than is not None else None
    with _care(options) as care:
        swept = await care.sweep(dry_run=dry_run, older_than=seconds, only_this_session=bool(options.session))
    if options.as_json:
        show.as_json(
            {
                "dry_run": swept.dry_run,
                "expired": [{"session": name, "handle": facts.handle} for name, facts in swept.expired],
                "leftovers": list(swept.leftovers),
                "freed_bytes": swept.freed_bytes,
                "held": [{"session": name, "why": why} for name, why in swept.held],
                "left": swept.left,
            }
        )
        return FAULT if swept.left else 0
    for name, why in swept.held:
        show.about(f"session {one_line(name, 40)}: {why}")
    for name, facts in swept.expired:
        print(f"{facts.handle}  {one_line(name, 40)}  {one_line(facts.origin.tool, 30)}  {size(facts.measure.bytes)}")
    for name in swept.leftovers:
        print(f"left over  {one_line(name, 120)}")
    verb = "would free" if dry_run else "freed"
    show.about(
        f"{plural(len(swept.expired), 'expired output')}, {plural(len(swept.leftovers), 'left-over file')}: "
        f"{verb} {size(swept.freed_bytes)}"
    )
    return FAULT if swept.left else 0  # what is left was said in the log


@command(app)
async def rm(
    options: Options,
    handles: Annotated[
        list[str] | None,
        typer.Argument(metavar="[HANDLE]...", help="Handles or call ids.", autocompletion=complete_handle),
    ] = None,
) -> int:
    """Remove outputs for good, or all that a session holds. A tombstone says that they were there.

    Gone are the bytes, the notice that a model got, remembered answers, and what events quote. Identical outputs share
    their bytes: these go with the last handle, and who still has them is said. The transcript of an agent stays until
    its session is removed. Bundles that were exported before are not changed.

    Without handles, --session NAME removes everything in that session and in those of its sub-agents: outputs,
    transcript, events, operation tree. It must be written out: HOLDALL_SESSION does not count here.

    An output that is still being written, and a session in which an agent runs, are refused, and nothing is removed.
    Removing something again is no error, and finishes what was interrupted.

    \b
    Example:  holdall rm k3f9 p8x2
              holdall rm --session build k3f9
              holdall rm --session build
    """
    if not handles and not options.session:
        raise UsageError("rm needs the handles of outputs (`holdall ls` lists them), or --session NAME for all of one.")
    from holdall.bag import Care

    found = options.configuration()
    known = session_named(found, found.session) if options.session else None
    with Care.of(found.home, found.settings, session=known.folder if known else found.session) as care:
        if handles:
            names, removed = [found.session], await care.remove(handles)
        else:
            family, removed = await care.remove_session()
            names = [one.name for one in family]
    if options.as_json:
        rows = [
            {"handle": facts.handle, "still_held_by": removed.still_held.get(facts.handle, ())}
            for facts in removed.removed
        ]
        sums = {name: getattr(removed, name) for name in ("gone_before", "freed_bytes", "left")}
        show.as_json({"sessions": names, "removed": rows, **sums})
        return FAULT if removed.left else 0
    for facts in removed.removed:
        holders = ", ".join(removed.still_held.get(facts.handle, ()))
        print(
            f"{facts.handle}  {one_line(facts.origin.tool, 30)}"
            + (f"  (the same bytes are in {holders})" if holders else "")
        )
    of = "" if handles else f" of {plural(len(names), 'session')}"
    told = (
        f"{plural(len(removed.removed) - removed.gone_before, 'output')}{of} removed: freed {size(removed.freed_bytes)}"
    )
    show.about(told + (f" · {removed.gone_before:,} gone before" if removed.gone_before else ""))
    return FAULT if removed.left else 0  # what is left was said in the log


@command(app, session=OneSession)
async def verify(options: Options) -> int:
    """Read every kept byte again, compare every hash, and name what is damaged.

    All sessions; with --session that one and those of its agents. Exit code 3 where something is damaged.
    """
    with _care(options) as care:
        total = (await care.stats(only_this_session=bool(options.session))).bytes
        with progress.bytes_done("verifying", total, quiet=options.as_json) as tick:
            verdicts = await care.verify(only_this_session=bool(options.session), progress=tick)
    damaged = [verdict for verdict in verdicts if verdict.problem]
    if options.as_json:
        rows = [{"session": v.session, "handle": v.handle, "problem": v.problem} for v in damaged]
        show.as_json({"checked": len(verdicts), "bytes": sum(v.bytes for v in verdicts), "damaged": rows})
    else:
        for verdict in damaged:
            problem = verdict.problem.partition(" The damaged bytes are not shown")[0]  # of commands that show them
            print(f"{verdict.handle}  {one_line(verdict.session, 40)}  {one_line(problem, 300)}")
        checked = f"{plural(len(verdicts), 'output')}, {size(sum(v.bytes for v in verdicts))} checked"
        show.about(f"{checked}: {plural(len(damaged), 'damaged output') if damaged else 'every byte is as it came'}")
        if damaged:
            show.about(
                "What is not named is whole. Make the others again, or import them; `holdall rm` removes them, and "
                "`holdall rm --session` one whose record cannot be read."
            )
    return FAULT if damaged else 0


@command(app, session=OneSession)
async def stats(options: Options) -> int:
    """Totals: outputs kept, tokens kept out, retrievals, model calls and cost. --session: with its agents.

    The first part is what is kept, by people and models. The second is what models got of it: what a person reads, by
    these commands or in the viewer, is not counted. A script whose output a model reads says HOLDALL_READER=model.
    """
    found = options.configuration()
    with _care(options) as care:
        total = await care.stats(only_this_session=bool(options.session))
        done = await care.counters(only_this_session=bool(options.session))
    disk = _bytes_in(found.home) if found.is_folder and not options.session else None
    if options.as_json:
        names = ("sessions", "outputs", "expired", "removed", "bytes", "stored_bytes", "lines", "tokens")
        flat: dict[str, object] = {name: getattr(total, name) for name in names}
        flat |= {"by_kind": total.by_kind, "by_tool": total.by_tool, "by_state": total.by_state, "disk_bytes": disk}
        show.as_json(flat | {"counters": done.to_json()})
        return 0
    print(f"sessions       {grouped(total.sessions)}")
    gone = [f"{n:,} {how}" for n, how in ((total.expired, "expired"), (total.removed, "removed")) if n]
    print(f"outputs kept   {grouped(total.outputs)}" + (f" (and {', '.join(gone)})" if gone else ""))
    here = total.stored_bytes - total.due_bytes
    once = f", {size(here)} with identical ones once" if here != total.bytes else ""
    due = f", and {size(total.due_bytes)} that have expired, until `holdall gc`" if total.due_bytes else ""
    print(f"bytes          {size(total.bytes)}{once}{due}")
    if disk is not None:
        print(f"on disk        {size(disk)}, with records and logs")
    print(f"lines          {grouped(total.lines)}")
    print(f"tokens         ~{grouped(total.tokens)}")
    states = type(total.by_state)({("kept" if name == "ready" else name): n for name, n in total.by_state.items()})
    for name, counts in (("kinds", total.by_kind), ("tools", total.by_tool), ("states", states)):
        print(f"{name:<14} {_most_common(counts)}")
    print()
    if done.kept_for_people:
        print(f"by people      {plural(done.kept_for_people, 'output')} kept by hand; what follows is of models alone")
    print(f"shown whole    {grouped(done.inline)}")
    if done.unkept:
        print(f"not stored     {grouped(done.unkept)}, shown in part")
    print(f"kept out       ~{grouped(done.tokens_kept_out)} tokens of the context")
    print(f"retrievals     {grouped(done.retrievals.total())}" + _in_brackets(done.retrievals))
    print(f"refused        {grouped(done.refused)}")
    fallbacks = f", {plural(done.fallbacks, 'fallback')}" if done.fallbacks else ""
    print(f"extractions    {grouped(done.extractions.total())}" + _in_brackets(done.extractions) + fallbacks)
    print(f"model calls    {grouped(done.model_calls)}")
    if done.model_calls:
        print(f"model tokens   {grouped(done.model_tokens)}" + _estimate(done))
        print(f"cost           {money(done.model_cost, done.unpriced_calls)}")
    return 0


def _bytes_in(folder: str) -> int:
    """Of all files, as `du --apparent-size` adds them up without the folders."""
    total = 0
    for path, _, names in os.walk(folder):
        for name in names:
            with contextlib.suppress(OSError):  # it may go meanwhile
                total += os.lstat(os.path.join(path, name)).st_size
    return total


def _estimate(done: Counters) -> str:
    """How good our own counting was, before the models had counted."""
    if not done.estimated_tokens:
        return ""
    ratio = f"{done.estimated_tokens / done.model_input_tokens:.2f} of that"
    return f", {grouped(done.model_input_tokens)} of them read (estimated ~{grouped(done.estimated_tokens)}, {ratio})"


def _most_common(counts: Counter[str]) -> str:
    told = [f"{one_line(key, 30)} {count:,}" for key, count in counts.most_common(8)]
    return ", ".join([*told, *([f"and {len(counts) - 8:,} more (--json)"] if len(counts) > 8 else [])]) or "-"


def _in_brackets(counts: Counter[str]) -> str:
    return f" ({_most_common(counts)})" if counts else ""


@command(app)
async def doctor(options: Options) -> int:
    """Check that everything Holdall needs is there and works."""
    import asyncio

    from holdall import __version__

    # Each check by itself: one that fails does not hide the others.
    checks: list[tuple[str, Callable[[], str]]] = [
        ("python", lambda: f"{sys.version.split()[0]}, holdall {__version__}"),
        ("configuration", lambda: _configuration(options)),
        ("store", lambda: _store(options)),
        ("ripgrep", _ripgrep),
        ("duckdb", _duckdb),
        ("tokens", _tokens),
    ]
    found = [await asyncio.to_thread(_check, name, check) for name, check in checks]
    if options.as_json:
        rows = [{"name": name, "ok": ok, "detail": detail} for name, ok, detail in found]
        show.as_json({"ok": all(ok for _, ok, _ in found), "checks": rows})
    else:
        for name, ok, detail in found:
            sign = show.paint("ok  ", "green") if ok else show.paint("FAIL", "red")
            print(f"{sign}  {name:<14} {one_line(detail, 300)}")
    return 0 if all(ok for _, ok, _ in found) else FAULT


def _check(name: str, check: Callable[[], str]) -> tuple[str, bool, str]:
    from importlib import metadata

    try:
        return name, True, without_passwords(check())
    except (HoldallError, OSError, metadata.PackageNotFoundError, subprocess.SubprocessError) as problem:
        return name, False, without_passwords(str(problem)) or type(problem).__name__


def _configuration(options: Options) -> str:
    found = options.configuration()
    own = ", ".join(f"{name} from {where}" for name, where in found.sources.items() if where != "default")
    there = "" if os.path.exists(found.file) else " (not there)"
    return f"{found.file}{there}{'; ' + own if own else ''}"


def _store(options: Options) -> str:
    """List the session, then really keep something and read it back, where nobody lists it: in a folder of its own on
    the same disk, or as a principal of its own.
    """
    import asyncio

    from holdall.bag import Holdall

    found = options.configuration()

    async def try_it() -> int:
        async with options.read_bag() as bag:
            kept = len(await bag.outputs())
        with _trial(found.home) if found.is_folder else contextlib.nullcontext("") as folder:
            home, name = (os.path.join(folder, "home"), None) if folder else (found.home, "doctor")
            settings = found.settings if folder else replace(found.settings, principal="holdall doctor")
            async with Holdall.open(home=home, session=name, settings=settings) as bag:
                facts = await bag.keep("holdall doctor\n", tool="doctor")
                if (await bag.read(facts.handle)).text != "holdall doctor\n":
                    raise OSError("what was kept did not come back as it was")
                await bag.forget(facts.handle)
        return kept

    kept = asyncio.run(try_it())
    free = f"{size(shutil.disk_usage(_nearest(found.home)).free)} free, " if found.is_folder else ""
    return f"{found.shown_home}, {plural(kept, 'output')} in session {found.session!r}, {free}keeps and gives back"


@contextlib.contextmanager
def _trial(home: str) -> Generator[str]:
    """A folder inside of the data folder that goes again; beside it where that is still to be made."""
    import tempfile

    try:
        folder = tempfile.TemporaryDirectory(prefix=".doctor-", dir=_nearest(home))
    except OSError as problem:
        reason = os.strerror(problem.errno) if problem.errno else str(problem)
        raise StoreFault(
            f"nothing can be kept in {home}: {reason}. What is kept can be read. Make the folder writable, or choose "
            "another one with --home or HOLDALL_HOME."
        ) from problem
    with folder as path:
        yield path


def _nearest(path: str) -> str:
    """The first folder that is there, upwards."""
    while not os.path.isdir(path) and path != os.path.dirname(path):
        path = os.path.dirname(path)
    return path


def _duckdb() -> str:
    from importlib import metadata

    from holdall.bag import Care

    return f"{metadata.version('duckdb')}; {Care.sql_confinement()}"


def _ripgrep() -> str:
    from holdall.bag import Care

    ran = subprocess.run([Care.ripgrep(), "--version"], capture_output=True, text=True, check=True, timeout=10)
    return ran.stdout.split("\n", 1)[0]


def _tokens() -> str:
    from importlib import metadata

    from holdall.text.tokens import TOKENS_PACKAGE

    try:
        return f"{TOKENS_PACKAGE} {metadata.version(TOKENS_PACKAGE)}: exact counts (o200k)"
    except metadata.PackageNotFoundError:
        return "estimated; for exact counts: pip install 'holdall[tokens]'"
