"""A scripted searcher: how a model finds its way with our tools, as a procedure that knows no task.

It is given a question and a notice, and may call three times; of an answer it sees the text. It makes the narrowest
call that the question's own words allow, widens it where nothing was found, and reads on where the answer is cut.
It never sees the output itself, nor anything of the right answer.
"""

import re
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress

from bench.answers import outline as outlines
from bench.answers import paths, sql
from bench.answers import question as questions
from bench.answers.question import KINDS, singular, spelled, words_of
from bench.answers.reading import Reply

Ask = Callable[[str, dict[str, object]], Awaitable[Reply]]
Move = Callable[[], Awaitable[bool]]

MAX_CALLS = 3
_FEW, _SOME, _ALL = 5, 10, 40  # matches that are worth showing, by what is asked for
_AROUND = 500  # bytes on either side of a match in a very long line
_NEAR = 300  # characters that may be between a phrase and a value that belongs to it
_MAX_PHRASES = 24


class _Spent(Exception):
    """Three calls were made."""


async def search(question: str, notice: str, ask: Ask) -> list[Reply]:
    """The calls that were made, with their answers."""
    searcher = _Searcher(questions.read(question), outlines.read(notice), ask)
    with suppress(_Spent):
        await searcher.run()
    return searcher.replies


