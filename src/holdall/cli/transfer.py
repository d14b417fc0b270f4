"""`export`, `import` and `copy`: one library call each, and what is told about it."""

from __future__ import annotations

import contextlib
import shlex
import sys
from collections.abc import AsyncGenerator, Callable, Generator
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any, BinaryIO, cast

import typer

from holdall.cli import progress, show
from holdall.cli.options import Options, command, complete_session
from holdall.cli.streams import StandardInput, check_stdout
from holdall.text.escape import one_line
from holdall.text.numbers import plural, size
from holdall.values.bundles import MAX_RATIO
from holdall.values.errors import UsageError

if TYPE_CHECKING:
    from holdall.values.bundles import Bundle, BundledSession, Exported, Imported, Mask

app = typer.Typer(rich_markup_mode=None)
_STREAM = "-"
_MAX_PLACES = 20
_MAX_SESSIONS = 20
_READ = 256 * 1024


@command(app, session=None)
async def export(
    options: Options,
    session: Annotated[
        str, typer.Argument(metavar="SESSION", help="Session by name or id.", autocompletion=complete_session)
    ],
    output: Annotated[str, typer.Option("-o", "--output", metavar="FILE", help="Where to; - is standard output.")],
    redact: Annotated[bool, typer.Option("--redact", help="Mask what looks like a secret, and say where.")] = False,
    with_packed: Annotated[
        bool, typer.Option("--with-packed", help="With --redact: packed outputs go as they are, unmasked.")
    ] = False,
    force: Annotated[bool, typer.Option("--force", help="Overwrite FILE where it exists.")] = False,
) -> int:
    """Write a session to one file: its outputs, records, notes, transcript, events and operation tree.

    The sessions of its sub-agents come with it. What the file holds is listed first. It is compressed with zstd, the
    same bytes each time, and only you can read it; `holdall import FILE` restores it on any machine.

    Without --redact the file holds everything, secrets too. With it, keys, tokens, passwords, private keys and
    connection strings are masked in all of these, and the file says where.

    \b
    Example:  holdall export build-42 -o build-42.holdall --redact
    """
    from holdall.bag.bundles import export_session

    if with_packed and not redact:
        raise UsageError("--with-packed goes with --redact; without it packed outputs go as they are anyway.")
    to_stream = output == _STREAM
    if to_stream:
        check_stdout()
    if to_stream and show.is_terminal(sys.stdout):
        raise UsageError("a bundle is not for a terminal: name a file with -o FILE, or send it through a pipe.")
    if not to_stream and output.endswith("/"):
        raise UsageError(f"{one_line(output, 200)} is a folder; name the file that the bundle is to be written to.")
    found = options.configuration()
    target: str | BinaryIO = sys.stdout.buffer if to_stream else output
    with _told("exporting", options.as_json) as (listed, tick):
        done = await export_session(
            session, target, home=found.home, settings=found.settings, redact=redact, with_packed=with_packed,
            force=force, listed=listed, progress=tick,
        )  # fmt: skip
    if to_stream:
        sys.stdout.buffer.flush()
    where = "standard output" if to_stream else output
    if options.as_json:
        _print(_exported(done, where), to_stream)
        return 0
    if redact:
        _print_masks(done)
    show.about(f"written to {one_line(where, 200)}: {size(done.written)}")
    return 0


@command(app, session=None)
async def import_(
    options: Options,
    file: Annotated[str, typer.Argument(metavar="FILE", help="A file made by `holdall export`; - is standard input.")],
    name: Annotated[
        str | None, typer.Option("--as", metavar="NAME", help="Name of the restored session (default: its own).")
    ] = None,
    max_ratio: Annotated[
        float,
        typer.Option("--max-ratio", metavar="N", show_default=False, help="Refuse more than N × its size (200)."),
    ] = MAX_RATIO,
) -> int:
    """Restore what `holdall export` wrote: every handle resolves to the same bytes.

    All or nothing: a file that is damaged, cut short or not what it says is refused, and the store stays as it is. A
    session that is there already is never touched. What is restored is kept until you remove it.

    \b
    Example:  holdall import build-42.holdall --as build-42-copy
    """
    from holdall.bag.bundles import import_bundle

    if not max_ratio >= 1:  # nor is it what is no number
        raise UsageError(f"--max-ratio is a number of 1 or more, not {max_ratio:g}.")
    if file == _STREAM and show.is_terminal(sys.stdin):
        raise UsageError("nothing is piped in: name the file of the bundle, or send it through a pipe.")
    found = options.configuration()
    async with _source(file) as source:
        with _told("importing", options.as_json) as (listed, tick):
            done = await import_bundle(
                source, name=name, home=found.home, settings=found.settings, max_ratio=max_ratio, below=True,
                listed=listed, progress=tick,
            )  # fmt: skip
    if options.as_json:
        show.as_json(_imported(done))
        return 0
    first, *below = done.names
    print(one_line(first, 300))
    with_them = f", with {plural(len(below), 'session')} below it" if below else ""
    command = f"holdall ls --session {shlex.quote(one_line(first, 300))}{replace(options, session=None).flags()}"
    show.about(f"restored as {one_line(first, 100)}{with_them}: {command}")
    return 0


