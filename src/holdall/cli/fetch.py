"""The commands that show something of a kept output: `ls`, `show`, `cat`, and each verb that `wire.verbs` declares.

One library call each.
"""

from __future__ import annotations

import fnmatch
import functools
import json
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, TypeVar

import typer

from holdall.cli import progress, streams
from holdall.cli import show as screen
from holdall.cli.options import FOUND_NOTHING, Handle, Options, command, complete_from, complete_handle
from holdall.text.escape import one_line
from holdall.text.numbers import age, grouped, plural, size
from holdall.values.errors import AnchorNotFound, BadQuery, OutputDamaged, StoreFault, UsageError
from holdall.values.outputs import STATES
from holdall.values.patterns import lazy_pattern
from holdall.values.spans import Span
from holdall.wire.verbs import DEFAULT_WINDOW, DIFF, GREP, QUERY, READ, SLICE, TAIL, VERBS, Verb

if TYPE_CHECKING:
    from holdall.bag import Holdall
    from holdall.policy.folds import Coverage
    from holdall.values.answers import Fetched, Nodes, Table
    from holdall.values.outputs import Facts

app = typer.Typer(rich_markup_mode=None)
_STATES = ("kept", "removed", *STATES)
_ARGUMENT = lazy_pattern(r"(?:^|(?<= What ))(?:at|also)(?= (?:names|chooses) )")
_AT = lazy_pattern(r"\b(?:in|with) at(?=\.)")  # at the end of advice: `name one in at.`
_TOOL_CALL = lazy_pattern(r"query with at='?(.+?)'? and sql=\"(.*?)\"(?=\.$)")  # in what a model would be told


def _opened(options: Options) -> Holdall:
    """To show something of it: raises StdoutError where standard output is closed, since nobody would see it."""
    streams.check_stdout()
    return options.read_bag()


@command(app)
async def ls(
    options: Options,
    sessions: Annotated[
        bool,
        typer.Option("--sessions", help="List the sessions instead, and what each takes: the same bytes once."),
    ] = False,
    limit: Annotated[int | None, typer.Option("--limit", "-n", min=1, help="Only so many, the first of them.")] = None,
    sort: Annotated[str, typer.Option(metavar="KEY", help="age, size, lines, tool, kind or state.")] = "age",
    reverse: Annotated[bool, typer.Option("--reverse", "-r", help="The other way round.")] = False,
    tool: Annotated[str | None, typer.Option(metavar="GLOB", help="Only of these tools: 'git*'.")] = None,
    kind: Annotated[str | None, typer.Option(metavar="KIND", help="Only of this kind: json, csv, log.")] = None,
    state: Annotated[
        str | None,
        typer.Option(
            metavar="STATE",
            help="Only in this state: kept, running, failed, cancelled…",
            autocompletion=complete_from(_STATES),
        ),
    ] = None,
) -> int:
    """List the outputs that the session has kept, newest first.

    Largest first with --sort size; --reverse turns any order round. Of a running output, size and lines are those of
    what has come so far.

    \b
    Example:  holdall ls -n 10
              holdall ls --tool 'git*' --sort size
              holdall ls --state running
              holdall ls --sessions --sort size
    """
    wanted = {"tool": tool, "kind": kind, "state": state}
    if sort not in _SORTS:
        raise UsageError(f"--sort takes {', '.join(_SORTS)}, not {one_line(sort, 40)!r}.")
    if state is not None and state not in _STATES:
        raise UsageError(f"--state takes {', '.join(_STATES)}, not {one_line(state, 40)!r}.")
    if sessions:
        if sort not in ("age", "size") or any(wanted.values()):
            raise UsageError(
                "--tool, --kind and --state are for outputs; --sessions takes --limit, --reverse and --sort size."
            )
        return await _sessions(options, limit, by_size=sort == "size", reverse=reverse)
    async with _opened(options) as bag:
        kept = await bag.outputs()
        faults = {facts.handle: facts.error for facts in kept if facts.state == "unreadable"}
        rows = [_Listed(facts) for facts in reversed(kept)]
        rows = [row for row in rows if row.matches(wanted)]
        rows.sort(key=_SORTS[sort], reverse=sort in ("size", "lines"))
        outputs = _first(rows, limit, reverse=reverse)
        if options.as_json:
            listed = [
                _flat(row.facts) | {"seen": _seen(row.facts, bag.journal.coverage(row.handle))} for row in outputs
            ]
            told = [flat | row.so_far() for flat, row in zip(listed, outputs, strict=True)]
            more = len(outputs) < len(rows)
            screen.as_json({"session": bag.session.name, "outputs": told, "unreadable": faults, "more": more})
        elif outputs:
            now = time.time()
            names = ["HANDLE", "TOOL", "STATE", "KIND", "SIZE", "LINES", "SEEN", "AGE"]
            cells = [row.cells(bag.journal.coverage(row.handle), now) for row in outputs]
            screen.columns(names, cells, right=(4, 5, 6, 7))
        elif kept:
            asked = (("tool", tool), ("kind", kind), ("state", state))
            which = " and ".join(f"{name} {one_line(value, 40)}" for name, value in asked if value)
            screen.about(f"none of the {plural(len(kept), 'output')} is of {which}")
        else:
            way = f"some-command | holdall put{options.flags()}"
            screen.about(f'nothing is kept in session "{bag.session.name}" yet: {way}')
        if len(outputs) < len(rows) and not options.as_json:
            screen.about(f"{len(outputs):,} of {plural(len(rows), 'output')}; all of them without --limit")
        if faults and not options.as_json:
            screen.about(f"records that cannot be read: {', '.join(faults)}; `holdall verify` says why")
        return 0 if outputs else FOUND_NOTHING


