"""The program: which module has which command, and what may stand before its name.

A command is declared and done in one module, which is imported when that command is named, or when all are listed.
"""

import importlib
import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

from holdall.cli import streams
from holdall.cli.options import FAULT, Home, Json, Options, Session, print_error

if TYPE_CHECKING:
    from typer.core import TyperCommand

_MODULES = {
    "keep": ("put", "exec", "wait", "stop"),
    "fetch": ("ls", "show", "cat", "read", "tail", "grep", "slice", "query"),
    "ask": ("extract",),
    "agents": ("run",),
    "viewer": ("view",),
    "servers": ("gateway", "install", "uninstall"),
    "maintain": ("gc", "verify", "stats", "doctor"),
    "demo": ("demo",),
    "transfer": ("export", "import"),
    "configure": ("config",),
}
_MODULE_OF = {name: module for module, names in _MODULES.items() for name in names}


class Commands(TyperGroup):
    """All commands by name; the module of one is imported when it is asked for."""

    def list_commands(self, ctx: typer.Context) -> list[str]:  # noqa: ARG002 - typer's signature
        return list(_MODULE_OF)

    def get_command(self, ctx: typer.Context, cmd_name: str) -> "TyperCommand | TyperGroup | None":
        if cmd_name in _MODULE_OF and cmd_name not in self.commands:
            module = importlib.import_module(f"holdall.cli.{_MODULE_OF[cmd_name]}")
            self.commands.update(typer.main.get_group(module.app).commands)
        return super().get_command(ctx, cmd_name)

    def resolve_command(self, ctx: typer.Context, args: list[str]) -> Any:
        if args and args[0] not in _MODULE_OF:
            for name in _MODULE_OF:  # typer suggests one of those that are there
                self.get_command(ctx, name)
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
        except streams.NotPrinted as problem:
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
    ctx.obj = Options(home, session, as_json, tuple(settings or ()))
