"""The commands that show something of a kept output: `ls`, `show`, `cat`, `read`, `tail`, `grep`, `slice`, `query`.

One library call each.
"""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Annotated, Any

import typer

from holdall.cli import show as screen
from holdall.cli.options import FOUND_NOTHING, Handle, Options, command, complete_handle
from holdall.text.escape import one_line
from holdall.text.numbers import age, grouped, plural, size
from holdall.values.errors import AnchorNotFound, WrongUse

if TYPE_CHECKING:
    from holdall.policy.folds import Coverage
    from holdall.values.answers import Passage
    from holdall.values.outputs import Facts

app = typer.Typer(rich_markup_mode=None)
_WINDOW = 1000  # characters around an anchor


@command(app)
async def ls(
    options: Options,
    sessions: Annotated[bool, typer.Option("--sessions", help="List the sessions instead.")] = False,
) -> int:
    """List the outputs that the session has kept, newest last."""
    if sessions:
        return await _sessions(options)
    async with options.read_bag() as bag:
        outputs, unreadable = await bag.outputs(), await bag.unreadable()
        if options.as_json:
            faults = {handle: str(fault) for handle, fault in unreadable.items()}
            listed = [facts.to_json() | {"seen": _seen(facts, bag.journal.coverage(facts.handle))} for facts in outputs]
            screen.as_json({"session": bag.session.name, "outputs": listed, "unreadable": faults})
        elif outputs:
            now = time.time()
            names = ["HANDLE", "TOOL", "STATE", "KIND", "SIZE", "LINES", "SEEN", "AGE"]
            rows = [_row(facts, bag.journal.coverage(facts.handle), now) for facts in outputs]
            screen.columns(names, rows, right=(4, 5, 6, 7))
        else:
            screen.about(f'nothing is kept in session "{bag.session.name}" yet: some-command | holdall put')
        if unreadable and not options.as_json:
            screen.about(f"records that cannot be read: {', '.join(unreadable)}; `holdall verify` says why")
        return 0 if outputs else FOUND_NOTHING


def _row(facts: Facts, coverage: Coverage, now: float) -> list[str]:
    state = "kept" if facts.state == "ready" else facts.state
    if facts.state == "running":
        state = f"running {age(now - facts.created)}"
    gone = facts.state in ("expired", "running")
    seen = _seen(facts, coverage)
    return [
        facts.handle,
        one_line(facts.origin.tool, 30) or "-",
        state,
        "-" if gone else facts.measure.kind,
        "-" if gone else size(facts.measure.bytes),
        "-" if gone else grouped(facts.measure.lines),
        screen.percent(seen) if seen else "-",
        age(now - facts.created),
    ]


def _seen(facts: Facts, coverage: Coverage) -> float | None:
    """The share that a model was shown; None where there is nothing, or not yet all, to be a share of."""
    if facts.state in ("expired", "running"):
        return None
    return round(coverage.share(facts.measure.bytes), 6) if coverage.shown.starts else 0.0


async def _sessions(options: Options) -> int:
    from holdall.bag import Care

    where = options.configuration()
    with Care.of(where.home, where.settings) as care:
        found = await care.sessions()
    if options.as_json:
        rows = [
            {"name": one.name, "id": one.id, "created": one.created, "retention": str(one.retention), "outputs": count}
            for one, count in found
        ]
        screen.as_json({"sessions": rows})
        return 0 if found else FOUND_NOTHING
    if not found:
        screen.about("there is no session yet: some-command | holdall put")
        return FOUND_NOTHING
    now = time.time()
    cells = [[one_line(one.name, 40), str(one.retention), grouped(n), age(now - one.created)] for one, n in found]
    screen.columns(["SESSION", "RETENTION", "OUTPUTS", "AGE"], cells, right=(2, 3))
    return 0


