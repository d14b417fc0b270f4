"""`extract`: a question about a kept output, put to a model.

What it would take is said before the first call; where that is more than the settings allow, a person is asked. The
answer goes to standard output, everything about it to standard error.
"""

from __future__ import annotations

import contextlib
import logging
import math
import os
import sys
from collections.abc import Generator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, cast

import typer

from holdall.cli import progress
from holdall.cli import show as screen
from holdall.cli.options import FAULT, FOUND_NOTHING, Handle, Options, command
from holdall.text.escape import for_people, one_line
from holdall.text.numbers import grouped, money, plural, whole
from holdall.values.errors import HoldallError, NoModel, TooCostly, UsageError

if TYPE_CHECKING:
    from holdall.bag import Holdall
    from holdall.policy.route import Ceiling, Forecast, Route
    from holdall.values.events import Event
    from holdall.values.extraction import Check, Extraction, Mode, Snippet, Spent
    from holdall.values.settings import Settings
    from holdall.values.spans import Span

app = typer.Typer(rich_markup_mode=None)

# How an answer looks: the model's words, then each quote with its place and whether it was proved.
#
# Every line of a quote begins with `> `, and the line below a quote is ours. A line of an answer that reads like one
# of these is shown with a `\` before it: what a model writes cannot pass for what was proved.


_CHECKS: dict[Check, str] = {
    "exact": "verified",
    "loose": "verified but for white space and escapes",
    "near": "unverified: the model changed it, this is a similar place",
    "none": "unverified: not in what the model read",
}


def planned(route: Route, chunks: int, forecast: Forecast) -> str:
    """`full-chunked, since its lines are long: 12 chunks, about 13 calls, …`"""
    if route.strategy == "truncate":
        return "truncate, as asked: no model is needed"
    why = {
        "asked": "as asked",
        "fits": "since it fits",
        "long-lines": "since its lines are long",
        "many-lines": f"since it would be {plural(chunks, 'chunk')}",
        "dialect": "as the dialect has it",
        "fallback": "since nothing else was left",
    }[route.reason]
    parts = f"{plural(chunks, 'chunk')}, " if route.strategy == "full-chunked" else ""
    return f"{route.strategy}, {why}: {parts}{taking(forecast)}"


def taking(forecast: Forecast) -> str:
    cost = f"about {money(forecast.cost)}" if forecast.cost else money(forecast.cost)
    # "About": a call that fails is repeated, and a chunk that is too long for the model is read in two.
    return f"about {plural(forecast.calls, 'call')}, about {grouped(forecast.tokens)} tokens, {cost}"


def is_local(model: str) -> bool:
    return model.startswith("gguf:")


def minutes(forecast: Forecast, pace: float | None) -> str:
    """How long a model on this machine takes, at most: by its own `pace` so far, in tokens a second, where it has one.

    Else by what half a billion parameters do on two cores (docs/models.md); larger ones are slower.
    """
    usual = forecast.input_tokens / _READ_PACE + forecast.output_tokens / _WRITE_PACE
    seconds = forecast.tokens / pace if pace else usual
    told = "a minute" if seconds <= 60 else plural(math.ceil(seconds / 60), "minute")
    if seconds >= 2 * 3600:
        told = plural(math.ceil(seconds / 3600), "hour")
    return f"up to {told} on this machine" + ("" if pace else " (longer with a large model)")


def _pace(bag: Holdall, model: str) -> float | None:
    """Tokens a second of this model in this session."""
    file = os.path.basename(model.partition(":")[2].partition("?")[0])
    asked = [one for one in bag.journal.events(_LOOKED_AT) if one.kind == "asked" and one.data.get("model") == file]
    tokens = sum(whole(one.data.get("input_tokens")) + whole(one.data.get("output_tokens")) for one in asked)
    seconds = sum(one.seconds for one in asked)
    return tokens / seconds if tokens and seconds else None


