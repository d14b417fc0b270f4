"""The model of the demo: its steps are written down, and what it passes on and reports is what the tools answered.

It knows no figure of the day: the error comes from a count over the log, the sum from a query, the advice from a search
of the crawled pages. `holdall demo --model NAME` lets a real model find its own way instead.
"""

import re
from collections.abc import Callable
from typing import Any

from holdall.llm.catalogue import Price
from holdall.llm.protocol import Request
from holdall.llm.scripted import ScriptedModel
from holdall.values.chat import Reply, Returned, Said, ToolCall

PRICE = Price(1.0, 4.0)  # dollars for a million tokens
WINDOW = 128_000
_NUMBERS = 2  # that the query asks for
_HANDLE = re.compile(r"^handle: (\S+)$", re.MULTILINE)

Call = tuple[str, dict[str, Any]]


def finder() -> ScriptedModel:
    """Of the agent that is asked."""
    return _scripted(_find)


def accountant() -> ScriptedModel:
    """Of the agent that it asks."""
    return _scripted(_sum_up)


def _scripted(step: Callable[[int, Request], list[Call]]) -> ScriptedModel:
    def answer(request: Request) -> Reply:
        turn = sum(isinstance(message, Said) for message in request.messages)
        calls = [ToolCall(f"t{turn}.{at}", name, given) for at, (name, given) in enumerate(step(turn, request))]
        return Reply(calls=tuple(calls))

    return ScriptedModel(answer, name="scripted:demo", window=WINDOW, price=PRICE)


def _find(turn: int, request: Request) -> list[Call]:
    match turn:
        case 0:
            says = {"status": "I fetch the log, and crawl the runbook meanwhile."}
            return [("task_status", says), ("fetch_log", {}), ("crawl_runbook", {})]
        case 1:
            asked = {"handle": _handle(request, "fetch_log"), "pattern": r"ERROR .* code (\S+)", "group": True}
            return [("context_grep", asked)]
        case 2:
            code = _code(request)
            task = f"How many orders of the day were refused with the code {code}, and what were they worth in euros?"
            around = {"handle": _handle(request, "fetch_log"), "pattern": f"ERROR .* {code}", "limit": 3}
            spawn = {"agent": "accountant", "task": task, "async": True}
            return [("spawn_agent", spawn), ("context_grep", around)]
        case 3:
            return [("wait_for_tool_output", {"all": True})]
        case 4:
            pages = {"handle": _handle(request, "crawl_runbook"), "pattern": _code(request), "context": 2}
            return [("context_grep", pages), ("context_read", {"handle": _handle(request, "spawn_agent")})]
        case _:
            return [("final_report", {"report": _report(request)})]


def _sum_up(turn: int, request: Request) -> list[Call]:
    code = _first(r"\b([A-Z]+-\d+)\b", request.messages[1].text)
    match turn:
        case 0:
            return [("export_orders", {})]
        case 1:
            sql = f"select count(*) as orders, sum(amount_cents) as cents from t where code = '{code}'"  # noqa: S608
            return [("context_query", {"handle": _handle(request, "export_orders"), "at": "$.orders", "sql": sql})]
        case _:
            orders, cents = (int(found) for found in re.findall(r"\b\d+\b", _last_row(request)))
            return [("final_report", {"report": f"{orders} orders were refused with {code}, {cents / 100:.2f} EUR."})]


def _report(request: Request) -> str:
    code, pages = _code(request), _answers(request, "context_grep")[-1]
    gateway = _first(r"gateway (\S+)", _answers(request, "context_grep")[1])
    cause = _first(rf"Error {code}: ([^\n]+)", pages)
    fix = _first(r"Renew it with: ([^\n]*?) \.", pages)
    sums = _first(r"(\d+ orders were refused with [^\n]*EUR\.)", _answers(request, "context_read")[-1])
    return (
        f"The orders fail with {code} at the gateway {gateway}. {sums}\n"
        f"The runbook has it: {cause.rstrip('.,')}.\n"
        f"To do: {fix}"
    )


def _answers(request: Request, tool: str) -> list[str]:
    return [message.text for message in request.messages if isinstance(message, Returned) and message.name == tool]


def _handle(request: Request, tool: str) -> str:
    """The handle that stands in place of what this tool gave."""
    return next((found[1] for text in _answers(request, tool) if (found := _HANDLE.search(text))), "")


def _code(request: Request) -> str:
    """The error that the count names first: the most frequent one."""
    return _first(r"\b([A-Z]+-\d+)\b", _answers(request, "context_grep")[0])


def _last_row(request: Request) -> str:
    """The numbers of the only row that a query gave."""
    lines = _answers(request, "context_query")[-1].splitlines()
    # Not a fence: its tag has digits too.
    rows = [line for line in lines if not line.startswith("<") and len(re.findall(r"\b\d+\b", line)) == _NUMBERS]
    return rows[-1] if rows else "0 0"


def _first(pattern: str, text: str) -> str:
    found = re.search(pattern, text)
    return found[1] if found else "?"
