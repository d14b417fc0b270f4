"""A tool that a model may call to fetch part of a kept output: its name, description and schema, in the form of each
provider, and in the strict form that some of them want. It runs nothing: it says which verb is meant, the bag does it.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from typing import Any, cast

from holdall.text.escape import foreign
from holdall.values.errors import UsageError
from holdall.values.patterns import lazy_pattern
from holdall.values.record import record
from holdall.wire.verbs import VERBS, Verb

# The strict form of a schema: every property required, nothing beside them, what was optional may be null.
#
# Keywords that such providers refuse (lengths, defaults) are left out: `schema_problem` still checks them on the way
# in.


_REFUSED = ("minLength", "maxLength", "default", "minProperties", "maxProperties")
_CHOICES, _NAMED = ("anyOf", "oneOf", "allOf", "prefixItems"), ("$defs", "definitions")


def strict_schema(schema: Mapping[str, Any]) -> dict[str, Any]:
    """A new schema; the one given is not changed."""
    shown = {key: value for key, value in schema.items() if key not in _REFUSED}
    properties = cast("Mapping[str, Mapping[str, Any]] | None", schema.get("properties"))
    if properties is not None:
        required = cast("list[str]", schema.get("required", []))
        shown["properties"] = {
            name: strict_schema(one) if name in required else _nullable(strict_schema(one))
            for name, one in properties.items()
        }
        shown["required"] = list(properties)
        shown["additionalProperties"] = False
    elif schema.get("type") == "object":
        shown |= {"properties": {}, "required": [], "additionalProperties": False}
    if isinstance(schema.get("items"), Mapping):
        shown["items"] = strict_schema(cast("Mapping[str, Any]", schema["items"]))
    for name in _CHOICES:
        if isinstance(schema.get(name), list):
            shown[name] = [strict_schema(one) for one in cast("list[Mapping[str, Any]]", schema[name])]
    for name in _NAMED:
        if isinstance(schema.get(name), Mapping):
            named = cast("Mapping[str, Mapping[str, Any]]", schema[name])
            shown[name] = {key: strict_schema(one) for key, one in named.items()}
    return shown


def _nullable(schema: dict[str, Any]) -> dict[str, Any]:
    kind = schema.get("type")
    if kind is None or "const" in schema:
        return {"anyOf": [schema, {"type": "null"}]}
    kinds = cast("list[str]", kind) if isinstance(kind, list) else [kind]
    nullable = schema | {"type": [*kinds, "null"]}
    if "enum" in schema:
        nullable["enum"] = [*cast("list[object]", schema["enum"]), None]
    return nullable


@record
class Ask:
    """One verb, the handle it is about, and its options as the bag's method of that name takes them.

    Verbs are those that `wire.verbs` declares, and "list", "raw" and "extract".
    """

    verb: str
    handle: str = ""
    options: Mapping[str, Any] = field(default_factory=dict[str, Any])
    ended: bool = False  # only for an output whose tool has ended
    tool: str = ""  # whose output it is, where that is known


@record
class ToolSpec:
    """Name, description and schema, and the same in each provider's form.

    A schema costs tokens in every request: where it leaves out arguments and rules, `whole` has them. Calls are checked
    by that, and the strict form is made of it, for in that a model can give no other argument.
    """

    name: str
    description: str
    schema: Mapping[str, Any]
    whole: Mapping[str, Any] | None = field(default=None, kw_only=True)

    @property
    def plain_name(self) -> str:
        """The name for providers that forbid dots."""
        return self.name.replace(".", "_")

    @property
    def accepted(self) -> Mapping[str, Any]:
        """The schema that calls are checked by."""
        return self.whole or self.schema

    def openai(self, *, strict: bool = False, responses: bool = False) -> dict[str, Any]:
        """For chat completions; with `responses`, for the Responses API. `strict` makes every property required."""
        function: dict[str, Any] = {
            "name": self.plain_name,
            "description": self.description,
            "parameters": strict_schema(self.accepted) if strict else self.schema,
        }
        if strict or responses:
            function["strict"] = strict
        return {"type": "function", **function} if responses else {"type": "function", "function": function}

    def anthropic(self, *, strict: bool = False) -> dict[str, Any]:
        schema = strict_schema(self.accepted) if strict else self.schema
        shown: dict[str, Any] = {"name": self.plain_name, "description": self.description, "input_schema": schema}
        return shown | {"strict": True} if strict else shown

    def mcp(self) -> dict[str, Any]:
        """Verbs fetch and never write, so clients need not ask their user."""
        shown = {"name": self.name, "description": self.description, "inputSchema": self.schema}
        return shown | {"annotations": {"readOnlyHint": True}}

    def bedrock(self) -> dict[str, Any]:
        """For `toolConfig.tools` of Bedrock's Converse, and for Strands."""
        shown = {"name": self.plain_name, "description": self.description, "inputSchema": {"json": self.schema}}
        return {"toolSpec": shown}

    def gemini(self) -> dict[str, Any]:
        """A function declaration of Gemini's API."""
        return {"name": self.plain_name, "description": self.description, "parametersJsonSchema": self.schema}

    def function(self, call: Callable[[dict[str, Any]], Any]) -> Callable[..., Any]:
        """A function with a signature, annotations and a docstring, for frameworks that read tools off those.

        It gives `call` the arguments that were given; it is a coroutine function if `call` is one.
        """
        from inspect import Parameter, Signature, iscoroutinefunction  # noqa: PLC0415 - few need it

        properties = cast("Mapping[str, Mapping[str, Any]]", self.schema.get("properties", {}))
        required = cast("Sequence[str]", self.schema.get("required", ()))
        named = sorted(properties, key=lambda name: name not in required)  # those without a default come first
        types = {name: _python_type(properties[name], optional=name not in required) for name in named}
        parameters = [
            Parameter(
                name, Parameter.POSITIONAL_OR_KEYWORD, annotation=types[name],
                default=Parameter.empty if name in required else None,
            )
            for name in named
        ]  # fmt: skip
        signature = Signature(parameters, return_annotation=str)

        def given(args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
            bound = signature.bind(*args, **kwargs).arguments
            return {name: value for name, value in bound.items() if value is not None}

        async def later(*args: Any, **kwargs: Any) -> Any:
            return await call(given(args, kwargs))

        def now(*args: Any, **kwargs: Any) -> Any:
            return call(given(args, kwargs))

        made: Any = later if iscoroutinefunction(call) else now
        made.__name__ = made.__qualname__ = self.plain_name
        whole = cast("Mapping[str, Mapping[str, Any]]", self.accepted.get("properties", {}))
        told = [f"    {name}: {whole.get(name, {}).get('description') or name}" for name in named]
        made.__doc__ = "\n".join([self.description, "", "Args:", *told] if told else [self.description])
        made.__signature__, made.__annotations__ = signature, {**types, "return": str}
        return made


class Unbound(Exception):
    """A `bind` of a dialect failed, most often because of what the model wrote."""


@record
class Tool(ToolSpec):
    """A tool of a dialect. Without a `bind`, `handle` is the handle and all other arguments are the verb's options."""

    verb: str = "read"
    bind: Callable[[Mapping[str, Any]], Ask] | None = None
    without_handle: str = ""  # the verb that is meant where no handle is given

    def ask(self, arguments: Mapping[str, Any]) -> Ask:
        """What is meant. A null stands for an argument that was left out, as in the strict form."""
        given = {name: value for name, value in arguments.items() if value is not None}
        if self.bind is not None:
            try:
                ask = cast("object", self.bind(given))  # of whoever wrote the dialect
            except Exception as error:
                why = foreign(str(error)) or "nothing more is known"
                raise Unbound(f"these arguments cannot be used ({type(error).__name__}: {why}).") from error
            if not isinstance(ask, Ask):
                given_back = type(ask).__name__
                raise UsageError(
                    f"bind of the tool {self.name} gives a {given_back}, not an Ask(verb, handle, options)."
                )
            return ask
        handle = str(given.pop("handle", ""))
        return Ask(self.verb if handle or not self.without_handle else self.without_handle, handle, given)

    @property
    def spec(self) -> ToolSpec:
        return ToolSpec(self.name, self.description, self.schema, whole=self.whole)


_NAME = lazy_pattern(r"[A-Za-z0-9_.-]{1,64}")
_KINDS = ("string", "integer", "number", "boolean", "array", "object", "null")
_OTHER_VERBS = ("list", "raw", "extract", "wait")


def tool_problem(tool: Tool) -> str:
    """What is wrong with it; empty if a model can call it, and what it then asks for is something that there is."""
    if not _NAME.fullmatch(tool.name):
        return "a name has letters, digits, _ . and -, at most 64"
    for verb in (tool.verb, tool.without_handle or tool.verb):
        if verb not in VERBS and verb not in _OTHER_VERBS:
            return f"there is no verb {foreign(repr(verb))}: {', '.join((*VERBS, *_OTHER_VERBS))}"
    return _schema_problem(tool.accepted) or ("" if tool.bind is not None else _argument_problem(tool))


def _schema_problem(schema: object) -> str:
    given = cast("Mapping[str, Any]", schema if isinstance(schema, Mapping) else {})
    properties: object = given.get("properties", {})
    if given.get("type") != "object" or not isinstance(properties, Mapping):
        return 'its schema must have "type": "object", and "properties" by name'
    named = cast("Mapping[str, object]", properties)
    for name, one in named.items():
        kind = cast("Mapping[str, object]", one).get("type", "string") if isinstance(one, Mapping) else None
        kinds = cast("list[object]", kind) if isinstance(kind, list) else [kind]
        if not all(one in _KINDS for one in kinds):
            return f"the schema of {foreign(repr(name))} has no type that JSON knows"
    required: object = given.get("required", [])
    if not isinstance(required, list | tuple) or not all(one in named for one in cast("list[str]", required)):
        return '"required" lists names of its properties'
    try:
        json.dumps(schema)
    except (TypeError, ValueError, RecursionError) as problem:
        return f"its schema is not JSON: {foreign(str(problem))}"
    return ""


def _argument_problem(tool: Tool) -> str:
    """Without a `bind`, arguments are those of the verb."""
    named = set(cast("Mapping[str, object]", tool.accepted.get("properties", {})))
    verb = VERBS.get(tool.verb)
    if verb is None or "properties" not in tool.accepted:  # without them a model may give any
        return ""
    known = {one.name: one for one in verb.arguments}
    if unknown := sorted(named - set(known)):
        return f"{verb.name} has no argument {foreign(repr(unknown[0]))}: {', '.join(known)}; or `bind` translates it"
    missing = [one.name for one in verb.arguments if one.default is ... and one.name not in named]
    return f"{verb.name} needs {missing[0]}, which is not in the schema" if missing else ""


def _python_type(schema: Mapping[str, Any], *, optional: bool) -> Any:
    found: Any = _PYTHON_TYPES.get(str(schema.get("type")), str)
    return found | None if optional else found


_PYTHON_TYPES: dict[str, Any] = {
    "string": str, "integer": int, "number": float, "boolean": bool, "array": list[str], "object": dict[str, Any],
}  # fmt: skip
_JSON_TYPES = {str: "string", int: "integer", float: "number", bool: "boolean", list: "array"}


def tool_of(verb: Verb) -> Tool:
    """The tool that a verb is to a model in our own dialect."""
    properties: dict[str, dict[str, Any]] = {}
    shown: dict[str, dict[str, Any]] = {}
    required: list[str] = []
    for one in verb.arguments:
        if one.about is None:
            continue
        least = {} if one.least is None else {"minimum": one.least}
        about = {"description": one.about} if one.about else {}
        properties[one.name] = {"type": _JSON_TYPES[one.type], **least, **one.schema, **about}
        if one.listed:
            items = {"items": one.schema["items"]} if "items" in one.schema else {}  # some APIs want it of an array
            shown[one.name] = {"type": _JSON_TYPES[one.type], **items, **about}
        if one.default is ... and not (one.name == "handle" and verb.without_handle):
            required.append(one.name)
    needs = {"required": required} if required else {}
    return Tool(
        verb.tool,
        verb.about,
        {"type": "object", "properties": shown, **needs},
        whole={"type": "object", "additionalProperties": False, **needs, "properties": properties},
        verb=verb.name,
        without_handle=verb.without_handle,
    )
