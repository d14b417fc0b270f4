"""What was found to be a secret once is masked elsewhere: whole, cut off, in pieces, spelled in other ways; and what is
too short, too common or ours is not.
"""

import base64
import json
from dataclasses import replace

import pytest
from inline_snapshot import snapshot

from holdall.formats import shapes
from holdall.store.bundle import redact
from holdall.store.bundle.redact import Redactor, Values, usual_rules
from holdall.text.secrets import HERE_ONLY
from holdall.values.bundles import Bundle, BundledSession
from holdall.values.outputs import Facts, Measure, Origin
from tests.requirements import requirement

SECRET = "Zq7vT9mX4kLp2wRb8sYd"
ID = "22222222-2222-4222-8222-222222222222"


def taught(*secrets: str, ours: tuple[str, ...] = ()) -> Redactor:
    redactor = Redactor(usual_rules())
    for secret in secrets:
        for _ in redactor.learn([f"password={secret}\n".encode()]):
            pass
    redactor.learned(ours)
    redactor.begin()
    return redactor


def in_output(redactor: Redactor, text: str) -> str:
    return b"".join(redactor.stream([text.encode()], "f.txt", "k3f9")).decode()


def in_log(redactor: Redactor, text: str) -> str:
    return json.loads(redactor.json(json.dumps({"text": text}).encode(), "events.ndjson"))["text"]


def test_a_secret_is_masked_whole_and_where_it_is_cut_off() -> None:
    redactor = taught(SECRET)
    for at in (in_output, in_log):
        assert at(redactor, f"so {SECRET} it is") == f"so {'*' * 20} it is"
        for sign in ("…", "\\u2026"):
            assert at(redactor, f"so {SECRET[:8]}{sign} it is") == f"so {'*' * 8}{sign} it is"
            assert at(redactor, f"so {SECRET[:19]}{sign} it is") == f"so {'*' * 19}{sign} it is"
            assert at(redactor, f"so {SECRET[:7]}{sign} it is") == f"so {SECRET[:7]}{sign} it is"
        assert at(redactor, f"so {SECRET[:8]} it is") == f"so {SECRET[:8]} it is"
    assert in_output(taught(SECRET[:8]), f"so {SECRET[:8]}… it is") == f"so {'*' * 8}… it is"


def test_ten_signs_of_a_secret_are_masked_in_what_was_told_and_not_in_outputs() -> None:
    redactor = taught(SECRET)
    for first in range(11):
        for length in (9, 10, 20 - first):
            piece = SECRET[first : first + length]
            expected = "*" * len(piece) if len(piece) >= 10 else piece
            assert in_log(redactor, f"<{piece}>") == f"<{expected}>"
    assert in_output(redactor, f"<{SECRET[3:19]}>") == f"<{SECRET[3:19]}>"
    assert in_log(redactor, f"{SECRET[:12]} {SECRET[5:]}") == f"{'*' * 12} {'*' * 15}"


def test_names_without_which_nothing_is_found_stay() -> None:
    redactor = taught(SECRET, "read_context_more", ours=(f"{SECRET}-long-handle",))
    assert in_log(redactor, SECRET[:12]) == SECRET[:12], "a piece of a name of ours"
    assert in_log(redactor, SECRET) == "*" * 20
    assert in_output(taught(SECRET, ours=(SECRET,)), SECRET) == SECRET
    assert in_log(redactor, "call context_more now") == "call context_more now", "a name as tools have them"
    assert in_log(redactor, "call read_context_more now") == f"call {'*' * 17} now"


@pytest.mark.parametrize(
    ("secret", "kind", "found"),
    [
        ("sevense", "x", []),
        ("eightsig", "x", ["eightsig"]),
        ("a" * 30, "x", []),
        ("assistant", "x", []),
        ("Nx7" * 5461 + "x", "x", ["Nx7" * 5461 + "x"]),
        ("Nx7" * 5461 + "xx", "x", []),
        ("Zq7vT9mX4k", HERE_ONLY, []),
        ("one=Zq7vT9mX; Path=/somewhere/x; two=\"mX4kLp2w\" ;Domain=long.example", "Cookie", ["Zq7vT9mX", "mX4kLp2w"]),
        ("Zq7vT9mX\nmX4kLp2w\nshort", "x", ["Zq7vT9mX", "mX4kLp2w"]),
        ("Zq7vT9mX and more", "x", ["Zq7vT9mX", "Zq7vT9mX and more"]),
        ("2026-01-01 10:00:00 and more", "x", ["2026-01-01 10:00:00 and more"]),
        ("Zq7vT9mX\\nmX4kLp2w\\r\\nAb12Cd34: no", "Private Key", ["Zq7vT9mX", "mX4kLp2w"]),
    ],
)  # fmt: skip
def test_what_of_a_finding_is_looked_for_elsewhere(secret: str, kind: str, found: list[str]) -> None:
    values = Values()
    new = values.add(secret.encode(), kind)
    plain = {one.encode() for one in found}
    assert plain <= values.found == set(new)
    assert {one for one in new if one in secret.encode()} == plain
    assert values.add(secret.encode(), kind) == [], "nothing of it is new"


