"""`holdall config` and its commands: their options and their help. What they do is in `configuration`.

That is imported only when one of them runs, as with every command.
"""

import typer

from holdall.cli.options import Home, Json, Session, common, runs

config_app = typer.Typer(no_args_is_help=True, rich_markup_mode=None)


@config_app.callback()
def config() -> None:
    """Show every setting and where its value came from.

    \b
    The later one of these wins:
      the default, which for the limits is the dialect's
      the file that `holdall config path` names
      the environment, as in HOLDALL_RETENTION=keep
      the front matter of an agent's file
      the command line, as in: holdall --set retention=keep put

    \b
    The file is TOML. What is different for one tool has a table of its own:
      max_inline_bytes = "100 KiB"
      [tools.fetch]
      store = "never"

    On the command line that is: holdall --set tools.fetch.store=never exec -- COMMAND
    """


@config_app.command()
@runs
async def show(home: Home = None, session: Session = None, as_json: Json = False) -> int:
    """Print every setting, its value, and where it came from.

    A limit that nobody set is the dialect's own. What is different for one tool is listed as tools.TOOL.NAME. With a
    setting that cannot be, it says what is wrong (exit code 2) and lists the defaults.

    \b
    Example:  holdall config show --json
    """
    from holdall.cli import configure

    return await configure.show(home, session, as_json or common.as_json)


@config_app.command()
@runs
async def path(as_json: Json = False) -> int:
    """Print the path of the configuration file, whether it is there or not.

    \b
    Example:  "$EDITOR" "$(holdall config path)"
    """
    from holdall.cli import configure

    return await configure.path(as_json or common.as_json)
