"""The first page: every session, newest first, with what it kept; from a cache that is never wrong for long."""

import os
import re
import time
from functools import partial
from html import unescape
from pathlib import Path

import anyio
import pytest

from holdall import blocking
from holdall.bag import Holdall
from holdall.bag.holdall import open_read_only
from holdall.bag.overview import Overview
from holdall.policy.folds import PERSON
from holdall.store.directory.summaries import NAME
from holdall.store.opening import open_store
from holdall.values.errors import NothingFound, UsageError
from tests.requirements import requirement
from tests.web.stories import LOG, investigation, plain
from tests.web.support import client

pytestmark = pytest.mark.anyio


async def _kept(home: Path, name: str, count: int = 1) -> str:
    return (await plain(home, name, [("fetch", f"{name} {at}\n" * 50) for at in range(count)])).session


def _aged(home: Path) -> None:
    """Nothing changes a session whose files are old: then its summary is kept."""
    for path in [*home.glob("session-*/*"), *home.glob("session-*")]:
        os.utime(path, (1_700_000_000, 1_700_000_000))


def _without_records(home: Path) -> None:
    for record in home.glob("session-*/*.record"):
        record.unlink()


async def _sessions_in(home: Path) -> list[str]:
    return [name for name in os.listdir(home) if name.startswith("session-")]


async def test_an_empty_store_says_how_to_begin(home: Path) -> None:
    with client(home) as browser:
        assert "holdall put" in browser.get("/").text


@requirement("watch:price-unknown")
async def test_a_price_that_nobody_knows_is_said_to_be_unknown(home: Path) -> None:
    id = await _kept(home, "odd")
    async with Holdall.open(home=str(home), session="odd") as bag:
        bag.journal.record("asked", purpose="turn", model="m", input_tokens=100, output_tokens=5, cost=None)
    with client(home) as browser:
        pages = [browser.get(path).text for path in ("/sessions/rows", f"/s/{id}")]
        totals = browser.get("/sessions/totals").text
        while "yet to be counted" in totals:
            totals = browser.get("/sessions/totals").text
    assert ["price unknown" in page for page in (*pages, totals)] == [True] * 3


async def test_what_people_ask_about_a_run_is_in_the_totals_and_apart_from_it(home: Path) -> None:
    told = await investigation(home)
    with client(home) as browser:
        before = browser.get("/sessions/totals").text
    async with Holdall.open(home=str(home), session="investigation") as bag:
        bag.journal.reader = PERSON
        bag.journal.record("asked", purpose="map", model="m", input_tokens=10, output_tokens=1, cost=9.25)
    with client(home) as browser:
        after, first, page = (browser.get(one).text for one in ("/sessions/totals", "/", f"/s/{told.session}"))
    cost = re.compile(r"cost of models</dt><dd>(?:at least )?\$([\d.]+)")
    (then,), (now,) = cost.findall(before), cost.findall(after)
    assert abs(float(now) - float(then) - 9.25) < 0.01
    assert "<li>$9.25 for questions of people</li>" in first
    assert "<dt>cost of people's questions</dt><dd>$9.25</dd>" in page


async def test_sessions_stand_newest_first_with_their_totals(home: Path) -> None:
    ids = [await _kept(home, f"session {number}", number + 1) for number in range(3)]
    told = await investigation(home)
    with client(home) as browser:
        page = browser.get("/sessions/rows").text
        totals = browser.get("/sessions/totals").text
        while "yet to be counted" in totals:
            totals = browser.get("/sessions/totals").text
    places = [page.index(f'href="/s/{id}"') for id in (told.session, *reversed(ids))]
    assert places == sorted(places)
    assert "3 outputs" in page
    assert "1 output<" in page
    assert "success" in page
    assert "tokens kept out" in page
    assert "<dd>7</dd>" in totals  # 1 + 2 + 3, and the log of the investigation


async def test_tools_that_a_card_has_no_room_for_are_counted(home: Path) -> None:
    async with Holdall.open(home=str(home), session="many") as bag:
        for number in range(8):
            await bag.keep(f"{number}", tool=f"tool-{number}")
    with client(home) as browser:
        listed = browser.get("/sessions/rows").text
    assert listed.count('<span class="chip">') == 6
    assert "and 2 more tools</span>" in listed


