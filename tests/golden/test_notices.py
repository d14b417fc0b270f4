"""What models read: the notice of every dialect for outputs of every kind, the tools in every form, the instructions."""

import hashlib
import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from holdall import MemoryStore, ScriptedModel, Settings, context_ref, function_call_record
from holdall.blocking import Holdall
from holdall.values.settings import DIALECTS
from tests.golden import samples
from tests.golden.golden import compare, compare_folder, readable
from tests.golden.normal import Normal
from tests.requirements import requirement

ARTIFACTS = Path(__file__).parents[3] / "shared" / "bench" / "artifacts"
_WORD = re.compile(r"\w+|[^\w\s]")


@dataclass(frozen=True)
class Words:
    """A token for each word and sign: whatever a random handle or tag is, it takes the same room."""

    name: str = "words"

    def count(self, text: str) -> int:
        return len(_WORD.findall(text))


def opened(dialect: Any, **more: Any) -> Holdall:
    settings = Settings(dialect=dialect, max_inline_bytes=4_000, **more)
    return Holdall.open(session="golden", store=MemoryStore(), settings=settings, tokenizer=Words())


def seen(bag: Holdall, output: object, tool: str, normal: Normal) -> str:
    """What a model gets of it."""
    content = bag.take(output, tool=tool, arguments={"a": 1}, call_id=f"call-{tool}", server="shop").content
    text = content if isinstance(content, str) else json.dumps(content, indent=1, ensure_ascii=False, default=repr)
    for facts in bag.outputs():
        normal.learn(facts.handle)
    text = normal(readable(text))
    if len(text) <= 3_000:
        return text
    # Dialects that cut show a long text: its ends and its hash are enough to see a change.
    digest = hashlib.sha256(text.encode()).hexdigest()
    return f"{text[:700]}\n[… {len(text)} chars, sha256 {digest} …]\n{text[-700:]}"


def outputs() -> dict[str, object]:
    image = {"type": "image", "data": "iVBORw0KGgo=", "mimeType": "image/png"}
    text = {"type": "text", "text": samples.log(200)}
    return {
        **{name: make() for name, make in samples.TEXTS.items()},
        **{name: make() for name, make in samples.BYTES.items()},
        "value": samples.orders(60),
        "blocks": [text, image, text],
        "mcp-result": {"content": [text, image], "isError": True, "structuredContent": {"a": list(range(2_000))}},
        "error": RuntimeError("it failed " * 800),
        "pieces": (f"piece {n}\n" for n in range(900)),
    }


@pytest.mark.in_full(one_in=2)
@requirement("dialect:extract-notice", "dialect:async-size-text", "dialect:clamp-suffix", "notice:max-tokens")
@pytest.mark.parametrize("dialect", DIALECTS)
def test_the_notices_of_a_dialect(dialect: Any) -> None:
    found: list[str] = []
    normal = Normal(times=False)
    with opened(dialect) as bag:
        found += [f"──── {name}\n{seen(bag, output, name, normal)}\n" for name, output in outputs().items()]
        told = bag.system_notice(turn=3, max_turns=10, tokens_used=58_000, window=128_000, kept=True)
        found.append(f"──── system notice\n{normal(told)}\n")
        found.append(f"──── system notice of a turn\n{normal(bag.system_notice(turn=1))}\n")
    compare(f"notices/{dialect}.txt", "".join(found))


def told(bag: Holdall) -> str:
    lines: list[str] = []
    for tool in bag.tools():
        forms = {
            "openai": tool.openai(), "openai strict": tool.openai(strict=True), "openai responses": tool.openai(responses=True),
            "openai responses strict": tool.openai(responses=True, strict=True), "anthropic": tool.anthropic(),
            "anthropic strict": tool.anthropic(strict=True), "mcp": tool.mcp(),
        }  # fmt: skip
        lines += [
            f"──── {tool.name}: {name}\n{json.dumps(form, indent=1, ensure_ascii=False)}"
            for name, form in forms.items()
        ]
    return "\n".join([*lines, f"──── instructions\n{bag.instructions()}", ""])


@requirement(
    "api:tools-openai", "api:tools-anthropic", "api:tools-mcp", "dialect:strict-schemas", "dialect:instructions"
)
def test_the_tools_of_every_dialect_in_every_form() -> None:
    found: dict[str, str] = {}
    for dialect in DIALECTS:
        with opened(dialect, tools_listed="always") as bag:
            found[f"{dialect}.txt"] = told(bag)
            assert bag.tools(final_turn=True) == ()
    model = ScriptedModel(["nothing"])
    settings = Settings(tools_listed="always", slow_after_seconds=0)
    with Holdall.open(store=MemoryStore(), settings=settings, model=model) as bag:
        bag.run(lambda: "done", tool="slow", background=True)
        found["holdall-with-a-model-and-slow-calls.txt"] = told(bag)
    compare_folder("tools", {name: Normal()(text) for name, text in found.items()})