def spent(total: Spent) -> str:
    """`13 calls (1 repeated) · 29,088 tokens · $0.0303 · 4.1 s · 2 calls from the cache`"""
    again = f" ({total.retries:,} repeated)" if total.retries else ""
    parts = [
        f"{plural(total.calls, 'call')}{again}",
        f"{grouped(total.usage.tokens)} tokens",
        money(total.usage.cost, total.usage.unpriced_calls) if total.calls else "$0.00",
        f"{total.seconds:.1f} s",
    ]
    if total.cached_calls:
        parts.append(f"{plural(total.cached_calls, 'call')} from the cache")
    return " · ".join(parts)


def flat(found: Extraction, handle: str, question: str) -> dict[str, Any]:
    return {
        "handle": handle,
        "question": question,
        "found": found.found,
        **found.to_json(),
        "model": found.model,
        "cached": found.cached,
        "searched": [span.as_list() for span in found.searched],
        **({"shown": [span.as_list() for span in found.end_spans]} if found.ends else {}),
        "spent": found.spent.to_json(),
    }


def answer(found: Extraction, lines: Sequence[Span | None]) -> None:
    """On standard output; `lines` are those of the quotes."""
    from holdall.wire.extraction import model_text, model_text_below

    whole = found.answer.rstrip("\n")
    whole = model_text_below(whole) if found.found is False else model_text(whole)
    if screen.is_terminal(sys.stdout):
        whole = for_people(whole)
    parts = [found.warning, whole, *(_quote(one, at) for one, at in zip(found.snippets, lines, strict=True))]
    text = "\n\n".join(part for part in parts if part) + "\n"
    sys.stdout.flush()
    sys.stdout.buffer.write(screen.encoded(text))
    sys.stdout.buffer.flush()


def _quote(snippet: Snippet, lines: Span | None) -> str:
    from holdall.wire.extraction import quote_lines

    text = quote_lines(snippet.text)
    text = for_people(text) if screen.is_terminal(sys.stdout) else text
    check = screen.paint(_CHECKS[snippet.check], "green" if snippet.verified else "red")
    where: list[str] = []
    if snippet.check != "none":
        where.append(f"bytes {snippet.span.start}:{snippet.span.end}")
    if lines is not None:
        first, last = grouped(lines.start), grouped(lines.end)
        where.append(f"line {first}" if first == last else f"lines {first}–{last}")
    told = [text, f"  {' · '.join([*where, check])}"]
    if snippet.check == "near":
        told.append(f"  the model wrote: {one_line(snippet.said, 500)}")
    return "\n".join(told)


def about(found: Extraction) -> None:
    """On standard error: what was searched, what is wrong with it, what it took."""
    from holdall.wire.extraction import coverage

    for line in _warnings(found):
        screen.about(line)
    parts = [coverage(found)]
    if found.confidence is not None:
        parts.append(f"the model's confidence: {found.confidence:g}")
    parts += [one_line(part, 200) for part in (found.model, f"sha256 {found.source_hash[:12]}…") if part]
    screen.about(" · ".join(parts))
    if found.cached:
        screen.about(f"from the cache: it was asked before, with {plural(found.spent.cached_calls, 'call')}")
    elif found.model:
        screen.about(spent(found.spent))


def _warnings(found: Extraction) -> list[str]:
    from holdall.wire.extraction import not_searched

    told: list[str] = []
    if found.warning and found.reason != "fallback":  # that one is logged
        told.append(found.warning)
    if found.unchecked:
        told.append(f"{plural(found.unchecked, 'more quote')} of the model were not checked, and are left out.")
    if found.snippets and not any(one.verified for one in found.snippets):
        told.append("None of the quotes stands in the output as it is: do not rely on this answer.")
    if found.failed and found.found is not False:
        told.append(not_searched(found.failed))
    return told


# How far a question is: counted from the events of its calls.