@command(app)
async def show(
    options: Options,
    handle: Annotated[
        str | None,
        typer.Argument(
            metavar="[HANDLE]", help="Handle or call id; with --tree a session.", autocompletion=complete_handle
        ),
    ] = None,
    tree: Annotated[
        bool, typer.Option("--tree", help="Show what an agent did in a session (default: the newest run).")
    ] = False,
) -> int:
    """Show the facts of an output: what it is, where it came from, its hash, and how much a model has seen of it.

    With --tree: what an agent did, turn by turn, with its model calls, tool calls, sub-agents and questions; how long
    each took, its tokens, its cost, and the handles of what was kept.

    \b
    Example:  holdall show k3f9
              holdall show --tree finder-3fa9c1
    """
    if tree:
        from holdall.cli.agents import show_tree

        return await show_tree(options, handle)
    if handle is None:
        raise WrongUse("show needs the handle of an output (`holdall ls` lists them), or --tree for an agent's run.")
    async with options.read_bag() as bag:
        facts = await bag.show(handle)
        flat = facts.to_json() | {"session_name": bag.session.name, "long_handle": facts.long_handle}
        running = facts.state == "running"  # its size is what there is of it now
        total = (await bag.find(handle, bytes=":0")).total.bytes if running else facts.measure.bytes
        seen = (await bag.coverage(handle)).to_json(total)
    if options.as_json:
        screen.as_json(flat | {"coverage": seen})
        return 0
    for name, value in flat.items():
        if value not in ("", None, [], False):
            print(f"{screen.paint(f'{name:<14}', 'dim')} {one_line(_fact(name, value), 2000)}")
    for name, value in _ledger(seen):
        print(f"{screen.paint(f'{name:<14}', 'dim')} {value}")
    return 0


def _ledger(seen: dict[str, Any]) -> list[tuple[str, str]]:
    """How much of the output a model has been shown, and which bytes a verb or another tool went over."""
    from holdall.policy.folds import WAYS

    rows = [("seen", screen.percent(seen["seen"]) if "shown" in seen else "nothing")]
    rows += [(way, f"bytes {screen.byte_ranges(seen[way])}") for way in WAYS if way in seen]
    return [*rows, ("retrievals", grouped(seen["retrievals"]))]


def _fact(name: str, value: Any) -> str:
    if name in ("created", "ended"):
        return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(value))
    if isinstance(value, int) and not isinstance(value, bool):
        return grouped(value)
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)


@command(app)
async def cat(options: Options, handle: Handle) -> int:
    """Print the exact bytes of an output, all of them, each block checked."""
    async with options.read_bag() as bag:
        if options.as_json:
            screen.as_json((await bag.read(handle, bytes=":", bounded=False)).to_json())
            return 0
        last = b""
        async for chunk in bag.stream(handle):
            screen.content(chunk)
            last = chunk
        screen.end_line(last)
        return 0


@command(app)
async def read(
    options: Options,
    handle: Handle,
    lines: Annotated[str | None, typer.Option("--lines", metavar="A:B", help="From line A to line B, both.")] = None,
    bytes: Annotated[str | None, typer.Option("--bytes", metavar="A:B", help="From byte A up to byte B.")] = None,
    chars: Annotated[str | None, typer.Option("--chars", metavar="A:B", help="From char A up to char B.")] = None,
) -> int:
    """Read a range of an output; without one, as much of its beginning as one answer holds.

    Lines count from 1 and include both ends, bytes and chars count from 0 and exclude the end. A: goes to the end,
    :B starts at the beginning, negative numbers count from the end. A range is printed whole, however long it is.

    \b
    Example:  holdall read k3f9 --lines 2860:2880
              holdall read k3f9 --bytes=-500:
    """
    ranged = (lines, bytes, chars) != (None, None, None)
    async with options.read_bag() as bag:
        if options.as_json or not ranged:
            passage = await bag.read(handle, lines=lines, bytes=bytes, chars=chars, bounded=not ranged)
            return _passage(options, passage)
        found = await bag.find(handle, lines=lines, bytes=bytes, chars=chars)
        last = b""
        if found.bytes.start < found.bytes.end:
            async for chunk in bag.stream(handle, found.bytes):
                screen.content(chunk)
                last = chunk
        screen.end_line(last)
        screen.about(screen.range_of(found))
        return FOUND_NOTHING if found.past_end else 0


