"""`holdall install` and `uninstall`, their options and their help; part of `app`, in its manner."""

from typing import Annotated

import typer

from holdall.cli.options import Home, Json, common, runs

Client = Annotated[
    str | None, typer.Argument(metavar="[CLIENT]", help="claude-code, vscode or cursor; or give --file.")
]
File = Annotated[
    str | None, typer.Option("--file", metavar="FILE", help="A configuration with `mcpServers` or `servers` in it.")
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Say what would be changed, and change nothing.")]


@runs
async def install(
    client: Client = None, file: File = None, dry_run: DryRun = False, home: Home = None, as_json: Json = False
) -> int:
    """Put every MCP server of a client behind the gateway.

    Each server in the client's configuration is started through `holdall gateway`; nothing else in the file is
    touched, and a copy of it is made first. Restart the client afterwards. `holdall uninstall` takes it back.

    \b
    Example:  holdall install cursor --dry-run
              holdall install --file ~/.config/client/mcp.json
    """
    from holdall.cli import servers as installing

    return installing.run(client, file, home, dry_run=dry_run, as_json=as_json or common.as_json)


@runs
async def uninstall(client: Client = None, file: File = None, dry_run: DryRun = False, as_json: Json = False) -> int:
    """Take the gateway out of a client's configuration again.

    The file is restored byte for byte; where the client or you have changed it since, only our part is taken back.

    Example:  holdall uninstall cursor
    """
    from holdall.cli import servers as installing

    return installing.run(client, file, None, dry_run=dry_run, as_json=as_json or common.as_json, back=True)