class _Listed(NamedTuple):
    """An output in a list."""

    facts: Facts

    @property
    def handle(self) -> str:
        return self.facts.handle

    @property
    def state(self) -> str:
        if self.facts.is_removed:
            return "removed"
        return "kept" if self.facts.state == "ready" else self.facts.state

    def matches(self, wanted: Mapping[str, str | None]) -> bool:
        tool, kind, state = (wanted[name] for name in ("tool", "kind", "state"))
        return (
            (tool is None or fnmatch.fnmatchcase(self.facts.origin.tool, tool))
            and (kind is None or self.facts.measure.kind == kind)
            and (state is None or state in (self.state, self.facts.state))
        )

    def so_far(self) -> dict[str, Any]:
        return _so_far(self.facts) if _runs(self.facts) else {}

    def cells(self, coverage: Coverage, now: float) -> list[str]:
        facts, gone = self.facts, self.facts.state in ("expired", "unreadable")
        seen = _seen(facts, coverage)
        return [
            facts.handle,
            one_line(facts.origin.tool, 30) or "-",
            f"running {age(now - coverage.runs_since(facts.created))}" if _runs(facts) else self.state,
            "-" if gone or _runs(facts) else facts.measure.kind,
            "-" if gone else size(facts.measure.bytes),
            "-" if gone else grouped(facts.measure.lines),
            screen.percent(seen) if seen else "-",
            age(now - facts.created),
        ]


_SORTS: dict[str, Callable[[_Listed], Any]] = {
    "age": lambda _: 0,  # as they come: newest first
    "size": lambda row: row.facts.measure.bytes,
    "lines": lambda row: row.facts.measure.lines,
    "tool": lambda row: row.facts.origin.tool,
    "kind": lambda row: row.facts.measure.kind,
    "state": lambda row: row.state,
}

_Row = TypeVar("_Row")


def _first(rows: Sequence[_Row], limit: int | None, *, reverse: bool) -> Sequence[_Row]:
    return (rows[::-1] if reverse else rows)[:limit]


def _so_far(facts: Facts) -> dict[str, Any]:
    return {"so_far": {"bytes": facts.measure.bytes, "lines": facts.measure.lines}}


def _flat(facts: Facts) -> dict[str, Any]:
    """As it is recorded; that somebody removed it is in the state for people only, since programs know `expired`."""
    return facts.to_json() | ({"removed": True} if facts.is_removed else {})


def _runs(facts: Facts) -> bool:
    return facts.state == "running"


def _seen(facts: Facts, coverage: Coverage) -> float | None:
    """The share that a model was shown; None if there is nothing, or not yet all, to be a share of."""
    if facts.state in ("expired", "running", "unreadable"):
        return None
    return round(coverage.share(facts.measure.bytes), 6) if coverage.shown.starts else 0.0


