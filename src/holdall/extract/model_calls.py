"""What a strategy is given, and the calls that it makes: in parallel, repeated where that helps, counted, recorded,
under a ceiling.

A reply that cannot be used (no wrapper, broken JSON, cut off before it began) is repeated like one that never came.
Nothing here knows chunks: the caller says how a reply is read.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import field
from typing import Generic, Protocol, TypeVar

from holdall.llm.protocol import Model, Request, pace_of
from holdall.policy.route import Ceiling, Forecast
from holdall.store.protocol import OutputReader
from holdall.text.tokens import Tokenizer
from holdall.values.chat import Reply, ToolCall, Usage, size_of
from holdall.values.errors import HoldallError, ModelBusy, ModelDenied, ModelFault, ModelOverflow, TooCostly
from holdall.values.extraction import CallRecord, Mode, Progress, Spent
from holdall.values.record import record
from holdall.values.spans import Span
from holdall.wire.prompts import Source
from holdall.wire.tool import ToolSpec

Found = TypeVar("Found")


class Opened(Protocol):
    async def __call__(self, look: Callable[[OutputReader], Found]) -> Found:
        """Run `look` on the open output, in a thread."""
        ...


@record
class ToolAnswer:
    """What Read or Grep gave: a text for the model, the bytes that are in it, and those that Grep went over."""

    text: str
    spans: tuple[Span, ...] = ()
    is_error: bool = False
    scanned: tuple[Span, ...] = ()
    pattern: str = ""


@record
class Document:
    """`tools` are Read and Grep over this one output; `look` carries a call of them out, in at most so many tokens."""

    source: Source
    on: Opened
    tokenizer: Tokenizer
    tools: tuple[ToolSpec, ...] = ()
    look: Callable[[ToolCall, int], Awaitable[ToolAnswer]] | None = None


@record
class Policy:
    """How a question is answered. `chunk_share` is the part of the window that a chunk may take, if it is fixed."""

    mode: Mode = "auto"
    max_chunks: int = 1
    long_line_bytes: int = 1000
    overlap_percent: float = 10.0
    chunk_share: float | None = None
    always_chunked: bool = False
    answer_tokens: int = 2000  # of one reply, at most
    parallel: int = 8
    retries: int = 2
    call_seconds: float | None = None
    ceiling: Ceiling = field(default_factory=Ceiling)
    truncate_bytes: int = 8192  # shown where a strategy fails, or on request
    max_turns: int = 15  # of read-grep
    calls_per_turn: int = 10


Watch = Callable[[Progress], None]


PREVIEW = 500  # characters of a reply that are recorded
_FIRST_PAUSE = 0.5  # seconds before a busy model is asked again; twice as long each time
_LONGEST_PAUSE = 30.0
Read = TypeVar("Read")


@record
class ModelQuestion(Generic[Read]):
    """One question to a model: `make` builds the request again for each try, `read` gives None for a useless reply."""

    make: Callable[[], tuple[Request, Callable[[Reply], Read | None]]]
    purpose: str
    chunk: int | None = None
    tokens: int = 0  # of the request, as we count them


@record(frozen=False)
class ModelCaller:
    """Of one question about one output."""

    model: Model
    ceiling: Ceiling
    parallel: int = 8
    retries: int = 2
    seconds: float | None = None  # that one call may take
    record: Callable[[CallRecord], None] = lambda _: None
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    spent: Spent = field(default_factory=Spent)
    denied: ModelDenied | None = None  # then nothing more is asked
    reading: asyncio.Semaphore = field(init=False)  # limits how many texts are in memory
    _free: asyncio.Semaphore = field(init=False)

    def __post_init__(self) -> None:
        # More than the model reads at once would only wait there, and their time would run out meanwhile.
        at_once = min(self.parallel, pace_of(self.model).at_once or self.parallel)
        self._free = asyncio.Semaphore(at_once)
        self.reading = asyncio.Semaphore(at_once)

    async def ask(self, asked: ModelQuestion[Read]) -> Read:
        """What the model answered. Raises ModelFault if no try gave anything, TooCostly where no more is allowed."""
        problem: ModelFault = ModelFault("no call was made")
        for attempt in range(1, self.retries + 2):
            if attempt > 1:
                self.spent = self._more(retries=1)
            try:
                async with self._free:
                    found = await self._once(asked, attempt)
            except (ModelOverflow, ModelDenied):
                raise  # the same again would be too long again, or denied again
            except TooCostly:
                if attempt == 1:
                    raise
                break  # why it had to be asked again says more
            except ModelFault as fault:
                problem = fault
                if isinstance(fault, ModelBusy) and attempt <= self.retries:
                    await self.sleep(_pause(fault, attempt))
                continue
            if found is not None:
                return found
            problem = ModelFault("the reply has no answer in the form that was asked for")
        raise problem

    async def _once(self, asked: ModelQuestion[Read], attempt: int) -> Read | None:
        self.check()
        request, read = asked.make()
        started = time.perf_counter()
        reply, why = Reply(), ""
        found: Read | None = None
        try:
            async with asyncio.timeout(self.seconds):
                reply = await self._reply(request)
            found = read(reply)
            why = "" if found is not None else f"no usable answer ({reply.stop})"
        except TimeoutError:
            why = f"no answer within {self.seconds:g} s"
            raise ModelBusy(why, retry_after=0.0) from None
        except ModelFault as fault:
            why = str(fault)
            self.denied = fault if isinstance(fault, ModelDenied) else self.denied
            raise
        finally:
            self.note(request, reply, asked, time.perf_counter() - started, attempt, why)
        return found

    async def _reply(self, request: Request) -> Reply:
        try:
            return await self.model.ask(request)
        except ModelFault as fault:
            fault.is_foreign = True
            raise
        except (HoldallError, TimeoutError):
            raise
        except Exception as problem:  # of a model that is the user's own: one question must not end a run
            fault = ModelFault(f"{type(problem).__name__}: {problem}".rstrip(": "))
            fault.is_foreign = True
            raise fault from problem

    def note(
        self, request: Request, reply: Reply, asked: ModelQuestion[Read], seconds: float, attempt: int, why: str
    ) -> None:
        """Count and record one call."""
        self.spent = self._more(calls=1, usage=reply.usage, seconds=seconds)
        self.record(
            CallRecord(
                asked.purpose, reply.model or self.model.name, asked.chunk, len(request.messages),
                size_of(request.messages), len(reply.text.encode("utf-8", "replace")), reply.text[:PREVIEW],
                reply.usage, seconds, attempt, asked.tokens, why,
            )
        )  # fmt: skip

    def check(self) -> None:
        """Raises TooCostly if one more call would pass the ceiling, ModelDenied if the model refuses us."""
        if self.denied is not None:
            raise self.denied
        spent = self.spent
        usage = spent.usage
        now = Forecast(spent.calls + 1, usage.input_tokens, usage.output_tokens, usage.cost)
        if over := self.ceiling.over(now):
            raise TooCostly(f"the ceiling of {over} for one question was reached after {spent.calls:,} calls.")

    def from_cache(self) -> None:
        self.spent = self._more(cached_calls=1)

    def _more(
        self, *, calls: int = 0, cached_calls: int = 0, retries: int = 0, usage: Usage | None = None, seconds: float = 0
    ) -> Spent:
        spent = self.spent
        return Spent(
            spent.calls + calls, spent.cached_calls + cached_calls, spent.retries + retries,
            spent.usage + usage if usage is not None else spent.usage, spent.seconds + seconds,
        )  # fmt: skip


def _pause(fault: ModelBusy, attempt: int) -> float:
    wanted = fault.retry_after if fault.retry_after is not None else _FIRST_PAUSE * 2 ** (attempt - 1)
    return max(0.0, min(wanted, _LONGEST_PAUSE))
