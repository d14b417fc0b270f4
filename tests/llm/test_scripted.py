"""The model that ships for tests: what it replays, what it records, how a script is read from a file."""

import json
import os
from pathlib import Path
from typing import Any

import pytest
from inline_snapshot import snapshot

from holdall.llm import scripted
from holdall.llm.catalogue import Price
from holdall.llm.model_names import model_named
from holdall.llm.protocol import Request
from holdall.llm.scripted import ScriptedModel, scripted_from
from holdall.values.chat import Reply, ToolCall, Usage
from holdall.values.errors import ModelBusy, ModelFault, ModelOverflow, NoSuchModel
from tests.llm.contract import GREP, asking
from tests.requirements import requirement

pytestmark = pytest.mark.anyio


@requirement("api:scripted-model")
async def test_replies_come_in_order_and_requests_are_recorded() -> None:
    model = ScriptedModel(["one", Reply("two", stop="length"), ModelBusy("later"), "three"])
    first, second = asking("a"), asking("b")
    assert (await model.ask(first)).text == "one"
    assert (await model.ask(second)).stop == "length"
    with pytest.raises(ModelBusy, match="later"):
        await model.ask(first)
    assert (await model.ask(first)).text == "three"
    assert model.requests == [first, second, first, first]


async def test_a_script_that_runs_out_says_which_request_it_was() -> None:
    model = ScriptedModel(["one"], name="scripted:short")
    await model.ask(asking("a"))
    with pytest.raises(ModelFault) as told:
        await model.ask(asking("b"))
    assert str(told.value) == snapshot(
        "the script of scripted:short has no reply for request 2: it ends after 1. Write another one, or give a function instead of a list."
    )


async def test_a_function_may_answer_at_once_or_later() -> None:
    async def later(request: Request) -> Reply:
        return Reply(f"later: {request.messages[-1].text}")

    assert (await ScriptedModel(lambda request: f"now: {request.messages[-1].text}").ask(asking("x"))).text == "now: x"
    assert (await ScriptedModel(later).ask(asking("x"))).text == "later: x"


async def test_tokens_are_counted_and_priced() -> None:
    model = ScriptedModel(
        ["four words of reply", "more"], price=Price(1_000_000, 2_000_000), count=lambda text: len(text.split())
    )
    reply = await model.ask(asking("three words here", tools=(GREP,)))
    assert reply.usage.output_tokens == 4
    assert reply.usage.input_tokens > 6  # the system message and the question, and the tool on top
    assert reply.usage.cost == reply.usage.input_tokens + 2 * 4
    plain = await model.ask(asking("three words here"))
    assert plain.usage.input_tokens == 6


async def test_usage_that_the_script_names_is_kept() -> None:
    reply = await ScriptedModel([Reply("x", usage=Usage(10, 20, 5))], price=Price(1, 1)).ask(asking("a"))
    assert reply.usage == Usage(10, 20, 5, reply.usage.cost)
    assert reply.usage.cost == pytest.approx(30e-6)


async def test_latency_is_awaited_by_the_sleep_that_was_given() -> None:
    slept: list[float] = []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    await ScriptedModel(["x"], latency=2.5, sleep=sleep).ask(asking("a"))
    assert slept == [2.5]


async def test_calls_are_the_reason_to_stop() -> None:
    reply = await ScriptedModel([Reply(calls=(ToolCall("1", "context.grep"),))]).ask(asking("a", tools=(GREP,)))
    assert reply.stop == "calls"


# Files


def written(tmp_path: Path, content: Any) -> Path:
    path = tmp_path / "script.json"
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return path


