"""How a command is declared: with the options that all commands have, its errors as one line, and an exit code.

Exit codes: 0 done, 1 found nothing, 2 wrong use, 3 a fault of the store, of something upstream, or of standard output.
No error of ours ever shows a traceback.

The module of a command is imported to show its help. So what takes long to import (asyncio, the bag, agents, MCP) is
imported inside of the functions that use it, here and in all of them.
"""

import contextlib
import errno
import importlib
import inspect
import os
import sys
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, TypeVar

import typer

from holdall.cli import streams
from holdall.text.escape import for_people, one_line, shell_quoted, without_passwords
from holdall.values.errors import (
    HoldallError,
    NothingFound,
    NotTrusted,
    StoreFault,
    UnknownHandle,
    UsageError,
    json_name,
)
from holdall.values.patterns import lazy_pattern
from holdall.values.record import record
from holdall.wire.verbs import Verb

if TYPE_CHECKING:
    from holdall.bag import Holdall
    from holdall.config import Configuration
    from holdall.values.settings import Settings
    from holdall.wire.dialect import Dialect

FOUND_NOTHING, WRONG_USE, FAULT = 1, 2, 3
_LISTED = 5
_LOOKED_INTO = 200  # sessions, the newest
_HINT = lazy_pattern(r"`(holdall (?:ls|(?:stop|wait) [^\s`]+))`")  # commands for the session that an error is about
# Advice in errors names the arguments of the library.
_AS_OPTIONS = (
    ("or pass force=True.", "or add --force."),
    ("Choose another one with name=NAME.", "Choose another name with --as NAME."),
    ("Remove them (bag.forget), or", "Remove them (holdall rm HANDLE), or"),
    ("as they are with with_packed=True.", "as they are with --with-packed."),
    ("import it with a larger max_ratio.", "import it with --max-ratio and a larger number."),
    (" with group=True", " with --group"),
)

Home = Annotated[
    str | None,
    typer.Option("--home", help="Data folder or postgresql://… (default: HOLDALL_HOME)."),
]


def complete_from(names: Iterable[str]) -> Callable[[str], list[str]]:
    def complete(incomplete: str) -> list[str]:
        return [one for one in names if one.startswith(incomplete)]

    return complete


def complete_session(ctx: typer.Context, incomplete: str) -> list[str]:
    """For the shell, as `complete_handle`. The names come from conversations and bundles, and shells run what is in a
    completion: one that would need quotes is not offered."""
    try:
        found = Options(ctx.params.get("home")).configuration()
        names = [one.name for one in sessions_at(found) if one.name.startswith(incomplete)]
        return [name for name in names if shell_quoted(name) == name and name[0].isalnum()]
    except Exception:
        return []


def _session(default: str) -> Any:
    return typer.Option(
        "--session", "-s", autocompletion=complete_session, help=f"Session by name (default: {default})."
    )


Session = Annotated[str | None, _session("HOLDALL_SESSION, or 'cli'")]
OneSession = Annotated[str | None, _session("all of them")]
Json = Annotated[bool, typer.Option("--json", help="Print everything as one JSON object.")]