async def test_a_sub_agents_session_stands_after_the_one_that_started_it(home: Path) -> None:
    told = await investigation(home, "parent")
    await _kept(home, "later")
    with client(home) as browser:
        page = browser.get("/").text
    assert page.index(">later<") < page.index(f"/s/{told.session}") < page.index("parent/helper-1")
    assert "sub-agent" in page


async def test_a_search_finds_names_whatever_their_case(home: Path) -> None:
    for name in ("Alpha one", "beta", "ALPHA two"):
        await _kept(home, name)
    with client(home) as browser:
        page = browser.get("/", params={"q": " alpha"}).text
        none = browser.get("/", params={"q": "<gamma>"}).text
    assert "Alpha one" in page
    assert "ALPHA two" in page
    assert "beta" not in page
    assert '<p class="muted">No session has <q>&lt;gamma&gt;</q> in its name.' in none
    assert 'class="empty"' not in none, "what is found elsewhere stands below it"


async def test_pages_hold_fifty_and_lead_to_each_other(home: Path) -> None:
    for number in range(52):
        async with Holdall.open(home=str(home), session=f"one-{number:02}"):
            pass
    with client(home) as browser:
        first, second = browser.get("/").text, browser.get("/?page=2").text
        beyond = browser.get("/?page=9").text
        wrong = [browser.get("/", params={"page": page}).status_code for page in ("0", "-1", "x", "9" * 50, "²", "")]
    assert first.count("card-link") == 50
    assert 'href="/?page=2"' in first
    assert second.count("card-link") == 2
    assert 'rel="prev" href="/?"' in second
    assert beyond.count("card-link") == 0
    assert 'There is no page 9: <a href="/?page=2">the last is page 2</a>.' in beyond
    assert "No session" not in beyond
    assert wrong == [400] * 6


async def test_a_page_shows_what_it_knows_and_fetches_the_rest(home: Path) -> None:
    await _kept(home, "one")
    overview = Overview(str(home))
    hurried = overview.page(seconds=-1.0)
    assert (hurried.total, hurried.unknown) == (1, 1)
    assert hurried.sessions[0].name == "one"
    whole = overview.page(seconds=9.0)
    assert (whole.unknown, whole.sessions[0].outputs) == (0, 1)
    overview.close()


async def test_a_summary_is_made_once_and_again_when_the_session_has_changed(home: Path) -> None:
    await _kept(home, "one")
    _aged(home)
    first = Overview(str(home))
    assert first.page(seconds=9.0).sessions[0].outputs == 1
    first.close()
    _without_records(home)
    _aged(home)
    second = Overview(str(home))
    assert second.page(seconds=9.0).sessions[0].outputs == 1, "by its stamp nothing has changed: no session was opened"
    await _kept(home, "one", 2)
    assert second.page(seconds=9.0).sessions[0].outputs == 2
    second.close()


@pytest.mark.parametrize("damage", [b"", b"no database at all", None])
async def test_a_cache_that_is_damaged_or_gone_is_made_again(home: Path, damage: bytes | None) -> None:
    await _kept(home, "one")
    _aged(home)
    first = Overview(str(home))
    first.page(seconds=9.0)
    first.close()
    assert (home / NAME).stat().st_mode & 0o777 == 0o600
    if damage is None:
        (home / NAME).unlink()
    else:
        (home / NAME).write_bytes(damage)
    second = Overview(str(home))
    assert second.page(seconds=9.0).sessions[0].outputs == 1
    second.close()


async def test_sessions_that_cannot_be_read_do_not_hide_the_others(home: Path) -> None:
    await _kept(home, "good")
    (home / "session-00000000-0000-4000-8000-000000000000").mkdir()
    (home / "session-not-a-uuid").mkdir()
    overview = Overview(str(home))
    assert [one.name for one in overview.page(seconds=9.0).sessions] == ["good"]
    assert overview.totals(seconds=9.0)[1] == 0
    overview.close()


async def test_a_session_that_is_removed_leaves_the_list(home: Path) -> None:
    import shutil

    id = await _kept(home, "goes")
    await _kept(home, "stays")
    overview = Overview(str(home))
    assert overview.page(seconds=9.0).total == 2
    shutil.rmtree(home / f"session-{id}")
    assert [one.name for one in overview.page(seconds=9.0).sessions] == ["stays"]
    overview.close()


