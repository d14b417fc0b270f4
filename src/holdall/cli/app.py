"""Every command, its options and its help. What a command does is in `keep`, `fetch`, `run`, `care` and so on.

Those are imported only when their command runs: `holdall --help` costs little more than the import of typer.
"""

from typing import Annotated

import typer

from holdall.cli.app_background import stop, wait
from holdall.cli.app_bundle import export, import_
from holdall.cli.app_care import CARE
from holdall.cli.app_config import config_app
from holdall.cli.app_extract import extract
from holdall.cli.app_gateway import gateway
from holdall.cli.app_install import install, uninstall
from holdall.cli.app_run import run, show
from holdall.cli.app_view import view
from holdall.cli.options import Handle, Home, Json, Program, Session, common, runs

app = Program(
    name="holdall",
    no_args_is_help=True,
    rich_markup_mode=None,  # plain help: rich would treble the time that it takes to show
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.add_typer(config_app, name="config")


def _version(wanted: bool) -> None:
    if wanted:
        from holdall import __version__

        print(f"holdall {__version__}")
        raise typer.Exit


@app.callback()
def main(
    home: Home = None,
    session: Session = None,
    as_json: Json = False,
    settings: Annotated[
        list[str] | None, typer.Option("--set", metavar="NAME=VALUE", help="A setting for this command (see config).")
    ] = None,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Keep every tool output whole, and fetch exactly what you need of it.

    \b
    Start with:  some-command | holdall put
    or:          holdall exec -- some-command

    It prints what a model would see, with a handle. Then read, grep, slice or query that handle. Content goes to
    standard output as it is, everything about it to standard error. Exit codes: 0 done, 1 found nothing, 2 wrong
    use, 3 a fault of the store or of standard output.
    """
    del version
    common.home, common.session, common.as_json, common.settings = home, session, as_json, tuple(settings or ())


Tool = Annotated[str, typer.Option("--tool", help="Name of the tool that made the output.")]
CallId = Annotated[str, typer.Option("--call-id", help="Id of the call; it works like a handle afterwards.")]


@app.command()
@runs
async def put(
    tool: Tool = "", call_id: CallId = "", home: Home = None, session: Session = None, as_json: Json = False
) -> int:
    """Keep standard input; print what a model would see.

    \b
    Example:  curl -s https://example.com/big.json | holdall put --tool fetch
    """
    from holdall.cli import keep

    return await keep.put(tool, call_id, home, session, as_json or common.as_json)


@app.command(
    name="exec",
    context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
)
@runs
async def exec_(
    command: Annotated[list[str], typer.Argument(metavar="-- COMMAND...", help="The command and its arguments.")],
    tool: Tool = "",
    call_id: CallId = "",
    background: Annotated[
        bool, typer.Option("--background", "-b", help="Print its handle and return at once; it outlives the shell.")
    ] = False,
    report_to: Annotated[int, typer.Option(hidden=True)] = -1,
    home: Home = None,
    session: Session = None,
    as_json: Json = False,
) -> int:
    """Run a command and keep its output; its exit code is ours.

    On a terminal the output is shown as it comes; in a pipe you get what a model would see. Standard output and
    standard error are kept as they came, in one stream. While it runs, `holdall tail -f HANDLE` follows it,
    `holdall wait HANDLE` waits for its end or for a pattern, and `holdall stop HANDLE` ends it.

    \b
    Example:  holdall exec -- make -j2
              holdall exec --background -- make -j2 world
    """
    if background or report_to >= 0:
        from holdall.cli import keep as behind

        if report_to >= 0:
            return await behind.keep_in_background(
                command, tool, call_id, home, session, as_json or common.as_json, report_to
            )
        return await behind.execute(command, tool, call_id, home, session, as_json or common.as_json)
    from holdall.cli import keep

    return await keep.execute(command, tool, call_id, home, session, as_json or common.as_json)


app.command()(wait)
app.command()(stop)


@app.command()
@runs
async def ls(
    sessions: Annotated[bool, typer.Option("--sessions", help="List the sessions instead.")] = False,
    home: Home = None,
    session: Session = None,
    as_json: Json = False,
) -> int:
    """List the outputs that the session has kept, newest last."""
    from holdall.cli import fetch

    return await fetch.ls(sessions, home, session, as_json or common.as_json)


app.command()(show)


@app.command()
@runs
async def cat(handle: Handle, home: Home = None, session: Session = None, as_json: Json = False) -> int:
    """Print the exact bytes of an output, all of them, each block checked."""
    from holdall.cli import fetch

    return await fetch.cat(handle, home, session, as_json or common.as_json)


@app.command()
@runs
async def read(
    handle: Handle,
    lines: Annotated[str | None, typer.Option("--lines", metavar="A:B", help="From line A to line B, both.")] = None,
    bytes: Annotated[str | None, typer.Option("--bytes", metavar="A:B", help="From byte A up to byte B.")] = None,
    chars: Annotated[str | None, typer.Option("--chars", metavar="A:B", help="From char A up to char B.")] = None,
    home: Home = None,
    session: Session = None,
    as_json: Json = False,
) -> int:
    """Read a range of an output; without one, as much of its beginning as one answer holds.

    Lines count from 1 and include both ends, bytes and chars count from 0 and exclude the end. A: goes to the end,
    :B starts at the beginning, negative numbers count from the end. A range is printed whole, however long it is.

    \b
    Example:  holdall read k3f9 --lines 2860:2880
              holdall read k3f9 --bytes=-500:
    """
    from holdall.cli import fetch

    return await fetch.read(handle, lines, bytes, chars, home, session, as_json or common.as_json)


@app.command()
@runs
async def tail(
    handle: Handle,
    number: Annotated[int, typer.Option("-n", "--lines", metavar="N", min=0, help="How many lines.")] = 10,
    follow: Annotated[bool, typer.Option("-f", "--follow", help="Go on while it is being written.")] = False,
    home: Home = None,
    session: Session = None,
    as_json: Json = False,
) -> int:
    """Print the last lines of an output; with -f, what is written to it until it ends."""
    from holdall.cli import fetch

    return await fetch.tail(handle, number, follow, home, session, as_json or common.as_json)


@app.command()
@runs
async def grep(
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
    home: Home = None,
    session: Session = None,
    as_json: Json = False,
) -> int:
    """Search an output: LINE:BYTE:TEXT for each match, or a count, or a count of each value.

    A match in a long line comes with a window around it; `holdall read HANDLE --bytes` takes its byte. Patterns are
    matched within a line, in linear time; \\w \\d \\s \\b are ASCII.

    \b
    Example:  holdall grep k3f9 'Failed password for (\\S+)' --group
    """
    from holdall.cli import fetch

    ask = fetch.GrepAsk(pattern, ignore_case, fixed, context, most, count, group, start)
    return await fetch.grep(handle, ask, home, session, as_json or common.as_json)


@app.command(name="slice")
@runs
async def slice_(
    handle: Handle,
    start: Annotated[int | None, typer.Option("--start", metavar="N", min=0, help="First character, from 0.")] = None,
    length: Annotated[int | None, typer.Option("--length", metavar="N", min=0, help="How many characters.")] = None,
    anchor: Annotated[str | None, typer.Option("--anchor", metavar="TEXT", help="Text to slice around.")] = None,
    window: Annotated[int, typer.Option("--window", metavar="N", min=0, help="Characters around the anchor.")] = 1000,
    match_index: Annotated[
        int, typer.Option("--match-index", metavar="N", min=0, help="Which occurrence, from 0.")
    ] = 0,
    home: Home = None,
    session: Session = None,
    as_json: Json = False,
) -> int:
    """Cut a piece out by characters: from a position, or around a text that stands in it.

    \b
    Example:  holdall slice k3f9 --anchor 'OutOfMemory' --window 400
    """
    from holdall.cli import fetch

    ask = fetch.SliceAsk(start, length, anchor, window, match_index)
    return await fetch.slice(handle, ask, home, session, as_json or common.as_json)


@app.command()
@runs
async def query(
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
    home: Home = None,
    session: Session = None,
    as_json: Json = False,
) -> int:
    """Ask an output by SQL, or by a path into its JSON.

    JSON, NDJSON and CSV are the table t with their own columns; anything else is t(line_no, text). Nested arrays:
    unnest(items), or --at '$.items'.

    \b
    Example:  holdall query k3f9 "select count(*) from t where text like '%ERROR%'"
    """
    from holdall.cli import fetch

    ask = fetch.QueryAsk(sql, path, at, most, skip)
    return await fetch.query(handle, ask, home, session, as_json or common.as_json)


for _command in (extract, run, view, gateway, install, uninstall, *CARE):
    app.command()(_command)
app.command(name="export")(export)
app.command(name="import")(import_)
