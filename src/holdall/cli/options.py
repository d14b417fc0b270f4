"""The options that every command has, and how a command is run: open the session, do one thing, tell how it went.

Exit codes: 0 done, 1 found nothing, 2 wrong use, 3 a fault of the store, of something upstream, or of standard output.
No error of ours ever shows a traceback.
"""

import functools
import inspect
import json
import sys
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any, ParamSpec

import typer

from holdall.cli import streams

if TYPE_CHECKING:
    from holdall.bag import Holdall
    from holdall.config import Configuration

Home = Annotated[str | None, typer.Option("--home", help="Data folder (default: HOLDALL_HOME, or one of your own).")]
Session = Annotated[
    str | None, typer.Option("--session", "-s", help="Session by name (default: HOLDALL_SESSION, or 'cli').")
]
Json = Annotated[bool, typer.Option("--json", help="Print everything as one JSON object.")]

P = ParamSpec("P")

FOUND_NOTHING, WRONG_USE, FAULT = 1, 2, 3


@dataclass(slots=True)
class Common:
    """What was given before the name of the command; a command's own options win over these."""

    home: str | None = None
    session: str | None = None
    as_json: bool = False
    settings: tuple[str, ...] = ()


common = Common()


def complete_handle(incomplete: str) -> list[str]:
    """For the shell: the handles of the session. Silent on any trouble: a completion must never be in the way."""
    try:
        bag = look_bag(None, None)
        return [one.handle for one in bag.store.outputs(bag.session) if one.handle.startswith(incomplete)]
    except Exception:
        return []


Handle = Annotated[
    str, typer.Argument(metavar="HANDLE", help="Handle or call id of a kept output.", autocompletion=complete_handle)
]


def runs(command: Callable[P, Coroutine[Any, Any, int | None]]) -> Callable[P, None]:
    """A command as a coroutine that returns its exit code; its errors become one line and a code."""

    @functools.wraps(command)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        import asyncio

        from holdall.values.errors import HoldallError, NothingFound, StoreFault

        as_json = bool(kwargs.get("as_json")) or common.as_json
        try:
            code = asyncio.run(command(*args, **kwargs))
            sys.stdout.flush()
        except HoldallError as problem:
            complain(problem, as_json=as_json)
            is_fault = isinstance(problem, StoreFault)
            code = FAULT if is_fault else FOUND_NOTHING if isinstance(problem, NothingFound) else WRONG_USE
            if isinstance(problem, streams.NotPrinted):
                streams.drop_output()
        except BrokenPipeError:  # whoever read us has seen enough
            streams.drop_output()
            code = 0
        except OSError as problem:  # the store explains its own; what is left is as plain as the system tells it
            complain(problem, as_json=as_json)
            code = FAULT
        except KeyboardInterrupt:
            code = 130
        raise typer.Exit(code or 0)

    run.__signature__ = inspect.signature(command)  # type: ignore[attr-defined]
    return run


def complain(problem: Exception, *, as_json: bool) -> None:
    from holdall.text.escape import for_people

    if as_json:
        print(json.dumps({"error": type(problem).__name__, "message": str(problem)}), file=sys.stderr)
    else:
        print(f"holdall: {for_people(str(problem))}", file=sys.stderr)


def configuration(
    home: str | None = None,
    session: str | None = None,
    *,
    flags: Sequence[str] = (),
    front_matter: Mapping[str, Any] | None = None,
    places: Mapping[str, str] | None = None,
) -> "Configuration":
    """What the options, an agent's file, the environment and the configuration file say, for a command.

    `flags` are options of the command that are settings, as `--set` would write them; they go before those.

    A session of the command line does not end with a command: in no dialect do its outputs go when one is over, unless
    that was asked for.
    """
    from holdall import config
    from holdall.policy.retention import Retention

    found = config.load(
        home=home or common.home, session=session or common.session, flags=(*common.settings, *flags),
        front_matter=front_matter, places=places,
    )  # fmt: skip
    if found.settings.retention is None:
        return replace(found, settings=replace(found.settings, retention=str(Retention())))
    return found


def open_bag(home: str | None, session: str | None) -> "Holdall":
    """The session that the options, the environment and the configuration file name, open."""
    from holdall.bag import Holdall

    found = configuration(home, session)
    return Holdall.open(home=found.home, session=found.session, settings=found.settings)


def look_bag(home: str | None, session: str | None) -> "Holdall":
    """The same for a command that only looks: no session is made by looking for one, and no data folder.

    A session that the command line names must be there; one that is only the usual one is empty until it is.
    """
    from holdall.bag import Holdall
    from holdall.bag.core import nothing_kept
    from holdall.cli.sessions import find_session, session_named

    found = configuration(home, session)
    if found.sources["session"] == "--session":
        known = session_named(found, found.session)
    else:
        known = find_session(found, found.session)
    if known is None:
        return Holdall.open(session=found.session, settings=found.settings, store=nothing_kept())
    return Holdall.open(home=found.home, session=known.folder, settings=found.settings)
