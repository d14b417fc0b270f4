"""A model whose replies are written down, in code or in a JSON file (`scripted:FILE`): for tests, for documentation,
for trying things out. It calls nothing.
"""

import asyncio
import errno
import inspect
import json
import os
import re
import stat
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, cast, get_args

from holdall.llm.catalogue import Price
from holdall.llm.protocol import Request, check_request, estimated_tokens
from holdall.values.chat import Assistant, Message, Reply, Stop, ToolCall, Usage
from holdall.values.errors import ModelBusy, ModelFault, ModelOverflow, NoSuchModel
from holdall.values.patterns import lazy_pattern
from holdall.values.record import record

# A model whose replies are written down: for tests, for documentation, for trying things out. It calls nothing.
#
# Give it replies in order, or a function from the request to the reply. Tokens are counted as for a real model, so that
# accounting works as with a real one. `scripted_from` reads the same from a JSON file.


Line = str | Reply | Exception
Answering = Callable[[Request], "str | Reply | Awaitable[str | Reply]"]


class ScriptedModel:
    """`requests` holds every request, in the order in which they came."""

    def __init__(  # noqa: PLR0913 - keyword-only, and each is something that a test wants to be otherwise
        self,
        script: Iterable[Line] | Answering,
        *,
        name: str = "scripted",
        window: int = 32_768,
        max_output: int = 4_096,
        calls_tools: bool = True,
        keeps_schema: bool = False,
        price: Price | None = None,
        latency: float = 0.0,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
        count: Callable[[str], int] = estimated_tokens,
    ) -> None:
        """A reply that is an exception is raised. `latency` is in seconds, `count` gives the tokens of a text."""
        self.name = name
        self.window = window
        self.max_output = max_output
        self.calls_tools = calls_tools
        self.keeps_schema = keeps_schema
        self.price = price
        self.requests: list[Request] = []
        self.closed = False
        self._answering: Answering | None = script if callable(script) else None
        self._lines: list[Line] = [] if callable(script) else list(script)
        self._latency = latency
        self._sleep = sleep
        self._count = count

    async def ask(self, request: Request) -> Reply:
        check_request(self, request)
        self.requests.append(request)
        number = len(self.requests)
        if self._latency:
            await self._sleep(self._latency)
        line = self._line(number) if self._answering is None else self._answering(request)
        if inspect.isawaitable(line):
            line = await line
        if isinstance(line, Exception):
            raise line
        return self._complete(request, Reply(line) if isinstance(line, str) else line)

    async def close(self) -> None:
        self.closed = True

    def _line(self, number: int) -> Line:
        if number > len(self._lines):
            raise ModelFault(
                f"the script of {self.name} has no reply for request {number}: it ends after {len(self._lines)}. "
                "Write another one, or give a function instead of a list."
            )
        return self._lines[number - 1]

    def _complete(self, request: Request, reply: Reply) -> Reply:
        """What the script leaves out: the tokens, their price, the name, that it stopped to call."""
        usage = reply.usage
        if not usage.tokens:
            read = sum(self._count(_written(message)) for message in request.messages)
            read += sum(self._count(f"{tool.name} {tool.description} {tool.schema}") for tool in request.tools)
            usage = Usage(read, self._count(_written(Assistant(reply.text, reply.calls))))
        if usage.cost is None and self.price is not None:
            usage = replace(usage, cost=self.price.cost(usage))
        stop = "calls" if reply.calls and reply.stop == "end" else reply.stop
        return replace(reply, usage=usage, stop=stop, model=reply.model or self.name)


def _written(message: Message) -> str:
    calls: tuple[ToolCall, ...] = message.calls if isinstance(message, Assistant) else ()
    return message.text + "".join(f"\n{call.name} {call.arguments}" for call in calls)


# A scripted model from a JSON file: `scripted:FILE` on a command line.
#
# The file is a list of replies, or an object with `replies` and the options of ScriptedModel. A reply is a text, or
#
#     {"text": "…", "calls": [{"name": "grep", "arguments": {…}}], "stop": "length"}
#     {"error": "busy", "text": "come back later", "retry_after": 2}
#     {"when": "part (\d+) of", "text": "nothing in part {1}"}
#
# `when` is a regular expression that is searched in the request's texts: such a reply serves every request that it
# fits, in any order and as often as it comes, and what its groups matched stands for {1}, {2}. The others are used up
# one by one, in the order of the file.


_OPTIONS: dict[str, type | tuple[type, ...]] = {
    "window": int, "max_output": int, "calls_tools": bool, "keeps_schema": bool, "latency": (int, float),
}  # fmt: skip
_REPLY_KEYS = {"text", "calls", "stop", "error", "retry_after", "when", "usage"}
_ERRORS: dict[str, Callable[[str], ModelFault]] = {"busy": ModelBusy, "overflow": ModelOverflow, "fault": ModelFault}


@record
class _Rule:
    when: re.Pattern[str]
    line: Line


def scripted_from(path: Path, **given: Any) -> ScriptedModel:
    """`given` are options of ScriptedModel, and go before those in the file.

    Raises NoSuchModel, with the place of the fault, where the file is not there or is not a script.
    """
    try:
        content = json.loads(_read(path))
    except OSError as refused:
        raise NoSuchModel(f"the script {path} cannot be read: {refused.strerror}.") from refused
    except (ValueError, RecursionError) as broken:
        raise NoSuchModel(f"the script {path} is not JSON: {broken}.") from broken
    try:
        return _model(content, f"scripted:{path}", given)
    except (_InvalidScript, re.error) as misfit:
        raise NoSuchModel(f"the script {path} cannot be used: {misfit}.") from misfit


