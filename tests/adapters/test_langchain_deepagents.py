"""deepagents: the middleware of LangChain in an agent that has its own way with large results, and in its sub-agents."""
# pyright: basic, reportMissingImports=false
# Of frameworks the types are known in part, and only where they are installed.

from pathlib import Path
from typing import Any

import pytest
from deepagents import create_deep_agent
from langchain_core.messages import HumanMessage
from langgraph.checkpoint.memory import InMemorySaver

from holdall.adapters.langchain import middleware
from tests.adapters.contract import NEEDLE, Call, Contract, Request, Says, big, fetch, finds_the_needle, handle_in
from tests.adapters.test_langchain import LangChain, Scripted
from tests.requirements import requirement

pytestmark = pytest.mark.adapters


class DeepAgents(LangChain):
    def agent(self, adapter: Any, model: Any, tools: list[Any], saver: Any) -> Any:
        return create_deep_agent(model, tools, middleware=[adapter] if adapter else [], checkpointer=saver)


class TestDeepAgent(Contract):
    framework = DeepAgents(is_async=False)


@requirement("adapter:beside")
def test_our_notice_comes_before_its_own_eviction(tmp_path: Path) -> None:
    requests: list[Request] = []
    given: Any = {"messages": [HumanMessage("go")]}
    config: Any = {"configurable": {"thread_id": "c1"}}
    adapter = middleware(home=str(tmp_path))
    model = Scripted(script=finds_the_needle(fetch), requests=requests)
    agent = create_deep_agent(model, [fetch], middleware=[adapter], checkpointer=InMemorySaver())
    state = agent.invoke(given, config)
    adapter.close()
    assert NEEDLE in state["messages"][-1].text
    assert not state.get("files"), "it has evicted what we keep"


@requirement("adapter:conversations")
def test_a_sub_agent_with_the_middleware_keeps_in_the_session_of_its_conversation(tmp_path: Path) -> None:
    seen: dict[str, list[Request]] = {"main": [], "sub": []}

    def main(requests: list[Request]) -> Says:
        now = requests[-1]
        if len(requests) == 1:
            return [Call("task", {"description": "look", "subagent_type": "reader"})]
        if len(requests) == 2:
            handle = handle_in(seen["sub"][1].results["call-1"].text)
            return [Call("context_grep", {"handle": handle, "pattern": NEEDLE}, "call-2")]
        return now.results["call-2"].text

    adapter = middleware(home=str(tmp_path))
    reader: Any = {
        "name": "reader",
        "description": "reads",
        "system_prompt": "read",
        "tools": [fetch],
        "model": Scripted(script=finds_the_needle(fetch), requests=seen["sub"]),
        "middleware": [adapter],
    }
    agent = create_deep_agent(
        Scripted(script=main, requests=seen["main"]), [], middleware=[adapter], subagents=[reader],
        checkpointer=InMemorySaver(),
    )  # fmt: skip
    given: Any = {"messages": [HumanMessage("go")]}
    state = agent.invoke(given, {"configurable": {"thread_id": "c1"}})
    adapter.close()
    assert NEEDLE in seen["main"][1].results["call-1"].text  # what the sub-agent reported
    assert NEEDLE in state["messages"][-1].text
    assert big()[:300] not in str(state)
