"""Outlines of 14 outputs that real tools made: the names that people ask about are there."""

from pathlib import Path

import pytest

from tests.text.outline_tools import outlined

_BENCH = Path(__file__).parents[2] / "../shared/bench/artifacts"
_EXPECTED = {
    "auth_log.txt": ["Mar 27 13:06:56 → Apr 20 14:14:29", "sshd", "288 × sshd: Failed password for invalid user <*>"],
    "cn_pcas_min.txt": [
        ' × {code: str "11", name: str "北京市", children: [',
        "$[*].children[*].children[*].children[*]: {",
    ],
    "findbugs_xml.txt": ["1,820 × BugInstance", "5,074 × ", "ClassStats class=", "size="],
    "gc_unified_serial.txt": [
        "0.011s → 21.415s",
        "Pause Young (Allocation Failure)",
        "50 × [info][gc,start] GC(<n>) Pause Full",
    ],
    "geo_countries.json": ["features: [180", '"Polygon" ×150|"MultiPolygon" ×30', "coordinates"],
    "gh_openapi.json": ["paths: {515 keys", "operationId", "$.components: {schemas: {349 keys"],
    "jhu_confirmed_csv.csv": ["279 rows × 544 columns", "Country/Region", "540 columns 1/22/20 … 7/14/21"],
    "k8s_swagger.json": ["definitions: {771 keys", "paths: {562 keys", "operationId", "$.definitions.*"],
    "poetry_yuanqu_cjk.txt": ["[11,057 × {", "author", '"无名氏" ×1,933', "title", "paragraphs"],
    "pytest_moatless3.txt": [
        "1 failed, 90 passed, 1 xfailed in 5.59s",
        "FAILED testing/test_mark.py::TestFunctional::test_skipif_string_condition_evaluation_caching",
        "PASSED 90",
        "ERROR 5",
    ],
    "pytest_moatless5.txt": [
        "1 failed, 80 passed in 2.53s",
        "FAILED testing/test_skipping.py::test_errors_in_xfail_skip_expressions",
        "PASSED 80",
    ],
    "sympy_tests.txt": ["854 passed, 1 failed", "853 × <*> ok", "sympy/sets/tests/test_sets.py:test_imageset"],
    "tau_gpt4o_traj.json": ["[200 × {task_id", "reward: 0.0|1.0|…", "$[*].info.task: {user_id"],
    "tcpdump_sflow.txt": [
        "142 × expanded counter sample (<n>), length <n>, seqnum <n>, type <n>, idx <n>, records <n>"
    ],
}


@pytest.mark.skipif(not _BENCH.is_dir(), reason="the real outputs of ../shared/bench are not here")
@pytest.mark.parametrize("name", _EXPECTED)
def test_the_names_that_people_ask_about_are_in_the_outline(name: str) -> None:
    found = outlined((_BENCH / name).read_bytes())
    text = "\n".join(found.lines)
    assert [each for each in _EXPECTED[name] if each not in text] == []
    assert len(text) <= 1400 + 50
