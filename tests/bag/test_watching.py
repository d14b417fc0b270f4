"""The event log, what is counted from it, what is logged, and OpenTelemetry with a real exporter."""

import json
import logging
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from opentelemetry import metrics, trace
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from holdall import Kept
from holdall.bag import telemetry
from tests.bag.shapes import LOG, SMALL, opened
from tests.requirements import requirement

pytestmark = pytest.mark.anyio


async def _a_little_work(bag: Any) -> str:
    await bag.take(SMALL, tool="small")
    taken = await bag.take(LOG, tool="fetch", call_id="c1")
    assert isinstance(taken, Kept)
    await bag.call("context_grep", {"handle": taken.handle, "pattern": "ERROR"})
    await bag.call("context_read", {"handle": taken.handle, "lines": "1:2"})
    await bag.call("context_read", {"handle": "nope"})
    return taken.handle


@requirement("watch:event-log")
async def test_one_log_of_a_session_tells_everything_from_the_first_take_on(tmp_path: Path) -> None:
    async with opened(tmp_path) as bag:
        handle = await _a_little_work(bag)
    (log,) = (tmp_path / "home").glob("session-*/events.ndjson")
    assert log.stat().st_mode & 0o777 == 0o600
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    assert [(line["event"], line.get("handle", "")) for line in lines] == [
        ("inline", ""), ("kept", handle), ("retrieved", handle), ("retrieved", handle), ("refused", ""),
    ]  # fmt: skip
    kept = lines[1]
    assert (kept["tool"], kept["call_id"], kept["reason"], kept["bytes"]) == ("fetch", "c1", "bytes", len(LOG))
    assert "2026-01-01" not in log.read_text(), "no content of an output stands in the log"


@requirement("ledger:per-session-and-artifact", "watch:event-log")
async def test_a_session_that_is_opened_again_knows_what_was_seen(tmp_path: Path) -> None:
    async with opened(tmp_path) as bag:
        handle = await _a_little_work(bag)
        before = (await bag.coverage(handle)).to_json(len(LOG)), (await bag.counters()).to_json()
    async with opened(tmp_path) as bag:
        assert ((await bag.coverage(handle)).to_json(len(LOG)), (await bag.counters()).to_json()) == before


@requirement("store:events-appended")
async def test_what_another_process_fetches_is_seen_here(tmp_path: Path) -> None:
    script = (
        "import asyncio, sys\nfrom holdall import Holdall\n"
        "async def main():\n"
        "    async with Holdall.open(home=sys.argv[1], session='s1') as bag:\n"
        "        await bag.call('context_read', {'handle': sys.argv[2], 'lines': '100:110'})\n"
        "asyncio.run(main())\n"
    )
    async with opened(tmp_path) as bag:
        handle = (await bag.keep(LOG)).handle
        await bag.call("context_read", {"handle": handle, "lines": "1:1"})
        ran = subprocess.run([sys.executable, "-c", script, str(tmp_path / "home"), handle], check=False, timeout=60)  # noqa: ASYNC221
        assert ran.returncode == 0
        assert len((await bag.coverage(handle)).shown.as_lists()) == 2
        assert (await bag.counters()).retrievals == {"read": 2}


async def test_what_the_verbs_give_for_a_model_counts_its_tokens_and_what_a_program_reads_does_not(
    tmp_path: Path,
) -> None:
    async with opened(tmp_path) as bag:
        log, rows = (await bag.keep(LOG)).handle, (await bag.keep([{"n": n} for n in range(300)])).handle
        later = (await bag.keep([{"n": n} for n in range(3, 300)])).handle
        expected = bag.core.count((await bag.read(log)).text)
        assert expected > 1_000
        assert (await bag.counters()).retrieved_tokens == expected
        expected += bag.core.count("\n".join(one.text for one in (await bag.grep(log, "ERROR")).matches))
        assert (await bag.counters()).retrieved_tokens == expected
        for verb, given in (
            ("grep", {"pattern": "(ERROR|INFO)", "group": True}), ("tail", {}), ("query", {"path": "$[*].n"}),
            ("query", {"sql": "select n from t"}), ("diff", {"other": later}),
        ):  # fmt: skip
            before = (await bag.counters()).retrieved_tokens
            found = await getattr(bag, verb)(rows if verb in ("query", "diff") else log, **given)
            told = json.dumps(found.to_json())
            assert before < (await bag.counters()).retrieved_tokens < before + bag.core.count(told), verb
        before = (await bag.counters()).retrieved_tokens
        await bag.read(log, bounded=False)
        assert (await bag.counters()).retrieved_tokens == before


