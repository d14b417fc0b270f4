"""`holdall extract`, its options and its help; part of `app`, in its manner. What it does is in `extract`."""

from typing import Annotated

import typer

from holdall.cli.options import Handle, Home, Json, Session, common, runs


@runs
async def extract(  # noqa: PLR0913, PLR0917 - the options of a command are its arguments
    handle: Handle,
    question: Annotated[str, typer.Argument(metavar="QUESTION", help="What you want to know, in your own words.")],
    mode: Annotated[
        str, typer.Option("--mode", metavar="MODE", help="auto, full-chunked, read-grep or truncate.")
    ] = "auto",
    model: Annotated[
        str | None,
        typer.Option("--model", metavar="NAME", help="provider:name or gguf:PATH (default: extraction_model)."),
    ] = None,
    max_cost: Annotated[
        float | None, typer.Option("--max-cost", metavar="DOLLARS", min=0, help="It must not cost more than this.")
    ] = None,
    max_calls: Annotated[
        int | None, typer.Option("--max-calls", metavar="N", min=1, help="No more calls of the model than this.")
    ] = None,
    yes: Annotated[
        bool, typer.Option("--yes", "-y", help="Go on also where it takes more than the settings allow.")
    ] = False,
    home: Home = None,
    session: Session = None,
    as_json: Json = False,
) -> int:
    """Ask a model about an output, and prove what it quotes.

    Prints the answer, then each quote with its byte range in the output and whether it really stands there. A model of
    a provider needs its key in the environment; gguf:PATH runs a file on this machine and needs none.

    \b
    full-chunked  every byte is read, chunk by chunk, side by side, and the findings are summed up
    read-grep     the model searches the output itself, with two tools
    truncate      no model: the beginning and the end
    auto          full-chunked for what fits one chunk or has long lines, else read-grep

    What it would take is said before the first call. Where that is more than the settings allow, it asks; where nobody
    can be asked, it wants --yes. --max-cost and --max-calls hold in any case.

    Exit codes: 0 answered, 1 searched and nothing found, 2 wrong use or too costly, 3 a fault: no answer could be had,
    or nothing was found and not all could be read.

    \b
    Example:  holdall extract k3f9 "which account was attacked most?" --model gguf:qwen.gguf --max-calls 50
    """
    from holdall.cli import ask as asking

    ask = asking.ExtractAsk(question, mode, model, max_cost, max_calls, yes)
    return await asking.extract(handle, ask, home, session, as_json or common.as_json)
