"""query against DuckDB called directly in this process, with the reader options and limits that Holdall gives it."""

import time

import duckdb

from bench.lab import Lab, stored_path
from bench.result import Gate, Measured, Row
from bench.rounds import MANY, compare, timed, timed_call
from holdall.text.tokens import Estimate

_FIRST = (
    "all records are compared with the types of the first 20,480, so that no late value is rounded or dropped: a "
    "second pass, 0.87 s of 200 MB, 0.72 of it parsing."
)
_QUERY = "select count(*) from t where status = 500 and took_ms > 100"


async def query(lab: Lab) -> Measured:
    async with lab.kept(lab.records(), Estimate()) as (bag, facts):
        answers: set[int] = set()

        async def ours() -> None:
            table = await bag.query(facts.handle, _QUERY)
            answers.add(int(str(table.rows[0][0])))

        started = time.perf_counter()
        await ours()
        cold = time.perf_counter() - started

        direct = duckdb.connect(config={"threads": 2, "memory_limit": f"{bag.settings.query_memory_bytes}B"})
        reader = f"read_json('{stored_path(bag, facts)}', format='newline_delimited', sample_size=20480"
        described = direct.execute(f"describe from {reader})").fetchall()
        columns = ", ".join(f"'{name}': '{kind}'" for name, kind, *_ in described)
        listed = f"(from {reader}, columns={{{columns}}})) as t"
        guessed = f"(from {reader})) as t"

        def asked(table: str) -> None:
            row = direct.execute(_QUERY.replace(" t ", f" {table} ")).fetchone()
            answers.add(int(row[0]) if row else -1)

        contestants = {"ours": timed(ours), "floor": timed_call(lambda: asked(listed))}
        found = await compare(contestants, rounds=MANY * lab.sizes.rounds, patience=lab.patience, seconds=60)
        guess = await compare(
            {"guessed": timed_call(lambda: asked(guessed))}, rounds=lab.sizes.rounds, patience=lab.patience
        )
        direct.close()
    if len(answers) != 1:
        raise AssertionError(f"the answers differ: {answers}")
    more = {"duckdb_guessing_columns_seconds": guess.median("guessed")}
    return Measured(
        [
            Row("query", "count(*) over 200 MB, warm", found.median("ours"), "s", found.median("floor"), Gate(1.3),
                others=found.others, more=more),
            Row("query", "the first query of a session", cold, "s", guess.median("guessed"), Gate(1.2, left=_FIRST),
                others=found.others,
                notes="floor: DuckDB that has to look for the columns too"),
        ]
    )  # fmt: skip
