"""The program: which module has which command, and what may be before its name.

A command is declared and done in one module, which is imported when that command is called.
"""

import importlib
import sys
from typing import Annotated, Any, cast

import typer
from typer.core import TyperCommand, TyperGroup

from holdall.cli import streams
from holdall.cli.options import FAULT, WRONG_USE, Home, Json, Options, Session, print_error
from holdall.values.errors import UsageError
from holdall.wire.verbs import VERBS, WAIT

# By module: each command with the first sentence of its help, so that listing them imports none of them.
_COMMANDS = {
    "keep": {
        "put": "Keep files, or standard input; print what a model would see.",
        "exec": "Run a command and keep its output; its exit code is ours.",
        "wait": WAIT.summary,
        "stop": "End a command that runs in the background; what it has written is kept.",
    },
    "fetch": {
        "ls": "List the outputs that the session has kept, newest first.",
        "show": "Show the facts of an output: what it is, where it came from, its hash, and how much a "
        "model has seen of it.",
        "cat": "Print the exact bytes of an output, all of them, each block checked.",
        **{verb.name: verb.summary for verb in VERBS.values()},
    },
    "ask": {"extract": "Ask a model about an output, and prove what it quotes."},
    "agents": {"run": "Run an agent, a Markdown file with YAML front matter, until it reports."},
    "viewer": {
        "view": "Look at sessions and outputs in a browser: what an agent did, turn by turn, and every "
        "byte that it got.",
    },
    "servers": {
        "gateway": "Stand in front of MCP servers: a result that is too large or too slow is kept, and the "
        "client gets a handle.",
        "install": "Put every MCP server of a client behind the gateway.",
        "uninstall": "Take the gateway out of a client's configuration again.",
        "hook": "Put a notice in place of a large result: for the settings of a coding agent.",
    },
    "maintain": {
        "gc": "Remove what has expired and, after an hour, what killed writers left. Expired outputs leave tombstones.",
        "rm": "Remove outputs for good, or all that a session holds. A tombstone says that they were there.",
        "verify": "Read every kept byte again, compare every hash, and name what is damaged.",
        "stats": "Totals: outputs kept, tokens kept out, retrievals, model calls and cost. --session: with its agents.",
        "doctor": "Check that everything Holdall needs is there and works.",
    },
    "demo": {"demo": "Watch an agent from a question to its report, on tools that return too much and take too long."},
    "transfer": {
        "export": "Write a session to one file: its outputs, records, notes, transcript, events and operation tree.",
        "import": "Restore what `holdall export` wrote: every handle resolves to the same bytes.",
        "copy": "Copy a session to another store: a folder, or one for many hosts.",
    },
    "configure": {"config": "Show every setting and where its value came from."},
    "topics": {"help": "Explain a topic, or a command. Without a name: the list of topics."},
}
_Misuse = cast(
    "type[typer.BadParameter]", typer.BadParameter.__mro__[1]
)  # every error of an argument, a flag or a name; typer has no word for it
_MODULE_OF = {name: module for module, commands in _COMMANDS.items() for name in commands}


class Commands(TyperGroup):
    """All commands by name. Each is a sentence until it is called: then its module is imported."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        for commands in _COMMANDS.values():
            self.commands.update({name: TyperCommand(name, help=text) for name, text in commands.items()})

    def invoke(self, ctx: Any) -> Any:
        as_json = ctx.params["as_json"] or "--json" in ctx.args
        try:
            return super().invoke(ctx)
        except _Misuse as problem:
            if (name := getattr(problem, "option_name", "")) in ("--set", "--objects"):
                said = problem.message.rstrip(".")  # typer ends some of its sentences, in some of its versions
                problem.message = f"{said}. It goes before the command: holdall {name} … {ctx.invoked_subcommand}"
            if not as_json:
                raise
            print_error(UsageError(problem.format_message()), as_json=True)
            raise typer.Exit(WRONG_USE) from None

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        if module := _MODULE_OF.get(args[0]):
            declared = importlib.import_module(f"holdall.cli.{module}").app
            commands = [one for one in declared.registered_commands if one.name == args[0]]
            if commands:  # this one only: to build a command takes a millisecond, and some modules have eight
                self.commands[args[0]] = typer.main.get_command_from_info(
                    commands[0], pretty_exceptions_short=False, rich_markup_mode=None
                )
            else:  # a group
                self.commands.update(typer.main.get_group(declared).commands)
        return super().resolve_command(ctx, args)


class Program(typer.Typer):
    """Every command, also those of typer's own (help, completion), with streams that can be counted on."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        streams.prepare()
        try:
            try:
                return super().__call__(*args, **kwargs)
            finally:
                sys.stdout.flush()
        except BrokenPipeError:
            streams.drop_output()
        except streams.StdoutError as problem:
            streams.drop_output()
            print_error(problem, as_json=False)
            sys.exit(FAULT)


app = Program(
    name="holdall",
    cls=Commands,
    no_args_is_help=True,
    rich_markup_mode=None,  # plain help: rich would treble the time that it takes to show
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(wanted: bool) -> None:
    if wanted:
        from holdall import __version__

        print(f"holdall {__version__}")
        raise typer.Exit


@app.callback()
def main(
    ctx: typer.Context,
    home: Home = None,
    session: Session = None,
    as_json: Json = False,
    objects: Annotated[
        str | None, typer.Option("--objects", help="Where the bytes of postgresql://… go (default: HOLDALL_OBJECTS).")
    ] = None,
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
    use, 3 a fault of the store or of standard output. `holdall help` explains handles, patterns, SQL and more.
    """
    del version
    ctx.obj = Options(home, session, as_json, (*((f"objects={objects}",) if objects else ()), *(settings or ())))
