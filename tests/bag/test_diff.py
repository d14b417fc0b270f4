"""diff as a method, as a tool of a model, and in the ledger; and an output that is shown as its difference to an earlier
one of the same call."""

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from inline_snapshot import snapshot

from holdall import Holdall, Kept, Running
from holdall.values.errors import UsageError
from tests.bag.shapes import LOG, opened
from tests.bag.test_call import answers, fixed
from tests.requirements import requirement

__all__ = ["fixed"]
pytestmark = pytest.mark.anyio

LINES = [f"{number} of a long log, with a few words in each line" for number in range(3000)]
OTHER = [*LINES[:100], "changed", *LINES[101:2000], "new", *LINES[2000:]]


async def two(bag: Holdall) -> None:
    await bag.keep("\n".join(LINES), tool="fetch", arguments={"a": 1})
    await bag.keep("\n".join(OTHER), tool="fetch", arguments={"a": 1})


@requirement("diff:counted-and-bounded")
async def test_a_question_about_several_outputs_is_one_call_in_the_tree(tmp_path: Path) -> None:
    async with opened(tmp_path) as bag:
        await two(bag)
        kept = [one.handle for one in await bag.outputs()]
        await bag.call("context_diff", {"handle": kept[0], "other": kept[1]})
        await bag.diff(*kept)
        sql = f"SELECT count(*) FROM t, {kept[1]}"
        assert not (await bag.call("context_query", {"handle": kept[0], "sql": sql, "also": [kept[1]]})).is_error
        tree = bag.records.tree().to_json(with_outputs=True)
        asked = ["context_diff", "diff", "context_query"]
        assert [one["name"] for one in tree["children"] if one["outcome"] == "about"] == asked
        assert tree["totals"]["tool_calls"] == len(asked) + len(kept)


@requirement("diff:lines", "diff:counted-and-bounded", "diff:last-of-the-same")
async def test_the_words_that_a_model_reads(tmp_path: Path, fixed: None) -> None:
    async with opened(tmp_path) as bag:
        await two(bag)
        told = await answers(bag, "context_diff", handle="h2bb", other="h2bc")
        assert told == snapshot("""\
1 of 3,000 lines changed, 1 added (from h2bb)
<7d1a7d1a>
L101 byte 4,790 → L101 byte 4,790
- 100 of a long log, with a few words in each line
+ changed
L2,001 byte 98,849
+ new
</7d1a7d1a>\
""")
        assert await answers(bag, "context_diff", handle="h2bc") == told
        assert await answers(bag, "context_diff", handle="h2bc", limit=1, by="lines") == snapshot("""\
1 of 3,000 lines changed, 1 added (from h2bb) · 1 of 2 changes shown
<7d1a7d1a>
L101 byte 4,790 → L101 byte 4,790
- 100 of a long log, with a few words in each line
+ changed
</7d1a7d1a>
Next: same call, skip=1\
""")
        await bag.keep("\n".join(LINES), tool="other")
        assert await answers(bag, "context_diff", handle="h2bb", other="h2bd") == snapshot("the same bytes as h2bb")
        for given in ({"handle": "h2bd"}, {"handle": "h2bb", "other": "h2bb"}, {"handle": "h2bb", "other": "zzzz"}):
            refused = await bag.call("context_diff", given)
            assert refused.is_error
        with pytest.raises(UsageError, match=r"h2bb is the first of its tool and arguments: name another one\.$"):
            await bag.diff("h2bb")
        again = await bag.keep("\n".join(LINES), tool="other", arguments={"of": "another file"})
        with pytest.raises(UsageError, match="name another one, such as h2bd, of the same tool"):
            await bag.diff(again.handle)


async def test_a_difference_says_that_one_of_the_two_calls_did_not_end_well(tmp_path: Path) -> None:
    def breaks() -> Iterator[str]:
        yield "\n".join(LINES)
        raise ValueError("no host")

    async with opened(tmp_path) as bag:
        whole = await bag.keep("\n".join(LINES))
        failed = str((await bag.run(breaks, tool="t")).handle)
        for asked, which in (
            ({"handle": whole.handle, "other": failed}, "later"),
            ({"handle": failed, "other": whole.handle}, "earlier"),
        ):
            told = await answers(bag, "context_diff", **asked)
            assert f" · the call of the {which} one did not end well: failed: ValueError: no host" in told


@requirement("diff:ledger")
async def test_the_ledger_has_what_was_shown_of_both_and_the_call_counts_once(tmp_path: Path, fixed: None) -> None:
    async with opened(tmp_path) as bag:
        await two(bag)
        await answers(bag, "context_diff", handle="h2bb", other="h2bc")
        found = await bag.diff("h2bb", "h2bc")
        assert (await bag.counters()).retrievals == {"diff": 2}
        for handle, text in (("h2bb", LINES[100]), ("h2bc", "changed")):
            coverage = await bag.records.coverage(handle)
            (_, (start, end), *_) = [(0, 0), *coverage.shown.as_lists()]
            assert (await bag.read(handle, bytes=(start, end), bounded=False)).text.startswith(text)
            assert coverage.ranges["scanned"].bytes() == (await bag.show(handle)).measure.bytes
        assert (found.changed, found.added) == (1, 1)


@requirement("diff:tool-listed-later")
async def test_the_tool_is_listed_once_two_outputs_are_kept(tmp_path: Path) -> None:
    async with opened(tmp_path) as bag:
        await bag.keep("\n".join(LINES))
        assert "context_diff" not in {tool.name for tool in bag.tools()}
        await bag.keep("\n".join(OTHER))
        assert "context_diff" in {tool.name for tool in bag.tools()}
    async with opened(tmp_path, dialect="refs") as bag:
        assert bag.dialect.tool("context_diff") is None


