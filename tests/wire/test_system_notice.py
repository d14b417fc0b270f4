"""The system notice: SPEC 10's text, to the letter, and its variants."""

from inline_snapshot import snapshot

from holdall.wire.dialects.async_dialect import ASYNC
from holdall.wire.system_notice import FailedTool, ReadyTool, RunningTool, Work, system_notice
from tests.requirements import requirement

RUNNING = (RunningTool("fetcher", "abc123", 7.21), RunningTool("search", "def456", 3.14))
READY = (
    ReadyTool("jina-reader", "ghi789", 45_000, exceeds=True),
    ReadyTool("serper", "jkl012", 12_000, exceeds=True, retrievals=2),
)


@requirement(
    "notice:system-exact", "notice:system-sections", "notice:system-exceeds-threshold", "notice:system-retrievals"
)
def test_the_whole_notice_of_the_async_dialect() -> None:
    work = Work(running=RUNNING, ready=READY)
    assert system_notice(
        work, words=ASYNC.status_words, turn=3, max_turns=10, tokens_used=57_600, window=128_000
    ) == snapshot("""\
# System Notice

This is turn 3 of 10.
Your context window is 45% full.

## Async Tool Status

### Running (2)
- fetcher (id: abc123, running 7.2s)
- search (id: def456, running 3.1s)

### Ready (2)
- jina-reader (id: ghi789, ~45K tokens, exceeds threshold)
- serper (id: jkl012, ~12K tokens, exceeds threshold, 2 retrievals)

---

You now need to decide your next move:
1. Call tools to advance your task
2. Retrieve/examine async tool outputs using get_tool_output(id, mode) or wait_for_tool_output()
3. Provide your final report/answer

Use get_tool_output(id, "raw"|"extract"|"slice") to retrieve.
Use wait_for_tool_output() to block until a running tool completes.\
""")


@requirement("notice:system-only-running", "notice:system-nothing-async")
def test_only_running_and_nothing_at_all() -> None:
    assert system_notice(Work(running=RUNNING[:1]), words=ASYNC.status_words, turn=1) == snapshot("""\
# System Notice

This is turn 1.

## Async Tool Status

### Running (1)
- fetcher (id: abc123, running 7.2s)

---

You now need to decide your next move:
1. Call tools to advance your task
2. Wait for running tools using wait_for_tool_output()
3. Provide your final report/answer

Use wait_for_tool_output() to block until a running tool completes.\
""")
    assert system_notice(Work(), words=ASYNC.status_words, turn=1, max_turns=2, tokens_used=0, window=1000) == snapshot("""\
# System Notice

This is turn 1 of 2.
Your context window is 0% full.

---

You now need to decide your next move:
1. Call tools to advance your task
2. Provide your final report/answer\
""")


@requirement("notice:system-sections")
def test_of_many_calls_that_run_or_wait_twenty_are_listed_and_the_others_counted() -> None:
    many = [RunningTool("t", f"id{n}", n) for n in range(400)]
    lines = system_notice(Work(running=many, queued=many[:21]), turn=1).split("\n")
    at = lines.index("### Running (400)")
    assert lines[at + 20 : at + 22] == ["- t (id: id19, running 19.0s)", "… and 380 more"]
    at = lines.index("### Queued (21)")
    assert lines[at + 20 : at + 22] == ["- t (id: id19, queued 19.0s)", "… and 1 more"]


@requirement("notice:system-failed")
def test_failed_calls_stand_with_their_reason() -> None:
    work = Work(failed=[FailedTool("crawl", "x1", "timed out after 600s")])
    assert "### Failed (1)\n- crawl (id: x1, timed out after 600s)\n" in system_notice(
        work, words=ASYNC.status_words, turn=1
    )


@requirement("notice:system-holdall")
def test_in_our_own_dialect_the_same_shape_with_our_tools() -> None:
    kept = ["k3f9  fetch · 797,637 bytes · 7,121 lines (log)"]
    assert system_notice(Work(running=RUNNING, ready=READY, kept=kept), turn=3, max_turns=10) == snapshot("""\
# System Notice

This is turn 3 of 10.

## Async Tool Status

### Running (2)
- fetcher (id: abc123, running 7.2s)
- search (id: def456, running 3.1s)

### Ready (2)
- jina-reader (id: ghi789, ~45K tokens, exceeds threshold)
- serper (id: jkl012, ~12K tokens, exceeds threshold, 2 retrievals)

## Kept Outputs
- k3f9  fetch · 797,637 bytes · 7,121 lines (log)

---

You now need to decide your next move:
1. Call tools to advance your task
2. Read async tool outputs using context_read(handle), context_grep(handle, pattern) or wait_for_tool_output()
3. Provide your final report/answer

Use context_grep, context_query, context_read or context_tail with the handle (the id) to retrieve.
Use wait_for_tool_output() to block until a running tool completes.\
""")
