"""The commands that show something of a kept output; one library call each."""

import json
import time
from dataclasses import dataclass
from typing import Any, NamedTuple

from holdall.bag import Care
from holdall.cli import show as screen
from holdall.cli.options import FOUND_NOTHING, configuration, look_bag
from holdall.policy.folds import WAYS, Coverage
from holdall.text.escape import one_line
from holdall.text.numbers import age, grouped, plural, size
from holdall.values.answers import Passage, Table
from holdall.values.errors import AnchorNotFound, WrongUse
from holdall.values.outputs import Facts

DEFAULT_WINDOW = 1000  # characters around an anchor


@dataclass(frozen=True, slots=True)
class GrepAsk:
    pattern: str
    ignore_case: bool
    literal: bool
    context: int
    limit: int
    count: bool
    group: bool
    start: int


class SliceAsk(NamedTuple):
    start: int | None
    length: int | None
    anchor: str | None
    window: int
    match_index: int


class QueryAsk(NamedTuple):
    sql: str | None
    path: str | None
    at: str | None
    limit: int | None
    skip: int


async def ls(sessions: bool, home: str | None, session: str | None, as_json: bool) -> int:
    if sessions:
        return await _sessions(home, as_json)
    async with look_bag(home, session) as bag:
        outputs, unreadable = await bag.outputs(), await bag.unreadable()
        if as_json:
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
        if unreadable and not as_json:
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


async def _sessions(home: str | None, as_json: bool) -> int:
    where = configuration(home)
    with Care.of(where.home, where.settings) as care:
        found = await care.sessions()
    if as_json:
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


async def show(handle: str | None, home: str | None, session: str | None, as_json: bool) -> int:
    if handle is None:
        raise WrongUse("show needs the handle of an output (`holdall ls` lists them), or --tree for an agent's run.")
    async with look_bag(home, session) as bag:
        facts = await bag.show(handle)
        flat = facts.to_json() | {"session_name": bag.session.name, "long_handle": facts.long_handle}
        running = facts.state == "running"  # its size is what there is of it now
        total = (await bag.find(handle, bytes=":0")).total.bytes if running else facts.measure.bytes
        seen = (await bag.coverage(handle)).to_json(total)
    if as_json:
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
    rows = [("seen", screen.percent(seen["seen"]) if "shown" in seen else "nothing")]
    rows += [(way, f"bytes {screen.byte_ranges(seen[way])}") for way in WAYS if way in seen]
    return [*rows, ("retrievals", grouped(seen["retrievals"]))]


def _fact(name: str, value: Any) -> str:
    if name in ("created", "ended"):
        return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(value))
    if isinstance(value, int) and not isinstance(value, bool):
        return grouped(value)
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)


async def cat(handle: str, home: str | None, session: str | None, as_json: bool) -> int:
    async with look_bag(home, session) as bag:
        if as_json:
            screen.as_json((await bag.read(handle, bytes=":", bounded=False)).to_json())
            return 0
        last = b""
        async for chunk in bag.stream(handle):
            screen.content(chunk)
            last = chunk
        screen.end_line(last)
        return 0


async def read(
    handle: str, lines: str | None, bytes: str | None, chars: str | None,
    home: str | None, session: str | None, as_json: bool,
) -> int:  # fmt: skip
    ranged = (lines, bytes, chars) != (None, None, None)
    async with look_bag(home, session) as bag:
        if as_json or not ranged:
            passage = await bag.read(handle, lines=lines, bytes=bytes, chars=chars, bounded=not ranged)
            return _passage(passage, as_json)
        found = await bag.find(handle, lines=lines, bytes=bytes, chars=chars)
        last = b""
        if found.bytes.start < found.bytes.end:
            async for chunk in bag.stream(handle, found.bytes):
                screen.content(chunk)
                last = chunk
        screen.end_line(last)
        screen.about(screen.range_of(found))
        return FOUND_NOTHING if found.past_end else 0


async def tail(handle: str, number: int, follow: bool, home: str | None, session: str | None, as_json: bool) -> int:
    async with look_bag(home, session) as bag:
        if not follow:
            passage = await bag.tail(handle, number, bounded=False)
            return _passage(passage, as_json, empty_is_fine=True)
        if as_json:
            raise WrongUse("tail -f goes on until the output ends; it has no --json.")
        async for chunk in bag.follow(handle, number):
            screen.content(chunk)
        facts = await bag.show(handle)
        if facts.state != "ready":
            screen.about(f"{handle} {facts.state}{': ' + facts.error if facts.error else ''}")
        return 0


async def slice(handle: str, ask: SliceAsk, home: str | None, session: str | None, as_json: bool) -> int:
    if ask.anchor is not None and (ask.start, ask.length) != (None, None):
        raise WrongUse("give --start and --length, or --anchor and --window, not both.")
    if ask.anchor is None and (ask.start, ask.length) == (None, None):
        raise WrongUse("say what to slice: --start and --length, or an --anchor.")
    if ask.anchor is None and (ask.window, ask.match_index) != (DEFAULT_WINDOW, 0):
        raise WrongUse("--window and --match-index go with --anchor.")
    async with look_bag(home, session) as bag:
        try:
            passage = await bag.slice(handle, **ask._asdict(), bounded=False)
        except AnchorNotFound as problem:
            problem.args = (str(problem).replace("match_index", "--match-index"),)
            raise
        return _passage(passage, as_json, command="slice")


def _passage(passage: Passage, as_json: bool, *, command: str = "read", empty_is_fine: bool = False) -> int:
    if as_json:
        screen.as_json(passage.to_json())
    else:
        screen.content(passage.data)
        screen.end_line(passage.data)
        screen.about(screen.range_of(passage, command))
    return FOUND_NOTHING if passage.past_end and not empty_is_fine else 0


async def grep(handle: str, ask: GrepAsk, home: str | None, session: str | None, as_json: bool) -> int:
    if ask.count and ask.group:
        raise WrongUse("--count is one number and --group one for each value: give one of the two.")
    if ask.start and (ask.count or ask.group):
        raise WrongUse("--from is where the shown matches begin; --count and --group are of the whole output.")
    async with look_bag(home, session) as bag:
        found = await bag.grep(
            handle, ask.pattern, ignore_case=ask.ignore_case, literal=ask.literal, context=ask.context,
            limit=ask.limit, count=ask.count, group=ask.group, start=ask.start, bounded=False,
        )  # fmt: skip
    if as_json:
        screen.as_json(found.to_json())
    elif ask.count:
        print(found.total)
    else:
        screen.groups(found) if ask.group else screen.matches(found)
        screen.about(screen.found_in_all(found, ask.start))
    return 0 if found.total and (found.matches or not ask.start) else FOUND_NOTHING


async def query(handle: str, ask: QueryAsk, home: str | None, session: str | None, as_json: bool) -> int:
    if (ask.sql is None) == (ask.path is None):
        raise WrongUse("give one SELECT, or --path with a JSONPath or JSON Pointer.")
    if ask.path is not None and ask.at is not None:
        raise WrongUse("--at chooses the table for SQL; with --path write one path.")
    if ask.path is None and ask.skip:
        raise WrongUse(f"--skip goes with --path; in SQL write OFFSET {ask.skip}.")
    async with look_bag(home, session) as bag:
        found = await bag.query(
            handle, ask.sql, path=ask.path, at=ask.at, limit=ask.limit, skip=ask.skip, bounded=False
        )
    if as_json:
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
