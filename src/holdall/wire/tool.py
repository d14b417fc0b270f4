"""A tool that a model may call to fetch part of a kept output: what it reads of it, and what it asks for.

The forms of the providers are made here and nowhere else. A tool runs nothing: `bind` only says which verb is meant,
and the bag carries it out.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from holdall.wire.strict import strict_schema

Verb = Literal["list", "read", "tail", "grep", "slice", "query", "raw", "extract", "wait"]


@dataclass(frozen=True, slots=True)
class Ask:
    """One verb, the handle it is about, and its options as the bag's method of that name takes them."""

    verb: Verb
    handle: str = ""
    options: Mapping[str, Any] = field(default_factory=dict[str, Any])
    ended: bool = False  # only for an output whose tool has ended


@dataclass(frozen=True, slots=True)
class ToolSpec:
    """Name, description and schema, and the same in each provider's form."""

    name: str
    description: str
    schema: Mapping[str, Any]

    @property
    def plain_name(self) -> str:
        """The name for providers that forbid dots."""
        return self.name.replace(".", "_")

    def openai(self, *, strict: bool = False, responses: bool = False) -> dict[str, Any]:
        """For chat completions; with `responses`, for the Responses API. `strict` makes every property required."""
        function: dict[str, Any] = {
            "name": self.plain_name,
            "description": self.description,
            "parameters": strict_schema(self.schema) if strict else self.schema,
        }
        if strict or responses:
            function["strict"] = strict
        return {"type": "function", **function} if responses else {"type": "function", "function": function}

    def anthropic(self, *, strict: bool = False) -> dict[str, Any]:
        schema = strict_schema(self.schema) if strict else self.schema
        shown: dict[str, Any] = {"name": self.plain_name, "description": self.description, "input_schema": schema}
        return shown | {"strict": True} if strict else shown

    def mcp(self) -> dict[str, Any]:
        return {"name": self.name, "description": self.description, "inputSchema": self.schema}


@dataclass(frozen=True, slots=True)
class Tool(ToolSpec):
    """A tool of a dialect. Without a `bind`, `handle` is the handle and all other arguments are the verb's options."""

    verb: Verb = "read"
    bind: Callable[[Mapping[str, Any]], Ask] | None = None

    def ask(self, arguments: Mapping[str, Any]) -> Ask:
        """What is meant. A null stands for an argument that was left out, as in the strict form."""
        given = {name: value for name, value in arguments.items() if value is not None}
        if self.bind is not None:
            return self.bind(given)
        handle = str(given.pop("handle", ""))
        return Ask(self.verb, handle, given)

    @property
    def spec(self) -> ToolSpec:
        return ToolSpec(self.name, self.description, self.schema)
