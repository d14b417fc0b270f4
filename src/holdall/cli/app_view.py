"""`holdall view`, its options and its help; part of `app`, in its manner. What it does is in `view`."""

from typing import Annotated

import typer

from holdall.cli.options import Home, runs


@runs
async def view(
    port: Annotated[int, typer.Option("--port", "-p", min=0, max=65535, help="Listen here (0: any that is free).")] = 0,
    host: Annotated[str, typer.Option("--host", help="An address of this machine's own.")] = "127.0.0.1",
    no_open: Annotated[bool, typer.Option("--no-open", help="Only print the address; open no browser.")] = False,
    home: Home = None,
) -> int:
    """Look at sessions and outputs in a browser: what an agent did, turn by turn, and every byte that it got.

    Prints an address with a token, which is new with each start: whoever has it can look, and nobody else. It shows
    everything and changes nothing. Ctrl-C ends it.

    \b
    Example:  holdall view
              holdall view --no-open --port 8765
    """
    from holdall.cli import viewer

    return await viewer.view(host, port, home, browser=not no_open)