async def _sessions(options: Options, limit: int | None, *, by_size: bool, reverse: bool) -> int:
    from holdall.bag import Care

    where = options.configuration()
    with Care.of(where.home, where.settings) as care:
        every_one = await care.listed()
        if by_size:
            largest = sorted(await care.held(every_one), key=lambda row: row[3], reverse=True)
            found = _first(largest, limit, reverse=reverse)
        else:
            found = await care.held(_first(every_one, limit, reverse=reverse))
    if options.as_json:
        rows = [
            {"name": one.name, "id": one.id, "created": one.created, "retention": one.retention.told,
             "outputs": count, "kept": kept, "bytes": taken}
            for one, count, kept, taken in found
        ]  # fmt: skip
        screen.as_json({"sessions": rows, "more": len(found) < len(every_one)})
        return 0 if found else FOUND_NOTHING
    if not found:
        screen.about("there is no session yet: some-command | holdall put")
        return FOUND_NOTHING
    now = time.time()
    cells = [
        [one_line(one.name, 40), one.retention.told, _left(count, kept), size(taken), age(now - one.created)]
        for one, count, kept, taken in found
    ]
    screen.columns(["SESSION", "RETENTION", "OUTPUTS", "TAKES", "AGE"], cells, right=(2, 3, 4))
    if len(found) < len(every_one):
        screen.about(f"{len(found):,} of {plural(len(every_one), 'session')}; all of them without --limit")
    return 0


def _left(count: int, kept: int) -> str:
    return grouped(kept) if kept else "none left" if count else "none"


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
        bool, typer.Option("--tree", help="Show what was done in a session (default: the newest with calls).")
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
        raise UsageError("show needs the handle of an output (`holdall ls` lists them), or --tree for an agent's run.")
    async with _opened(options) as bag:
        facts = await bag.show(handle)
        flat = _flat(facts) | {"session_name": bag.session.name, "long_handle": facts.long_handle}
        running, total = facts.state == "running", facts.measure
        if running:
            flat |= _so_far(facts)
        seen = bag.journal.coverage(facts.handle).to_json(total.bytes)
    if options.as_json:
        screen.as_json(flat | {"coverage": seen})
        return 0
    shown: dict[str, Any] = dict(flat)
    if shown.pop("removed", False):
        shown["state"] = "removed"
    if running:  # its facts are made at its end
        del shown["so_far"]
        shown |= {"bytes": f"{grouped(total.bytes)} so far", "lines": f"{grouped(total.lines)} so far"}
    if not shown.get("tokens_exact", True):
        shown["tokens"] = f"~{grouped(shown['tokens'])}"
    for name, value in shown.items():
        if value not in ("", None, [], False) or name in ("bytes", "lines"):
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
        return str(value) if name == "process" else grouped(value)  # it goes into `kill`
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)


@command(app)
async def cat(options: Options, handle: Handle) -> int:
    """Print the exact bytes of an output, all of them, each block checked."""
    async with _opened(options) as bag:
        if options.as_json:
            found = await bag.read(handle, bytes=":", bounded=False)
            bag.fetch.count("cat", {}, found)
            screen.as_json(found.to_json())
        else:
            await _stream(bag, "cat", handle, None)
            notes = (await bag.fetch.find(handle, bytes=":")).notes
            if notes:  # that it still runs, or ends early: `cat H > file` would look whole
                screen.about(" · ".join(notes))
        facts = await bag.show(handle)
        if facts.packed is not None and facts.state == "interrupted":
            raise StoreFault(f"this is not the whole of {handle}, only its first {facts.measure.bytes:,} bytes.")
        return 0


@command(app, READ)
async def read(options: Options, handle: str, **ranges: str | None) -> int:
    ranged = any(one is not None for one in ranges.values())
    async with _opened(options) as bag:
        if options.as_json or not ranged:
            found = await bag.read(handle, **ranges, bounded=not ranged)
            if ranged:
                bag.fetch.count("read", ranges, found)
            return _print(options, READ, found)
        found = await bag.fetch.find(handle, **ranges)
        await _stream(bag, "read", handle, found.bytes, **ranges)
        screen.about(screen.range_of(found, flags=options.flags()))
        return FOUND_NOTHING if found.past_end else 0


async def _stream(bag: Holdall, verb: str, handle: str, span: Span | None, **asked: Any) -> None:
    """Bytes as they are stored. What was printed counts, also where whoever reads them has seen enough."""
    start = at = span.start if span else 0
    last = b""
    try:
        async for chunk in bag.fetch.stream(handle, span):
            screen.content(chunk)
            at += len(chunk)
            last = chunk
    finally:
        if at > start:
            bag.fetch.count_bytes(verb, asked, (await bag.show(handle)).handle, Span(start, at))
    screen.end_line(last)