@command(app)
async def tail(
    options: Options,
    handle: Handle,
    number: Annotated[int, typer.Option("-n", "--lines", metavar="N", min=0, help="How many lines.")] = 10,
    follow: Annotated[bool, typer.Option("-f", "--follow", help="Go on while it is being written.")] = False,
) -> int:
    """Print the last lines of an output; with -f, what is written to it until it ends."""
    async with options.read_bag() as bag:
        if not follow:
            passage = await bag.tail(handle, number, bounded=False)
            return _passage(options, passage, empty_is_fine=True)
        if options.as_json:
            raise WrongUse("tail -f goes on until the output ends; it has no --json.")
        async for chunk in bag.follow(handle, number):
            screen.content(chunk)
        facts = await bag.show(handle)
        if facts.state != "ready":
            screen.about(f"{handle} {facts.state}{': ' + facts.error if facts.error else ''}")
        return 0


@command(app)
async def slice_(
    options: Options,
    handle: Handle,
    start: Annotated[int | None, typer.Option("--start", metavar="N", min=0, help="First character, from 0.")] = None,
    length: Annotated[int | None, typer.Option("--length", metavar="N", min=0, help="How many characters.")] = None,
    anchor: Annotated[str | None, typer.Option("--anchor", metavar="TEXT", help="Text to slice around.")] = None,
    window: Annotated[
        int, typer.Option("--window", metavar="N", min=0, help="Characters around the anchor.")
    ] = _WINDOW,
    match_index: Annotated[
        int, typer.Option("--match-index", metavar="N", min=0, help="Which occurrence, from 0.")
    ] = 0,
) -> int:
    """Cut a piece out by characters: from a position, or around a text that stands in it.

    \b
    Example:  holdall slice k3f9 --anchor 'OutOfMemory' --window 400
    """
    if anchor is not None and (start, length) != (None, None):
        raise WrongUse("give --start and --length, or --anchor and --window, not both.")
    if anchor is None and (start, length) == (None, None):
        raise WrongUse("say what to slice: --start and --length, or an --anchor.")
    if anchor is None and (window, match_index) != (_WINDOW, 0):
        raise WrongUse("--window and --match-index go with --anchor.")
    async with options.read_bag() as bag:
        try:
            passage = await bag.slice(
                handle, start=start, length=length, anchor=anchor, window=window, match_index=match_index, bounded=False
            )
        except AnchorNotFound as problem:
            problem.args = (str(problem).replace("match_index", "--match-index"),)
            raise
        return _passage(options, passage, command="slice")


def _passage(options: Options, passage: Passage, *, command: str = "read", empty_is_fine: bool = False) -> int:
    if options.as_json:
        screen.as_json(passage.to_json())
    else:
        screen.content(passage.data)
        screen.end_line(passage.data)
        screen.about(screen.range_of(passage, command))
    return FOUND_NOTHING if passage.past_end and not empty_is_fine else 0


