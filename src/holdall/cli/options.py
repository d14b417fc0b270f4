"""The options that every command has, and how a command is run: open the session, do one thing, tell how it went.

Exit codes: 0 done, 1 found nothing, 2 wrong use, 3 a fault of the store, of something upstream, or of standard output.
No error of ours ever shows a traceback.
"""

import difflib
import functools
import inspect
import json
import sys
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, ParamSpec

import typer

from holdall.bag.core import store_as_it_is
from holdall.cli import streams
from holdall.config import Configuration
from holdall.text.escape import one_line
from holdall.values.errors import WrongUse
from holdall.values.handles import is_uuid

# Sessions as a person names them: by name, by id, by the name of their folder. None is made by looking for one.


_LISTED = 5


class Known(NamedTuple):
    """A session that is there."""

    name: str
    id: str
    parent: str  # the id of the session whose agent started it

    @property
    def folder(self) -> str:
        """The name that it can be opened under whatever it is called."""
        return f"session-{self.id}"


def sessions_at(found: Configuration) -> list[Known]:
    """All of the store, newest first."""
    with store_as_it_is(found.home, found.settings) as store:
        return [Known(one.name, one.id, one.parent) for one in store.sessions()] if store is not None else []


def find_session(found: Configuration, wanted: str) -> Known | None:
    with store_as_it_is(found.home, found.settings) as store:
        info = store.find_session(f"session-{wanted}" if is_uuid(wanted) else wanted) if store is not None else None
        return Known(info.name, info.id, info.parent) if info is not None else None


def session_named(found: Configuration, wanted: str) -> Known:
    """Raises WrongUse, which names those that it could be."""
    known = find_session(found, wanted)
    if known is not None:
        return known
    names = [one.name for one in sessions_at(found)]
    near = difflib.get_close_matches(wanted[:200], names, n=1)
    listed = ", ".join(one_line(name, 60) for name in names[:_LISTED]) or "none"
    hint = f" Did you mean {one_line(near[0], 60)}?" if near else ""
    raise WrongUse(
        f'there is no session "{one_line(wanted, 100)}". The newest are: {listed}. (`holdall ls --sessions` lists all.)'
        f"{hint}"
    )


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

    found = configuration(home, session)
    if found.sources["session"] == "--session":
        known = session_named(found, found.session)
    else:
        known = find_session(found, found.session)
    if known is None:
        return Holdall.open(session=found.session, settings=found.settings, store=nothing_kept())
    return Holdall.open(home=found.home, session=known.folder, settings=found.settings)


# The program around the commands.


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
            complain(problem, as_json=common.as_json)
            sys.exit(FAULT)
