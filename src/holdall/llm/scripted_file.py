r"""A scripted model from a JSON file: `scripted:FILE` on a command line.

The file is a list of replies, or an object with `replies` and the options of ScriptedModel. A reply is a text, or

    {"text": "…", "calls": [{"name": "grep", "arguments": {…}}], "stop": "length"}
    {"error": "busy", "text": "come back later", "retry_after": 2}
    {"when": "part (\d+) of", "text": "nothing in part {1}"}

`when` is a regular expression that is searched in the request's texts: such a reply serves every request that it
fits, in any order and as often as it comes, and what its groups matched stands for {1}, {2}. The others are used up
one by one, in the order of the file.
"""

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast, get_args

from holdall.llm.catalogue import Price
from holdall.llm.protocol import Request
from holdall.llm.scripted import Line, ScriptedModel
from holdall.values.chat import Reply, Stop, ToolCall, Usage
from holdall.values.errors import ModelBusy, ModelFault, ModelOverflow, NoSuchModel

_OPTIONS: dict[str, type | tuple[type, ...]] = {
    "window": int, "max_output": int, "calls_tools": bool, "keeps_schema": bool, "latency": (int, float),
}  # fmt: skip
_REPLY_KEYS = {"text", "calls", "stop", "error", "retry_after", "when", "usage"}
_ERRORS: dict[str, Callable[[str], ModelFault]] = {"busy": ModelBusy, "overflow": ModelOverflow, "fault": ModelFault}


@dataclass(frozen=True, slots=True)
class _Rule:
    when: re.Pattern[str]
    line: Line


def scripted_from(path: Path, **given: Any) -> ScriptedModel:
    """`given` are options of ScriptedModel, and go before those in the file.

    Raises NoSuchModel, with the place of the fault, where the file is not there or is not a script.
    """
    try:
        content = json.loads(path.read_bytes())
    except OSError as refused:
        raise NoSuchModel(f"the script {path} cannot be read: {refused.strerror}.") from refused
    except (ValueError, RecursionError) as broken:
        raise NoSuchModel(f"the script {path} is not JSON: {broken}.") from broken
    try:
        return _model(content, f"scripted:{path}", given)
    except (_Misfit, re.error) as misfit:
        raise NoSuchModel(f"the script {path} cannot be used: {misfit}.") from misfit


class _Misfit(Exception):
    pass


def _model(content: object, name: str, given: Mapping[str, Any]) -> ScriptedModel:
    if isinstance(content, list):
        options: dict[str, Any] = {"replies": content}
    elif isinstance(content, dict):
        options = dict(cast("dict[str, Any]", content))
    else:
        raise _Misfit("it is neither a list of replies nor an object")
    replies: object = options.pop("replies", None)
    if not isinstance(replies, list):
        raise _Misfit('"replies" is not a list')
    price = options.pop("price", None)
    for key, value in options.items():
        if key not in _OPTIONS or not isinstance(value, _OPTIONS[key]):
            raise _Misfit(f'"{key}" is {value!r}; options are {", ".join(_OPTIONS)} and price')
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
        raise _Misfit(f"reply {number} is neither a text nor an object")
    given = cast("dict[str, Any]", reply)
    if strange := given.keys() - _REPLY_KEYS:
        raise _Misfit(f'reply {number} has "{min(strange)}"; a reply has {", ".join(sorted(_REPLY_KEYS))}')
    line = _line(given, number)
    if "when" in given:
        rules.append(_Rule(re.compile(str(given["when"]), re.DOTALL), line))
    else:
        lines.append(line)


def _line(given: Mapping[str, Any], number: int) -> Line:
    text = str(given.get("text", ""))
    if "error" in given:
        if given["error"] not in _ERRORS:
            raise _Misfit(f'reply {number} has the error "{given["error"]}"; there are {", ".join(_ERRORS)}')
        error = _ERRORS[given["error"]](text or f"scripted: {given['error']}")
        if isinstance(error, ModelBusy):
            error.retry_after = given.get("retry_after")
        return error
    stop = given.get("stop", "end")
    if stop not in get_args(Stop):
        raise _Misfit(f'reply {number} stops by "{stop}"; there are {", ".join(get_args(Stop))}')
    try:
        calls = tuple(
            ToolCall(str(call.get("id", f"{number}.{place}")), call["name"], call.get("arguments", {}))
            for place, call in enumerate(given.get("calls", ()), 1)
        )
        return Reply(text, calls, Usage(**given.get("usage", {})), stop)
    except (TypeError, KeyError, AttributeError) as wrong:
        raise _Misfit(f"reply {number} has calls or a usage of another form ({wrong})") from wrong


def _price(given: object) -> Price | None:
    try:
        return None if given is None else Price(**cast("dict[str, float]", given))
    except TypeError as wrong:
        raise _Misfit('"price" is not {"input": …, "output": …}, dollars for a million tokens') from wrong


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
    text = reply.text
    for number, group in enumerate(found.groups("") if found else (), 1):
        text = text.replace(f"{{{number}}}", group)
    return replace(reply, text=text)
