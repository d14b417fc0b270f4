"""`functions.wrap` in the frameworks that take bare functions: smolagents, LlamaIndex, CrewAI, ag2.

Each makes its own kind of tool of what `wrap` gives, reads names and arguments off it, and calls it.
"""
# pyright: basic, reportMissingImports=false
# Of frameworks the types are known in part, and only where they are installed.

import asyncio
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

os.environ["CREWAI_DISABLE_TELEMETRY"] = os.environ["OTEL_SDK_DISABLED"] = "true"  # before it is imported

from holdall.adapters.functions import wrap
from tests.adapters.contract import NEEDLE, big, handle_in
from tests.requirements import requirement

# What these packages import is deprecated in places; it is not ours to mend.
pytestmark = [pytest.mark.adapters, pytest.mark.filterwarnings("ignore")]


def fetch(name: str) -> str:
    """Fetch the rows.

    Args:
        name: whose
    """
    return big(3000)


def smolagents(function: Callable[..., Any]) -> Callable[..., str]:
    from smolagents import tool

    made = tool(function)
    assert made.inputs.keys() == set(function.__annotations__) - {"return"}
    return made


def llama_index(function: Callable[..., Any]) -> Callable[..., str]:
    from llama_index.core.tools import FunctionTool

    made = FunctionTool.from_defaults(function)
    assert made.metadata.get_parameters_dict()["properties"].keys() == set(function.__annotations__) - {"return"}
    return lambda **arguments: made.call(**arguments).content


def crewai(function: Callable[..., Any]) -> Callable[..., str]:
    from crewai.tools import tool

    return tool(function.__name__)(function).run


def ag2(function: Callable[..., Any]) -> Callable[..., str]:
    from ag2 import Agent
    from ag2.events import ToolCallEvent, ToolResultEvent
    from ag2.testing import TestConfig

    def call(**arguments: Any) -> str:
        config = TestConfig(ToolCallEvent(name=function.__name__, arguments=json.dumps(arguments)), "done")
        got: list[Any] = []
        agent = Agent("reader", config=config, tools=[function])

        async def ask() -> None:
            reply = await agent.ask("go")
            got.extend(await reply.context.stream.history.get_events())

        asyncio.run(ask())
        return next(one.result.parts[0].content for one in got if isinstance(one, ToolResultEvent))

    return call


@requirement("adapter:functions")
@pytest.mark.parametrize("make", [smolagents, llama_index, crewai, ag2])
def test_a_framework_takes_the_functions_and_finds_the_needle(tmp_path: Path, make: Callable[..., Any]) -> None:
    tools = {one.__name__: make(one) for one in wrap(fetch, session="s", home=str(tmp_path))}
    notice = tools["fetch"](name="all")
    assert len(notice) < 5000
    assert NEEDLE not in notice
    assert f'"note": "{NEEDLE}"' in tools["context_grep"](
        handle=handle_in(notice), pattern=f'"note": "{NEEDLE}'
    ).replace("\\", "")