class QuestionProgress:
    def __init__(self) -> None:
        from holdall.values.extraction import Spent

        self.spent = Spent()
        self.done = 0
        self.total = 0  # chunks; 0 where none are read one by one
        self.found = 0

    def heard(self, event: Event) -> None:
        """An event of the session: only calls of a model count here."""
        from holdall.values.chat import Usage

        if event.kind != "asked":
            return
        data, before = event.data, self.spent
        usage = Usage(int(data["input_tokens"]), int(data["output_tokens"]), cost=data["cost"])
        self.spent = replace(
            before, calls=before.calls + 1, usage=before.usage + usage, seconds=before.seconds + event.seconds
        )

    def read(self, done: int, total: int, found: int) -> None:
        self.done, self.total, self.found = done, total, found

    def after(self, seconds: float) -> str:
        left = progress.time_left(self.done, self.total, seconds)
        return " · ".join([str(self), progress.length(seconds), *([left] if left else [])])

    def __str__(self) -> str:
        usage = self.spent.usage
        far = f"{self.done:,}/{plural(self.total, 'chunk')} · {self.found:,} found"
        if not self.total:
            far = f"{plural(self.spent.calls, 'call')} · {grouped(usage.tokens)} tokens"
        return far if usage.cost is None else f"{far} · {money(usage.cost)}"


_NO_MODEL = (
    "no model is configured for extraction. Name one with --model: a provider's, as openai:gpt-5, or gguf:PATH, a file "
    "on this machine that needs no key. For every question: extraction_model in the file that `holdall config path` "
    "names, or HOLDALL_EXTRACTION_MODEL in the environment."
)

_READ_PACE, _WRITE_PACE = 50.0, 12.0  # tokens a second
_LOOKED_AT = 1024 * 1024  # bytes of the newest events
_ASK_LESS_HINT = "narrow it down first (holdall grep, holdall query)"
_STDIN, _STDERR = 0, 2


class ExtractOptions(NamedTuple):
    question: str
    mode: str
    model: str | None
    max_cost: float | None
    max_calls: int | None
    yes: bool

    def allowed(self, settings: Settings) -> Ceiling:
        """Without asking anybody: what the settings say, and in its place what the command line says."""
        from holdall.policy.route import Ceiling

        return Ceiling(
            calls=settings.extraction_max_calls if self.max_calls is None else self.max_calls,
            tokens=settings.extraction_max_tokens,
            cost=settings.extraction_max_cost if self.max_cost is None else self.max_cost,
        )


