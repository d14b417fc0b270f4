"""Read and Grep over one output, for a model that searches it: answers as ever, with what that model has seen so far.

What it is shown is not shown to the model that asked the question: the ledger counts it as searched.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, cast

from holdall.bag.fetching import Fetching
from holdall.extract.asking import Looked
from holdall.policy.folds import Coverage
from holdall.store.ids import new_tag
from holdall.values.answers import Found, Passage, shown_by
from holdall.values.chat import ToolCall
from holdall.values.errors import HoldallError
from holdall.values.outputs import Facts
from holdall.verbs.read import Bounds
from holdall.wire.answers import NOT_AN_OBJECT, Frame, Seen, found_answer, passage_answer, tag_for
from holdall.wire.arguments import coerced, schema_problem
from holdall.wire.prompts import GREP, READ, go_on, no_such_file
from holdall.wire.tool import Ask, Verb

_FRAME_BYTES, _FRAME_TOKENS = 700, 220  # what stands around the data


@dataclass(slots=True)
class Looking:
    """The tools over one output, as they are called."""

    bag: Fetching
    facts: Facts
    handle: str  # as the dialect writes it
    most_tokens: int
    seen: Coverage = field(default_factory=Coverage)

    async def look(self, call: ToolCall) -> Looked:
        """Whatever is wrong with a call is an answer that says so."""
        tool = READ if call.name == READ.name else GREP
        arguments: object = call.arguments
        if not isinstance(arguments, Mapping):
            return Looked(NOT_AN_OBJECT, is_error=True)
        given = coerced(tool.schema, cast("Mapping[str, Any]", arguments))
        if problem := schema_problem(tool.schema, given):
            return Looked(problem, is_error=True)
        asked = {name: value for name, value in given.items() if name != "filename" and value is not None}
        if given["filename"] not in (self.handle, self.facts.handle):
            return Looked(no_such_file(str(given["filename"]), self.handle), is_error=True)
        verb: Verb = "read" if tool is READ else "grep"
        bounds = Bounds(
            max(256, self.bag.settings.answer_max_bytes - _FRAME_BYTES),
            max(64, min(self.bag.settings.answer_max_tokens, self.most_tokens) - _FRAME_TOKENS),
            self.bag.tokenizer,
        )
        try:
            found = await self.bag.fetch(Ask(verb, self.facts.handle, asked), bounds)
        except HoldallError as error:
            return Looked(str(error), is_error=True)
        return self._worded(found, asked) if isinstance(found, Passage | Found) else Looked("", is_error=True)

    def _worded(self, found: Passage | Found, asked: dict[str, Any]) -> Looked:
        spans = shown_by(found)
        for span in spans:
            self.seen.shown.add(span)
        frame = Frame(self.handle, tag_for(repr(found), new_tag), go_on)
        seen = Seen(self.seen.share(self.facts.measure.bytes))
        if isinstance(found, Passage):
            return Looked(passage_answer(found, frame, seen), spans)
        asked.pop("start", None)
        return Looked(found_answer(found, frame, seen, asked=asked), spans)
