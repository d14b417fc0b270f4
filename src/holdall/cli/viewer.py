"""`view`: the sessions of the store in a browser, until Ctrl-C. The address is all that goes to standard output."""

import logging
import os
from typing import TYPE_CHECKING, Annotated

import typer

from holdall.cli import show as screen
from holdall.cli.options import Options, command
from holdall.text.escape import for_people

if TYPE_CHECKING:
    from holdall.web.server import Ready

app = typer.Typer(rich_markup_mode=None)


# What a browser is told to open is in the process list, which everybody here can read. A file of ours is not read by
# others.
WAY_IN = '<!doctype html><title>Holdall</title><meta http-equiv="refresh" content="0;url={address}">'


@command(app, session=None, as_json=None)
async def view(
    options: Options,
    port: Annotated[int, typer.Option("--port", "-p", min=0, max=65535, help="Listen here (0: any that is free).")] = 0,
    host: Annotated[str, typer.Option("--host", help="An address of this machine's own.")] = "127.0.0.1",
    no_open: Annotated[bool, typer.Option("--no-open", help="Only print the address; open no browser.")] = False,
) -> int:
    """Look at sessions and outputs in a browser: what an agent did, turn by turn, and every byte that it got.

    Prints an address with a token, which is new with each start: whoever has it can look, and nobody else. It shows
    everything and changes nothing. Ctrl-C ends it.

    \b
    Example:  holdall view
              holdall view --no-open --port 8765
    """
    import asyncio
    import tempfile
    import webbrowser
    from contextlib import ExitStack
    from html import escape
    from pathlib import Path

    from holdall.web.server import serve

    found = options.configuration()
    is_empty = "://" not in found.home and not os.path.exists(found.home)  # noqa: ASYNC240 - nothing else runs yet
    _log()
    opening: list[asyncio.Task[bool]] = []

    with ExitStack() as leaving:

        def ready(at: "Ready") -> None:
            print(at.address, flush=True)
            nothing = ", where nothing is kept yet" if is_empty else ""
            screen.about(f"looking at {found.shown_home}{nothing}; Ctrl-C ends it")
            if not no_open:
                folder = leaving.enter_context(tempfile.TemporaryDirectory(prefix="holdall-view-"))
                page = Path(folder, "open.html")
                page.touch(0o600)
                page.write_text(WAY_IN.format(address=escape(at.once)), encoding="utf-8")
                opening.append(asyncio.ensure_future(asyncio.to_thread(webbrowser.open, page.as_uri())))

        await serve(found.home, host, port, ready, settings=found.settings)
    return 0


class _Handler(logging.Handler):
    """One line for each event, safe to look at."""

    def emit(self, record: logging.LogRecord) -> None:
        screen.about(f"holdall: {for_people(record.getMessage())}")


def _log() -> None:
    logger = logging.getLogger("holdall")
    logger.addHandler(_Handler(logging.WARNING))
    logger.propagate = False
