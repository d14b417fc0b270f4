"""One request for SQL on its way: which source it reads, and what it reads instead where that cannot be read."""

import time
from typing import Any

from holdall.formats.kinds import begins_json
from holdall.store.protocol import OutputReader
from holdall.verbs.sql_faults import is_mendable
from holdall.verbs.sql_source import kind_so_far, lines_of, source_of
from holdall.verbs.sql_worker import Answer, OutOfTime, SqlWorker

_MENDED = (
    "In t halves of surrogate pairs (\\ud83d alone) stand as U+FFFD and raw control characters as spaces: the JSON has "
    "such, and strict readers refuse them. A path gives texts as they are."
)

_NOT_WHOLE = (
    "It begins like JSON and is not JSON to its end, so t has its lines, as line_no, text. A path, such as $[*], reads "
    "the values that are there."
)
_BEGINNING = 64 * 1024


class Asked:
    """`answer` gives what the process says, and the notes on how the output was read."""

    def __init__(self, reader: OutputReader, request: dict[str, Any], worker: SqlWorker, deadline: float) -> None:
        self.worker = worker
        self._reader = reader
        self._request = request
        self._deadline = deadline

    def answer(self, at: str | None) -> tuple[Answer, list[str]]:
        answer, notes = self._from(at)
        if answer.get("error") == "source" and is_mendable(answer["message"]):
            mended, found = self._from(at, mend=True)
            if mended.get("error") != "source":
                answer, notes = mended, [*found, _MENDED]
        if at is not None:
            return answer, notes
        kind = kind_so_far(self._reader)
        if kind == "text" and self._begins_as_json():
            answer["message"] = f"{answer.get('message', '').rstrip('.')}. {_NOT_WHOLE}"
            return answer, [*notes, _NOT_WHOLE]
        if kind not in ("ndjson", "csv", "json"):
            return answer, notes
        if answer.get("missing") in ("line_no", "text"):
            why = "The SQL names the lines of the output, so t has those, as line_no, text."
        elif answer.get("error") == "source" and kind != "json":
            # Some line is not like the others. Lines can always be read, and nothing of them is left out.
            hint = " json_valid(text) tells the lines that are JSON, text->>'$.name' reads them." * (kind == "ndjson")
            why = f"Not all of it is {kind}, so t has its lines, as line_no, text.{hint} ({answer['message']})"
        else:
            return answer, notes
        answer, notes = self._from(at, lines=True)
        answer["message"] = f"{answer.get('message', '').rstrip('.')}. {why}"
        return answer, [*notes, why]

    def _from(self, at: str | None, *, lines: bool = False, mend: bool = False) -> tuple[Answer, list[str]]:
        facts = self._reader.facts
        key = (facts.id, facts.measure.sha256, facts.state, self._reader.totals, at, lines, mend)
        source = self.worker.last_source.take(key, self._reader)
        if source is None:
            source = (
                lines_of(self._reader, self._check) if lines else source_of(self._reader, at, self._check, mend=mend)
            )
        try:
            request = {**self._request, "shape": source.shape}
            return self.worker.ask(request, source.descriptor, deadline=self._deadline), source.notes
        finally:
            self.worker.last_source.keep(key, source)

    def _begins_as_json(self) -> bool:
        start = self._reader.read(0, _BEGINNING).decode("utf-8", "replace").removeprefix("\ufeff").lstrip()
        return start[:1] in ("{", "[") and begins_json(start)

    def _check(self) -> None:
        if time.monotonic() > self._deadline:
            raise OutOfTime
