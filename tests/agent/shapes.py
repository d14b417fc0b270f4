"""Agents for the tests: scripted models that act, tools that give much or take long, bags in a folder of the test's."""

import re
from pathlib import Path
from typing import Any, cast

from holdall import Holdall, Settings
from holdall.agent.toolbox import Agent, AgentTool, Toolbox
from holdall.llm.protocol import Model, Request
from holdall.llm.scripted import ScriptedModel
from holdall.values.chat import Reply, ToolCall, ToolResult, User
from holdall.wire.tool import ToolSpec

ANY: dict[str, Any] = {"type": "object", "properties": {}, "additionalProperties": True}


def acting(*steps: Any, **options: Any) -> ScriptedModel:
    """One step a request: calls as (name, arguments), a text, or a function of the request. The last one repeats.

    `$` in an argument stands for the newest handle that the model has been shown.
    """

    def answer(request: Request) -> Reply | str:
        step = steps[min(len(model.requests) - 1, len(steps) - 1)]
        if callable(step):
            return step(request)  # type: ignore[no-any-return]
        if isinstance(step, str):
            return step
        handle = newest_handle(request)
        calls = [
            ToolCall(f"c{len(model.requests)}.{at}", name, _filled(arguments, handle))
            for at, (name, arguments) in enumerate(step)
        ]
        return Reply(calls=tuple(calls))

    given: dict[str, Any] = {"window": 64_000} | options
    model = ScriptedModel(answer, **given)
    return model


def _filled(value: Any, handle: str) -> Any:
    if isinstance(value, dict):
        return {key: _filled(one, handle) for key, one in cast("dict[str, Any]", value).items()}
    if isinstance(value, list):
        return [_filled(one, handle) for one in cast("list[Any]", value)]
    return handle if value == "$" else value


def newest_handle(request: Request) -> str:
    found = re.findall(
        r'(?:^|\\n)handle: (\w+)|^Tool Output ID: (\S+)|handle = "([^"]+)"|kept under the handle (\w+)',
        "\n".join(message.text for message in request.messages), re.MULTILINE,
    )  # fmt: skip
    return next((one for one in reversed([part for parts in found for part in parts if part])), "")


def report(text: str = "done", **more: Any) -> list[tuple[str, dict[str, Any]]]:
    return [("final_report", {"report": text, **more})]


def returned(request: Request) -> list[ToolResult]:
    return [message for message in request.messages if isinstance(message, ToolResult)]


def notice_of(request: Request) -> str:
    last = request.messages[-1]
    assert isinstance(last, User)
    return last.text


def tool(name: str, call: object) -> AgentTool:
    return AgentTool(ToolSpec(name, f"the tool {name}", ANY), call)


def agent(folder: Path, model: Model, *tools: AgentTool, **more: Any) -> Agent:
    settings = Settings(**({"slow_after_seconds": 60.0} | more.pop("settings", {})))

    def open_bag(session: str, parent: str, model: Model) -> Holdall:
        return Holdall.open(home=str(folder / "home"), session=session, parent=parent, settings=settings, model=model)

    options: dict[str, Any] = {"name": "tester", "prompt": "You are a tester."} | more
    return Agent(model=model, open_bag=open_bag, tools=Toolbox(tools), **options)
