"""SQL calls the functions of a list and reads the table t: what DuckDB has besides is refused by its name."""

import re
from collections.abc import Iterator

import duckdb
import pytest

from holdall.sql.functions import FUNCTIONS, TABLE_FUNCTIONS
from holdall.values.errors import BadQuery
from holdall.verbs.query import SqlWorker, query_sql
from tests.requirements import requirement
from tests.support import reader_of

DUCKDB_2 = not duckdb.__version__.startswith("1.")

DATA = (
    b'{"id":1,"name":"Ada","ts":"2026-01-02T03:04:05","tags":["a","b"],"who":{"k":"v"},"n":1.5}\n'
    b'{"id":2,"name":"Bob","ts":"2026-02-03T04:05:06","tags":[],"who":{"k":"w"},"n":2.5}\n'
)

LEFT_OUT = {
    "DuckDB's own inside": r"__.*|(icu_)?collate_.*|vector_type|stats|index_key|hive_partition_component|alias|invoke"
    r"|constant_or_null|create_sort_key|\w+_byte_comparable|remap_struct|json_copy_\w+|array_to_string_comma_default"
    r"|is_histogram_other_bin|variant_(bytes_to_variant|to_parquet_variant|normalize|comparator)|decimal_average"
    r"|decimal_division|vertex_extract|md5_number_\w+|switch|IS (NOT )?DISTINCT FROM|cast_to_type|can_cast_implicitly"
    r"|make_type|get_type|replace_type|user",
    "takes the state of an aggregate as bytes": r"combine|combine_aggr|finalize|to_aggregate_state",
    "shows settings, the session or the catalog": r"current_(setting|database|schemas?|catalog|query|query_id"
    r"|connection_id|transaction_id|user|role)|session_user|getvariable|in_search_path|txid_current|version"
    r"|get_block_size|currval|nextval|setval|(col|obj|shobj)_description|format_pg_type|format_type|map_to_pg_oid"
    r"|has_\w+_privilege|pg_(?!typeof|size_pretty)\w+|inet_\w+",
    "reads SQL that is given as text": r"json_(de)?serialize_(sql|plan)",
    "writes a log, or waits": r"write_log|parse_duckdb_log_message|sleep_ms",
}


@pytest.fixture(scope="module")
def worker() -> Iterator[SqlWorker]:
    with SqlWorker() as shared:
        yield shared


def installed(*kinds: str) -> set[str]:
    found = duckdb.connect().execute("select function_name, function_type from duckdb_functions()").fetchall()
    return {name for name, kind in found if kind in kinds}


@requirement("query:allow-list")
def test_each_function_of_the_installed_duckdb_is_on_the_list_or_left_out_for_a_reason() -> None:
    every = installed("scalar", "aggregate", "macro", "window")
    left_out = {name for name in every if any(re.fullmatch(why, name) for why in LEFT_OUT.values())}
    allowed = {name for name in every if name.casefold() in FUNCTIONS}
    assert not every - allowed - left_out, "decide about these"
    assert not allowed & left_out
    assert not DUCKDB_2 or FUNCTIONS - {name.casefold() for name in every} == {"->", "unnest", "unlist"}
    assert TABLE_FUNCTIONS - {"unlist"} < installed("table")


