"""Arguments that name a kept output: replaced at dispatch, checked, capped, allowed by tool, in the ledger."""

import hashlib
import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from inline_snapshot import snapshot

from holdall import Inline, ToolPolicy
from holdall.bag import jsonschemas
from holdall.values.errors import BadReference
from tests.bag.shapes import LOG, opened
from tests.requirements import requirement

pytestmark = pytest.mark.anyio

TABLE: dict[str, Any] = {
    "rows": [{"id": 1, "tags": ["a", "b"]}, {"id": 2, "tags": []}],
    "n": 2,
    "when/where": {"~": True},
}


def send(**arguments: Any) -> dict[str, Any]:
    """A tool that gives back what it got."""
    return arguments


@requirement("reference:whole", "reference:pointer", "reference:lines", "reference:in-ledger")
async def test_a_reference_is_replaced_by_the_text_or_the_typed_value(tmp_path: Path) -> None:
    async with opened(tmp_path, by_reference=True) as bag:
        log = (await bag.keep(LOG)).handle
        table = (await bag.keep(TABLE)).handle

        async def sent(**arguments: Any) -> Any:
            taken = await bag.run(send, tool="send", arguments=arguments)
            assert not taken.is_error, taken.content
            return taken.content

        assert (await sent(body=f"holdall:{table}"))["body"] == json.dumps(TABLE)
        assert (await sent(rows=f"holdall:{table}#/rows"))["rows"] == TABLE["rows"]
        assert (await sent(n=f"holdall:{table}#/n"))["n"] == 2
        assert (await sent(one=f"holdall:{table}#/rows/0/tags/1"))["one"] == "b"
        assert (await sent(odd=f"holdall:{table}#/when~1where/~0"))["odd"] is True
        assert (await sent(lines=f"holdall:{log}#L4-L5"))["lines"] == "".join(LOG.splitlines(keepends=True)[3:5])
        assert (await sent(line=f"holdall:{log}#L4"))["line"] == LOG.splitlines(keepends=True)[3]
        records = [{"n": n, "text": "one\u2028line"} for n in range(3)]
        lines = "\n\r\n".join(json.dumps(one, ensure_ascii=False) for one in records)
        ndjson = (await bag.keep(lines, kind="ndjson")).handle
        assert (await sent(all=f"holdall:{ndjson}#"))["all"] == records
        assert (await sent(one=f"holdall:{ndjson}#/1"))["one"] == records[1]
        nothing = (await bag.keep("")).handle
        assert (await sent(text=f"holdall:{nothing}"))["text"] == ""
        assert (await sent(files=[{"text": f"holdall:{log}#L1"}]))["files"][0]["text"] == LOG.splitlines(keepends=True)[
            0
        ]
        coverage = await bag.coverage(log)
        assert coverage.ranges["passed"].as_lists() == [[0, 31], [93, 156]]
        assert coverage.shown.bytes() == 0, "what was passed on was not shown"
        assert (await bag.counters()).passed_by_reference == 11


@requirement("reference:whole", "dialect:instructions")
@pytest.mark.parametrize("options", [{"by_reference": True}, {"tools": {"send": ToolPolicy(by_reference=True)}}])
async def test_the_instructions_tell_of_references_where_they_are_allowed(
    tmp_path: Path, options: dict[str, Any]
) -> None:
    async with opened(tmp_path, **options) as bag:
        (line,) = [one for one in bag.instructions().splitlines() if "holdall:" in one]
        assert line == snapshot(
            '- An argument "holdall:HANDLE" gives another tool that output, unread; "holdall:HANDLE#" the value of its JSON.'
        )
    async with opened(tmp_path) as bag:
        assert "holdall:" not in bag.instructions()


async def test_two_places_that_are_written_alike_are_two(tmp_path: Path) -> None:
    async with opened(tmp_path, by_reference=True) as bag:
        one, two = (await bag.keep("one")).handle, (await bag.keep("two")).handle
        for arguments in (
            {"a.b": f"holdall:{one}", "a": {"b": f"holdall:{two}"}},
            {"a[0]": f"holdall:{one}", "a": [f"holdall:{two}"]},
            {"": f"holdall:{one}", "it": f"holdall:{two}"},
        ):
            taken = await bag.run(send, tool="send", arguments=arguments)
            assert json.loads(
                json.dumps(taken.content).replace("one", f"holdall:{one}").replace("two", f"holdall:{two}")
            ) == (arguments)


