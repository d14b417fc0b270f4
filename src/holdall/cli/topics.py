"""`holdall help`: short pages about what several commands share, and the help of any command."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING, Annotated, Any

import typer

from holdall.cli import show
from holdall.cli.options import Options, command, complete_from
from holdall.text.escape import one_line
from holdall.values.errors import UsageError

if TYPE_CHECKING:
    from typer.core import TyperGroup

app = typer.Typer(rich_markup_mode=None)

TOPICS = {
    "handles": """\
Handles: the names of kept outputs

  some-command | holdall put        keeps it, and prints its handle, as k3f9
  holdall ls                        lists the handles of the session
  holdall read k3f9 --lines 1:20    uses one

A handle is valid in its session only. Where one is taken, the id of a call (put --call-id) works too, and:

  'k3f9!logs/app.log'   a member of a zip or tar; 'k3f9!#3' the third one
  'k3f9!'               what a gzip or zstd holds, the list of an archive, the text of a PDF
  'k3f9!page-3'         one page of a PDF

Your shell completes handles after: holdall --install-completion
Bytes stay until the retention of the session is over (holdall help settings), or until holdall rm k3f9.
""",
    "sessions": """\
Sessions: outputs that belong together

  holdall ls --sessions             lists them, newest first; --sort size: largest first
  holdall ls --session build        the outputs of one
  make | holdall put -s build       keeps in it, and makes it where it is new

Without --session (-s) it is HOLDALL_SESSION, else "cli". Commands that only read make no session: a name that does not
exist is refused, with those that do. Each run of an agent has a session of its own (holdall show --tree).

  holdall export build -o FILE      one file of it; holdall import FILE restores it
  holdall rm --session build        removes all of it; holdall gc --older-than 7d what is old
""",
    "ranges": """\
Ranges: read, tail and slice

  holdall read k3f9 --lines 10:20     lines 10 to 20; they count from 1, both ends are in
  holdall read k3f9 --lines 10:       from line 10 to the end
  holdall read k3f9 --lines=-20:      the last 20 lines (negative numbers need the =)
  holdall read k3f9 --bytes 0:100     bytes count from 0, the end is not in; --chars likewise
  holdall tail k3f9 -n 50             the last lines; -f goes on while it is written
  holdall slice k3f9 --anchor TEXT    around a text, wherever it stands

A range is printed whole and exactly as it is stored. What is said about it goes to standard error.
""",
    "patterns": r"""
Patterns: grep, and wait --pattern

  holdall grep k3f9 'ERROR.*timeout'       lines that match, as LINE:BYTE:TEXT
  holdall grep k3f9 -i 'failed'            ignore case; -F takes the pattern as plain text
  holdall grep k3f9 'user (\w+)' --group   how often each captured value occurs
  holdall grep k3f9 ERROR -C 2             with lines around; -B before, -A after
  holdall grep k3f9 ERROR --last -m 5      the last five
  holdall grep k3f9 -- '-rf'               a pattern that begins like a flag

Patterns are those of ripgrep, matched within a line and in linear time: no look-around, no back-references. Capture
what you want instead. \d \w \s \b are ASCII; \p{L} is any letter.
A terminal shows the first 100 lines; a pipe gets all of them.
""".lstrip("\n"),
    "sql": """\
SQL: query, over any output

  holdall query k3f9 "select count(*) from t where text like '%ERROR%'"
  holdall query k3f9 "select host, max(ms) from t group by host"
  holdall query k3f9 "describe t"             the columns of t
  holdall query k3f9 "from t" --at '$.items'  an array inside of JSON is the table
  holdall query k3f9 "select * from t join p8x2 using (id)" --also p8x2
  holdall query k3f9 "from t" --csv > all.csv
  holdall query k3f9 "from t join p8x2 using (id)" --at '$.items' --also p8x2    --at is about t alone

JSON, NDJSON, CSV, tables of the terminal, Parquet, Arrow and SQLite are the table t with their own columns; anything
else is t(line_no, text). --kind csv, tsv, table, json, ndjson or lines reads it as that. The SQL is DuckDB's, one
SELECT that sees these outputs and nothing else.
In a pipe there are all rows, below a line with the names of the columns, separated by tabs. A tab or a line end in a
value is \\t or \\n there, and a missing value NULL; --csv and --json have them exactly. For paths: holdall help paths.
""",
    "paths": """\
Paths: query --path and --at, into JSON

  holdall query k3f9 --path '$.items[*].name'      JSONPath: every name
  holdall query k3f9 --path '$.items[?@.ms>40]'    those that pass a filter
  holdall query k3f9 --path '$..id'                at any depth
  holdall query k3f9 --path /items/0/name          JSON Pointer: one value

NDJSON is an array of its lines: '$[3].name'. Values are printed exactly as they are stored, one after the other; where
they stand goes to standard error. --skip N leaves out the first ones.
With SQL, --at '$.items' makes an array the table (holdall help sql).
""",
    "background": """\
