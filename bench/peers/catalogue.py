"""The libraries that are compared: what they are called, where they come from, and in which ways they are used."""

from collections.abc import Iterator
from dataclasses import dataclass

from bench.peers.data import CASES, Case

_TEXTS: tuple[Case, ...] = ("log", "json")


@dataclass(frozen=True, slots=True)
class Library:
    """One of them. The version is the one that its file in `libraries` was written for and tried with."""

    name: str
    module: str
    ways: dict[str, tuple[Case, ...]]  # as a reader of its documentation knows them, and what each is measured with
    version: str = ""  # empty for ours: it is in this environment already

    def work(self) -> Iterator[tuple[Case, str]]:
        return ((case, way) for case in CASES for way, cases in self.ways.items() if case in cases)


LIBRARIES = {
    library.name: library
    for library in (
        Library("holdall", "ours", {"plain": CASES, "exact tokens": CASES}),
        Library("deepagents", "deepagents", {"FilesystemMiddleware": CASES}, "0.7.32"),
        # For a value its better way only: the other parses and indents all of it for each page, a second each time.
        Library("strands-agents", "strands", {"ContextOffloader": CASES, 'context_manager="auto"': _TEXTS}, "1.62.0"),
        Library("pydantic-ai-harness", "pydantic_ai_harness", {"ToolOutputLimits": CASES}, "0.62.0"),
    )
}