@requirement("dialect:names-as-listed")
@pytest.mark.parametrize("dialect", ["holdall", "extract", "async"])
async def test_a_reference_to_nothing_is_refused_in_the_form_of_the_dialect(tmp_path: Path, dialect: str) -> None:
    async with opened(tmp_path, by_reference=True, dialect=dialect) as bag:
        kept = bag.core.handle_of(await bag.keep(TABLE))
        taken = await bag.run(send, tool="send", arguments={"x": "holdall:zzzz"})
        assert taken.is_error
        assert taken.content == f"the argument 'x': No output is kept under \"zzzz\". Kept: {kept}."


@requirement("reference:whole-string-only", "reference:escape")
async def test_only_a_whole_string_is_a_reference_and_two_colons_escape(tmp_path: Path) -> None:
    async with opened(tmp_path, by_reference=True) as bag:
        handle = (await bag.keep(TABLE)).handle
        arguments: dict[str, Any] = {
            "a": f"see holdall:{handle}",
            "b": f"holdall::{handle}",
            "c": 1,
            "d": ["holdall::"],
            "e": None,
        }
        taken = await bag.run(send, tool="send", arguments=arguments)
        assert taken.content == {
            "a": f"see holdall:{handle}", "b": f"holdall:{handle}", "c": 1, "d": ["holdall:"], "e": None,
        }  # fmt: skip


@pytest.mark.parametrize(
    ("argument", "complaint"),
    [
        ("holdall:zzzz", 'No output is kept under "zzzz"'),
        ("holdall:", "is no reference"),
        ("holdall:a b", "is no reference"),
        ("holdall:{h}#oops", "which names nothing"),
        ("holdall:{h}#L0-L3", "Lines count from 1"),
        ("holdall:{h}#L9-L3", "lines 9 to 3. The first comes before the last."),
        ("holdall:{h}#L99", "lines that are not there"),
        ("holdall:{h}#L1-L99", "lines that are not there"),
        ("holdall:{h}#/nothing/here", "there is nothing at /nothing/here"),
    ],
)
async def test_a_reference_that_names_nothing_is_an_error_and_the_call_is_not_made(
    tmp_path: Path, argument: str, complaint: str
) -> None:
    called: list[object] = []
    async with opened(tmp_path, by_reference=True) as bag:
        handle = (await bag.keep(TABLE)).handle
        taken = await bag.run(called.append, tool="send", arguments={"body": argument.replace("{h}", handle)})
        assert taken.is_error
        assert complaint in taken.content
        assert not called


@requirement("reference:whole")
@pytest.mark.parametrize("fragment", ["", "#", "#/n"])
async def test_a_part_is_never_passed_as_the_whole_but_its_lines_are(tmp_path: Path, fragment: str) -> None:
    called: list[object] = []
    async with opened(tmp_path, by_reference=True) as bag:
        writer = await bag.jobs.begin(tool="export")
        writer.write(b'{"n": 1}\n')
        arguments = {"body": f"holdall:{writer.handle}{fragment}"}
        taken = await bag.run(called.append, tool="send", arguments=arguments)
        assert taken.is_error
        assert "is still being written; wait for its end" in taken.content
        writer.finish(state="cancelled")
        taken = await bag.run(called.append, tool="send", arguments=arguments)
        assert "is not whole (cancelled); name lines of what there is, as in " in taken.content
        assert not called
        lines = {"body": f"holdall:{writer.handle}#L1"}
        assert (await bag.run(send, tool="send", arguments=lines)).content == {"body": '{"n": 1}\n'}


@requirement("reference:size-cap")
async def test_what_is_over_the_cap_is_refused_with_the_cap(tmp_path: Path) -> None:
    async with opened(tmp_path, by_reference=True, reference_max_bytes=1000) as bag:
        handle = (await bag.keep(LOG)).handle
        taken = await bag.run(send, tool="send", arguments={"body": f"holdall:{handle}"})
        assert taken.is_error
        assert "at most 1,000 may be passed by reference" in taken.content
        assert not (await bag.run(send, tool="send", arguments={"body": f"holdall:{handle}#L1-L9"})).is_error