def may_have_patterns(path: Path) -> bool:
    """Whether a reply may be chosen by a regular expression; letters of its key may be written as escapes."""
    try:
        data = _read(path)
    except OSError:
        return False  # nor can it be used
    return b"when" in data or b"\\u" in data


def _read(path: Path) -> bytes:
    """Only a file, and no larger than any script: a checkout may name whatever it likes. Raises OSError."""
    with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise OSError(errno.EINVAL, "Not a file")
        data = file.read(_LARGEST + 1)
    if len(data) > _LARGEST:
        raise OSError(errno.EFBIG, "File too large")
    return data


_LARGEST = 16 * 1024 * 1024


class _InvalidScript(Exception):
    pass


def _model(content: object, name: str, given: Mapping[str, Any]) -> ScriptedModel:
    if isinstance(content, list):
        options: dict[str, Any] = {"replies": content}
    elif isinstance(content, dict):
        options = dict(cast("dict[str, Any]", content))
    else:
        raise _InvalidScript("it is neither a list of replies nor an object")
    replies: object = options.pop("replies", None)
    if not isinstance(replies, list):
        raise _InvalidScript('"replies" is not a list')
    price = options.pop("price", None)
    for key, value in options.items():
        if key not in _OPTIONS or not isinstance(value, _OPTIONS[key]):
            raise _InvalidScript(f'"{key}" is {value!r}; options are {", ".join(_OPTIONS)} and price')
    rules: list[_Rule] = []
    lines: list[Line] = []
    for number, reply in enumerate(cast("list[object]", replies), 1):
        _add(reply, number, rules, lines)
    options |= {"name": name, "price": _price(price), **given}
    return ScriptedModel(_answering(rules, lines, name) if rules else lines, **options)


def _add(reply: object, number: int, rules: list[_Rule], lines: list[Line]) -> None:
    if isinstance(reply, str):
        lines.append(reply)
        return
    if not isinstance(reply, dict):
        raise _InvalidScript(f"reply {number} is neither a text nor an object")
    given = cast("dict[str, Any]", reply)
    if strange := given.keys() - _REPLY_KEYS:
        raise _InvalidScript(f'reply {number} has "{min(strange)}"; a reply has {", ".join(sorted(_REPLY_KEYS))}')
    line = _line(given, number)
    if "when" in given:
        rules.append(_Rule(re.compile(str(given["when"]), re.DOTALL), line))
    else:
        lines.append(line)


def _line(given: Mapping[str, Any], number: int) -> Line:
    text = str(given.get("text", ""))
    if "error" in given:
        if given["error"] not in _ERRORS:
            raise _InvalidScript(f'reply {number} has the error "{given["error"]}"; there are {", ".join(_ERRORS)}')
        error = _ERRORS[given["error"]](text or f"scripted: {given['error']}")
        if isinstance(error, ModelBusy):
            error.retry_after = given.get("retry_after")
        return error
    stop = given.get("stop", "end")
    if stop not in get_args(Stop):
        raise _InvalidScript(f'reply {number} stops by "{stop}"; there are {", ".join(get_args(Stop))}')
    try:
        calls = tuple(
            ToolCall(str(call.get("id", f"{number}.{place}")), call["name"], call.get("arguments", {}))
            for place, call in enumerate(given.get("calls", ()), 1)
        )
        return Reply(text, calls, Usage(**given.get("usage", {})), stop)
    except (TypeError, KeyError, AttributeError) as wrong:
        raise _InvalidScript(f"reply {number} has calls or a usage of another form ({wrong})") from wrong


def _price(given: object) -> Price | None:
    try:
        return None if given is None else Price(**cast("dict[str, float]", given))
    except TypeError as wrong:
        raise _InvalidScript('"price" is not {"input": …, "output": …}, dollars for a million tokens') from wrong


def _answering(rules: list[_Rule], lines: list[Line], name: str) -> Callable[[Request], str | Reply]:
    rest = iter(lines)

    def answer(request: Request) -> str | Reply:
        said = "\n".join(message.text for message in request.messages)
        for rule in rules:
            if (found := rule.when.search(said)) is not None:
                return _filled(rule.line, found)
        line = next(rest, None)
        if line is None:
            raise ModelFault(f"the script of {name} has no reply left, and no rule that fits this request.")
        return _filled(line, None)

    return answer


def _filled(line: Line, found: re.Match[str] | None) -> str | Reply:
    if isinstance(line, Exception):
        raise line
    reply = Reply(line) if isinstance(line, str) else line
    if found is None:
        return reply
    groups = {f"{{{number}}}": group for number, group in enumerate(found.groups(""), 1)}
    places = _PLACE_OF_GROUP.findall(reply.text)
    if sum(len(groups.get(place, "")) for place in places) > _LARGEST:
        raise ModelFault("the reply of the script has too much in it of what its pattern matched.")
    return replace(reply, text=_PLACE_OF_GROUP.sub(lambda place: groups.get(place[0], place[0]), reply.text))


_PLACE_OF_GROUP = lazy_pattern(r"\{[0-9]{1,3}\}")
