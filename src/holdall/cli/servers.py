"""`gateway`, `install` and `uninstall`: MCP in front of MCP, and a client's servers behind it. Standard output of the
gateway belongs to the protocol.
"""

from __future__ import annotations

import contextlib
import logging
import os
import shlex
import shutil
import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from holdall import cli
from holdall.cli import show as screen
from holdall.cli.options import FOUND_NOTHING, Options, command, lasting
from holdall.cli.trust import Trust, agreement, agreements
from holdall.text.escape import one_line
from holdall.values.errors import NotTrusted, UsageError, short

if TYPE_CHECKING:
    from holdall.bag import Holdall
    from holdall.mcp.client.spec import Configured
    from holdall.mcp.gateway.front import GatewayState
    from holdall.mcp.install.installer import Done

app = typer.Typer(rich_markup_mode=None)

# `install` and `uninstall`: a client's servers behind the gateway, and out of it again, told in a line each.


Client = Annotated[
    str | None,
    typer.Argument(metavar="[CLIENT]", help="The client, as `install --list` names it; or give --file."),
]
File = Annotated[
    str | None, typer.Option("--file", metavar="FILE", help="A configuration with servers in it: JSON, TOML or YAML.")
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Say what would be changed, and change nothing.")]
Shared = Annotated[bool, typer.Option("--shared", help="Change a file that git shares, so that it works for others.")]
AddTools = Annotated[bool, typer.Option("--add-tools", help="Add our tools to lists of tools that would hide them.")]
NoAsk = Annotated[bool, typer.Option("--no-ask", help="Do not ask URLs whether the client has to sign in there.")]


@command(app, session=None)
async def install(
    options: Options,
    client: Client = None,
    file: File = None,
    dry_run: DryRun = False,
    shared: Shared = False,
    add_tools: AddTools = False,
    no_ask: NoAsk = False,
    trust: Annotated[bool, typer.Option("--trust", help="Take the URLs of a project's file without asking.")] = False,
    hook: Annotated[
        bool, typer.Option("--hook", help="Large results of the client's own tools too: a hook in your settings.")
    ] = False,
    listing: Annotated[
        bool, typer.Option("--list", help="List the clients of this machine, their files and servers; change nothing.")
    ] = False,
) -> int:
    """Put every MCP server of a client behind the gateway.

    Each server in the client's configuration is started through `holdall gateway`; nothing else in the file is
    touched, and a copy of it is made first. Restart the client afterwards. `holdall uninstall` takes it back.

    Left as they are, each with the reason: what the client signs in for (URLs are asked), SSE, and servers with a list
    of tools that would hide ours. A file that git shares is changed only with --shared. URLs in a project's file need
    your agreement, or --trust.

    With --hook (claude-code, gemini, opencode) servers stay as they are: a hook in your settings, or a plugin, keeps
    large results of the agent's own tools, and its model gets notices with `holdall` commands for its shell.

    \b
    Example:  holdall install --list
              holdall install cursor --dry-run
              holdall install --file ~/.config/client/mcp.json
    """
    if listing:
        return _list(options)
    if hook:
        return _install_hook(options, client, file, dry_run=dry_run)
    from holdall.mcp.install.clients import is_of_user
    from holdall.mcp.install.config_text import claims_of
    from holdall.mcp.install.installer import Choices, ask, install

    program, *leading = _program()
    if options.home and "://" not in options.home:  # a URL may hold a password, and is not written down
        leading.append(f"--home={_absolute(options.home)}")
    choices = Choices(tools=_tools(options), add_tools=add_tools)
    agree = agreement(options, trust=trust, asks=not dry_run)

    def work(one: str, folder: str) -> Done:
        def asked(name: str, entry: Mapping[str, Any]) -> str:
            try:
                if not is_of_user(one):
                    agree(claims_of(name, entry, one))
            except NotTrusted as refused:
                return refused.reason
            return "" if no_ask else ask(entry)

        done = install(
            one, program, leading=leading, config_folder=folder, choices=replace(choices, asked=asked), shared=shared,
            dry_run=dry_run,
        )  # fmt: skip
        if not dry_run:
            _remember(done)
        return done

    code = _edit(options, client, file, work, dry_run=dry_run)
    is_written = any(word.startswith("--home=") for word in leading)
    if code == 0 and not dry_run and not is_written and (options.home or os.environ.get("HOLDALL_HOME")):
        screen.about("HOLDALL_HOME of this shell is not the client's: --home FOLDER writes one into its file.")
    return code


@command(app, session=None)
async def uninstall(
    options: Options,
    client: Client = None,
    file: File = None,
    hook: Annotated[bool, typer.Option("--hook", help="Take out the hook alone; the gateway stays.")] = False,
    dry_run: DryRun = False,
) -> int:
    """Take the gateway out of a client's configuration again.

    The file is restored byte for byte; where the client or you have changed it since, only our part is taken back. A
    hook goes too.

    Example:  holdall uninstall cursor
    """
    from holdall.mcp.install.hooks import HOOKS
    from holdall.mcp.install.installer import uninstall

    def work(one: str, folder: str) -> Done:
        return uninstall(one, config_folder=folder, tools=_tools(options), dry_run=dry_run)

    if hook:
        client = _with_hook(client, file)
        if _uninstall_hook(options, client, dry_run=dry_run):
            return 0
        screen.about(f"{client} has no hook of ours")
        return FOUND_NOTHING
    if client in HOOKS and file is None and _uninstall_hook(options, client or "", dry_run=dry_run):
        with contextlib.suppress(UsageError):  # there may be a hook and no server
            _edit(options, client, file, work, dry_run=dry_run, back=True)
        return 0
    return _edit(options, client, file, work, dry_run=dry_run, back=True)


def _with_hook(client: str | None, file: str | None) -> str:
    """The client, which has to be one with hooks."""
    from holdall.mcp.install.hooks import HOOKS, hook_of

    if client is None or file is not None:
        raise UsageError(f"--hook is for a client, by its name: {', '.join(HOOKS)}.")
    hook_of(client)  # or it says that there is none, and nothing else
    return client


def _install_hook(options: Options, client: str | None, file: str | None, *, dry_run: bool) -> int:
    from holdall.mcp.install.hooks import install_hook

    client = _with_hook(client, file)
    command = f"{shlex.join(_program())} hook {client}"
    if options.home or os.environ.get("HOLDALL_HOME"):
        screen.about(f"Start {client} with the same HOLDALL_HOME: its hook and the commands in notices look there.")
    done = install_hook(client, command, config_folder=_folder(options), dry_run=dry_run)
    _print_hook(options, done, "would be put in" if dry_run else "put in", dry_run=dry_run)
    if done.edited.changed and shutil.which("holdall") is None:
        screen.about("holdall is not on your PATH, and the commands in notices need it there")
    return 0 if done.edited.changed else FOUND_NOTHING


def _absolute(path: str) -> str:
    return os.path.abspath(os.path.expanduser(path))


def _uninstall_hook(options: Options, client: str, *, dry_run: bool) -> bool:
    from holdall.mcp.install.hooks import uninstall_hook

    done = uninstall_hook(client, config_folder=_folder(options), dry_run=dry_run)
    if done.edited.changed:
        _print_hook(options, done, "would be taken out" if dry_run else "taken out", dry_run=dry_run)
    return bool(done.edited.changed)


def _print_hook(options: Options, done: Done, what: str, *, dry_run: bool) -> None:
    if options.as_json:
        screen.as_json({"files": [_flat(done)], "dry_run": dry_run})
    else:
        print(f"{one_line(done.file, 500)}: hook {what if done.edited.changed else f'unchanged: {done.edited.why}'}")


def _folder(options: Options) -> str:
    """Beside the outputs, or where they would be: what is known of clients is of this host."""
    return os.path.join(options.configuration().local_folder, "clients")


@command(app, home=None, session=None, as_json=None)
async def hook(
    options: Options, agent: Annotated[str, typer.Argument(metavar="AGENT", help="claude-code, gemini or opencode.")]
) -> int:  # fmt: skip
    """Put a notice in place of a large result: for the settings of a coding agent.

    The agent starts it after each call of a tool, with the result on standard input. `holdall install AGENT
    --hook` writes that into its settings.
    """
    import asyncio

    from holdall.cli.hook import main

    del options
    return await asyncio.to_thread(main, agent)


def _list(options: Options) -> int:
    from holdall.mcp.install.clients import CLIENTS
    from holdall.mcp.install.hooks import survey_hooks
    from holdall.mcp.install.installer import survey

    with_servers = {(one.client, one.file): one for one in survey()}
    with_hook = {(one.client, one.file): one for one in survey_hooks()}
    both = {key: replace(one, is_hook=with_hook[key].is_hook) for key, one in with_servers.items() if key in with_hook}
    found = list({**with_servers, **with_hook, **both}.values())
    missing = [name for name in CLIENTS if name not in {one.client for one in found}]
    if options.as_json:
        files = [
            {
                "client": one.client,
                "file": one.file,
                "servers": dict(one.servers),
                "hook": one.is_hook,
                "problem": one.problem,
            }
            for one in found
        ]
        screen.as_json({"files": files, "missing": missing})
        return 0 if found else FOUND_NOTHING
    for one in found:
        print(f"{one.client}  {one_line(one.file, 500)}")
        for name, is_behind in one.servers:
            print(f"  {_shown(name)}: {'behind the gateway' if is_behind else 'direct'}")
        key = one.client, one.file
        if one.problem or (key in with_servers and not one.servers):
            print(f"  {one_line(one.problem, 300) or 'no servers'}")
        if key in with_hook and not one.problem:
            print(f"  hook: {'on' if one.is_hook else 'off'}")
    screen.about(f"not found here: {', '.join(missing)}")
    return 0 if found else FOUND_NOTHING


def _remember(done: Done) -> None:
    """A client starts the gateway without a terminal, and perhaps without the variable that says where our home is."""
    from holdall.mcp.install.config_text import claims_of
    from holdall.text.json.jsonc import parse_jsonc

    for path in done.edited.originals:
        with open(path, encoding="utf-8") as file:
            ((name, entry),) = parse_jsonc(file.read())["mcpServers"].items()
        agreements().add(claims_of(name, entry, path), keys=True)


def _tools(options: Options) -> tuple[str, ...]:
    """The names of our tools, as the gateway lists them."""
    from holdall.wire.dialects import dialect_of

    return tuple(one.name for one in dialect_of(options.configuration().settings).specs(waits=True, asks=True))


def _edit(
    options: Options,
    client: str | None,
    file: str | None,
    work: Callable[[str, str], Done],
    *,
    dry_run: bool,
    back: bool = False,
) -> int:
    from holdall.mcp.install.clients import CLIENTS
    from holdall.mcp.install.installer import files_of

    if (client is None) == (file is None):
        raise UsageError(f"name a client ({', '.join(CLIENTS)}) or a --file, one of the two.")
    files = [_absolute(file)] if file is not None else files_of(client or "")
    folder = _folder(options)
    done = [work(one, folder) for one in files]
    if options.as_json:
        screen.as_json({"files": [_flat(one) for one in done], "dry_run": dry_run})
    else:
        for one in done:
            _print_edit(one, dry_run=dry_run, back=back)
    has_changed = any(one.edited.changed for one in done)
    if has_changed and client is not None and not dry_run and not options.as_json:
        screen.about(f"Restart {client}: it reads its configuration when it starts.")
    return 0 if has_changed else FOUND_NOTHING


def _program() -> list[str]:
    """How a client can start us: many do not have the path of a shell, so it is told whole."""
    from holdall.mcp.install.config_text import MODULE

    beside = os.path.join(os.path.dirname(sys.executable), "holdall")
    for own in (sys.argv[0], beside, shutil.which("holdall") or ""):
        if os.path.basename(own) == "holdall" and os.path.isfile(own) and os.access(own, os.X_OK):
            return [os.path.abspath(own)]
    return [sys.executable, *MODULE]


def _print_edit(done: Done, *, dry_run: bool, back: bool) -> None:
    would = "would be " if dry_run else ""
    what = "taken out of the gateway" if back else "put behind the gateway"
    names = ", ".join(_shown(name) for name in done.edited.changed) or "nothing"
    why = f": {done.edited.why}" if done.edited.why else ""
    print(f"{one_line(str(done.file), 500)}: {names} {would}{what}{why}")
    for name, reason in done.edited.left:
        print(f"  {_shown(name)} is left as it is: {one_line(reason, 200)}")
    for path in done.kept:
        print(f"  {one_line(str(path), 500)} is kept: its entry was not brought back here")
    for path in done.beside:
        shown = one_line(str(path), 500)
        print(f"  {shown} was left by an earlier version, or is not ours: it is neither read nor removed")
    if done.copy:
        print(f"  the file as it was{'' if done.exactly else ' before the first install'}: {done.copy}")


def _shown(name: str) -> str:
    return one_line(name, 60) or '""'


def _flat(done: Done) -> dict[str, object]:
    return {
        "file": done.file,
        "changed": list(done.edited.changed),
        "left": dict(done.edited.left),
        "copy": done.copy,
        "exactly": done.exactly,
        "kept": list(done.kept),
        "beside": list(done.beside),
        "why": done.edited.why,
    }


# `gateway`: MCP in front of MCP, for any client starts it. Standard output belongs to the protocol.


TOKEN_VARIABLE = "HOLDALL_GATEWAY_TOKEN"  # noqa: S105 - its name
_MIN_TOKEN = 16
_LARGEST_FILE = 1024 * 1024


class GatewayOptions(NamedTuple):
    command: tuple[str, ...]
    config: str | None
    session: str | None
    prefix: str | None
    by_reference: bool
    tools: str | None
    name: str | None = None
    client: str | None = None
    trust: bool = False

    def flags(self) -> list[str]:
        """Its options that are settings. Raises UsageError."""
        from holdall.values.settings import by_name, kind_of

        allowed: tuple[str, ...] = kind_of(by_name()["tools_listed"])
        if self.tools is not None and self.tools not in allowed:
            raise UsageError(f"--tools is {short(self.tools)}; it takes {' or '.join(allowed)}.")
        told = ["by_reference=true"] if self.by_reference else []
        return told if self.tools is None else [*told, f"tools_listed={self.tools}"]


class HttpOptions(NamedTuple):
    address: str
    tokens: str | None
    hosts: list[str]
    origins: list[str]
    plain: bool


@command(app, session=None, as_json=None)
async def gateway(
    options: Options,
    command: Annotated[
        list[str] | None, typer.Argument(metavar="[-- COMMAND...]", help="The MCP server to stand in front of.")
    ] = None,
    config: Annotated[
        str | None, typer.Option("--config", metavar="FILE", help="An mcp.json with one server or several.")
    ] = None,
    session: Annotated[
        str | None, typer.Option("--session", "-s", help="Keep outputs under this name across restarts.")
    ] = None,
    name: Annotated[
        str | None, typer.Option("--name", metavar="NAME", help="What the server of COMMAND is called in notices.")
    ] = None,
    client: Annotated[
        str | None,
        typer.Option("--client", metavar="ID", help="Tells clients apart that start servers from one process."),
    ] = None,
    for_server: Annotated[
        str | None,
        typer.Option(cli.FOR_SERVER, metavar="NAME,...", help="Variables that COMMAND gets and Holdall ignores."),
    ] = None,
    prefix: Annotated[
        str | None,
        typer.Option("--prefix", metavar="TEXT", help="Tool-name prefix (default with several: {server}__)."),
    ] = None,
    by_reference: Annotated[
        bool, typer.Option("--by-reference", help="Arguments holdall:HANDLE are replaced by the kept output.")
    ] = False,
    tools: Annotated[
        str | None, typer.Option("--tools", metavar="WHEN", help="List our tools always (default) or when-needed.")
    ] = None,
    http: Annotated[
        str | None, typer.Option("--http", metavar="HOST:PORT", help="Serve streamable HTTP instead of stdio.")
    ] = None,
    tokens: Annotated[
        str | None, typer.Option("--tokens", metavar="FILE", help="With --http: lines NAME TOKEN, one per client.")
    ] = None,
    allow_host: Annotated[
        list[str] | None, typer.Option("--allow-host", metavar="HOST[:PORT]", help="With --http: another Host header.")
    ] = None,
    allow_origin: Annotated[
        list[str] | None, typer.Option("--allow-origin", metavar="URL", help="With --http: an Origin header.")
    ] = None,
    allow_plain_http: Annotated[
        bool, typer.Option("--allow-plain-http", help="With --http: also on an address for other machines.")
    ] = False,
    trust: Trust = False,
) -> int:
    """Stand in front of MCP servers: a result that is too large or too slow is kept, and the client gets a handle.

    In the configuration of an MCP client put `holdall gateway --` before the command of a server. Everything passes as
    it is; a result that is too large becomes a notice with a handle, and the client's model gets tools to read, search
    and query it. A call that takes long goes on in the background.

    What a --config names is started once you have agreed to it: run it in a terminal, and you are asked; a changed file
    asks again. --trust agrees for one start. A command after -- is your own word.

    It speaks MCP on standard input and output, and ends when its client closes them. Warnings go to standard error.

    With --http it listens at HOST:PORT, path /mcp, and wants a token as in "Authorization: Bearer TOKEN": the one in
    HOLDALL_GATEWAY_TOKEN, those of --tokens, or a new one, which it prints. Who has a token has a session of its own.

    All gateways that one running client has started share a session, and one of them lists our tools; --session names
    another one. Outputs are kept for 30 days (the setting retention).

    \b
    Example:  holdall gateway -- npx -y @modelcontextprotocol/server-everything
              holdall gateway --config mcp.json --session work
    """
    if for_server is not None and config is not None:
        raise UsageError(f"{cli.FOR_SERVER} is for a command; a file says itself what its servers get.")
    ask = GatewayOptions(tuple(command or ()), config, session, prefix, by_reference, tools, name, client, trust)
    if http is not None:
        given = HttpOptions(http, tokens, allow_host or [], allow_origin or [], allow_plain_http)
        return await _over_http(options, ask, given)
    if tokens or allow_host or allow_origin or allow_plain_http:
        raise UsageError("--tokens, --allow-host, --allow-origin and --allow-plain-http are for --http.")
    from holdall.mcp.gateway.siblings import running_client
    from holdall.mcp.gateway.stdio_server import serve_stdio

    started_by = running_client(ask.client or "")
    house, open_bag = _ready(options, ask, started_by)
    await serve_stdio(house, open_bag(""), started_by)
    return 0


async def _over_http(options: Options, ask: GatewayOptions, http: HttpOptions) -> int:
    from holdall.config import SESSION_VARIABLE
    from holdall.mcp.gateway.http_app import Address, address_of, serve_http

    if ask.client is not None:
        raise UsageError("--client is for a gateway on standard input and output; over HTTP the token tells clients.")
    host, port = address_of(http.address, plain=http.plain)
    tokens, told = _tokens(http.tokens)
    house, open_bag = _ready(options, ask)

    def ready(url: str) -> None:
        screen.about(f"listening on {url}")
        if told:
            screen.about(f"token: {told} (new with each start; HOLDALL_GATEWAY_TOKEN sets one)")
        if not found.is_folder and "" in tokens and not named:
            screen.about("other gateways of this store do not share its handles: name a --session, or use --tokens")

    found = options.configuration(session=ask.session, flags=ask.flags())
    named = ask.session or options.session or os.environ.get(SESSION_VARIABLE)
    most = found.settings.http_max_body_bytes
    await serve_http(house, Address(host, port, tokens, http.hosts, http.origins, most), open_bag, ready)
    return 0


def _ready(
    options: Options, ask: GatewayOptions, started_by: str = ""
) -> tuple[GatewayState, Callable[[str], Holdall]]:
    """What to be in front of, and how the session of a principal is opened; `started_by` is its name if it has none."""
    from holdall.bag import Holdall
    from holdall.config import SESSION_VARIABLE
    from holdall.mcp.gateway.front import GatewayState
    from holdall.mcp.gateway.stdio_server import settings_for

    servers = _servers(ask)
    if ask.config is not None:  # a command on the command line is the user's own word
        command = f"holdall gateway --config {shlex.quote(ask.config)}"
        if not agreement(options, trust=ask.trust, command=command)(servers.claims):
            servers = servers.unwatched()
    _log()
    for warning in servers.warnings:
        logging.getLogger("holdall.gateway").warning("%s", warning)
    found = options.configuration(session=ask.session, flags=ask.flags())
    name = ask.session or options.session or os.environ.get(SESSION_VARIABLE) or started_by
    settings = settings_for(found.settings, given=tuple(found.sources))

    def open_bag(principal: str) -> Holdall:
        own = f"{name or 'gateway'}:{principal}" if principal else name  # a principal has no colon: no two are the same
        return Holdall.open(home=found.home, session=own or None, settings=settings, dialect=lasting(settings))

    return GatewayState(servers.servers, ask.prefix), open_bag


def _tokens(path: str | None) -> tuple[dict[str, str], str]:
    """The tokens by principal, and the one to be told, where it is new."""
    if path is not None:
        return tokens_in(path), ""
    given = os.environ.pop(TOKEN_VARIABLE, "")  # the servers that we start are not to have it
    if given and len(given) < _MIN_TOKEN:
        raise UsageError(f"{TOKEN_VARIABLE} is too short: a token has at least {_MIN_TOKEN} characters.")
    import secrets

    token = given or secrets.token_urlsafe(32)
    return {"": token}, "" if given else token


def tokens_in(path: str) -> dict[str, str]:
    """`NAME TOKEN` on each line; nobody else may be able to read or replace the file."""
    from holdall.trust import check_writers

    try:
        with open(path, encoding="utf-8") as file:
            check_writers(path, os.fstat(file.fileno()), "the file of tokens")
            if os.fstat(file.fileno()).st_mode & 0o077:
                raise UsageError(f"others can read {path}, and it holds tokens. Close it with: chmod 600 {path}")
            lines = [line.split() for line in file.read(_LARGEST_FILE).splitlines()]
    except (OSError, UnicodeDecodeError) as problem:
        raise UsageError(f"the file {path} cannot be read: {problem}.") from problem
    found: dict[str, str] = {}
    for number, words in enumerate(lines, 1):
        if not words or words[0].startswith("#"):
            continue
        if (problem := _problem(words, found)) is not None:  # no token is ever shown
            raise UsageError(f"line {number} of {path} {problem}.")
        found[words[0]] = words[1]
    if not found:
        raise UsageError(f"{path} holds no token.")
    return found


def _problem(words: list[str], found: Mapping[str, str]) -> str | None:
    """Of a line, beside those before it."""
    if len(words) != 2:
        return "must be NAME TOKEN"
    name, token = words
    if len(token) < _MIN_TOKEN:
        return f"has a token that is too short: a token has at least {_MIN_TOKEN} characters"
    if ":" in name:
        return f"has the name {short(name)}: a name has no colon"
    if name in found:
        return f"has the name {short(name)} for a second time: each name stands once"
    owner = next((other for other, its in found.items() if its == token), None)
    return None if owner is None else f"has the token of {short(owner)}: each has a token of its own"


def _servers(ask: GatewayOptions) -> Configured:
    from holdall.mcp.client.spec import Configured, from_command, load

    if bool(ask.command) == (ask.config is not None):
        raise UsageError(
            "name the servers: either --config FILE, or a command as in: holdall gateway -- npx -y PACKAGE"
        )
    if ask.config is None:
        return Configured((from_command(ask.command, name=ask.name or "", environment=cli.for_server),))
    if ask.name is not None:
        raise UsageError("--name is for a command; a file names its servers itself.")
    found = load(ask.config)
    if not found.servers:
        raise UsageError(f"{ask.config} names no server that is switched on.")
    return found


_LONGEST_WARNING = 1000  # signs: a server may have said what is in it


class _Handler(logging.Handler):
    """One line for each warning, safe to look at."""

    def emit(self, record: logging.LogRecord) -> None:
        fault = record.exc_info[1] if record.exc_info else None
        why = f" ({type(fault).__name__}: {fault})" if fault is not None else ""
        sys.stderr.write(f"holdall: {one_line(record.getMessage() + why, _LONGEST_WARNING)}\n")
        sys.stderr.flush()


def _log() -> None:
    logger = logging.getLogger("holdall")
    logger.addHandler(_Handler(logging.WARNING))
    logger.propagate = False
    # The SDK tells what went wrong with a server in tracebacks, and we tell it in words.
    logging.getLogger("mcp").addHandler(logging.NullHandler())
