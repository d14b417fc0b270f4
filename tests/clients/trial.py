"""What the scripted model does: it calls each tool, and looks for one row where it is shown a notice.

It is a plain script that knows the names of the tools and of the row, and reads everything else where a model would.
"""

import itertools
import json
import re
from collections.abc import Generator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tests.clients.model import Call, Script, Shown
from tests.clients.server import NAME, RESULTS, SMALL

BEHIND, SLOW, DIRECT = "shop", "yard", "plain"
"""The servers: behind a gateway; behind one that soon puts a call into the background; without a gateway."""

# As a notice writes them, also where it is inside JSON.
_ADVERTISED = re.compile(r'context_grep\(handle=\\*"(\w+)')
_HANDLE = re.compile(r'\bhandle(?:: |\\*": ?\\*"|=\\*")(\w+)')
_ASIDE = re.compile(r"two handles: \w+ is the text of this result, (\w+) its structured content")
_IN_JSON = rf'"name": ?"{NAME}"'  # the quotes matter: in JSON inside of JSON they are not there
_PATTERNS = {"twin": _IN_JSON, "loose": _IN_JSON, "alone": _IN_JSON, "wrapped": _IN_JSON}


def handles_in(text: str) -> list[str]:
    """Those that can be searched as the text says, then any other, each once."""
    return list(dict.fromkeys([*_ADVERTISED.findall(text), *_HANDLE.findall(text), *_ASIDE.findall(text)]))


@dataclass(frozen=True)
class Step:
    """A call, and what the model saw of its result."""

    server: str
    tool: str
    arguments: dict[str, Any]
    text: str
    images: int


class Trial:
    """A script, and the steps that it took. `gate` is the file that the slow tool waits for."""

    def __init__(self, gate: Path, sizes: Sequence[int]) -> None:
        self._gate = gate
        self._sizes = sizes
        self.steps: list[Step] = []

    def script(self) -> Script:
        for tool in RESULTS:
            yield from self._call(DIRECT, tool, size=SMALL)
            yield from self._call(BEHIND, tool, size=SMALL)
            for size in self._sizes:
                notice = yield from self._call(BEHIND, tool, size=size)
                for handle in handles_in(notice.text)[:2]:  # where there are two, the row may be in either
                    pattern = _PATTERNS.get(tool, NAME)
                    yield from self._call(BEHIND, "context_grep", handle=handle, pattern=pattern)
        yield from self._call(DIRECT, "text", size=self._sizes[-1])
        running = yield from self._call(SLOW, "slow", until=str(self._gate))
        self._gate.touch()
        for handle in handles_in(running.text)[:1]:
            yield from self._call(SLOW, "wait_for_tool_output", handle=handle)

    def _call(self, server: str, tool: str, **arguments: Any) -> Generator[Call, Shown, Shown]:
        shown = yield Call(server, tool, arguments)
        self.steps.append(Step(server, tool, arguments, shown.text, shown.images))
        return shown


@dataclass(frozen=True)
class Record:
    """What came of a trial. `code` is the agent's exit code, None where it was killed; the others are the model's."""

    code: int | None
    ended: bool
    problem: str
    tools: list[str]
    loaded: list[str]
    steps: list[Step]

    def write(self, path: Path) -> None:
        path.write_text(json.dumps(asdict(self), indent=1, ensure_ascii=False))

    @classmethod
    def read(cls, path: Path) -> "Record":
        values = json.loads(path.read_bytes())
        return cls(**values | {"steps": [Step(**step) for step in values["steps"]]})

    def step(self, server: str, tool: str, **arguments: Any) -> Step:
        return next(
            step
            for step in self.steps
            if (step.server, step.tool) == (server, tool) and step.arguments.items() >= arguments.items()
        )

    def searches_after(self, step: Step) -> list[Step]:
        behind = self.steps[self.steps.index(step) + 1 :]
        return list(itertools.takewhile(lambda one: one.tool == "context_grep", behind))