@requirement("watch:logs", "measure:escape-logs")
async def test_whatever_is_counted_is_logged_on_one_line(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with opened(tmp_path) as bag:
        with caplog.at_level(logging.INFO, logger="holdall"):
            await bag.take(LOG, tool="evil\nname\x1b[31m\u202e", call_id="c\r1")
            await _a_little_work(bag)
    messages = [record.getMessage() for record in caplog.records if record.name == "holdall"]
    assert [message.split(" ")[0] for message in messages] == [
        "kept", "inline", "kept", "retrieved", "retrieved", "refused",
    ]  # fmt: skip
    assert all(message.isprintable() for message in messages)
    assert "evil\\nname\\x1b[31m\\u202e" in messages[0]


@pytest.fixture
def exported() -> Iterator[tuple[InMemorySpanExporter, InMemoryMetricReader]]:
    """Real providers with exporters in memory, in place of those that go nowhere."""
    spans, reader = InMemorySpanExporter(), InMemoryMetricReader()
    tracing, metering = TracerProvider(), MeterProvider(metric_readers=[reader])
    tracing.add_span_processor(SimpleSpanProcessor(spans))
    patch = pytest.MonkeyPatch()
    patch.setattr(trace, "get_tracer_provider", lambda: tracing)
    patch.setattr(metrics, "get_meter", metering.get_meter)
    counter: Any = telemetry._counter  # pyright: ignore[reportPrivateUsage]
    counter.cache_clear()
    yield spans, reader
    patch.undo()
    counter.cache_clear()
    tracing.shutdown()
    metering.shutdown()


@requirement("watch:spans")
async def test_spans_and_counters_reach_a_real_exporter(
    tmp_path: Path, exported: tuple[InMemorySpanExporter, InMemoryMetricReader]
) -> None:
    exporter, reader = exported
    async with opened(tmp_path) as bag:
        handle = await _a_little_work(bag)
    spans = exporter.get_finished_spans()
    assert [span.name for span in spans] == [
        "holdall inline", "holdall kept", "execute_tool context_grep", "execute_tool context_read",
        "execute_tool context_read",
    ]  # fmt: skip
    kept = dict(spans[1].attributes or {})
    assert kept["gen_ai.tool.name"] == "fetch"
    assert kept["gen_ai.tool.call.id"] == "c1"
    assert kept["holdall.handle"] == handle
    assert kept["holdall.bytes"] == len(LOG)
    assert all((span.end_time or 0) > (span.start_time or 0) for span in spans[1:4])
    assert (spans[4].status.status_code, spans[4].status.description) == (trace.StatusCode.ERROR, "refused")
    assert "2026-01-01" not in str([span.attributes for span in spans]), "never a result in an attribute"
    data = reader.get_metrics_data()
    assert data is not None
    found: dict[str, int] = {}
    for metric in data.resource_metrics[0].scope_metrics[0].metrics:
        for point in metric.data.data_points:
            found[f"{metric.name} {dict(point.attributes or {}).get('verb', '')}".strip()] = int(
                getattr(point, "value", 0)
            )
    assert found.pop("holdall.tokens.kept_out") > 80_000
    assert found == {
        "holdall.outputs.inline": 1, "holdall.outputs.kept": 1, "holdall.bytes.kept": len(LOG),
        "holdall.retrievals grep": 1, "holdall.retrievals read": 1, "holdall.refusals read": 1,
    }  # fmt: skip


@requirement("api:system-notice")
async def test_the_system_notice_tells_turn_and_context_and_lists_what_is_kept_where_asked(tmp_path: Path) -> None:
    async with opened(tmp_path) as bag:
        await bag.take(LOG, tool="fetch")
        plain = bag.system_notice(turn=3, max_turns=10, tokens_used=64_000, window=128_000)
        assert plain.startswith("# System Notice\n\nThis is turn 3 of 10.\nYour context window is 50% full.\n\n---\n")
        (handle,) = bag.core.kept
        line = f'\n## Kept Outputs\n- {handle}  "fetch" · 168,900 bytes · 5,000 lines (log)\n'
        assert line in bag.system_notice(turn=3, kept=True)


async def test_in_the_async_dialect_what_is_kept_is_ready_and_its_retrievals_are_counted(tmp_path: Path) -> None:
    async with opened(tmp_path, dialect="async") as bag:
        taken = await bag.take(LOG, tool="fetch")
        assert isinstance(taken, Kept)
        call = {"id": taken.handle, "mode": "slice", "slice": {"start": 0, "length": 10}}
        for _ in range(2):
            await bag.call("get_tool_output", call)
        shown = bag.system_notice(turn=1)
        assert (
            f"### Ready (1)\n- fetch (id: {bag.core.shown_handle(taken.handle)}, ~89K tokens, exceeds threshold, 2 retrievals)\n"
            in shown
        )


async def test_a_refusal_without_an_output_keeps_nothing_that_may_be_from_one(tmp_path: Path) -> None:
    async with opened(tmp_path) as bag:
        kept = await bag.take(LOG, tool="fetch")
        for handle in (f"{kept.handle}/NAMESECRET", "zzzz"):
            await bag.call("context_grep", {"handle": handle, "pattern": "QUOTESECRET"})
        said = [event for event in bag.records.events() if event.kind == "refused"]
        why = "no output is kept under that handle"
        assert [(event.handle, event.data["why"]) for event in said] == [("", why), ("", why)]
        assert "SECRET" not in str(said)
