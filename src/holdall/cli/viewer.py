"""`view`: the sessions of the store in a browser, until Ctrl-C. The address is all that goes to standard output."""

import asyncio
import logging
import webbrowser

from holdall.cli import show as screen
from holdall.cli.options import configuration
from holdall.text.escape import for_people
from holdall.web.server import Ready, serve


async def view(host: str, port: int, home: str | None, *, browser: bool) -> int:
    found = configuration(home)
    _log()
    opening: list[asyncio.Task[bool]] = []

    def ready(at: Ready) -> None:
        print(at.address, flush=True)
        screen.about(f"looking at {found.home}; Ctrl-C ends it")
        if browser:
            opening.append(asyncio.ensure_future(asyncio.to_thread(webbrowser.open, at.once)))

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