@command(app, session=None)
async def copy(
    options: Options,
    session: Annotated[
        str, typer.Argument(metavar="SESSION", help="Session by name or id.", autocompletion=complete_session)
    ],
    to: Annotated[str, typer.Option("--to", metavar="HOME", help="The other store: a folder, or postgresql://…")],
    name: Annotated[
        str | None, typer.Option("--as", metavar="NAME", help="Name of the copy (default: its own).")
    ] = None,
) -> int:
    """Copy a session to another store: a folder, or one for many hosts.

    With the sessions of its sub-agents, all of it or nothing: every handle resolves to the same bytes in both. It is
    kept there as long as here. A session that is there already is never touched.

    \b
    Example:  holdall copy build-42 --to postgresql://me@db/holdall
              holdall --home postgresql://me@db/holdall copy build-42 --to /srv/outputs
    """
    from holdall.bag.bundles import copy_session, shown

    found = options.configuration()
    other = replace(options, home=to).configuration().home
    with _told("copying", options.as_json) as (listed, tick):
        done = await copy_session(
            session, other, name=name, home=found.home, settings=found.settings, listed=listed, progress=tick
        )
    if options.as_json:
        show.as_json(_imported(done))
        return 0
    print(one_line(done.names[0], 300))
    show.about(
        f"{plural(done.bundle.outputs, 'output')}, {size(done.bundle.bytes)} copied to {one_line(shown(other), 200)}"
    )
    return 0


@contextlib.asynccontextmanager
async def _source(file: str) -> AsyncGenerator[str | BinaryIO]:
    """Its path, or standard input straight from its descriptor, which Ctrl-C ends at once."""
    if file != _STREAM:
        yield file
        return
    stdin = StandardInput("import -")
    async with stdin.interrupted_by_signals():
        yield cast("BinaryIO", _Reading(stdin))


class _Reading:
    def __init__(self, stdin: StandardInput) -> None:
        self._stdin = stdin

    def read(self, most: int = _READ) -> bytes:
        return self._stdin.read_some(most)


@contextlib.contextmanager
def _told(doing: str, quiet: bool) -> Generator[tuple[Callable[[Bundle], None], Callable[[int], None]]]:
    """What the bundle holds, as soon as that is known, and then how far it has come."""
    with contextlib.ExitStack() as bar:
        ticks: list[Callable[[int], None]] = []

        def listed(bundle: Bundle) -> None:
            if not quiet:
                for line in _lines(bundle):
                    show.about(line)
            ticks.append(bar.enter_context(progress.bytes_done(doing, bundle.stored_bytes, quiet=quiet)))

        def tick(done: int) -> None:
            for one in ticks:
                one(done)

        yield listed, tick


def _lines(bundle: Bundle) -> Generator[str]:
    first, *below = bundle.sessions
    below.sort(key=lambda one: one.name.startswith(f"{first.name}/"))  # what nobody expects comes first
    for one in [first, *below][:_MAX_SESSIONS]:
        yield _line(one)
    if len(bundle.sessions) > _MAX_SESSIONS:
        yield f"and {plural(len(bundle.sessions) - _MAX_SESSIONS, 'more session')}"
    if len(bundle.sessions) > 1:
        yield f"in all {plural(bundle.outputs, 'output')}, {size(bundle.bytes)}"
    if bundle.redacted:
        yield "what looks like a secret is masked; the bundle says where"


def _line(one: BundledSession) -> str:
    parts = [f"{plural(one.outputs, 'output')}, {size(one.bytes)}"]
    parts += [f"{one.expired:,} expired"] if one.expired else []
    logs = (("transcript", one.transcript_bytes), ("events", one.events_bytes), ("operation tree", one.tree_bytes))
    parts += [f"{name} {size(length)}" for name, length in logs if length]
    parts += [plural(one.notes, "note")] if one.notes else []
    return f"session {one_line(one.name, 100)}: {' · '.join(parts)}"


def _print_masks(done: Exported) -> None:
    if done.packed:
        more = f" and {len(done.packed) - _MAX_PLACES:,} more" if len(done.packed) > _MAX_PLACES else ""
        show.about(f"packed, so as they are, with any secret in them: {', '.join(done.packed[:_MAX_PLACES])}{more}")
    if not done.masks:
        show.about("nothing looked like a secret. That no rule found one does not mean that there is none.")
        return
    for mask in done.places[:_MAX_PLACES]:
        show.about(f"masked  {_place(mask)}  {mask.kind}")
    total = sum(done.masks.values())
    if total > _MAX_PLACES:
        show.about(f"and {plural(total - _MAX_PLACES, 'more place')}; masks.ndjson in the bundle lists all of them")
    kinds = ", ".join(f"{kind} {count:,}" for kind, count in sorted(done.masks.items()))
    show.about(f"{plural(total, 'place')} masked: {kinds}")


def _place(mask: Mask) -> str:
    of_the_output = mask.handle and not mask.file.endswith(".record")  # else the bytes are those of its record
    return f"{mask.handle if of_the_output else mask.file} bytes {mask.start:,}–{mask.end:,}"


def _print(value: dict[str, Any], to_stream: bool) -> None:
    """Where the bundle itself goes to standard output, what is told about it goes to standard error."""
    if not to_stream:
        show.as_json(value)
        return
    with contextlib.redirect_stdout(sys.stderr):
        show.as_json(value)


def _exported(done: Exported, where: str) -> dict[str, Any]:
    return {
        "file": where,
        "bytes": done.written,
        **_contents(done.bundle),
        "masked": dict(done.masks),
        "masks": [mask.to_json() for mask in done.places],
        "packed": list(done.packed),
    }


def _imported(done: Imported) -> dict[str, Any]:
    named = [{"name": name, "id": id} for name, id in zip(done.names, done.ids, strict=True)]
    return {"session": done.names[0], "restored": named, "new_ids": done.new_ids, **_contents(done.bundle)}


def _contents(bundle: Bundle) -> dict[str, Any]:
    return {
        "redacted": bundle.redacted,
        "outputs": bundle.outputs,
        "output_bytes": bundle.bytes,
        "sessions": [one.to_json() for one in bundle.sessions],
    }