@command(app, TAIL)
async def tail(
    options: Options,
    handle: str,
    lines: int,
    follow: Annotated[bool, typer.Option("-f", "--follow", help="Go on while it is being written.")] = False,
) -> int:
    async with _opened(options) as bag:
        if not follow:
            last = await bag.tail(handle, lines, bounded=False)
            bag.fetch.count("tail", {"lines": lines}, last)
            _print(options, TAIL, last)
            return FOUND_NOTHING if last.past_end else 0
        if options.as_json:
            raise UsageError("tail -f goes on until the output ends; it has no --json.")
        printed = 0
        async for chunk in bag.fetch.follow(handle, lines):
            screen.content(chunk)
            printed += len(chunk)
        facts = await bag.show(handle)
        end = facts.measure.bytes
        bag.fetch.count_bytes("tail", {"lines": lines}, facts.handle, Span(max(0, end - printed), end))
        if facts.state != "ready":
            screen.about(f"{handle} {facts.state}{': ' + facts.error if facts.error else ''}")
        return 0


@command(app, QUERY)
async def query(
    options: Options,
    handle: str,
    csv: Annotated[bool, typer.Option("--csv", help="Rows of SQL as CSV; a missing value is an empty cell.")] = False,
    **given: Any,
) -> int:
    if csv and options.as_json:
        raise UsageError("--csv and --json are two forms of one answer: give one of the two.")
    if csv and given["path"] is not None:
        raise UsageError("--csv is for the rows of SQL; --path prints values as they are stored.")
    return await _fetch(QUERY, options, handle, csv=csv, **given)


@command(app, GREP, several=True)
async def grep(options: Options, handle: list[str], **given: Any) -> int:
    if len(handle) == 1:
        return await _fetch(GREP, options, handle[0], **given)
    if given["start"]:
        raise UsageError("--from is a byte of one output: search that one alone.")
    async with _opened(options) as bag:
        for one in handle:  # before anything is printed
            await bag.fetch.find(one, bytes=":0")
    codes: list[int] = []
    print('{"outputs": [' if options.as_json else "", end="")
    for one in handle:
        print(", " if options.as_json and codes else "", end="")
        codes.append(await _fetch(GREP, options, one, named=one, **given))
    print("]}\n" if options.as_json else "", end="")
    return min(codes)


async def _fetch(verb: Verb, options: Options, handle: str, **given: Any) -> int:
    """Any other verb: one call, printed by the kind of its answer, `named` where it is one of several."""
    from holdall.wire.tool import Ask

    if why := _mistake(verb.name, given):
        raise UsageError(why)
    rows = screen.csv_rows if given.pop("csv", False) else screen.rows
    name = given.pop("named", "")
    async with _opened(options) as bag:
        bounds = bag.core.bounds(bounded=False)
        # A person at a terminal gets a page; a pipe gets everything, as it is found.
        stream = None
        is_piped = not sys.stdout.isatty()
        if verb in (GREP, QUERY) and is_piped and given.get("limit") is None:
            stream = screen.Stream(as_json=options.as_json, rows=rows, name=name, in_groups=_has_context(given))
            bounds = replace(bounds, each=stream.add)
        elif verb is DIFF:
            bounds = replace(bounds, whole=is_piped)

        def text(seconds: float) -> str:
            what = given.get("pattern") or given.get("sql") or given.get("path") or ""
            parts = [f"{verb.name} {handle} {one_line(str(what), 60)}".rstrip(), progress.length(seconds)]
            return " · ".join([*parts, *([f"{stream.number:,} found so far"] if stream is not None else [])])

        try:
            with progress.reported(text, quiet=options.as_json):
                found = await bag.fetch.carry_out(Ask(verb.name, handle, given), bounds)
        except AnchorNotFound as problem:
            problem.args = (str(problem).replace("match_index", "--match-index"),)
            raise
        except OutputDamaged as problem:
            # Of a member, the bytes are those of what it is packed in.
            if verb is GREP and problem.behind and "!" not in handle and not (given["count"] or given["group"]):
                problem.args = (f"{problem} With --from {problem.behind} the search goes on behind them.",)
            raise
        except BrokenPipeError:
            if stream is not None and stream.last is not None:
                bag.fetch.count(verb.name, given, stream.last, stream.shown)
            raise
        except BadQuery as problem:
            said = _TOOL_CALL.sub(r'holdall query HANDLE "\2" --at \1', str(problem))
            problem.args = (_ARGUMENT.sub(r"--\g<0>", _AT.sub("with --at", said)),)
            raise
        bag.fetch.count(verb.name, given, found, None if stream is None else stream.shown)
        return _print(options, verb, found, name=name, stream=stream, rows=rows, **given)