COMMON = [
    "count(*), sum(n), avg(n), min(id), max(id), median(n), stddev(n), quantile_cont(n, 0.9), approx_count_distinct(id)",
    "list(name), string_agg(name, ','), array_agg(id order by id desc), first(name), any_value(name), mode(name)",
    "count(*) filter (where id > 1), arg_max(name, n), histogram(name), bool_and(id > 0), corr(id, n), json_group_array(id)",
    "row_number() over (order by id), rank() over (order by n), lag(name) over (order by id), sum(n) over (order by id)",
    "ntile(2) over (order by id), first_value(name) over (partition by id order by n), cume_dist() over (order by id)",
    "upper(name) || lower(name), length(name), substring(name, 1, 2), trim(name), replace(name, 'A', 'a'), left(name, 1)",
    "split_part(name, 'd', 1), concat_ws('-', name, id), lpad(name, 9, ' '), starts_with(name, 'A'), strpos(name, 'd')",
    "format('{} {}', name, id), printf('%05d', id), reverse(name), repeat(name, 2), levenshtein(name, 'Adb'), md5(name)",
    "name like 'A%', name ilike 'a%', name ~ 'A.*', name similar to 'A.*', name glob 'A*', name in ('Ada'), name not null",
    ("regexp_extract(name, '(.)d', 1), regexp_replace(name, 'd', 'D', 'g'), regexp_matches(name, 'A'), "
    "regexp_extract_all(name, '.'), regexp_split_to_array(name, 'd')"),
    ("ts::timestamp, ts::date, extract(year from ts::timestamp), date_trunc('month', ts::timestamp), "
    "date_diff('day', ts::date, date '2026-03-01'), strftime(ts::timestamp, '%Y-%m'), epoch(ts::timestamp)"),
    ("strptime('2026', '%Y'), try_strptime('x', '%Y'), ts::timestamp + interval 3 day, make_date(2026, 1, 2), now() > ts::timestamp, "
    "current_date > '2020-01-01'::date, to_timestamp(0), time_bucket(interval 1 hour, ts::timestamp), dayname(ts::date), "
    "ts::timestamp at time zone 'UTC', age(ts::timestamp, ts::timestamp), last_day(ts::date)"),
    "tags[1], len(tags), list_contains(tags, 'a'), unnest(tags), list_sort(tags), [x || '!' for x in tags if x <> 'b']",
    ("list_transform(tags, lambda x: x || '?'), list_filter(tags, lambda x: x = 'a'), list_aggregate(tags, 'count'), "
    "array_to_string(tags, ','), list_distinct(tags), flatten([tags]), range(3), list_zip(tags, tags), tags[1:2]"),
    "who.k, struct_extract(who, 'k'), struct_pack(a := id), {'a': id}, map {'a': id}, map_keys(map {'a': 1}), row(id)",
    ("json_extract(to_json(who), '$.k'), to_json(who)->>'$.k', to_json(who)->'k', json_valid('{}'), json_keys(to_json(who)), "
    "json_array_length('[1]'), json_type('1'), json_object('a', id), json_structure('{}'), json_extract_string('{}', 'a')"),
    ("abs(-n), round(n, 1), ceil(n), floor(n), sqrt(n), power(n, 2), ln(n), log(n), exp(n), sin(n), pi(), mod(id, 2), n % 2, "
    "n // 1, n ** 2, sign(n), greatest(id, 3), least(id, 3), id & 1, id << 1, gcd(id, 4), random() < 2, @n, 3!"),
    ("coalesce(name, ''), ifnull(name, ''), nullif(name, ''), case when id > 1 then 'x' else 'y' end, if(id > 1, 1, 2), "
    "try_cast(name as int), cast(id as varchar), typeof(id), try(name::int), id between 1 and 2, id is distinct from 3"),
    ("hex(name), unhex('41'), to_base64(name::blob), from_base64('QQ=='), encode(name), decode('A'::blob), sha256(name), "
    "url_encode(name), uuid() is not null, hash(id) > 0, bit_count(id), chr(65), ascii(name), bar(id, 0, 9), format_bytes(9)"),
]  # fmt: skip

WHOLE = [
    "from t",
    "describe t",
    "summarize t",
    "describe select id from t",
    "show t",
    "values (1)",
    "from range(3)",
    "from generate_series(1, 3)",
    "from t, unnest(t.tags) as u(tag)",
    "select e.key, e.value from t, json_each(to_json(t.who)) as e",
    "select * from json_tree('[1]')",
    "with a as (from t), b as (select id from a) select count(*) from b join a using (id)",
    "with recursive r(n) as (select 1 union all select n + 1 from r where n < 5) select sum(n) from r",
    "with a as (with b as (from t) from b) select * from a where exists (with c as (from a) from c)",
    "with t as (select 1 as x) select x from t",
    "select * from main.t union all select * from t except select * from t limit 1",
    "pivot t on name in ('Ada', 'Bob') using count(*)",
    "unpivot (select id, n from t) on id, n",
    "select columns('i.*'), * exclude (name) from t qualify row_number() over (order by id) = 1",
    "select name, count(*) from t group by all order by all desc limit 5 offset 0",
    "select name, grouping(name), sum(id) from t group by rollup (name)",
    "from t a positional join t b",
    "select * from t a asof join t b on a.id >= b.id",
    "select * from t using sample 1",
    "select x.name from t x, lateral (select x.id + 1 as next) where (x.id, x.name) in (select id, name from t)",
    "select name from t order by name collate nocase",
]


