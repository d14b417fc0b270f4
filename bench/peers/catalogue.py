"""The libraries that are compared: what they are called, where they come from, and in which ways they are used."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Library:
    """One of them. The version is the one that its file in `libraries` was written for and tried with."""

    name: str
    module: str
    ways: tuple[str, ...]  # as a reader of its documentation knows them
    version: str = ""  # empty for ours: it is in this environment already


LIBRARIES = {
    library.name: library
    for library in (
        Library("holdall", "ours", ("plain", "exact tokens")),
        Library("deepagents", "deepagents", ("FilesystemMiddleware",), "0.7.32"),
        Library("strands-agents", "strands", ("ContextOffloader", 'context_manager="auto"'), "1.62.0"),
        Library("pydantic-ai-harness", "pydantic_ai_harness", ("ToolOutputLimits",), "0.62.0"),
    )
}