@command(app)
async def extract(
    options: Options,
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
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Proceed over the limits of the settings.")] = False,
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
    if max_cost is not None and not math.isfinite(max_cost):
        raise UsageError(f"--max-cost is {max_cost:g}; it must be a number of dollars.")
    ask = ExtractOptions(question, mode, model, max_cost, max_calls, yes)
    async with options.read_bag() as bag:
        with _logged():
            found = await _ask(options, bag, handle, ask)
    return _code(found)


async def _ask(options: Options, bag: Holdall, handle: str, ask: ExtractOptions) -> Extraction:
    from holdall.policy.route import Ceiling

    mode = cast("Mode", ask.mode)  # the bag refuses what is none
    try:
        plan = await bag.preview.forecast(handle, ask.question, mode=mode, model=ask.model)
    except NoModel as problem:
        problem.args = (_NO_MODEL,)  # the same error, with the ways out that a command line has
        raise
    told = planned(plan.route, plan.chunks, plan.forecast)
    if plan.forecast.calls and is_local(name := ask.model or bag.settings.extraction_model):
        told += f", {minutes(plan.forecast, _pace(bag, name))}"
    over = _over(bag, ask, plan.forecast, told)
    if not over and not options.as_json:
        screen.about(told)
    if over and not await _confirmed(f"{told}. The settings allow {over} for a question. Go on? [y/N] "):
        raise TooCostly(f"nothing was asked. For an answer that takes less, {_ASK_LESS_HINT}.")
    agreed = ask.yes or over
    ceiling = Ceiling(calls=ask.max_calls, cost=ask.max_cost) if agreed else ask.allowed(bag.settings)
    ceiling = ceiling if plan.forecast.cost is not None else replace(ceiling, cost=None)  # of the settings
    found = await _watched(bag, handle, ask, ceiling, quiet=options.as_json)
    if options.as_json:
        facts = await bag.show(handle)
        screen.as_json(flat(found, facts.handle, ask.question))
    else:
        answer(found, [await _lines(bag, handle, one.span) for one in found.snippets])
        about(found)
    return found


def _code(found: Extraction) -> int:
    """What stands in place of an answer is not an answer, and "nothing there" is true only of what was read."""
    if found.reason == "fallback" or (found.found is False and found.failed):
        return FAULT
    return FOUND_NOTHING if found.found is False else 0


async def _watched(bag: Holdall, handle: str, ask: ExtractOptions, ceiling: Ceiling, *, quiet: bool) -> Extraction:
    import asyncio

    work = QuestionProgress()
    bag.journal.watchers[work.heard] = lambda: True
    try:
        name = one_line(ask.model or bag.settings.extraction_model, 60)
        with progress.reported(lambda seconds: f"asking {name} about {handle} · {work.after(seconds)}", quiet=quiet):
            return await bag.extract(
                handle, ask.question, mode=cast("Mode", ask.mode), model=ask.model, ceiling=ceiling,
                watch=lambda at: work.read(at.done, at.total, at.found),
            )  # fmt: skip
    except asyncio.CancelledError:  # Ctrl-C
        again = "" if bag.settings.extraction_cache == "off" else "; what was read of it is not paid for again"
        screen.about(f"stopped · {spent(work.spent)} so far{again if work.done else ''}")
        raise


def _over(bag: Holdall, ask: ExtractOptions, forecast: Forecast, told: str) -> str:
    """The bound of the settings that would be passed, where somebody can be asked about it; empty where all hold.

    Raises TooCostly where nobody can, and where a bound of the command line would be passed.
    """
    from holdall.policy.route import Ceiling

    if ask.max_cost is not None and forecast.cost is None:
        name = one_line(ask.model or bag.settings.extraction_model, 200)
        raise TooCostly(f"the price of {name} is not known, so --max-cost cannot be kept. Use --max-calls instead.")
    if Ceiling(calls=ask.max_calls).over(forecast):
        raise TooCostly(
            f"{told}. --max-calls is {ask.max_calls:,}. Nothing was asked. Allow more, or {_ASK_LESS_HINT}."
        )
    if Ceiling(cost=ask.max_cost).over(forecast):
        raise TooCostly(f"{told}. --max-cost is ${ask.max_cost:g}. Nothing was asked. Allow more, or {_ASK_LESS_HINT}.")
    over = "" if ask.yes else ask.allowed(bag.settings).over(forecast)
    if over and not (os.isatty(_STDIN) and os.isatty(_STDERR)):
        raise TooCostly(
            f"{told}. The settings allow {over} for a question. Nothing was asked. Go on with --yes, or "
            f"{_ASK_LESS_HINT}."
        )
    return over


async def _confirmed(question: str) -> bool:
    """Read by the loop, not with input(): that would block it, and the first Ctrl-C with it."""
    import asyncio

    sys.stderr.write(for_people(question))
    sys.stderr.flush()
    loop = asyncio.get_running_loop()
    typed: asyncio.Future[bytes] = loop.create_future()

    def read() -> None:
        loop.remove_reader(_STDIN)
        typed.set_result(os.read(_STDIN, 1024))

    loop.add_reader(_STDIN, read)
    try:
        return (await typed).strip().lower() in (b"y", b"yes")
    except asyncio.CancelledError:
        sys.stderr.write("\n")
        raise
    finally:
        loop.remove_reader(_STDIN)


async def _lines(bag: Holdall, handle: str, span: Span) -> Span | None:
    """The lines of a quote; None if there are none, or where they cannot be told: the answer is paid for."""
    if span.start == span.end:
        return None
    try:
        return (await bag.fetch.find(handle, bytes=f"{span.start}:{span.end}")).lines
    except HoldallError:
        return None


class _Handler(logging.Handler):
    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage())


@contextlib.contextmanager
def _logged() -> Generator[None]:
    """What Holdall warns of in the block is shown at its end, safe to look at, not in the midst of a bar."""
    logger, handler = logging.getLogger("holdall"), _Handler()
    logger.addHandler(handler)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        for line in handler.lines:
            screen.about(line)