class _Searcher:
    def __init__(self, question: questions.Question, outline: outlines.Outline, ask: Ask) -> None:
        self.question, self.outline = question, outline
        self.replies: list[Reply] = []
        self._ask = ask

    async def run(self) -> None:
        """One move after the other, until one has found something."""
        for move in self._moves():
            if await move():
                return

    def _moves(self) -> Sequence[Move]:
        asked, outline = self.question, self.outline
        match asked.wish:
            case "count" if asked.strong:  # a figure that stands beside what is named
                return [self._phrases_counted, self._rows_counted, self._best_lines]
            case "count":
                return [self._phrases_counted, self._rows_counted]
            case "frequent":
                return [self._values_counted, self._best_lines]
            case "largest" if asked.unit:
                return [self._largest]
            case "final" if not asked.quoted and not asked.strong:
                return [self._end]
            case _ if outline.texts and asked.keys:
                return [self._rows, self._keys, self._best_lines]
            case _ if outline.paths and (asked.keys or asked.index is not None):
                return [self._member, self._keys, self._best_lines]
            case _ if asked.lists and not asked.keys:
                return [self._phrase, self._best_lines]
            case "latest" | "earliest":
                return [self._best_lines]
            case _ if asked.quoted or asked.strong or asked.letters:
                return [self._keys, self._best_lines]
            case _:
                return [self._best_lines]

    # Text

    async def _keys(self) -> bool:
        """Where the most specific of what the question names stands. Too many places are as good as none."""
        asked = self.question
        if asked.keys == asked.letters:  # too short for anything but a field of its own, in its own case
            found = await self._grep(rf"(?:^|\s){spelled(asked.letters)}(?:\s|$)", limit=_ALL)
            return bool(found.hits)
        found = await self._grep(spelled(asked.keys), ignore_case=True, limit=_ALL if asked.lists else _FEW)
        if not found.hits or (found.total > len(found.hits) and not asked.quoted):
            return False
        first = found.hits[0]
        if asked.wish == "around":
            await self._call("context_read", lines=f"{max(1, first.line - 1)}:{first.line + 2}")
        elif first.is_cut and not {singular(term) for term in asked.others} & words_of(first.text):
            # Only a window was shown of a long line, and nothing else that the question names is in it.
            around = f"{max(0, first.byte - _AROUND)}:{first.byte + _AROUND}"
            where = {"bytes": around} if self.outline.is_one_line else {"lines": f"{first.line}:{first.line}"}
            await self._call("context_read", **where)
        return True

    async def _best_lines(self) -> bool:
        """The lines that hold most of what the question names: for each key, and the last ones where that is asked."""
        found = await self._query(sql.best_lines(self.question, most=_FEW))
        return bool(found.rows)

    async def _phrase(self) -> bool:
        """Which of the question's words stand side by side, and how often; then the longest of these phrases."""
        counted = await self._grep(spelled(self._phrases()), group=True, ignore_case=True, limit=_SOME)
        if not counted.groups:
            return False
        phrase = max(counted.groups, key=lambda group: (len(group[1].split()), -group[0]))[1]
        pattern, kind = spelled([phrase]), KINDS.get(self.question.kind)
        if kind:  # counting the different values of that kind shows each of them once
            found = await self._grep(rf"{pattern}.{{0,{_NEAR}}}?({kind})", group=True, ignore_case=True, limit=_ALL)
        else:
            found = await self._grep(pattern, ignore_case=True, limit=_ALL)
        return bool(found.total)

    async def _end(self) -> bool:
        return bool((await self._call("context_tail", lines=_SOME)).body)

    def _phrases(self) -> list[str]:
        """Every run of words in the question, the longest first, down to the words by themselves."""
        runs = [run[start:end] for run in self.question.runs for start in range(len(run))
                for end in range(start + 1, len(run) + 1)]  # fmt: skip
        phrases = dict.fromkeys(" ".join(run) for run in sorted(runs, key=lambda run: -len(run)))
        return [phrase for phrase in phrases if len(phrase) > 1][:_MAX_PHRASES]

    # Figures over everything

    async def _phrases_counted(self) -> bool:
        asked = self.question
        if asked.quoted:
            start = "^" if re.search(r"\b(start|begin)", asked.text) else ""
            counted = await self._grep(start + spelled(asked.quoted, whole=False), count=True)
        else:
            counted = await self._grep(spelled(self._phrases()), group=True, ignore_case=True, limit=_SOME)
        return bool(counted.total) and not self.outline.is_table and not asked.strong

    async def _rows_counted(self) -> bool:
        """Of the table, or of the array or object that the question names."""
        if not self.outline.is_table:
            return False
        at = paths.container(self.question, self.outline)
        return bool((await self._query("select count(*) from t", **({"at": at} if at else {}))).rows)

    async def _values_counted(self) -> bool:
        """How often each value of the field occurs that the question names: a column, a JSON member, an attribute."""
        words = words_of(self.question.text)
        column = next((name for name in self.outline.columns if words & words_of(name)), "")
        if column:
            return bool((await self._query(sql.frequent(column, most=_FEW))).rows)
        member = next((path[-1] for path in self.outline.paths if words & words_of(path[-1])), "")
        pattern = rf'"{member}"\s*:\s*("[^"]*"|[^\s,}}\]]+)' if member else self._attribute(words)
        return bool(pattern and (await self._grep(pattern, group=True, limit=_FEW)).total)

    def _attribute(self, words: set[str]) -> str:
        """In an outline of elements, the attribute of that name in the line that has most of the question's words."""
        for line in sorted(self.outline.lines, key=lambda line: -len(words & words_of(line))):
            element = re.search(r"([\w:-]+) [\w:-]+=\"", line)
            names = [name for name in re.findall(r'([\w:-]+)="', line) if words & words_of(name)]
            if element and names:
                return rf'<{element[1]}\b[^>]*\s{names[0]}="([^"]*)"'
        return ""

    async def _largest(self) -> bool:
        return bool((await self._query(sql.largest(self.question))).rows)

    # Tables and JSON

    async def _rows(self) -> bool:
        return bool((await self._query(sql.rows(self.question, self.outline), limit=_SOME)).rows)

    async def _member(self) -> bool:
        """A value by its path, where the shape shows how to get there."""
        path = paths.to_value(self.question, self.outline)
        return bool(path and (await self._call("context_query", path=path, limit=_FEW)).total)

    # The tools

    async def _grep(self, pattern: str, **options: object) -> Reply:
        return await self._call("context_grep", pattern=pattern, **options)

    async def _query(self, sql: str, **options: object) -> Reply:
        return await self._call("context_query", sql=sql, **options)

    async def _call(self, tool: str, **arguments: object) -> Reply:
        if len(self.replies) == MAX_CALLS:
            raise _Spent
        reply = await self._ask(tool, {"handle": self.outline.handle, **arguments})
        self.replies.append(reply)
        return reply
