"""What a program reads for itself: all of it, where a model gets an answer of bounded length."""

import inspect
import json
from typing import assert_type

from holdall import Holdall as AsyncHoldall
from holdall import MemoryStore, Nodes, Table
from holdall.blocking import Holdall
from tests.requirements import requirement


@requirement("api:grep", "api:query")
def test_a_program_gets_all_of_it_where_it_sets_no_limit() -> None:
    rows = [{"n": n, "text": "x" * 20} for n in range(2_500)]
    with Holdall.open(store=MemoryStore()) as bag:
        kept = bag.keep("".join(json.dumps(row) + "\n" for row in rows), tool="list").handle
        other = bag.keep("".join(f'{{"n": {n}}}\n\n' for n in range(0, 5_000, 2)), tool="list").handle
        table = bag.query(kept, "select n from t order by n", bounded=False)
        assert_type(table, Table)
        assert table.next is None
        assert table.rows == tuple((n,) for n in range(2_500))
        nodes = bag.query(kept, path="$[*].n", bounded=False)
        assert_type(nodes, Nodes)
        assert [int(one.text) for one in nodes.nodes] == list(range(2_500))
        found = bag.grep(kept, "x{20}", bounded=False)
        assert (len(found.matches), found.total, found.next) == (2_500, 2_500, None)
        groups = bag.grep(kept, r'"n": (\d+)', group=True, bounded=False)
        assert len(groups.groups) == groups.distinct == 2_500
        assert len(bag.grep(kept, "x{20}", last=True, bounded=False).matches) == 2_500
        assert len(bag.grep(kept, "x{20}", limit=7, bounded=False).matches) == 7
        changes = bag.diff(kept, other, by="lines", bounded=False)
        assert (len(changes.changes), changes.next) == (changes.total, None)
        # Those for a model are as short as ever, and say so.
        table = bag.query(kept, "select n from t order by n")
        assert (len(table.rows), table.next, table.total) == (1_000, 1_000, 2_500)
        assert len(bag.grep(kept, "x{20}").matches) == 100


def test_help_says_what_is_awaited() -> None:
    plain = {"instructions", "open", "owns", "system_notice", "tools", "turn"}
    names = {name for name in vars(AsyncHoldall) if name[0] != "_" and callable(getattr(AsyncHoldall, name))}
    assert names - plain == {name for name in names if inspect.iscoroutinefunction(getattr(AsyncHoldall, name))}