@command(app)
async def grep(
    options: Options,
    handle: Handle,
    pattern: Annotated[str, typer.Argument(help="Regular expression (no look-around, no back-references).")],
    ignore_case: Annotated[bool, typer.Option("-i", "--ignore-case", help="Ignore case.")] = False,
    fixed: Annotated[bool, typer.Option("-F", "--fixed", help="The pattern is plain text.")] = False,
    context: Annotated[
        int, typer.Option("-C", "--context", metavar="N", min=0, max=1000, help="N lines around each match.")
    ] = 0,
    most: Annotated[
        int, typer.Option("-m", "--max", metavar="N", min=1, max=100_000, help="Show at most N matches or values.")
    ] = 100,
    count: Annotated[bool, typer.Option("-c", "--count", help="Print only how many matches there are.")] = False,
    group: Annotated[
        bool, typer.Option("--group", help="Print how often each captured value (or each match) occurs.")
    ] = False,
    start: Annotated[int, typer.Option("--from", metavar="BYTE", min=0, help="Go on from this byte.")] = 0,
) -> int:
    """Search an output: LINE:BYTE:TEXT for each match, or a count, or a count of each value.

    A match in a long line comes with a window around it; `holdall read HANDLE --bytes` takes its byte. Patterns are
    matched within a line, in linear time; \\w \\d \\s \\b are ASCII.

    \b
    Example:  holdall grep k3f9 'Failed password for (\\S+)' --group
    """
    if count and group:
        raise WrongUse("--count is one number and --group one for each value: give one of the two.")
    if start and (count or group):
        raise WrongUse("--from is where the shown matches begin; --count and --group are of the whole output.")
    async with options.read_bag() as bag:
        found = await bag.grep(
            handle, pattern, ignore_case=ignore_case, literal=fixed, context=context,
            limit=most, count=count, group=group, start=start, bounded=False,
        )  # fmt: skip
    if options.as_json:
        screen.as_json(found.to_json())
    elif count:
        print(found.total)
    else:
        screen.groups(found) if group else screen.matches(found)
        screen.about(screen.found_in_all(found, start))
    return 0 if found.total and (found.matches or not start) else FOUND_NOTHING


@command(app)
async def query(
    options: Options,
    handle: Handle,
    sql: Annotated[str | None, typer.Argument(metavar="[SQL]", help="One SELECT over the table t.")] = None,
    path: Annotated[str | None, typer.Option("--path", help="JSONPath ($.a[*].b) or JSON Pointer (/a/0/b).")] = None,
    at: Annotated[str | None, typer.Option("--at", help="Path of the array or object that is the table.")] = None,
    most: Annotated[
        int | None, typer.Option("-m", "--max", metavar="N", min=1, help="Show at most N rows or values.")
    ] = None,
    skip: Annotated[
        int, typer.Option("--skip", metavar="N", min=0, help="With --path: leave out the first N values.")
    ] = 0,
) -> int:
    """Ask an output by SQL, or by a path into its JSON.

    JSON, NDJSON and CSV are the table t with their own columns; anything else is t(line_no, text). Nested arrays:
    unnest(items), or --at '$.items'.

    \b
    Example:  holdall query k3f9 "select count(*) from t where text like '%ERROR%'"
    """
    from holdall.values.answers import Table

    if (sql is None) == (path is None):
        raise WrongUse("give one SELECT, or --path with a JSONPath or JSON Pointer.")
    if path is not None and at is not None:
        raise WrongUse("--at chooses the table for SQL; with --path write one path.")
    if path is None and skip:
        raise WrongUse(f"--skip goes with --path; in SQL write OFFSET {skip}.")
    async with options.read_bag() as bag:
        found = await bag.query(handle, sql, path=path, at=at, limit=most, skip=skip, bounded=False)
    if options.as_json:
        screen.as_json(found.to_json())
        return 0 if found.total else FOUND_NOTHING
    if isinstance(found, Table):
        screen.rows(found)
        shown, noun = len(found.rows), "row"
        more = f"go on with OFFSET {found.next}"
    else:
        screen.nodes(found)
        shown, noun = len(found.nodes), "value"
        more = f"go on with --skip {found.next}"
        for place in screen.places(found):
            screen.about(place)
    parts = [plural(found.total, noun)]
    if found.next is not None:
        parts.append(f"{shown:,} shown; {more}")
    screen.about(" · ".join([*parts, *found.notes]))
    return 0 if found.total else FOUND_NOTHING
