"""The SQL that a question comes to, over a table's own columns or over the lines of any text, `t(line_no, text)`."""

import re

from bench.answers.outline import Outline
from bench.answers.question import Question, spelled, words_of

_LINE = 400  # characters of a line that are shown
_COLUMNS = 8  # that are shown where none is asked for


def best_lines(question: Question, *, most: int) -> str:
    """Lines with most of what the question names: all its terms count the same, the first lines win, or the last."""
    order = "line_no desc" if question.wish == "latest" else "line_no"
    if not question.keys:
        return f"select line_no, text[:{_LINE}] as text from t order by {_score(question)} desc, {order} limit {most}"
    keys = _literal(spelled(question.keys))
    each = f"partition by lower(regexp_extract(text, {keys}, 0, 'i')) " if question.enumerates else ""
    return (
        f"select line_no, text[:{_LINE}] as text from t where regexp_matches(text, {keys}, 'i') "
        f"qualify row_number() over ({each}order by {_score(question)} desc, {order}) <= {most}"
    )


def largest(question: Question) -> str:
    """The largest number before the unit, in the lines that have most of the question's words."""
    value = rf"try_cast(regexp_extract(text, '([0-9][0-9.]*) ?{question.unit}\b', 1) as double)"
    return f"select {value} as value, line_no from t order by {_score(question)} desc, value desc nulls last limit 1"


def frequent(column: str, *, most: int) -> str:
    return f"select {_name(column)}, count(*) as n from t group by 1 order by n desc limit {most}"


def rows(question: Question, outline: Outline) -> str:
    """Rows in which a column of text holds what the question names; of them the columns that it names."""
    named = (*question.quoted, *question.strong, *question.names)
    wanted = [term for term in named if _mask(term) in map(_mask, outline.columns)]
    keys = [term for term in named if term not in wanted]
    words = words_of(question.text) - {word for key in keys for word in words_of(key)}
    wanted += [name for name in outline.columns if words & words_of(name)]
    if re.search(r"\b(last|latest|final)\b[^?]*\b(column|date|day)", question.text.lower()):
        wanted.append(outline.columns[-1])
    shown = dict.fromkeys([*outline.texts, *(wanted or outline.columns[:_COLUMNS])])
    text = f"concat_ws(' ', {', '.join(map(_name, outline.texts))})"
    pattern = _literal(spelled(keys or question.keys))
    return (
        f"select {', '.join(map(_name, shown))} from t where regexp_matches({text}, {pattern}, 'i') "
        f"order by len(regexp_replace({text}, {pattern}, '', 'gi'))"  # what holds nothing else comes first
    )


def _score(question: Question) -> str:
    terms = question.others if len(question.keys) == 1 else (*question.keys, *question.others)
    patterns = [spelled([term]) for term in terms]
    if question.unit:
        patterns.append(rf"\d ?{question.unit}\b")
    return " + ".join(f"regexp_matches(text, {_literal(pattern)}, 'i')::int" for pattern in patterns) or "0"


def _mask(name: str) -> str:
    """Numbers in a row of columns differ, and nothing else does."""
    return re.sub(r"\d+", "0", name)


def _name(column: str) -> str:
    return '"' + column.replace('"', '""') + '"'


def _literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