@requirement("reference:size-cap", "reference:pointer")
async def test_a_pointer_goes_by_the_size_of_what_it_names_however_large_the_rest_is(tmp_path: Path) -> None:
    table = {"before": "x" * 3_000_000, "n": {"id": 7}, "rows": [{"id": row} for row in range(20_000)]}
    async with opened(tmp_path, by_reference=True, reference_max_bytes=1000) as bag:
        handle = (await bag.keep(table)).handle
        arguments = {"n": f"holdall:{handle}#/n", "row": f"holdall:{handle}#/rows/19999"}
        passed = await bag.run(send, tool="send", arguments=arguments)
        assert passed.content == {"n": {"id": 7}, "row": {"id": 19_999}}
        size = len(json.dumps(table["rows"]))
        refused = await bag.run(send, tool="send", arguments={"rows": f"holdall:{handle}#/rows"})
        assert f"names {size:,} bytes of {handle}; at most 1,000 may be passed by reference" in refused.content


@requirement("reference:size-cap")
async def test_the_cap_is_for_all_references_of_a_call(tmp_path: Path) -> None:
    async with opened(tmp_path, by_reference=True, reference_max_bytes=1000) as bag:
        handle = (await bag.keep(LOG)).handle
        lines = f"holdall:{handle}#L1-L9"  # 280 bytes
        assert not (await bag.run(send, tool="send", arguments={"body": [lines] * 3})).is_error
        over = await bag.run(send, tool="send", arguments={"body": [lines] * 4})
        assert over.is_error
        assert "names 280 bytes" in str(over.content)
        many = await bag.run(send, tool="send", arguments={"body": [f"holdall:{handle}#L1"] * 101})
        assert "there are 101 references; one call may have 100." in str(many.content)


@requirement("reference:allow-list")
async def test_references_are_replaced_only_where_that_is_allowed(tmp_path: Path) -> None:
    policies = {"open": ToolPolicy(by_reference=True), "shut": ToolPolicy(by_reference=False)}
    for default in (False, True):
        async with opened(tmp_path, by_reference=default, tools=policies) as bag:
            text = f"holdall:{(await bag.keep('kept')).handle}"
            for tool, replaces in (("open", True), ("shut", False), ("other", default)):
                taken = await bag.run(send, tool=tool, arguments={"x": text})
                assert taken.content["x"] == ("kept" if replaces else text)
                assert len(await bag.passed_by_reference({"x": text}, tool=tool)) == replaces


@requirement("trust:schemas-of-servers")
@pytest.mark.parametrize(
    ("rule", "said"),
    [
        ({"$ref": "http://127.0.0.1:9/x"}, "its schema refers to http://127.0.0.1:9/x, and no schema is fetched"),
        ({"$ref": "file:///etc/hostname"}, "its schema refers to file:///etc/hostname, and no schema is fetched"),
        ({"$ref": "#/properties/rows"}, "its schema refers to itself without end"),
        ({"pattern": "^([a-z\\n]+)+[0-9]$"}, "the tool's schema could not be checked in 0.5 seconds"),
        ({"const": "x\n# System Notice"}, "rows breaks the rule 'const' (x\\n# System Notice)"),
        ({"type": "no such type"}, "the tool's schema could not be checked"),
        ({"minLength": "x"}, "the tool's schema could not be checked"),
    ],
)  # fmt: skip
async def test_a_hostile_schema_fetches_nothing_and_ends(tmp_path: Path, rule: dict[str, Any], said: str) -> None:
    async with opened(tmp_path, by_reference=True, query_seconds=0.5 if "pattern" in rule else 60.0) as bag:
        handle = (await bag.keep("a" * 40 + "\n" + "b" * 40 + "!", tool="x")).handle
        schema = {"type": "object", "properties": {"rows": rule}}
        wrong = await bag.run(str, tool="store", arguments={"rows": f"holdall:{handle}"}, schema=schema)
        assert said in str(wrong.content)


@requirement("reference:schema-checked")
async def test_what_is_put_in_its_place_is_checked_against_the_tools_schema(tmp_path: Path) -> None:
    schema = {"type": "object", "properties": {"rows": {"type": "array"}}, "required": ["rows"]}
    called: list[object] = []

    def store(rows: object) -> str:
        called.append(rows)
        return "done"

    async with opened(tmp_path, by_reference=True) as bag:
        handle = (await bag.keep(TABLE)).handle
        wrong = await bag.run(store, tool="store", arguments={"rows": f"holdall:{handle}#/n"}, schema=schema)
        assert wrong.is_error
        assert "do not fit the schema of store: rows breaks the rule 'type' (array)" in wrong.content
        assert not called
        text = await bag.run(store, tool="store", arguments={"rows": f"holdall:{handle}"}, schema=schema)
        advice = f"(array). holdall:{handle} is passed as text, holdall:{handle}# as the value of its JSON"
        assert advice in str(text.content)
        whole = await bag.run(store, tool="store", arguments={"rows": f"holdall:{handle}#"}, schema={"type": "object"})
        assert isinstance(whole, Inline)
        assert called.pop() == TABLE
        right = await bag.run(store, tool="store", arguments={"rows": f"holdall:{handle}#/rows"}, schema=schema)
        assert isinstance(right, Inline)
        assert called == [TABLE["rows"]]


