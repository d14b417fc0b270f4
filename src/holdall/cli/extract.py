"""`extract`: a question about a kept output, put to a model.

What it would take is said before the first call; where that is more than the settings allow, a person is asked. The
answer goes to standard output, everything about it to standard error.
"""

import asyncio
import contextlib
import logging
import math
import os
import sys
from collections.abc import Generator
from typing import NamedTuple, cast

from holdall.bag import Holdall
from holdall.cli import extract_show as looks
from holdall.cli import show as screen
from holdall.cli.extract_progress import Underway, drawn
from holdall.cli.options import FAULT, FOUND_NOTHING, look_bag
from holdall.policy.route import Ceiling, Forecast
from holdall.text.escape import for_people, one_line
from holdall.values.errors import HoldallError, NoModel, TooCostly, WrongUse
from holdall.values.extraction import Extraction, Mode
from holdall.values.settings import Settings
from holdall.values.spans import Span

_NO_MODEL = (
    "no model is configured for extraction. Name one with --model: a provider's, as openai:gpt-5, or gguf:PATH, a file "
    "on this machine that needs no key. For every question: extraction_model in the file that `holdall config path` "
    "names, or HOLDALL_EXTRACTION_MODEL in the environment."
)

_LESS = "narrow it down first (holdall grep, holdall query)"
_STDIN, _STDERR = 0, 2


class ExtractAsk(NamedTuple):
    question: str
    mode: str
    model: str | None
    max_cost: float | None
    max_calls: int | None
    yes: bool

    def allowed(self, settings: Settings) -> Ceiling:
        """Without asking anybody: what the settings say, and in its place what the command line says."""
        return Ceiling(
            calls=settings.extraction_max_calls if self.max_calls is None else self.max_calls,
            tokens=settings.extraction_max_tokens,
            cost=settings.extraction_max_cost if self.max_cost is None else self.max_cost,
        )


async def extract(handle: str, ask: ExtractAsk, home: str | None, session: str | None, as_json: bool) -> int:
    if ask.max_cost is not None and not math.isfinite(ask.max_cost):
        raise WrongUse(f"--max-cost is {ask.max_cost:g}; it must be a number of dollars.")
    async with look_bag(home, session) as bag:
        with _logged():
            found = await _ask(bag, handle, ask, as_json)
    return _code(found)


async def _ask(bag: Holdall, handle: str, ask: ExtractAsk, as_json: bool) -> Extraction:
    mode = cast("Mode", ask.mode)  # the bag refuses what is none
    try:
        plan = await bag.forecast(handle, ask.question, mode=mode, model=ask.model)
    except NoModel as problem:
        problem.args = (_NO_MODEL,)  # the same error, with the ways out that a command line has
        raise
    told = looks.planned(plan.route, plan.chunks, plan.forecast)
    over = _over(bag, ask, plan.forecast, told)
    if not over and not as_json:
        screen.about(told)
    if over and not await _says_yes(f"{told}. The settings allow {over} for a question. Go on? [y/N] "):
        raise TooCostly(f"nothing was asked. For an answer that takes less, {_LESS}.")
    agreed = ask.yes or over
    ceiling = Ceiling(calls=ask.max_calls, cost=ask.max_cost) if agreed else ask.allowed(bag.settings)
    found = await _watched(bag, handle, ask, ceiling)
    if as_json:
        facts = await bag.show(handle)
        screen.as_json(looks.flat(found, facts.handle, ask.question))
    else:
        looks.answer(found, [await _lines(bag, handle, one.span) for one in found.snippets])
        looks.about(found)
    return found


def _code(found: Extraction) -> int:
    """What stands in place of an answer is no answer, and "nothing there" is true only of what was read."""
    if found.reason == "fallback" or (not found.found and found.failed):
        return FAULT
    return 0 if found.found else FOUND_NOTHING


async def _watched(bag: Holdall, handle: str, ask: ExtractAsk, ceiling: Ceiling) -> Extraction:
    work = Underway()
    bag.journal.watchers[work.heard] = lambda: True
    try:
        with drawn(work):
            return await bag.extract(
                handle, ask.question, mode=cast("Mode", ask.mode), model=ask.model, ceiling=ceiling,
                watch=lambda at: work.read(at.done, at.total, at.found),
            )  # fmt: skip
    except asyncio.CancelledError:  # Ctrl-C
        again = "" if bag.settings.extraction_cache == "off" else "; what was read of it is not paid for again"
        screen.about(f"stopped · {looks.spent(work.spent)} so far{again if work.done else ''}")
        raise


def _over(bag: Holdall, ask: ExtractAsk, forecast: Forecast, told: str) -> str:
    """The bound of the settings that would be passed, where somebody can be asked about it; empty where all hold.

    Raises TooCostly where nobody can, and where a bound of the command line would be passed.
    """
    if ask.max_cost is not None and forecast.cost is None:
        name = one_line(ask.model or bag.settings.extraction_model, 200)
        raise TooCostly(f"the price of {name} is not known, so --max-cost cannot be kept. Use --max-calls instead.")
    if Ceiling(calls=ask.max_calls).over(forecast):
        raise TooCostly(f"{told}. --max-calls is {ask.max_calls:,}. Nothing was asked. Allow more, or {_LESS}.")
    if Ceiling(cost=ask.max_cost).over(forecast):
        raise TooCostly(f"{told}. --max-cost is ${ask.max_cost:g}. Nothing was asked. Allow more, or {_LESS}.")
    over = "" if ask.yes else ask.allowed(bag.settings).over(forecast)
    if over and not (os.isatty(_STDIN) and os.isatty(_STDERR)):
        raise TooCostly(
            f"{told}. The settings allow {over} for a question. Nothing was asked. Go on with --yes, or {_LESS}."
        )
    return over


async def _says_yes(question: str) -> bool:
    """Read by the loop, not with input(): that would block it, and the first Ctrl-C with it."""
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
    """The lines of a quote; None where there are none, or where they cannot be told: the answer is paid for."""
    if span.start == span.end:
        return None
    try:
        return (await bag.find(handle, bytes=f"{span.start}:{span.end}")).lines
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