@record
class Options:
    """The options that all commands have. Those after a command's name go before those that precede it."""

    home: str | None = None
    session: str | None = None
    as_json: bool = False
    settings: tuple[str, ...] = ()

    def configuration(
        self,
        *,
        session: str | None = None,
        flags: Sequence[str] = (),
        front_matter: Mapping[str, Any] | None = None,
        places: Mapping[str, str] | None = None,
    ) -> "Configuration":
        """What the options, an agent's file, the environment and the configuration file say, for a command.

        `flags` are options of the command that are settings, as `--set` would write them; they go before those.
        """
        from holdall import config

        return config.load(
            home=self.home, session=session or self.session, flags=(*self.settings, *flags),
            front_matter=front_matter, places=places,
        )  # fmt: skip

    def open_bag(self) -> "Holdall":
        """The session that the options, the environment and the configuration file name; made if there is none."""
        from holdall.bag import Holdall

        found = self.configuration()
        bag = Holdall.open(
            home=found.home, session=found.session, settings=found.settings, dialect=lasting(found.settings)
        )
        bag.core.only_look()
        bag.journal.reader = reader_in(found.session)
        bag.core.shell = self.flags()
        return bag

    def flags(self) -> str:
        """What a command for the same session needs, as this one was given it: ` --home /data --session build`."""
        if not self.home and not self.session:
            return ""
        found = self.configuration()
        given = (("--home", found.shown_home, self.home), ("--session", found.session, self.session))
        return "".join(f" {flag} {shell_quoted(str(value))}" for flag, value, told in given if told)

    def read_bag(self) -> "Holdall":
        """The same for a command that only reads: it makes no session and no data folder, and changes no retention.

        A session that the command line names must exist; the default one is empty until it does.
        """
        from holdall.bag import Holdall
        from holdall.bag.core import empty_view_store

        found = self.configuration()
        if found.sources["session"] == "--session":
            known = session_named(found, found.session)
        else:
            known = find_session(found, found.session)
        if known is None:
            return Holdall.open(session=found.session, settings=found.settings, store=empty_view_store())
        return visited(found, known.folder)


def lasting(settings: "Settings") -> "Dialect":
    """The dialect for a session of the command line: in none do its outputs go when a command is over."""
    from holdall.wire.dialects import dialect_of

    return replace(dialect_of(settings), keeps_for_session=False)


def reader_in(session: str) -> str:
    """Who reads what a command prints: a person, unless it is said otherwise, or the shell is that of a coding agent.

    The ledger of a session is about its model. A hook names the session of an agent, and its notices have commands for
    the agent's shell, which is no terminal.
    """
    from holdall.cli.hook import SESSION_PREFIXES
    from holdall.policy.folds import PERSON

    said = os.environ.get("HOLDALL_READER", "").strip().lower()
    if said not in ("", "model", PERSON):
        raise UsageError(f"HOLDALL_READER is {one_line(said, 40)!r}; it must be model or person, or left out.")
    is_model = said == "model" or (not said and session.startswith(SESSION_PREFIXES) and not sys.stdout.isatty())
    return "" if is_model else PERSON


def visited(found: "Configuration", session: str) -> "Holdall":
    """A session that is there, perhaps in use by others, for one who only looks: it neither changes nor ends."""
    from holdall.bag import Holdall

    bag = Holdall.open(home=found.home, session=session, settings=replace(found.settings, retention=None))
    bag.core.only_look()
    bag.journal.reader = reader_in(bag.session.name)
    return bag


def complete_handle(ctx: typer.Context, incomplete: str) -> list[str]:
    """For the shell: the handles of the session. Silent on any trouble: a completion must never be in the way."""
    try:
        given = [ctx.params, ctx.parent.params if ctx.parent is not None else {}]
        home, session = (next((one[name] for one in given if one.get(name)), None) for name in ("home", "session"))
        bag = Options(home, session).read_bag()
        return [one.handle for one in bag.store.outputs(bag.session) if one.handle.startswith(incomplete)]
    except Exception:
        return []


Handle = Annotated[
    str, typer.Argument(metavar="HANDLE", help="Handle or call id of a kept output.", autocompletion=complete_handle)
]


