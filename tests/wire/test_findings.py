"""What a model says that it found, from text and from JSON; broken replies are none."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdall.extract.quotes import Stretch
from holdall.wire.arguments import schema_problem
from holdall.wire.findings import (
    CUT_OFF,
    SCHEMA,
    Finding,
    closing_tag,
    finding_in_json,
    finding_in_text,
    finding_of,
    opening_tag,
)
from tests.requirements import requirement
from tests.support import in_effort

NONCE = "5f0e2d4c6b8a79105f0e2d4c6b8a7910"


def test_quotes_stand_on_lines_of_their_own_and_confidence_at_the_end() -> None:
    text = f"{opening_tag(NONCE)}\nhost-7 failed.\n> disk sda1 is full\n> 'quoted' once\nConfidence: 0.8\n{closing_tag(NONCE)}"
    assert finding_in_text(text, NONCE) == Finding(True, "host-7 failed.", ("disk sda1 is full", "'quoted' once"), 0.8)
    assert finding_in_text("host-7 failed", NONCE) is None


@pytest.mark.parametrize(
    ("line", "confidence"),
    [("Confidence: 0.8", 0.8), ("confidence = 80%", 0.8), ("**Confidence:** 1", 1.0), ("Confidence: 95", 0.95),
     ("Confidence: 950", None), ("Confidence: high", None)],
)  # fmt: skip
def test_confidence_is_the_models_own_and_within_its_range(line: str, confidence: float | None) -> None:
    assert finding_of(f"yes\n{line}").confidence == confidence


def test_words_in_marks_claim_to_be_verbatim_too() -> None:
    found = finding_of('It says "disk sda1 is full" and `rm -rf /var/cache/x` and “a curly quotation”, not "short".')
    assert found.quotes == ("disk sda1 is full", "rm -rf /var/cache/x", "a curly quotation")
    found = finding_of("Il dit « le disque est plein », sie sagt „die Platte ist voll“, not «court» nor „kurz“.")
    assert found.quotes == ("le disque est plein", "die Platte ist voll")


def test_nothing_found_is_a_finding_that_says_what_there_is() -> None:
    found = finding_of("NO RELEVANT DATA FOUND\nAccess logs of a web server.\nConfidence: 0.9")
    assert found == Finding(False, "Access logs of a web server.", (), 0.9)


@requirement("extract:schema-anchors")
def test_a_model_that_is_held_to_the_schema_answers_with_anchors() -> None:
    reply = {"found": True, "quotes": ["disk full", "disk full", " "], "answer": "host-7", "confidence": 0.7}
    assert schema_problem(SCHEMA, reply | {"quotes": ["disk full"]}) == ""
    assert finding_in_json(json.dumps(reply)) == Finding(True, "host-7", ("disk full",), 0.7)


@pytest.mark.parametrize(
    "reply",
    ["", "null", "[]", "3", '{"found": true', '{"answer": 3, "quotes": []}', '{"answer": "x", "quotes": "y"}',
     "{'found': True, 'answer': 'x', 'quotes': []}", '{"gefunden": true, "antwort": "x"}', "[" * 100_000],
)  # fmt: skip
def test_what_is_not_the_json_that_was_asked_for_is_no_finding(reply: str) -> None:
    assert finding_in_json(reply) is None


def test_what_was_quoted_before_a_reply_was_cut_off_is_a_finding() -> None:
    whole = json.dumps({"quotes": ["disk 7 is gone", 'code "E41"'], "answer": "It is disk 7.", "found": True})
    for end in range(len(whole)):
        found = finding_in_json(whole[:end])
        quoted = ("disk 7 is gone",) * ('gone"' in whole[:end]) + ('code "E41"',) * ('E41\\""' in whole[:end])
        if found is None:
            assert quoted == ()
        else:
            assert found.quotes == quoted
            assert found.answer == CUT_OFF or "It is disk 7.".startswith(found.answer)


def test_a_reply_that_was_cut_off_before_it_quoted_anything_is_no_finding() -> None:
    assert finding_in_json('{"quotes": [], "answer": "There is no') is None
    assert finding_in_json('{"quotes": ["half of a quo') is None


@pytest.mark.parametrize("confidence", [True, "0.9", -1, 2, None])
def test_a_confidence_that_is_none_is_left_out(confidence: object) -> None:
    reply = json.dumps({"found": True, "quotes": [], "answer": "x", "confidence": confidence})
    assert finding_in_json(reply) == Finding(True, "x", (), None)


def test_a_model_that_never_ends_quoting_is_bounded_and_the_rest_is_counted() -> None:
    found = finding_of("yes\n" + "\n".join(f"> line {number}" for number in range(10_000)))
    assert len(found.quotes) + found.more_quotes == 10_000
    assert len(found.quotes) == 200


@pytest.mark.parametrize(
    "reply",
    [
        "A\n\n> q\n\nB",
        "A\n> q\nB",
        "> q\nA\n> q\n\n> q\nB\n\n> q",
        "A\r\n  > q  \r\n>\nB",
        "A\n\nConfidence: 1\n> q\n\nB",
    ],
)
def test_what_stood_around_quotes_stays_apart_by_one_blank_line(reply: str) -> None:
    found = finding_of(reply)
    assert (found.answer.replace("\r", ""), found.quotes) == ("A\n\nB", ("q",))


BLANKS = {
    "newlines": "x" + "\n" * 20_000 + "x", "in a quote": "> a" + " " * 20_000 + "b", "no quote": " " * 20_000 + "b",
    "confidence": "confidence:" + " " * 20_000 + "x", "stars": "confidence:" + "*" * 20_000 + "x",
}  # fmt: skip


@pytest.mark.parametrize("reply", BLANKS.values(), ids=BLANKS.keys())
def test_a_reply_of_blanks_holds_up_nothing(reply: str) -> None:
    """Nothing interrupts a pattern: with the square of the blanks everybody would wait 20 seconds for these."""
    in_effort(200, lambda: (finding_of(reply), Stretch(b"some bytes of the source", 0).loosely(reply)))


@given(st.text())
def test_any_text_is_a_finding_or_none(text: str) -> None:
    finding_of(text)
    finding_in_json(text)
