"""A block that is damaged takes no sound byte with it, and all places of the damage are told."""

from contextlib import closing
from pathlib import Path

import pytest

from holdall.store.directory.store import DirectoryStore
from holdall.store.reader import byte_of_char, char_of_byte, line_of_byte
from holdall.values.errors import OutputDamaged
from holdall.values.outputs import Facts
from holdall.values.spans import BLOCK
from holdall.verbs.read import read
from tests.requirements import requirement
from tests.store.support import keep

SIGNS = ("a", "é", "€", "𝄞")  # of one to four bytes: each begins or ends a block somewhere in between


def damaged(home: Path, text: str, *blocks: int) -> tuple[DirectoryStore, Facts]:
    store = DirectoryStore(str(home))
    session = store.open_session("s1")
    facts = keep(store, session, text)
    with (home / f"session-{session.id}" / facts.file).open("r+b") as file:
        for block in blocks:
            file.seek(block * BLOCK + 100)
            file.write(b"\x00")
    return store, facts


@requirement("store:blocks-checked")
@pytest.mark.parametrize("shift", range(8))
def test_bytes_beside_a_damaged_block_are_read_with_their_places(tmp_path: Path, shift: int) -> None:
    text = "x" * shift + "".join(f"{sign}{number}\n" for number in range(20_000) for sign in SIGNS)
    whole = text.encode()
    store, facts = damaged(tmp_path, text, 0, 2)
    with closing(store), closing(store.open(facts)) as reader:
        for near in (BLOCK + 10, 2 * BLOCK - 10, 3 * BLOCK + 1, 3 * BLOCK + 50, len(whole) - 20):
            at = near
            while whole[at] & 0xC0 == 0x80:
                at += 1
            assert reader.read(at, at + 5) == whole[at : at + 5]
            assert char_of_byte(reader, at) == len(whole[:at].decode())
            assert line_of_byte(reader, at) == whole[:at].count(b"\n") + 1
            assert byte_of_char(reader, char_of_byte(reader, at)) == at
        with pytest.raises(OutputDamaged, match=r"checksum mismatch in bytes 131,072 to 196,608\."):
            reader.read(2 * BLOCK, 2 * BLOCK + 1)


@requirement("store:blocks-checked")
@pytest.mark.parametrize("shift", range(4))
def test_a_character_that_begins_in_a_damaged_block_is_told_from_those_that_are_whole(
    tmp_path: Path, shift: int
) -> None:
    text = "x" * shift + "𝄞" * 50_000
    whole = text.encode()
    store, facts = damaged(tmp_path, text, 0, 2)
    with closing(store), closing(store.open(facts)) as reader:
        assert read(reader, bytes=(BLOCK, BLOCK + 10)).split == (shift, (10 - shift) % 4)
        assert read(reader, bytes=(BLOCK, BLOCK + 2)).split == (min(shift, 2), 0), "what is before is not known"
        last = read(reader, bytes=(2 * BLOCK - 10, 2 * BLOCK))
        assert last.data == whole[2 * BLOCK - 10 : 2 * BLOCK]
        assert (last.chars.end, last.split[1]) == (shift + (2 * BLOCK - shift) // 4, 0), "nor is what is behind"


@requirement("store:verify-all")
def test_verify_tells_all_places(tmp_path: Path) -> None:
    store, _ = damaged(tmp_path, "a line of text\n" * 40_000, 0, 2, 3, 5)
    with closing(store):
        (verdict,) = store.verify()
    assert "checksum mismatch in bytes 0 to 65,536, 131,072 to 262,144, 327,680 to 393,216." in verdict.problem
