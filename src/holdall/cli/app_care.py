"""The commands that look after the store; part of `app`, in its manner."""

from typing import Annotated

import typer

from holdall.cli.options import Home, Json, Session, common, runs


@runs
async def gc(
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would go.")] = False,
    home: Home = None,
    session: Session = None,
    as_json: Json = False,
) -> int:
    """Remove what has expired, and what killed writers left behind. Expired outputs leave a tombstone."""
    from holdall.cli import maintain

    return await maintain.gc(dry_run, home, session, as_json or common.as_json)


@runs
async def verify(home: Home = None, session: Session = None, as_json: Json = False) -> int:
    """Read every kept byte again, compare every hash, and name what is damaged.

    All sessions; with --session only that one. Exit code 3 where something is damaged.
    """
    from holdall.cli import maintain

    return await maintain.verify(home, session, as_json or common.as_json)


@runs
async def stats(home: Home = None, session: Session = None, as_json: Json = False) -> int:
    """Totals: outputs kept, by kind and tool; tokens kept out of the context, retrievals. --session: only that one."""
    from holdall.cli import maintain

    return await maintain.stats(home, session, as_json or common.as_json)


@runs
async def doctor(home: Home = None, session: Session = None, as_json: Json = False) -> int:
    """Check that everything Holdall needs is there and works."""
    from holdall.cli import maintain

    return await maintain.doctor(home, session, as_json or common.as_json)


@runs
async def demo(
    model: Annotated[
        str | None, typer.Option("--model", metavar="NAME", help="Let a real model do it (default: a scripted one).")
    ] = None,
    keep: Annotated[bool, typer.Option("--keep", help="Keep its session, to look at with holdall view.")] = False,
    home: Home = None,
    session: Session = None,
    as_json: Json = False,
) -> int:
    """Watch an agent from a question to its report, on tools that return too much and take too long.

    It searches a log of ten megabytes, has another agent query a JSON export on one line, and crawls a slow site on
    this machine meanwhile. Shows what the context would have held without Holdall, and reads every byte back. Nothing
    is configured, and without --keep or --home nothing stays. Exit code 3 where a byte is not there.

    \b
    Example:  holdall demo
              holdall demo --keep && holdall view
              holdall demo --model gguf:qwen.gguf
    """
    from holdall.cli import demo as tour

    return await tour.demo(home, session, as_json or common.as_json, model, keep=keep)


CARE = (gc, verify, stats, doctor, demo)
