"""A kind of output is declared in one place: a toy kind is recognised, outlined, read as a table and named."""

import pytest

from holdall import Holdall, MemoryStore, Table
from holdall.formats import kinds, registry
from holdall.formats.registry import Format, format_of
from holdall.wire.notes import media_type_of
from tests.requirements import requirement


def _is_beats(ends: kinds.Ends) -> bool:
    return ends.text.startswith("beat,")


@pytest.mark.anyio
@requirement("measure:kind-text")
async def test_a_kind_that_is_added_to_the_registry_is_known_everywhere(monkeypatch: pytest.MonkeyPatch) -> None:
    beats = Format("beats", _is_beats, format_of("csv").outlines, "text/x-beats", "beats", "csv")
    monkeypatch.setattr(registry, "FORMATS", (beats, *registry.FORMATS))
    monkeypatch.setitem(registry._BY_KIND, "beats", beats)  # pyright: ignore[reportPrivateUsage]
    text = "beat,pulse\n" + "".join(f"{number},{number % 7 + 60}\n" for number in range(20_000))
    async with Holdall.open(store=MemoryStore()) as bag:
        facts = await bag.keep(text, tool="monitor")
        assert facts.measure.kind == "beats"
        assert media_type_of(facts) == "text/x-beats"
        assert "pulse" in await bag.notice(facts.handle)
        table = await bag.query(facts.handle, "select max(pulse) from t")
        assert isinstance(table, Table)
        assert table.rows == ((66,),)


def test_a_kind_that_only_a_later_version_knows_is_read_as_text() -> None:
    assert format_of("holograms") is format_of("text")