def parameters_of(verb: Verb, *, several: bool = False) -> list[inspect.Parameter]:
    """The arguments and flags of a verb's command, as typer takes them. `several`: any number of handles."""
    found: list[inspect.Parameter] = []
    for one in [one for one in verb.arguments if one.help is not None]:
        default = None if one.default in ("", ()) else one.default
        is_list = one.type is list or (several and one.name == "handle")
        metavar = ("HANDLE..." if default is ... else "[HANDLE]...") if is_list and not one.flags else one.metavar
        more: Any = {"autocompletion": complete_handle} if one.name in ("handle", "other") else {}
        more |= {"metavar": metavar, "min": one.least, "max": one.most, "help": one.help}
        made: Any = typer.Option(default, *one.flags.split(), **more) if one.flags else typer.Argument(default, **more)
        kind: Any = list[str] if is_list else one.type
        annotation = kind | None if default is None else kind
        found.append(inspect.Parameter(one.name, inspect.Parameter.KEYWORD_ONLY, default=made, annotation=annotation))
    return found


Work = TypeVar("Work", bound=Callable[..., Coroutine[Any, Any, int]])


def command(
    app: typer.Typer,
    verb: Verb | None = None,
    *,
    several: bool = False,
    home: Any = Home,
    session: Any = Session,
    as_json: Any = Json,
    **settings: Any,
) -> Callable[[Work], Work]:
    """Declare a command: a coroutine function of Options and its own arguments that returns an exit code.

    The command of a verb has the name, the help and the arguments of its declaration; those that the function declares
    besides are listed after them, then the common options. None leaves one of these out, another annotation replaces
    it. `several`: it takes any number of handles, and gets a list.
    """
    common = {"home": (home, None), "session": (session, None), "as_json": (as_json, False)}
    added = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, annotation=annotation, default=default)
        for name, (annotation, default) in common.items()
        if annotation is not None
    ]

    def declare(work: Work) -> Work:
        context, *own = inspect.signature(work, eval_str=True).parameters.values()

        def run(ctx: typer.Context, **given: Any) -> None:
            told = {one.name: given.pop(one.name) for one in added}
            options = replace(ctx.obj, **{name: value for name, value in told.items() if value})
            names = (options.session, told.get("session"), given.get("session"))

            async def checked() -> int:
                # An empty variable of a script must not become the default session, or all of them.
                if any(name is not None and not name.strip() for name in names):
                    raise UsageError("--session is empty: give the name of a session, or leave it out.")
                return await work(options, **given)

            if name in _LOCAL:
                _import_asyncio_alone()
            raise typer.Exit(_exit_code(checked(), options))

        name = verb.name if verb is not None else work.__name__.rstrip("_")
        declared = parameters_of(verb, several=several) if verb is not None else []
        known = {one.name for one in declared}
        own = [
            one.replace(kind=inspect.Parameter.KEYWORD_ONLY)
            for one in own
            if one.name not in known and one.kind is not inspect.Parameter.VAR_KEYWORD
        ]
        first = context.replace(name="ctx", annotation=typer.Context)
        run.__signature__ = inspect.Signature([first, *declared, *own, *added])  # type: ignore[attr-defined]
        run.__doc__ = verb.help if verb is not None else work.__doc__
        app.command(name, **settings)(run)
        return work

    return declare


# Commands that call no model and no server. (The libraries of a fleet's stores bring their own TLS.)
_LOCAL = frozenset(("cat", "diff", "grep", "ls", "put", "query", "read", "rm", "show", "slice", "tail"))


def _import_asyncio_alone() -> None:
    """Without `ssl`, which takes a tenth of a short command: asyncio does without it where it is missing."""
    if "asyncio" in sys.modules or "ssl" in sys.modules:
        return
    sys.modules["ssl"] = None  # type: ignore[assignment]
    try:
        importlib.import_module("asyncio")
    finally:
        del sys.modules["ssl"]  # whoever needs it later finds it