for _verb in VERBS.values():
    if _verb not in (READ, TAIL, GREP, QUERY):
        command(app, _verb)(functools.partial(_fetch, _verb))


def _has_context(given: Mapping[str, Any]) -> bool:
    """Whether lines around each match are asked for."""
    return any(given.get(name) for name in ("context", "before", "after"))


def _mistake(verb: str, given: Mapping[str, Any]) -> str:
    """Flags that do not go together, in the words of the command line."""
    match verb, given:
        case "slice", {"start": start, "length": length, "anchor": anchor, "window": window, "match_index": index}:
            if anchor is not None and (start, length) != (None, None):
                return "give --start and --length, or --anchor and --window, not both."
            if anchor is None and (start, length) == (None, None):
                return "say what to slice: --start and --length, or an --anchor."
            if anchor is None and (window, index) != (DEFAULT_WINDOW, 0):
                return "--window and --match-index go with --anchor."
        case "grep", {"count": count, "group": group, "start": start}:
            if count and group:
                return "--count is one number and --group one for each value: give one of the two."
            if start and (count or group):
                return "--from is where the shown matches begin; --count and --group are of the whole output."
        case "query", {"sql": sql, "path": path, "at": at, "skip": skip}:
            if (sql is None) == (path is None):
                return "give one SELECT, or --path with a JSONPath or JSON Pointer."
            if path is not None and at is not None:
                return "--at chooses the table for SQL; with --path write one path."
            if path is None and skip:
                return f"--skip goes with --path; in SQL write OFFSET {skip}."
        case _:
            pass
    return ""


def _print(
    options: Options,
    verb: Verb,
    found: Fetched,
    *,
    name: str = "",
    count: bool = False,
    group: bool = False,
    start: int = 0,
    stream: screen.Stream | None = None,
    rows: screen.Rows = screen.rows,
    **given: Any,
) -> int:
    """The answer, by its kind, or the rest of it after what was streamed; the exit code."""
    from holdall.values.answers import Difference, Found, Passage

    if options.as_json and stream is not None:
        stream.end(found)
    elif options.as_json:
        screen.as_json(found.to_json() | ({} if isinstance(found, Passage) else {"more": screen.has_more(found)}))
    if isinstance(found, Passage):
        if not options.as_json:
            screen.content(found.data)
            screen.end_line(found.data)
            screen.about(screen.range_of(found, "slice" if verb is SLICE else "read", options.flags()))
        return FOUND_NOTHING if found.past_end else 0
    if isinstance(found, Found):
        about = name and f"{name}: "
        if not options.as_json and count:
            print(f"{name and f'{name}:'}{found.total}")
            if found.notes:  # a number of what has been written so far, or is there at all
                screen.about(about + " · ".join(found.notes))
        elif not options.as_json:
            screen.groups(found, name) if group else screen.matches(found, name=name, in_groups=_has_context(given))
            shown = stream.number if stream is not None else len(found.matches)
            screen.about(about + screen.found_in_all(found, start, shown))
        is_there = found.matches or not start or (stream is not None and stream.number)
        return 0 if found.total and is_there else FOUND_NOTHING
    if isinstance(found, Difference):
        if not options.as_json:
            screen.changes(found)
        return 0 if found.total else FOUND_NOTHING
    if not options.as_json:
        _print_query(found, stream, rows)
    return 0 if found.total else FOUND_NOTHING


def _print_query(found: Table | Nodes, stream: screen.Stream | None, rows: screen.Rows) -> None:
    from holdall.values.answers import Table
    from holdall.wire.answers import further_rows

    is_table = isinstance(found, Table)
    if stream is None:
        rows(found) if is_table else screen.nodes(found)
    for place in [] if is_table else screen.places(stream.first if stream else found, found.total):
        screen.about(place)
    parts = [plural(found.total, "row" if is_table else "value")]
    if found.next is not None:
        shown, more = (len(found.rows), further_rows(found)) if is_table else (len(found.nodes), f"--skip {found.next}")
        parts.append(f"{shown:,} shown; go on with {more}{screen.all_in_a_pipe()}")
    screen.about(" · ".join([*parts, *(_AT.sub("with --at", note) for note in found.notes)]))
