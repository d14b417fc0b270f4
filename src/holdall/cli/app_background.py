"""`holdall wait` and `holdall stop`, their options and their help; part of `app`. `background` does the work."""

from typing import Annotated

import typer

from holdall.cli.options import Handle, Home, Json, Session, common, runs


@runs
async def wait(
    handle: Annotated[str | None, typer.Argument(help="The output to wait for (default: any that runs).")] = None,
    pattern: Annotated[str | None, typer.Option("--pattern", "-p", help="Until its output matches this.")] = None,
    seconds: Annotated[
        float | None, typer.Option("--timeout", "-t", metavar="SECONDS", help="No longer than this.")
    ] = None,
    home: Home = None,
    session: Session = None,
    as_json: Json = False,
) -> int:
    """Wait until a running command has ended, or until its output holds a pattern.

    Exit code 1 where the time was over first, where it ended without the pattern, or where nothing runs.

    \b
    Example:  holdall wait b7c4 --pattern 'error:'
    """
    from holdall.cli import keep as behind

    return await behind.wait(handle, pattern, seconds, home, session, as_json or common.as_json)


@runs
async def stop(handle: Handle, home: Home = None, session: Session = None, as_json: Json = False) -> int:
    """End a command that runs in the background; what it has written is kept."""
    from holdall.cli import keep as behind

    return await behind.stop(handle, home, session, as_json or common.as_json)