def _exit_code(work: Coroutine[Any, Any, int], options: Options) -> int:
    """Run it; an error becomes one line and a code."""
    import asyncio

    as_json = options.as_json
    try:
        code = asyncio.run(work)
        sys.stdout.flush()
    except HoldallError as problem:
        if isinstance(problem, UnknownHandle):
            problem.args = (f"{problem}{_elsewhere(options, problem.handle)}",)
        told = str(problem)
        for argument, option in _AS_OPTIONS:
            told = told.replace(argument, option)
        problem.args = (_HINT.sub(lambda hint: f"`{hint[1]}{options.flags()}`", told),)
        print_error(problem, as_json=as_json)
        if isinstance(problem, streams.StdoutError):
            streams.drop_output()
        is_fault = isinstance(problem, StoreFault)
        return FAULT if is_fault else FOUND_NOTHING if isinstance(problem, NothingFound) else WRONG_USE
    except BrokenPipeError:  # the reader has seen enough
        streams.drop_output()
        return 0
    except OSError as problem:  # the store explains its own; what is left is as plain as the system tells it
        print_error(_removed_folder(problem) or problem, as_json=as_json)
        return FAULT
    except KeyboardInterrupt:
        return 130
    return code


def _removed_folder(problem: OSError) -> OSError | None:
    """The same in words where the working folder is gone: the system says only that something is not there."""
    if problem.errno != errno.ENOENT or problem.filename is not None:
        return None
    try:
        os.getcwd()
    except OSError:
        return OSError("the working folder was removed: change to another one, or write paths in full, from / on.")
    return None


def _elsewhere(options: Options, handle: str) -> str:
    """Which other session has that output, for a person who has forgotten to name it; a model has its own alone."""
    from holdall.bag.core import open_existing_store
    from holdall.policy.folds import PERSON

    found = options.configuration()
    if reader_in(found.session) != PERSON:
        return ""
    with contextlib.suppress(HoldallError, OSError), open_existing_store(found.home, found.settings) as store:
        if store is None:
            return ""
        for one in store.sessions()[:_LOOKED_INTO]:
            with contextlib.suppress(UnknownHandle):
                store.resolve(one, handle)
                return f" It is in session {one_line(one.name, 60)}: add --session {shell_quoted(one.name)}"
    return ""


def print_error(problem: Exception, *, as_json: bool) -> None:
    # What a file names is shown to the sign: what looks like a password in it may be code.
    message = str(problem) if isinstance(problem, NotTrusted) else without_passwords(str(problem))
    if as_json:
        import json

        print(json.dumps({"error": json_name(problem), "message": message}), file=sys.stderr)
    else:
        print(f"holdall: {for_people(message)}", file=sys.stderr)


# Sessions as a person names them: by name, by id, by the name of their folder. Looking for one makes none.


class Known(NamedTuple):
    """A session that exists."""

    name: str
    id: str
    parent: str  # the id of the session whose agent started it

    @property
    def folder(self) -> str:
        """The name that it can be opened under whatever it is called."""
        return f"session-{self.id}"


def sessions_at(found: "Configuration") -> list[Known]:
    """All of the store, newest first."""
    from holdall.bag.core import open_existing_store

    with open_existing_store(found.home, found.settings) as store:
        return [Known(one.name, one.id, one.parent) for one in store.sessions()] if store is not None else []


def find_session(found: "Configuration", wanted: str) -> Known | None:
    from holdall.bag.core import open_existing_store, session_by

    with open_existing_store(found.home, found.settings) as store:
        info = session_by(store, wanted) if store is not None else None
        return Known(info.name, info.id, info.parent) if info is not None else None


def session_named(found: "Configuration", wanted: str) -> Known:
    """Raises UsageError, which names those that it could be."""
    import difflib

    known = find_session(found, wanted)
    if known is not None:
        return known
    names = [one.name for one in sessions_at(found)]
    near = difflib.get_close_matches(wanted[:200], names, n=1)
    listed = ", ".join(one_line(name, 60) for name in names[:_LISTED]) or "none"
    hint = f" Did you mean {one_line(near[0], 60)}?" if near else ""
    raise UsageError(
        f'there is no session "{one_line(wanted, 100)}". The newest are: {listed}. (`holdall ls --sessions` lists all.)'
        f"{hint}"
    )
