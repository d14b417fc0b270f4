"""One query against one output, inside the process that runs SQL: check it, make `t`, fetch its first rows, count.

Ways to read the output are tried in order; which one it was is told in the notes. Every fault of DuckDB leaves as
Refused, told for the one who wrote the SQL.
"""

import os
import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from holdall.verbs.sql_check import NotOneSelect, one_select
from holdall.verbs.sql_faults import Blame, blame, in_few_words, is_hopeless, is_too_small, missing_name
from holdall.verbs.sql_rows import Rows, count_rows, first_rows
from holdall.verbs.sql_tables import SAMPLE, VALUE, Known, Shape, Way, columns_of, ways

_STAR = re.compile(r"(?<!\()\*")  # of a select, not of a count
_COLUMNS_TOLD = 40
_TYPE_TOLD = 60  # characters
_SEARCHED_AT_ONCE = 4 * 1024 * 1024


class Refused(Exception):
    """`blamed` tells whose fault it is; `columns` those of t, where knowing them may help; `missing` one it lacks."""

    def __init__(self, blamed: Blame, message: str, columns: str = "", missing: str = "") -> None:
        self.blamed: Blame = blamed
        self.columns = columns
        self.missing = missing
        super().__init__(message)


class Query:
    def __init__(self, engine: Any, duck: Any, request: dict[str, Any], descriptor: int, known: Known) -> None:
        self.notes: list[str] = []
        self._fault: type[Exception] = engine.Error
        self._duck = duck
        self._descriptor = descriptor
        self._max_rows: int = request["max_rows"]
        self._max_bytes: int | None = request["max_bytes"]
        self._known = known
        self._shape = Shape(path=f"/dev/fd/{descriptor}", identity=_identity(descriptor), **request["shape"])
        self._reason = ""  # why the output could not be read as it was first taken for
        self._too_small = False  # the limit for one JSON value has been met
        self._needs_whole_values = False  # the SQL names the column that only the last way has
        self._needs_all_columns = False  # the SQL names a member that the sample does not have
        self._needs_members = False  # the SQL names members, and t has only whole values or lines
        self._statement = self._checked(request["sql"])

    def first_rows(self) -> Rows:
        for way in self._ways():
            if not self._is_called_for(way):
                continue
            self.notes.clear()
            try:
                self._duck.execute(f"create or replace view t as {way.select()}")
                found = first_rows(self._duck, self._statement, max_rows=self._max_rows, max_bytes=self._max_bytes)
            except self._fault as fault:
                if not self._is_worth_another_way(way, fault):
                    raise self._refused(fault) from None
            else:
                self._tell_how(way)
                return found
        raise Refused("source", self._reason)

    def _is_called_for(self, way: Way) -> bool:
        if way.members or self._needs_members:
            return way.members and self._needs_members
        return not (self._needs_all_columns and way.sampled) and (way.whole_values or not self._needs_whole_values)

    def count(self) -> int | None:
        """All rows; None where counting them fails."""
        try:
            return count_rows(self._duck, self._statement)
        except self._fault:
            return None

    def _checked(self, sql: str) -> str:
        try:
            return one_select(self._duck, sql)
        except NotOneSelect as refused:
            raise Refused("query", str(refused)) from None
        except self._fault as fault:
            raise self._refused(fault) from None

    def _ways(self) -> Iterator[Way]:
        for way in ways(self._duck, self._shape, self._known, self.notes):
            if self._too_small:
                break
            yield way
        if self._too_small:
            self._shape = replace(self._shape, object_size=self._shape.size + 1024)
            yield from ways(self._duck, self._shape, self._known, self.notes)

    def _is_worth_another_way(self, way: Way, fault: Exception) -> bool:
        name, message = type(fault).__name__, str(fault)
        if blame(name, message, self._shape.path) == "source":
            self._reason = in_few_words(name, message, self._shape.path)
            self._too_small = is_too_small(message) and not self._too_small
            return not is_hopeless(message)
        missing = missing_name(name, message)
        if missing == VALUE and not way.whole_values and self._shape.form in ("ndjson", "array", "object"):
            self._needs_whole_values = True
            return True
        if not missing or way.members or not self._occurs(missing):
            return False
        self._needs_members = self._has_no_members()
        self._needs_all_columns = way.sampled
        return self._needs_members or self._needs_all_columns

    def _has_no_members(self) -> bool:
        """Whether t has whole values or lines instead of the members that objects in it may have."""
        try:
            names = [name for name, _ in columns_of(self._duck, "t")]
        except self._fault:
            return False
        return names == [VALUE] or (names == ["line_no", "text"] and self._shape.records)

    def _occurs(self, name: str) -> bool:
        """Whether the output has that name somewhere, in quotes: to look at every record for it takes far longer."""
        if not name:
            return False
        wanted = f'"{name}"'.encode()
        at, kept = 0, b""
        while piece := os.pread(self._descriptor, _SEARCHED_AT_ONCE, at):
            if wanted in kept + piece:
                return True
            at += len(piece)
            kept = piece[-len(wanted) :]
        return False

    def _refused(self, fault: Exception) -> Refused:
        name, message = type(fault).__name__, str(fault)
        told = in_few_words(name, message, self._shape.path)
        blamed = blame(name, message, self._shape.path)
        if self._reason and blamed == "query":
            told += f". (t is not what the data look like, because: {self._reason})"
        columns = self._columns() if name in ("BinderException", "CatalogException") else ""
        return Refused(blamed, told, columns, missing_name(name, message))

    def _columns(self) -> str:
        try:
            columns = columns_of(self._duck, "t")
        except self._fault:
            return ""
        told = ", ".join(
            f"{name} {kind[:_TYPE_TOLD]}{'…' * (len(kind) > _TYPE_TOLD)}" for name, kind in columns[:_COLUMNS_TOLD]
        )
        return told + (f", … ({len(columns) - _COLUMNS_TOLD} more)" if len(columns) > _COLUMNS_TOLD else "")

    def _tell_how(self, way: Way) -> None:
        if way.note:
            self.notes.append(f"{way.note} ({self._reason})" if self._reason else way.note)
        if way.sampled and _STAR.search(self._statement):
            self.notes.append(
                f"The columns come from the first {SAMPLE:,} records; a member that only later ones have is found "
                "once the SQL names it."
            )


def _identity(descriptor: int) -> tuple[int, ...]:
    status = os.fstat(descriptor)
    return (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns)
