"""`holdall run` and `holdall show`, their options and their help; part of `app`. `run` and `tree` do the work."""

from typing import Annotated

import typer

from holdall.cli.options import Home, Json, Session, common, complete_handle, runs


@runs
async def run(  # noqa: PLR0913, PLR0917 - the options of a command are its arguments
    agent: Annotated[str, typer.Argument(metavar="AGENT.md", help="The agent's file.")],
    prompt: Annotated[
        str | None, typer.Argument(metavar="[PROMPT]", help="What it should do; - or a pipe for standard input.")
    ] = None,
    model: Annotated[
        str | None, typer.Option("--model", metavar="NAME", help="provider:name, openai:NAME@URL or gguf:PATH.")
    ] = None,
    background: Annotated[
        bool | None, typer.Option("--async/--no-async", help="Whether slow tools may go on in the background.")
    ] = None,
    max_turns: Annotated[
        int | None, typer.Option("--max-turns", metavar="N", min=1, help="In the last one it must report.")
    ] = None,
    resume: Annotated[
        str | None, typer.Option("--resume", metavar="SESSION", help="Go on where that session stopped.")
    ] = None,
    home: Home = None,
    session: Annotated[
        str | None, typer.Option("--session", "-s", help="Name of the session (default: a new one, named after it).")
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print each event as one line of JSON; the last line is the report.")
    ] = False,
) -> int:
    """Run an agent, a Markdown file with YAML front matter, until it reports.

    The report goes to standard output, everything about it to standard error. Tool outputs that are too large are kept
    whole and the agent's model gets handles; slow tools go on in the background; nothing is lost when it is killed.

    What the command line says holds for every agent of the run, and goes before their files, the environment and the
    configuration file. Ctrl-C once: it is told to report now. Twice: it ends at once.

    Exit codes: 0 it reported, 1 it reported a failure or could not be made to report, 2 wrong use, 3 a fault of its
    model, its MCP servers or the store; then --resume goes on.

    \b
    Example:  holdall run finder.md "Which disk failed?"
              holdall run finder.md --resume finder-3fa9c1
    """
    from holdall.cli import agents as running

    ask = running.RunAsk(agent, prompt, model, background, max_turns, resume)
    return await running.run(ask, home, session, as_json or common.as_json)


@runs
async def show(
    handle: Annotated[
        str | None,
        typer.Argument(
            metavar="[HANDLE]", help="Handle or call id; with --tree a session.", autocompletion=complete_handle
        ),
    ] = None,
    tree: Annotated[
        bool, typer.Option("--tree", help="Show what an agent did in a session (default: the newest run).")
    ] = False,
    home: Home = None,
    session: Session = None,
    as_json: Json = False,
) -> int:
    """Show the facts of an output: what it is, where it came from, its hash, and how much a model has seen of it.

    With --tree: what an agent did, turn by turn, with its model calls, tool calls, sub-agents and questions; how long
    each took, its tokens, its cost, and the handles of what was kept.

    \b
    Example:  holdall show k3f9
              holdall show --tree finder-3fa9c1
    """
    if tree:
        from holdall.cli import agents as looking

        return await looking.show(handle, home, session, as_json or common.as_json)
    from holdall.cli import fetch

    return await fetch.show(handle, home, session, as_json or common.as_json)