def test_a_value_is_looked_for_as_others_spell_it() -> None:
    value = 'p"s/w&d é9'
    values = Values()
    values.add(json.dumps(value)[1:-1].encode(), "x")
    assert sorted(one.decode() for one in values.found) == snapshot(
        [
            "Aicy93JmQgw6k5",
            "BcInMvdyZkIFx1MDBlOT",
            "cCJzL3cmZCDDqT",
            "cFwicy93JmQgXHUwMGU5O",
            'p""s/w&d é9',
            'p"s/w&amp;d é9',
            'p"s/w&d é9',
            "p%22s%2Fw%26d%20%C3%A99",
            "p%22s%2Fw%26d+%C3%A99",
            "p%22s%2fw%26d%20%c3%a99",
            "p%22s%2fw%26d+%c3%a99",
            "p%22s/w%26d%20%C3%A99",
            "p%22s/w%26d%20%c3%a99",
            "p%5C%22s%2Fw%26d%20%5Cu00e99",
            "p%5C%22s%2Fw%26d+%5Cu00e99",
            "p%5C%22s/w%26d%20%5Cu00e99",
            "p%5c%22s%2fw%26d%20%5cu00e99",
            "p%5c%22s%2fw%26d+%5cu00e99",
            "p%5c%22s/w%26d%20%5cu00e99",
            "p&quot;s/w&amp;d é9",
            'p[\\\\]\\"s/w&d [\\\\]u00e99',
            'p[\\]"s/w&d [\\]u00e99',
            'p\\""s/w&d \\u00e99',
            'p\\"s/w&amp;d \\u00e99',
            'p\\"s/w&d \\u00e99',
            'p\\"s/w&d é9',
            'p\\"s/w\\&d\\ é9',
            'p\\"s\\/w&d \\u00e99',
            'p\\"s\\/w&d é9',
            "p\\&quot;s/w&amp;d \\u00e99",
            'p\\\\"s/w&d \\\\u00e99',
            'p\\\\\\"s/w&d \\\\u00e99',
            'p\\\\\\"s/w\\&d\\ \\\\u00e99',
            'p\\\\\\"s\\/w&d \\\\u00e99',
            'p\\\\\\\\\\"s/w&d \\\\\\\\u00e99',
            'p\\\\\\\\\\\\\\"s/w&d \\\\\\\\u00e99',
            "wInMvdyZkIMOpO",
            "wXCJzL3cmZCBcdTAwZTk5",
        ]
    )


@pytest.mark.parametrize("before", range(3))
@pytest.mark.parametrize("length", [9, 10, 11])
def test_a_value_is_found_in_base64_wherever_it_begins(before: int, length: int) -> None:
    secret = SECRET[:length]
    packed = base64.b64encode(("x" * before + secret + "~~~~").encode()).decode()
    hidden = in_output(taught(secret), f"auth {packed} end")
    assert hidden.startswith("auth ")
    assert hidden.endswith(" end")
    assert hidden.count("*") >= length * 4 // 3 - 2


def test_values_have_an_end_in_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    first = Values()
    first.add(SECRET.encode(), "x")
    size = sum(map(len, first.found))
    for room, left_out in ((size, 0), (size - 1, 1), (19, 1)):
        monkeypatch.setattr(redact, "_MOST_BYTES", room)
        values = Values()
        assert bool(values.add(SECRET.encode(), "x")) is not bool(left_out)
        assert values.left_out == left_out


def test_masks_are_counted_listed_and_the_first_of_them_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(redact, "_PLACES", 2)
    redactor = taught(SECRET)
    in_output(redactor, f"{SECRET} and\n{SECRET}")
    lines = b"".join(redactor.lines([b'{"a":1}\n{"b":"%s"}\n' % SECRET.encode()], "events.ndjson", 1))
    assert lines == b'{"a":1}\n{"b":"%s"}\n' % (b"*" * 20)
    listed = [json.loads(line) for line in redactor.list().splitlines()]
    assert [(one["file"], one["handle"], one["start"], one["end"]) for one in listed] == [
        ("f.txt", "k3f9", 0, 20), ("f.txt", "k3f9", 25, 45), ("events.ndjson", "", 14, 34),
    ]  # fmt: skip
    assert [mask.to_json() for mask in redactor.places] == listed[:2]
    assert sum(redactor.counts.values()) == 3
    redactor.begin()
    assert redactor.list() == b""