async def test_a_file_holds_replies_calls_and_errors(tmp_path: Path) -> None:
    replies = [
        "plain",
        {"calls": [{"name": "context.grep", "arguments": {"pattern": "E"}}]},
        {"text": "cut", "stop": "length"},
        {"error": "busy", "text": "slow down", "retry_after": 3},
        {"error": "overflow"},
    ]
    model = model_named(f"scripted:{written(tmp_path, replies)}")
    assert (await model.ask(asking("a"))).text == "plain"
    called = await model.ask(asking("a", tools=(GREP,)))
    assert called.calls == (ToolCall("2.1", "context.grep", {"pattern": "E"}),)
    assert (await model.ask(asking("a"))).stop == "length"
    with pytest.raises(ModelBusy, match="slow down") as busy:
        await model.ask(asking("a"))
    assert busy.value.retry_after == 3
    with pytest.raises(ModelOverflow):
        await model.ask(asking("a"))
    with pytest.raises(ModelFault, match="no reply for request 6: it ends after 5"):
        await model.ask(asking("a"))


async def test_options_may_stand_in_the_file(tmp_path: Path) -> None:
    content = {
        "replies": ["x"],
        "window": 1000,
        "max_output": 100,
        "keeps_schema": True,
        "price": {"input": 1, "output": 2},
    }
    model = scripted_from(written(tmp_path, content))
    assert (model.window, model.max_output, model.keeps_schema) == (1000, 100, True)
    assert model.price == Price(1, 2)
    assert model_named(f"scripted:{tmp_path}/script.json?window=500", max_output=50).window == 500


async def test_a_rule_serves_every_request_that_it_fits(tmp_path: Path) -> None:
    replies = [{"when": r"part (\d+) of (\w+)", "text": "read {1} of {2}"}, "something else"]
    model = scripted_from(written(tmp_path, replies))
    said = [(await model.ask(asking(text))).text for text in ("part 2 of log", "hello", "part 1 of log")]
    assert said == ["read 2 of log", "something else", "read 1 of log"]
    with pytest.raises(ModelFault, match="no reply left"):
        await model.ask(asking("hello"))


async def test_what_a_pattern_matched_is_not_put_in_without_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scripted, "_LARGEST", 5_000)
    model = scripted_from(written(tmp_path, [{"when": "(a+)(b)", "text": "{1}" * 50 + "{2}{3}"}]))
    assert (await model.ask(asking("a" * 90 + "b"))).text == "a" * 4500 + "b{3}"
    with pytest.raises(ModelFault, match="too much in it of what its pattern matched"):
        await model.ask(asking("a" * 101 + "b"))


MISFITS: list[tuple[Any, str]] = [
    ("{", "is not JSON"),
    ("[" * 100_000, "is not JSON"),
    ('"x"', "neither a list of replies nor an object"),
    ({"replies": 3}, '"replies" is not a list'),
    ([3], "reply 1 is neither a text nor an object"),
    (["a", {"txt": "x"}], 'reply 2 has "txt"'),
    ([{"error": "tired"}], 'the error "tired"; there are busy, overflow, fault'),
    ([{"stop": "bored"}], 'stops by "bored"'),
    ([{"calls": [{"arguments": {}}]}], "reply 1 has calls or a usage of another form"),
    ([{"when": "(", "text": "x"}], "cannot be used"),
    ({"replies": [], "windows": 3}, '"windows" is 3'),
    ({"replies": [], "window": "big"}, "\"window\" is 'big'"),
    ({"replies": [], "price": {"in": 3}}, '"price" is not'),
]


@pytest.mark.parametrize(("content", "complaint"), MISFITS)
def test_a_file_that_is_no_script_is_refused_with_the_place(tmp_path: Path, content: Any, complaint: str) -> None:
    with pytest.raises(NoSuchModel) as told:
        scripted_from(written(tmp_path, content))
    assert complaint in str(told.value)
    assert "script.json" in str(told.value)


@pytest.mark.parametrize("what", ["pipe", "device", "large"])
def test_a_script_is_a_file_of_some_size(tmp_path: Path, what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "script.json"
    if what == "pipe":
        os.mkfifo(path)
    elif what == "device":
        path = Path("/dev/zero")
    else:
        monkeypatch.setattr(scripted, "_LARGEST", 100)
        path.write_text(json.dumps(["x" * 200]))
    with pytest.raises(NoSuchModel, match=r"cannot be read: (Not a file|File too large)"):
        scripted_from(path)
