"""The commands that make one file of a session, and sessions of a file; part of `app`, in its manner."""

from typing import Annotated

import typer

from holdall.cli.options import Home, Json, common, runs


@runs
async def export(
    session: Annotated[str, typer.Argument(metavar="SESSION", help="Session by name or id.")],
    output: Annotated[str, typer.Option("-o", "--output", metavar="FILE", help="Where to; - is standard output.")],
    redact: Annotated[bool, typer.Option("--redact", help="Mask what looks like a secret, and say where.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Overwrite FILE where it exists.")] = False,
    home: Home = None,
    as_json: Json = False,
) -> int:
    """Write a session to one file: its outputs, records, notes, transcript, events and operation tree.

    The sessions of its sub-agents come with it. What the file holds is listed first. It is compressed with zstd, the
    same bytes each time, and only you can read it; `holdall import FILE` restores it on any machine.

    Without --redact the file holds everything, secrets too. With it, keys, tokens, passwords, private keys and
    connection strings are masked in all of these, and the file says where.

    \b
    Example:  holdall export build-42 -o build-42.holdall --redact
    """
    from holdall.cli import transfer

    return await transfer.export(session, output, redact, force, home, as_json or common.as_json)


@runs
async def import_(
    file: Annotated[str, typer.Argument(metavar="FILE", help="A file made by `holdall export`; - is standard input.")],
    name: Annotated[
        str | None, typer.Option("--as", metavar="NAME", help="Name of the restored session (default: its own).")
    ] = None,
    home: Home = None,
    as_json: Json = False,
) -> int:
    """Restore what `holdall export` wrote: every handle resolves to the same bytes.

    All or nothing: a file that is damaged, cut short or not what it says is refused, and the store stays as it is. A
    session that is there already is never touched. What is restored is kept until you remove it.

    \b
    Example:  holdall import build-42.holdall --as build-42-copy
    """
    from holdall.cli import transfer

    return await transfer.import_(file, name, home, as_json or common.as_json)