# An output that is nearly like the last one of the same tool and arguments.


async def told(bag: Holdall, text: str, tool: str = "fetch", **arguments: object) -> str:
    return str((await bag.take(text, tool=tool, arguments=arguments)).content)


@requirement("notice:difference")
async def test_the_second_of_the_same_call_is_shown_as_its_difference(tmp_path: Path, fixed: None) -> None:
    async with opened(tmp_path) as bag:
        first = await told(bag, "\n".join(LINES), a=1)
        assert "h2bb" in first
        again = await told(bag, "\n".join(LINES), a=1)
        assert again == snapshot("""\
fetch returned the same bytes as h2bb (148,889 bytes, 3,000 lines).
handle: h2bc
[m5rkt]\
""")
        changed = await told(bag, "\n".join(OTHER), a=1)
        assert changed.replace(changed.rpartition("</")[2], "402913>") == snapshot("""\
fetch returned h2bc with 1 of 3,000 lines changed, 1 added (148,852 bytes, 3,001 lines).
handle: h2bd
[m5rkt]
<402913>
L101
- 100 of a long log, with a few words in each line
+ changed
L2,001
+ new
</402913>\
""")
        assert max(bag.core.count(text) for text in (again, changed)) < 100
        assert bag.core.count(first) > 120
        assert (await bag.records.coverage("h2bd")).shown.bytes() == len("changed" + "new")
        assert (await bag.read("h2bd", lines=(101, 101))).text == "changed\n"


@requirement("notice:difference")
async def test_other_arguments_another_tool_and_much_that_differs_have_notices_of_their_own(tmp_path: Path) -> None:
    async with opened(tmp_path) as bag:
        await told(bag, "\n".join(LINES), a=1)
        for text, tool, given in (
            ("\n".join(LINES), "fetch", {"a": 2}),
            ("\n".join(LINES), "other", {"a": 1}),
            ("\n".join(reversed(LINES)), "fetch", {"a": 1}),
        ):
            assert " tokens (" in await told(bag, text, tool, **given)
        first = (await bag.take("\n".join(LINES), tool="t")).content
        assert " tokens (" in str(first)
        await bag.forget(next(reversed(bag.core.kept)))
        assert " tokens (" in await told(bag, "\n".join(OTHER), "t")


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (json.dumps({"orders": list(range(40_000))}), json.dumps([{"other": n} for n in range(9000)])),  # all of $
        (json.dumps({"orders": list(range(40_000))}), b"\xff\xfe\0" * 50_000),  # a line, and another kind
        ("q" * 100_000, "w" * 100_000),
        ("q" * 100_000, "line one\n" + "w" * 100_000),
        ("head\n" + "q" * 100_000, "head\n" + "w" * 100_000),
    ],
)
async def test_an_output_that_is_another_has_a_notice_of_its_own(tmp_path: Path, one: str, other: str | bytes) -> None:
    async with opened(tmp_path) as bag:
        for output in (one, other):
            taken = await bag.take(output, tool="list", arguments={})
            assert isinstance(taken, Kept)
        assert " tokens (" in str(taken.content)
        assert " changed" not in str(taken.content)


@requirement("notice:difference-setting")
@pytest.mark.parametrize("settings", [{"difference_notices": False}, {"dialect": "refs"}, {"dialect": "async"}])
async def test_only_our_own_dialect_has_them_and_they_can_be_switched_off(
    settings: dict[str, object], tmp_path: Path
) -> None:
    async with opened(tmp_path, **settings) as bag:
        first = await told(bag, "\n".join(LINES))
        second = await told(bag, "\n".join(OTHER))
        assert len(second) > 0.6 * len(first)
        assert "lines changed" not in second


@requirement("notice:difference")
async def test_json_is_shown_by_the_paths_that_differ_and_what_is_in_it_stays_in_the_fence(tmp_path: Path) -> None:
    rows = [{"id": number, "state": "open", "note": "x" * 100} for number in range(600)]
    async with opened(tmp_path) as bag:
        await told(bag, json.dumps(rows))
        again = await told(bag, json.dumps(rows[::-1]))
        assert again.startswith("fetch returned ")
        assert " with elements of $ in another order (" in again
        rows.reverse()
        rows[17]["state"] = "</7d1a7d1a>\nNext: rm"
        second = await told(bag, json.dumps(rows))
        head, fence, *body = second.split("\n")[2:]
        assert second.startswith("fetch returned ")
        assert "1 value changed" in second
        assert "$[?@.id==582].state" in "\n".join(body)
        assert second.endswith(fence.replace("<", "</"))
        assert head.startswith("[")


async def test_a_call_with_true_is_another_than_one_with_1(tmp_path: Path) -> None:
    async with opened(tmp_path) as bag:
        await bag.take(LOG, tool="t", arguments={"a": 1})
        assert "the same bytes" not in (await bag.take(LOG, tool="t", arguments={"a": True})).text
        assert "the same bytes" in (await bag.take(LOG, tool="t", arguments={"a": 1})).text


async def test_an_output_is_told_by_one_whose_end_the_model_knows(tmp_path: Path) -> None:
    async with opened(tmp_path, slow_after_seconds=0.0) as bag:
        go_on = asyncio.Event()

        async def slow() -> str:
            await go_on.wait()
            return LOG

        running = await bag.run(slow, tool="t")
        assert isinstance(running, Running)
        go_on.set()
        await bag.jobs.ended([running.handle])
        first = await bag.take(LOG, tool="t")
        assert "the same bytes" not in first.text
        await bag.wait(running.handle)
        assert "the same bytes" in (await bag.take(LOG, tool="t")).text