Background: commands that outlive the shell

  holdall exec -b -- make world     prints a handle and returns; the command outlives the shell
  holdall tail -f k3f9              follows it
  holdall wait k3f9                 waits for its end; the exit code is that of the command
  holdall wait k3f9 -p 'error:'     until its output has a line that matches; 1 if it ends without
  holdall wait k3f9 -t 60           no longer than 60 seconds; 1 if the time is over first
  holdall stop k3f9                 ends it; what it has written is kept
  holdall ls --state running        what runs

While it runs, read, grep and query see what there is so far.
""",
    "settings": """\
Settings: limits, retention, models

  holdall config show               every setting, its value, and where that came from
  holdall config path               where the file is (TOML)

The later one of these wins: the default, the file, the environment (HOLDALL_RETENTION=keep), the front matter of an
agent's file, the command line (holdall --set retention=keep put). For one tool: --set tools.fetch.store=never.

  retention            how long outputs are kept: 30 days, 12h, keep, or session: until the agent or program that has
                       the session open ends it; commands end none, so what they keep stays
  quota_bytes          what a store may hold; session_quota_bytes likewise
  max_inline_tokens    what is larger is kept, and a notice takes its place; also _bytes, _chars, _lines
  grep_seconds         the longest that one search or diff may take; query_seconds likewise
  extraction_model     the model that answers holdall extract

Sizes take units ("100 KiB"), times are seconds and take fractions (0.5).
""",
    "exit-codes": """\
Exit codes: what a script can rely on

  0    done
  1    found nothing: no match, no row, a range past the end, nothing to list or to wait for
  2    wrong use: an unknown handle, flags that do not go together, SQL that cannot be run
  3    a fault of the store (an output that was removed is one), of something upstream, or of standard output
  130  Ctrl-C; put that is ended by a signal: 128 and its number, with what came kept

exec and wait have the exit code of the command; 3 where not all that it wrote is kept, or its writer was killed.
put of several files: 0 only where all of them are kept.
A reader that has seen enough (| head) is no error: 0.
With --json an error is one object on standard error: {"error": …, "message": …}.
""",
    "pipes": """\
Pipes: what goes to which stream, and how much of it

Content goes to standard output exactly as it is stored, all that is said about it to standard error. On a terminal
signs that could do harm are shown as escapes, and what grep, query and diff find is shown by the page; a pipe gets
all of it. read is by the page in a pipe too, unless it is given a range; cat prints all.

  holdall cat k3f9 > whole.txt
  holdall read k3f9 --lines 1: | sort
  holdall grep k3f9 ERROR | wc -l
  holdall query k3f9 "from t" > all.tsv
  holdall grep k3f9 ERROR --json | jq '.matches[].line'

--json prints one object; "more" says whether there is more than it shows. What ls calls kept has the state "ready".
Progress of what takes long is shown on standard error: one line on a terminal, else a line from time to time.
""",
}
_OTHER_NAMES = {"exit": "exit-codes", "codes": "exit-codes", "regex": "patterns", "jsonpath": "paths", "json": "pipes"}


@command(app, home=None, session=None)
async def help_(
    options: Options,
    words: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[TOPIC|COMMAND]",
            help="What to explain (default: the topics).",
            autocompletion=complete_from(TOPICS),
        ),
    ] = None,
) -> int:
    """Explain a topic, or a command. Without a name: the list of topics.

    \b
    Example:  holdall help patterns
              holdall help grep
    """
    asked = [one.lower() for one in words or ()]
    name = "-".join(asked)
    text = _listed() if not asked else TOPICS.get(_OTHER_NAMES.get(name, name)) or _of_command(asked)
    if options.as_json:
        show.as_json({"topic": name, "topics": list(TOPICS), "text": text})
    else:
        show.content(show.encoded(text))
    return 0


def _listed() -> str:
    lines = [f"  {name:<12} {text.partition(chr(10))[0].partition(': ')[2]}".rstrip() for name, text in TOPICS.items()]
    return "\n".join(
        ["Topics (holdall help TOPIC):", "", *lines, "", "A command: holdall help grep. All of them: holdall -h", ""]
    )


def _of_command(words: list[str]) -> str:
    """Its own help. Raises UsageError where there is no such command."""
    from holdall.cli.app import app as program

    group: Any = typer.main.get_group(program)
    context = typer.Context(group, info_name="holdall", **group.context_settings)
    names: list[str] = []
    for word in words:
        names = _names(group, context)
        if word not in names:
            near = difflib.get_close_matches(word, [*TOPICS, *names], n=1)
            hint = f" Did you mean {near[0]}?" if near else ""
            raise UsageError(
                f"there is no topic and no command {one_line(' '.join(words), 60)!r}.{hint} "
                f"Topics: {', '.join(TOPICS)}. Commands: holdall -h."
            )
        found = group.resolve_command(context, [word])[1]
        context = typer.Context(found, info_name=word, parent=context)
        group = found
    return group.get_help(context) + "\n"


def _names(group: TyperGroup, context: typer.Context) -> list[str]:
    return group.list_commands(context) if hasattr(group, "list_commands") else []