def test_a_hash_of_what_was_masked_is_another_everywhere() -> None:
    old, new, other = "ab" * 32, "cd" * 32, "ef" * 32
    redactor = taught(SECRET)
    in_output(redactor, "nothing here")
    assert (redactor.masked(old, new), in_log(redactor, f"of {old}")) == (0, f"of {old}")
    in_output(redactor, f"{SECRET} {SECRET}")
    assert redactor.masked(old, new) == 2
    assert in_log(redactor, f"of {old} and {other}, {old}0") == f"of {new} and {other}, {old}0"
    assert (redactor.renamed(f"{old}-{other}"), redactor.renamed(f"{other}-{old}")) == (
        f"{new}-{other}",
        f"{other}-{old}",
    )
    gone = Facts("k3f9", ID, ID, 0.0, measure=Measure(sha256=old), state="expired")
    assert redactor.facts(gone).measure.sha256 == new
    assert redactor.facts(replace(gone, measure=Measure(sha256=other))).measure.sha256 == other


def test_what_others_wrote_of_a_record_is_masked() -> None:
    redactor = taught(SECRET)
    origin = Origin(tool="fetch", server="web", arguments={"a": [SECRET, 1]}, call_id=SECRET, traceback=f"at {SECRET}")
    facts = Facts("k3f9", ID, ID, 0.0, origin, Measure(notes=("one", SECRET)), state="failed", error=f"no {SECRET}")
    hidden, stars = redactor.facts(facts), "*" * 20
    assert hidden == replace(
        facts, origin=replace(origin, arguments={"a": [stars, 1]}, call_id=stars, traceback=f"at {stars}"),
        measure=Measure(notes=("one", stars)), error=f"no {stars}",
    )  # fmt: skip
    plain = replace(facts, origin=Origin(tool="fetch"), measure=Measure(), error="")
    assert redactor.facts(plain) is plain


def test_two_sessions_whose_names_are_the_same_when_masked_are_told_apart() -> None:
    redactor = taught(SECRET, SECRET[::-1])
    names = (f"for {SECRET}", f"for {SECRET[::-1]}", "other")
    bundle = Bundle(tuple(BundledSession(ID.replace("2", str(at)), name, 0.0) for at, name in enumerate(names)))
    assert [one.name for one in redactor.contents(bundle).sessions] == [f"for {'*' * 20}", f"for {'*' * 20}-1", "other"]


def test_a_line_that_is_no_json_is_masked_too() -> None:
    redactor = taught(SECRET)
    assert (
        redactor.json(b"password=hunter2hunter2 and " + SECRET.encode(), "x")
        == b"password=" + b"*" * 14 + b" and " + b"*" * 20
    )
    with pytest.raises(AssertionError, match="it masks already"):
        redactor.learn_json(b'{"password": "hunter2hunter2"}')


@pytest.mark.parametrize(("letters", "is_told"), [("abcd", True), ("abc", False)])
def test_the_shape_of_a_secret_is_masked_where_enough_of_it_is_told(letters: str, is_told: bool) -> None:
    secret = f"{letters}-48151623"
    shape = shapes.masked(secret)
    assert shape != secret
    hidden = in_output(taught(secret), f"of {shape} there are 3")
    assert hidden == f"of {'*' * len(shape) if is_told else shape} there are 3"


@pytest.mark.parametrize(
    "spelled",
    [
        "it''s\"S3cr&t9xQ", "it\\'s\"S3cr&t9xQ", "it's\"\"S3cr&t9xQ", "it'\"'\"'s\"S3cr&t9xQ",
        "it&#39;s&quot;S3cr&amp;t9xQ", "it&apos;s&quot;S3cr&amp;t9xQ", "it's\\\\\\\"S3cr&t9xQ",
    ],
)  # fmt: skip
def test_a_value_with_quotes_is_masked_as_csv_sql_a_shell_and_markup_spell_it(spelled: str) -> None:
    redactor = Redactor(usual_rules())
    redactor.learn_json(json.dumps({"password": "it's\"S3cr&t9xQ"}).encode())
    redactor.learned([])
    assert b"S3cr" not in b"".join(redactor.stream([f"INFO trying {spelled} now\n".encode()], "f", "h"))


@requirement("bundle:redaction-everywhere")
@pytest.mark.parametrize(
    "line",
    ["tool --password 'it'\"'\"'s&S3cr t9xQ'", "tool --password it\\'s\\&S3cr\\ t9xQ", "ALTER USER a WITH PASSWORD 'it''s&S3cr t9xQ';",
     "sh -c 'x' --password 'it'\\''s&S3cr t9xQ'"],
)  # fmt: skip
def test_a_value_that_was_found_in_quotes_is_masked_as_it_reads(line: str) -> None:
    redactor = Redactor(usual_rules())
    for _ in redactor.learn([line.encode()]):
        pass
    redactor.learned([])
    for spelled in ("it's&S3cr t9xQ", "it''s&S3cr t9xQ", "it\\'s\\&S3cr\\ t9xQ"):
        assert b"S3cr" not in b"".join(redactor.stream([f"INFO trying {spelled} now\n".encode()], "f", "h"))
