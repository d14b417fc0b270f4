"""`holdall demo`: the main job on embedded defaults, from a question to a report, every byte read back."""

import asyncio
import json
import re
from pathlib import Path

import pytest

from holdall.cli import demo, demo_shop
from holdall.cli.options import Options
from holdall.llm.protocol import Request
from holdall.values.chat import Assistant, ToolResult, User
from holdall.wire.agent_texts import FINAL_REPORT
from tests.cli.program import Program
from tests.requirements import requirement

EXTRAS = (
    "yaml",
    "mcp",
    "rs_bpe",
    "bpe_openai",
    "jsonschema",
    "pydantic_ai",
    "genai_prices",
    "openai",
    "opentelemetry",
    "xllamacpp",
)


@requirement("cli:demo", "read:every-byte-reachable")
def test_on_a_plain_install_an_agent_finds_the_right_answer_and_every_byte_is_reachable(
    holdall: Program, tmp_path: Path
) -> None:
    missing = tmp_path / "missing"
    missing.mkdir()
    # What stands in there as None cannot be imported, nor found.
    (missing / "sitecustomize.py").write_text(f"import sys\nsys.modules.update(dict.fromkeys({EXTRAS}))\n")
    ran = holdall("demo", "--json", env={"PYTHONPATH": str(missing), "HOLDALL_HOME": None})
    assert ran.code == 0, ran.err
    told = ran.json
    assert all(told["right"].values())
    assert (told["status"], told["synthetic"], told["all_reachable"]) == ("success", False, True)
    assert told["seconds"] > 0
    assert told["cost"] > 0
    finder, accountant = told["contexts"]
    outputs = {one["tool"]: one for one in finder["outputs"] + accountant["outputs"]}
    assert set(outputs) == {"fetch_log", "crawl_runbook", "accountant", "export_orders"}
    assert outputs["fetch_log"]["bytes"] > 10_000_000
    assert (outputs["export_orders"]["lines"], outputs["export_orders"]["bytes"] > 3_000_000) == (1, True)
    assert all(one["pages"] > one["bytes"] / (16 * 1024) for one in outputs.values()), "each in bounded answers"
    assert finder["tokens_without"] > 20 * finder["window"]
    assert finder["tokens"] < 10_000
    assert not list(holdall.home.parent.glob("**/session-*")), "without --home nothing stays"


@requirement("cli:demo")
def test_it_tells_what_happens_and_what_it_took(
    holdall: Program, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(demo_shop, "_LOG_BYTES", 1_000_000)
    assert asyncio.run(demo.demo(Options(home=str(holdall.home), session="tour"))) == 0
    shown = capsys.readouterr().out
    for told in (
        "The question\n  Customers say that their orders were refused today.",
        "finder, turn 1\n  says: I fetch the log",
        "crawl_runbook is still running. What it writes is kept",
        "    accountant, turn 1\n      → export_orders()\n",
        " with 2 lines added (999,004 bytes, 8,722 lines).\n",
        "      + 2026-11-15T00:00:00.412 payments-3 INFO  gateway eu-2 has a new certificate\n",
        "The report\n  The orders fail with PAY-417 at the gateway eu-2. 41 orders were refused with PAY-417, 6953.50 EUR.\n",
        "  To do: payctl rotate-cert eu-2\n",
        "\nReachable\n  100 %: 5,800,080 of 5,800,080 bytes read back in ",
        " bounded answers, as the tools returned it (sha256)\n",
        "; the report is right\n",
    ):
        assert told in shown
    assert re.search(r"finder +without Holdall ~8\d\dk tokens, \d times its window · with it [234],\d{3}\n", shown)
    tree = holdall("show", "--tree", "tour").text
    assert "agent accountant" in tree
    assert "tool crawl_runbook" in tree


def test_another_model_decides_by_itself_and_its_answer_is_checked(holdall: Program, tmp_path: Path) -> None:
    script = tmp_path / "model.json"
    script.write_text(json.dumps([{"calls": [{"name": "final_report", "arguments": {"report": "PAY-417, I guess."}}]}]))
    ran = holdall("demo", "--model", f"scripted:{script}")
    assert ran.code == 0
    assert "the report is not all right: how many orders, what they were worth, what to do\n" in ran.text
    assert holdall("demo", "--model", "nonsense").code == 2
    broken = tmp_path / "broken.json"
    broken.write_text(json.dumps([{"error": "fault", "text": "401: no key"}]))
    fault = holdall("demo", "--model", f"scripted:{broken}")
    assert (fault.code, fault.err) == (3, "holdall: 401: no key\n")


def test_a_byte_that_is_not_as_it_was_is_found(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def wrong(self: demo_shop.Tools, tool: str, text: str) -> str:
        self.returned[tool] = {"0" * 64}
        return text

    monkeypatch.setattr(demo_shop.Tools, "_noted", wrong)
    monkeypatch.setattr(demo_shop, "_LOG_BYTES", 300_000)
    monkeypatch.setattr(demo_shop, "_ORDERS", 2000)
    assert asyncio.run(demo.demo(Options(home=str(tmp_path / "home")))) == 3
    assert "NOT as the tools returned it" in capsys.readouterr().out


@pytest.mark.parametrize("tag", ["123456", "000041", "41695350"])
def test_a_fence_whose_tag_has_digits_is_not_taken_for_the_row(tag: str) -> None:
    told = f"1 row\n<{tag}>\norders | cents\n41 | 695350\n</{tag}>"
    asked = (
        User(""),
        User("refused with PAY-417"),
        Assistant(""),
        Assistant(""),
        ToolResult("a", "context_query", told),
    )
    reply = demo_shop.accountant()
    answer = asyncio.run(reply.ask(Request(asked, (FINAL_REPORT,))))
    assert answer.calls[0].arguments == {"report": "41 orders were refused with PAY-417, 6953.50 EUR."}