def test_answers_of_the_tools() -> None:
    """Every verb of the default dialect and of those of the documents, through `call`."""
    asked: dict[str, list[tuple[str, dict[str, Any]]]] = {
        "holdall": [
            ("context_read", {}), ("context_read", {"handle": "log"}), ("context_read", {"handle": "log", "lines": "-2:"}),
            ("context_read", {"handle": "log", "chars": "5:25"}), ("context_read", {"handle": "long-line", "bytes": "7:90"}),
            ("context_read", {"handle": "binary", "bytes": "0:64"}), ("context_tail", {"handle": "csv", "lines": 2}),
            ("context_grep", {"handle": "log", "pattern": "ERROR", "context": 1, "limit": 2}),
            ("context_grep", {"handle": "long-line", "pattern": "word", "limit": 2}),
            ("context_grep", {"handle": "log", "pattern": "[", "literal": True}),
            ("context_query", {"handle": "csv", "sql": "select region, count(*) as n from t group by 1 order by 1"}),
            ("context_query", {"handle": "json", "path": "$.orders[1].town"}), ("context_query", {"handle": "json"}),
            ("context_query", {"handle": "log", "sql": "delete from t"}), ("context_read", {"handle": 7, "lines": [1, 2]}),
            ("no_such_tool", {}), ("wait_for_tool_output", {}), ("tool_output", {"handle": "log", "extract": "what?"}),
        ],
        "refs": [
            ("context.read", {"id": "log"}), ("context.tail", {"id": "log"}), ("context.grep", {"id": "log", "pattern": "sd7"}),
            ("context_read", {"id": "zzzz"}),
        ],
        "async": [
            ("get_tool_output", {"id": "log", "mode": "raw"}), ("get_tool_output", {"id": "small", "mode": "raw"}),
            ("get_tool_output", {"id": "log", "mode": "slice", "slice": {"start": 5, "length": 40}}),
            ("get_tool_output", {"id": "log", "mode": "slice", "slice": {"anchor": "sd7", "window": 30}}),
            ("get_tool_output", {"id": "log", "mode": "slice", "slice": {"anchor": "nowhere"}}),
            ("get_tool_output", {"id": "log", "mode": "extract"}), ("get_tool_output", {"id": "zzzz", "mode": "raw"}),
            ("wait_for_tool_output", {}),
        ],
        "extract": [("tool_output", {"handle": "log", "extract": "what failed?"}), ("tool_output", {"handle": "zzzz", "extract": "x"})],
    }  # fmt: skip
    found: list[str] = []
    for dialect, calls in asked.items():
        normal = Normal(times=False)
        with opened(dialect) as bag:
            for name in ("log", "csv", "json", "long-line", "binary", "small"):
                output = samples.TEXTS[name]() if name in samples.TEXTS else samples.BYTES[name]()
                normal.learn(bag.keep(output, tool=name, call_id=name).handle)
            for tool, arguments in calls:
                answer = bag.call(tool, arguments)
                spans = [span.as_list() for span in answer.spans]
                text = normal(readable(answer.text))
                found.append(
                    f"──── {dialect}: {tool} {json.dumps(arguments)}\nerror: {answer.is_error}, spans: {spans}\n{text}\n"
                )
    compare("answers.txt", "".join(found))


def test_references_and_records_of_an_output() -> None:
    normal = Normal()
    with opened("refs") as bag:
        facts = bag.keep(samples.log(), tool="fetch", call_id="c1", server="shop", arguments={"day": 4})
        normal.learn(facts.handle)
        record = function_call_record("fetch", {"day": 4}, bag.notice(facts.handle))
        found = [json.dumps(context_ref(facts), indent=1), json.dumps(record, indent=1)]
    compare("references.txt", normal("\n".join(found) + "\n"))


@pytest.mark.skipif(not ARTIFACTS.is_dir(), reason="the outputs of the benchmark are not beside the repository")
def test_the_notices_of_real_outputs() -> None:
    """As a hash each: they are long, and not ours to copy."""
    normal, found = Normal(times=False), list[str]()
    with Holdall.open(session="golden", store=MemoryStore(), tokenizer=Words()) as bag:
        for path in sorted(ARTIFACTS.iterdir()):
            text = bag.take(path.read_bytes(), tool=path.stem).content
            for facts in bag.outputs():
                normal.learn(facts.handle)
            digest = hashlib.sha256(normal(readable(str(text))).encode()).hexdigest()
            found.append(f"{path.name} {digest}\n")
    compare("real-outputs.txt", "".join(found))