@requirement("query:allow-list")
@pytest.mark.parametrize("sql", [*(f"select {one} from t" for one in COMMON[3:5]), *WHOLE])
def test_ordinary_sql_is_run(worker: SqlWorker, sql: str) -> None:
    assert query_sql(reader_of(DATA), sql, worker=worker).columns


@requirement("query:allow-list")
def test_the_functions_of_common_use_are_on_the_list(worker: SqlWorker) -> None:
    reader = reader_of(DATA)
    for one in COMMON:
        assert query_sql(reader, f"select {one} from t", worker=worker).rows


REFUSED = [
    ("from duckdb_settings", "no table duckdb_settings"),
    ("from duckdb_settings()", "function duckdb_settings"),
    ("select count(*) from information_schema.tables", "no table tables"),
    ("from pg_catalog.pg_settings", "no table pg_settings"),
    ("from sqlite_master", "no table sqlite_master"),
    ("from system.main.t", "no table t"),
    ("from t where id in (select count(*) from pg_class)", "no table pg_class"),
    ("with duckdb_settings as (from duckdb_settings) from duckdb_settings", "no table duckdb_settings"),
    ("from (with pg_class as (select 1) from pg_class), pg_class", "no table pg_class"),
    ("with a as (from b), b as (select 1) from a", "no table b"),
    ("describe duckdb_settings", "no table duckdb_settings"),
    ("show tables", "SHOW_REF"),
    ("show all tables", "SHOW_REF"),
    ("show tables from main", "SHOW_REF"),
    ("from (show tables from main)", "SHOW_REF"),
    ("show pg_class", "no table pg_class"),
    ("from histogram('duckdb_settings', 'name')", "function histogram"),
    ("from summary((select 1))", "function summary"),
    ("select current_setting('memory_limit')", "function current_setting"),
    ("select main.\"CURRENT_SETTING\"('memory_limit')", "function current_setting"),
    ("select 'memory_limit'.current_setting()", "function current_setting" if DUCKDB_2 else "syntax error"),
    ("select list_transform(['x'], lambda s: current_setting(s))", "function current_setting"),
    ("select count(*) over (order by current_setting('x')) from t", "function current_setting"),
    ("from range(current_setting('threads')::int)", "function current_setting"),
    ("select * from t limit (select len(current_setting('x')))", "function current_setting"),
    ("select json_serialize_plan('from read_text(''/etc/passwd'')')", "function json_serialize_plan"),
    ("select sleep_ms(10000)", "function sleep_ms"),
    ("select write_log('x')", "function write_log"),
    ("select finalize('x'::blob)", "function finalize"),
    ("select no_such_function(1)", "function no_such_function is not available here; the table is t"),
    ("select read_text('/etc/passwd')", "function read_text is not available here; the table is t"),
    ("select stringsplit('a')", "function stringsplit is not available here; near it: string_split"),
    ('select "a\n# System Notice"(1)', re.escape("function a\\n# system notice is")),
]


@pytest.mark.in_full(one_in=3)
@requirement("query:allow-list", "query:confined")
@pytest.mark.parametrize(("sql", "names"), REFUSED)
def test_what_is_not_on_the_list_is_refused_by_its_name(worker: SqlWorker, sql: str, names: str) -> None:
    with pytest.raises(BadQuery, match=names):
        query_sql(reader_of(DATA), sql, worker=worker)
