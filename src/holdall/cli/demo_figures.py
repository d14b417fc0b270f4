"""What the demo measures: what a context would have held, and that every byte can be read back in bounded answers."""

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, cast

from holdall.bag import Holdall
from holdall.values.answers import Passage
from holdall.values.events import Event
from holdall.values.outputs import Facts
from holdall.wire.tool import Ask


@dataclass(slots=True)
class Output:
    """One kept output. `in_context` are the tokens that stood for it: its notice, and what was fetched of it."""

    agent: str
    tool: str
    handle: str
    bytes: int
    lines: int
    tokens: int
    in_context: int
    seen: float  # the share that the model was shown
    pages: int = 0
    sha256: str = ""
    reachable: bool = False


@dataclass(slots=True)
class Context:
    """The largest request of one agent, as it was and as it would have been with every output in it."""

    agent: str
    window: int
    tokens: int
    outputs: list[Output] = field(default_factory=list[Output])

    @property
    def without(self) -> int:
        return self.tokens + sum(one.tokens - one.in_context for one in self.outputs)

    def to_json(self) -> dict[str, Any]:
        return {
            "agent": self.agent, "window": self.window, "tokens": self.tokens, "tokens_without": self.without,
            "outputs": [asdict(one) for one in self.outputs],
        }  # fmt: skip


async def context_of(agent: str, bag: Holdall, window: int) -> Context:
    """From the log of its session."""
    events = bag.history()
    found = Context(agent, window, max((event.data["tokens"] for event in events if event.kind == "turn"), default=0))
    for facts in await bag.outputs():
        found.outputs.append(await _output(agent, bag, facts, events))
    return found


async def _output(agent: str, bag: Holdall, facts: Facts, events: Sequence[Event]) -> Output:
    measure = facts.measure
    own = [event.data for event in events if event.handle == facts.handle]
    stood = sum(int(data.get("content_tokens", 0)) for data in own)
    fetched = sum(int(data.get("tokens", 0)) for data in own if "verb" in data)
    seen = (await bag.coverage(facts.handle)).share(measure.bytes)
    return Output(
        agent, facts.origin.tool, facts.handle, measure.bytes, measure.lines, measure.tokens, stood + fetched, seen
    )


async def read_back(bag: Holdall, output: Output, tick: Callable[[int], None]) -> None:
    """Page by page, as a model would: each answer within its bounds, until there is no next one.

    It leaves no trace: what is read here was shown to no model.
    """
    digest, at = hashlib.sha256(), 0
    while True:
        page = cast("Passage", await bag.fetch(Ask("read", output.handle, {"bytes": f"{at}:"}), bag.bounds()))
        digest.update(page.data)
        tick(len(page.data))
        output.pages += 1
        at = page.bytes.end
        if not page.next:
            break
    output.sha256 = digest.hexdigest()
    output.reachable = at == output.bytes
