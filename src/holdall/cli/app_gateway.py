"""`holdall gateway`, its options and its help; part of `app`, in its manner. What it does is in `gateway`."""

from typing import Annotated

import typer

from holdall.cli.options import Home, runs


@runs
async def gateway(  # noqa: PLR0913, PLR0917 - the options of a command are its arguments
    command: Annotated[
        list[str] | None, typer.Argument(metavar="[-- COMMAND...]", help="The MCP server to stand in front of.")
    ] = None,
    config: Annotated[
        str | None, typer.Option("--config", metavar="FILE", help="An mcp.json with one server or several.")
    ] = None,
    session: Annotated[
        str | None, typer.Option("--session", "-s", help="Keep outputs under this name across restarts.")
    ] = None,
    prefix: Annotated[
        str | None,
        typer.Option("--prefix", metavar="TEXT", help="What stands before names (default with several: {server}__)."),
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
    home: Home = None,
) -> int:
    """Stand in front of MCP servers: a result that is too large or too slow is kept, and the client gets a handle.

    In the configuration of an MCP client put `holdall gateway --` before the command of a server. Everything passes as
    it is; a result that is too large becomes a notice with a handle, and the client's model gets tools to read, search
    and query it. A call that takes long goes on in the background.

    It speaks MCP on standard input and output, and ends when its client closes them. Warnings go to standard error.

    With --http it listens at HOST:PORT, path /mcp, and wants a token as in "Authorization: Bearer TOKEN": the one in
    HOLDALL_GATEWAY_TOKEN, those of --tokens, or a new one, which it prints. Who has a token has a session of its own.

    Without --session each start is a session of its own. Outputs are kept for 30 days (the setting retention).

    \b
    Example:  holdall gateway -- npx -y @modelcontextprotocol/server-everything
              holdall gateway --config mcp.json --session work
    """
    from holdall.cli import servers as standing

    ask = standing.GatewayAsk(tuple(command or ()), config, session, prefix, by_reference, tools)
    if http is not None:
        return await standing.over_http(ask, standing.HttpAsk(http, tokens, allow_host or [], allow_origin or []), home)
    if tokens or allow_host or allow_origin:
        raise standing.only_with_http()
    return await standing.gateway(ask, home)