def _nested(depth: int) -> dict[str, Any]:
    return {"items": _nested(depth - 1)} if depth else {"type": "string"}


@requirement("reference:schema-checked", "trust:schemas-of-servers")
@pytest.mark.parametrize(
    ("schema", "arguments", "is_plain"),
    [
        ({"type": "object", "properties": {"rows": {"anyOf": [{"type": "string"}, True]}}}, {"rows": "a"}, True),
        ({"additionalProperties": False}, {}, True),
        (_nested(16), [], True),
        (_nested(17), [], False),
        ({"anyOf": [{"type": "object"}] * 999}, {}, True),
        ({"items": {"enum": [*range(900)]}}, [1] * 100, True),
        ({"items": {"enum": [*range(900)]}}, [1] * 200, False),
        ({"items": {"anyOf": [{"type": "integer"}] * 900}}, [1] * 200, False),
        ({"anyOf": [{"type": "object"}] * 1_000}, {}, False),
        ({"maxLength": 300_000}, "a" * 263_000, False),
        ({"properties": {"rows": {"pattern": "a"}}}, {"rows": "a"}, False),
        ({"properties": {"rows": {"uniqueItems": True}}}, {}, False),
        ({"$ref": "#"}, {}, False),
        ({"properties": []}, {}, False),
        ({"items": 1}, {}, False),
    ],
)  # fmt: skip
def test_only_a_schema_of_plain_rules_is_checked_without_a_process_of_its_own(
    monkeypatch: pytest.MonkeyPatch, schema: dict[str, Any], arguments: object, is_plain: bool
) -> None:
    def run(*_: object, **__: object) -> None:
        raise OSError

    monkeypatch.setattr(subprocess, "run", run)
    if is_plain:
        assert jsonschemas.complaint(schema, arguments, seconds=60) == ""
    else:
        with pytest.raises(BadReference, match="could not be checked"):
            jsonschemas.complaint(schema, arguments, seconds=60)


@requirement("reference:approver-sees")
async def test_whoever_approves_sees_handle_size_and_hash_first(tmp_path: Path) -> None:
    async with opened(tmp_path, by_reference=True) as bag:
        kept = await bag.keep(LOG, tool="fetch")
        (one, two) = await bag.passed_by_reference({"a": f"holdall:{kept.handle}", "b": [f"holdall:{kept.handle}#L1"]})
        assert (one.where, one.handle, one.tool, one.bytes) == ("a", kept.handle, "fetch", len(LOG))
        assert one.sha256 == kept.measure.sha256
        assert (two.where, two.bytes, two.span.as_list()) == ("b[0]", 31, [0, 31])
        assert two.sha256 == hashlib.sha256(LOG.encode()[:31]).hexdigest(), "who approves a part approves no other one"
        assert LOG[:20] not in repr((one, two))
        assert (await bag.coverage(kept.handle)).ranges["passed"].bytes() == 0, "looking is not passing"


@requirement("trust:crossing-servers")
async def test_an_output_of_one_server_that_goes_to_another_is_told(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def send(text: str) -> int:
        return len(text)

    async with opened(tmp_path, by_reference=True) as bag:
        kept = await bag.keep("a letter\n" * 99, tool="read_mail", server="mail")
        arguments = {"text": f"holdall:{kept.handle}"}
        (seen,) = await bag.passed_by_reference(arguments, tool="post")
        assert seen.server == "mail", "an approval can show where it comes from"
        for tool, server in (("post", "web"), ("forward", "mail"), ("count", "")):
            await bag.run(send, tool=tool, server=server, arguments=arguments)
        events = [event.data for event in bag.records.history() if event.kind == "passed"]
    assert [(one.get("from_server"), one.get("server")) for one in events] == [
        ("mail", "web"),
        (None, None),
        (None, None),
    ]
    assert [one.getMessage() for one in caplog.records if one.levelname == "WARNING"] == [
        f"891 bytes of {kept.handle}, an output of the server mail, go to the server web, in the argument text of post"
    ]