async def test_what_runs_is_seen_to_run_and_to_end(home: Path) -> None:
    overview = Overview(str(home))
    async with Holdall.open(home=str(home), session="runs") as bag:
        writer = await bag.begin(tool="crawl")
        bag.journal.record("turn", number=1, final=False, tokens=10, why="")
        bag.journal.flush()
        with bag.lease("a test"):
            (one,) = overview.page(seconds=9.0).sessions
            assert (one.is_led, one.running, one.is_running) == (True, 1, True)
            assert overview.totals(seconds=9.0)[0].running == 1
        writer.finish()
        (one,) = overview.page(seconds=9.0).sessions
        assert not one.is_running
        assert one.is_open, "its agent was gone before it had reported"
    overview.close()


async def test_the_list_asks_for_what_is_new_and_gets_nothing_where_nothing_is(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("holdall.web.pages._AGAIN", 1e12)
    async with Holdall.open(home=str(home), session="runs") as bag:
        with client(home) as browser:
            asked = _asks_again(browser.get("/sessions/rows?q=run").text)
            assert browser.get(asked).status_code == 204, "nothing runs, and nothing has changed"
            with bag.lease("a test"):
                bag.journal.record("turn", number=1, final=False, tokens=10, why="")
                bag.journal.flush()
                asked = _asks_again(browser.get(asked).text)  # it was not known to run
                asked = _asks_again(browser.get(asked).text)
                assert browser.get(asked).status_code == 204, "nothing has changed"
                await bag.keep("x\n", tool="fetch")
                changed = browser.get(asked)
                assert ("1 output<" in changed.text, changed.headers["hx-trigger"]) == (True, "sessions")
                asked = _asks_again(changed.text)
                assert asked.startswith("/sessions/rows?q=run&v=")
            ended = browser.get(asked)
            assert (ended.status_code, "is-running" in ended.text) == (200, False)


async def test_a_list_on_which_nothing_runs_notices_what_an_old_session_begins(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A command in the background, an agent that is resumed, a call through a gateway."""
    monkeypatch.setattr("holdall.web.pages._AGAIN", 1e12)
    await _kept(home, "older")
    async with Holdall.open(home=str(home), session="idle") as bag:
        await bag.keep("x\n", tool="fetch")
        _aged(home)
        with client(home) as browser:
            asked = _asks_again(browser.get("/sessions/rows").text)
            writer = await bag.begin(tool="crawl")
            begun = browser.get(asked)
            assert (begun.text.count("is-running"), "2 outputs" in begun.text) == (1, True)
            writer.finish()
            _aged(home)
            bag.journal.record("turn", number=1, final=False, tokens=10, why="")
            bag.journal.flush()
            asked = _asks_again(browser.get(_asks_again(begun.text)).text)
            assert browser.get(asked).status_code == 204
            with bag.lease("a test"):
                resumed = browser.get(asked)
            assert "is-running" in resumed.text
            asked = _asks_again(browser.get(_asks_again(resumed.text)).text)
            assert browser.get(asked).status_code == 204
            bag.journal.record("inline", tool="lookup", chars=5)
            bag.journal.flush()
            assert browser.get(asked).status_code == 200


async def test_the_list_notices_what_expires(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    await _kept(home, "old")
    _aged(home)
    now = [time.time()]
    monkeypatch.setattr("holdall.bag.overview.open_store", partial(open_store, clock=lambda: now[0]))
    monkeypatch.setattr(time, "time", lambda: now[0])
    with client(home) as browser:
        asked = _asks_again(browser.get("/sessions/rows").text)
        assert browser.get(asked).status_code == 204
        now[0] += 40 * 86_400
        assert "1 output removed or expired" in browser.get(asked).text


def _asks_again(page: str) -> str:
    (address,) = re.findall(r'<section id="list"[^>]* hx-get="([^"]+)" hx-trigger="every 2s"', page)
    return unescape(address)


async def test_a_session_that_claims_to_be_its_own_ancestor_is_listed_all_the_same(home: Path) -> None:
    async with Holdall.open(home=str(home), session="a") as bag:
        id = bag.session.id
    path = home / f"session-{id}" / "session.json"
    path.write_text(path.read_text().replace('"parent": ""', f'"parent": "{id}"'))
    overview = Overview(str(home))
    assert [one.name for one in overview.page(seconds=9.0).sessions] == ["a"]
    overview.close()


# Looking leaves no trace


async def test_a_session_that_is_only_looked_at_keeps_its_outputs_and_its_log(home: Path) -> None:
    from holdall import Settings

    bag = Holdall.open(home=str(home), session="brief", settings=Settings(retention="session"))
    kept = await bag.keep(LOG, tool="fetch")
    folder = home / f"session-{bag.session.id}"
    before = {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}
    with client(home) as browser:
        assert browser.get("/").status_code == 200
        assert browser.get(f"/s/{bag.session.id}").status_code == 200
    looking = open_read_only(bag.session.id, home=str(home))
    assert (await looking.read(kept.handle)).text
    await looking.close()
    assert {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()} == before
    assert (await bag.show(kept.handle)).state == "ready"
    await bag.close()


async def test_what_would_change_a_session_is_refused_to_whoever_only_looks(home: Path) -> None:
    id = await _kept(home, "one")
    looking = open_read_only(id, home=str(home))
    try:
        with pytest.raises(UsageError):
            await looking.keep("more")
        with pytest.raises(UsageError):
            await looking.begin(tool="x")
        with pytest.raises(UsageError):
            looking.append_transcript(b"{}\n")
        with pytest.raises(UsageError):
            looking.save_tree()
        with pytest.raises(UsageError), looking.lease("me"):
            pass
    finally:
        await looking.close()
    with pytest.raises(NothingFound):
        open_read_only("00000000-0000-4000-8000-000000000000", home=str(home))
    assert len(await _sessions_in(home)) == 1, "no session is made by looking for one"


def test_many_sessions_are_visited_and_few_stay_open(home: Path) -> None:
    ids = [anyio.run(_kept, home, f"s{number}") for number in range(40)]
    with client(home) as browser:
        for id in ids:
            assert browser.get(f"/s/{id}").status_code == 200
        held = [os.readlink(f"/dev/fd/{one}") for one in os.listdir("/dev/fd") if os.path.exists(f"/dev/fd/{one}")]
    assert 1 <= len({one for one in held if one.startswith(f"{home}/session-")}) <= 24


@requirement("store:lines-proven", "store:removed")
def test_a_session_page_names_damaged_lines_and_removed_outputs(home: Path) -> None:
    id = anyio.run(_kept, home, "one")
    with blocking.Holdall.open(home=str(home), session="one") as bag:
        (facts,) = bag.outputs()
        bag.forget(facts.handle)
    log = home / f"session-{id}" / "events.ndjson"
    log.write_bytes(log.read_bytes().replace(b'"event":"removed"', b'"event":"REMOVED"', 1))
    with client(home) as browser:
        page = browser.get(f"/s/{id}").text
        output = browser.get(f"/s/{id}/o/{facts.handle}").text
    assert "line 1 of the events (at byte 0) is left out: it does not match its checksum." in page
    assert ">removed</span>" in page
    assert ">removed</span>" in output


async def test_outputs_that_are_gone_are_counted_beside_those_that_are_kept(home: Path) -> None:
    async with Holdall.open(home=str(home), session="cleared") as bag:
        for text in ("one\n", "two\n"):
            await bag.forget((await bag.keep(text, tool="t")).handle)
    with client(home) as browser:
        page = browser.get("/sessions/rows").text
        assert "holdall rm" not in browser.get(f"/s/{bag.session.id}").text, "nothing is left to remove"
    assert "<li>0 outputs</li>" in page
    assert "<li>2 outputs removed or expired</li>" in page


async def test_what_expires_is_no_longer_counted_though_no_file_changes(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    id = await _kept(home, "old")
    _aged(home)
    now = [time.time()]
    monkeypatch.setattr("holdall.bag.overview.open_store", partial(open_store, clock=lambda: now[0]))
    monkeypatch.setattr(time, "time", lambda: now[0])
    overview = Overview(str(home))
    before = overview.one(id)
    now[0] += 40 * 86_400
    after = overview.one(id)
    overview.close()
    assert before is not None
    assert after is not None
    assert [(one.outputs, one.bytes > 0, one.gone) for one in (before, after)] == [(1, True, 0), (0, False, 1)]
