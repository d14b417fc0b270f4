"""What an agent's model reads besides its own prompt: the tools of the runtime, and what it is told when it errs."""

from collections.abc import Mapping, Sequence

from holdall.text.escape import foreign
from holdall.text.numbers import plural
from holdall.values.patterns import lazy_pattern
from holdall.wire.answers import fenced
from holdall.wire.findings import closing_tag, opening_tag
from holdall.wire.tool import ToolSpec

FINAL_REPORT = ToolSpec(
    name="final_report",
    description="End your task with this report. It is all that whoever asked will read.",
    schema={
        "type": "object",
        "additionalProperties": False,
        "required": ["report"],
        "properties": {
            "report": {"type": "string", "minLength": 1, "description": "The whole answer, ready to be read."},
            "status": {
                "type": "string",
                "enum": ["success", "failure", "partial"],
                "description": "Whether the task could be done (default success).",
            },
        },
    },
)

TASK_STATUS = ToolSpec(
    name="task_status",
    description="Tell where you stand, for whoever watches. It changes nothing; call it beside other tools.",
    schema={
        "type": "object",
        "additionalProperties": False,
        "required": ["status"],
        "properties": {
            "status": {"type": "string", "minLength": 1, "description": "One sentence."},
            "done": {"type": "integer", "minimum": 0, "maximum": 100, "description": "Percent."},
        },
    },
)

STATUS_NOTED = "Noted."
BATCH = "batch"

CALL_INTERRUPTED = (
    "The run was interrupted while this call was running. It was not repeated, and may have done its work, or a part "
    "of it: check before you call it again. If it left any output, that is listed among the kept outputs."
)


def batch_tool(tools: Sequence[ToolSpec]) -> ToolSpec:
    """Several calls as one; its schema names the tools that are listed now."""
    names = [tool.plain_name for tool in tools]
    return ToolSpec(
        name=BATCH,
        description="Call several tools at once. Each result is judged by itself: what is too large is kept, with a "
        "handle in its place.",
        schema={
            "type": "object",
            "additionalProperties": False,
            "required": ["calls"],
            "properties": {
                "calls": {
                    "type": "array",
                    "minItems": 1,
                    "items": {
                        "type": "object",
                        "additionalProperties": False,
                        "required": ["tool", "arguments"],
                        "properties": {
                            "tool": {"type": "string", "enum": names},
                            "arguments": {"type": "object", "description": "The arguments of that tool."},
                        },
                    },
                }
            },
        },
    )


def spawn_tool(agents: Mapping[str, str], *, background: bool = True) -> ToolSpec:
    """`agents` are their names and what each is for; `background`: whether a report can be fetched later."""
    later = {
        "async": {
            "type": "boolean",
            "description": "Go on at once, and fetch its report later under the handle that you get.",
        }
    }
    listed = "".join(f"\n- {name}: {about}" if about else f"\n- {name}" for name, about in agents.items())
    return ToolSpec(
        name="spawn_agent",
        description=f"Give a task to another agent, and get its report. Agents:{listed}",
        schema={
            "type": "object",
            "additionalProperties": False,
            "required": ["task", "agent"],
            "properties": {
                "task": {
                    "type": "string",
                    "minLength": 1,
                    "description": "Everything that the agent has to know: it sees nothing else.",
                },
                "agent": {"type": "string", "enum": list(agents)},
                **(later if background else {}),
            },
        },
    )


def report_form(nonce: str) -> str:
    """For the system prompt: both ways to end."""
    return (
        "When your task is done, call final_report with the whole answer. Where you cannot call it, write the answer "
        f"as text between {opening_tag(nonce)} and {closing_tag(nonce)}."
    )


def not_a_report(nonce: str) -> str:
    """To a model that answered without one."""
    return (
        "That was no tool call and no final report, so nobody has read it. Go on with your task, or end it: call "
        f"final_report, or write {opening_tag(nonce)} your answer {closing_tag(nonce)}."
    )


EMPTY_REPLY = "Your last message was empty. Call a tool, or call final_report."


def repeats_itself(times: int) -> str:
    return (
        f"You have made the same {plural(times, 'call')} in a row, with the same result. It will not change. Do "
        "something else, or call final_report with what you know."
    )


def final_turn(why: str) -> str:
    """The last words of the last request."""
    return f"This is your final turn: {why}. Only final_report can be called now. Report what you know, and what not."


def child_report(text: str, status: str) -> str:
    """The report of a sub-agent for the agent that started it: a failure must not pass for a success."""
    return text if status == "success" else f"{text}\n[the status of this report is {status}]"


def synthetic_report(why: str, last: str) -> str:
    """In place of a report that never came. It says that it is one."""
    told = f"[This report was not written by the model: {why}.]"
    return f"{told}\nIts last words were:\n{last}" if last else told


def too_many_agents(most: int) -> str:
    return f"No more agents: this run may start {most} in all. Do it yourself, or report what you have."


def too_deep(most: int) -> str:
    return f"No agent can be started from here: agents may start agents {plural(most, 'level')} deep. Do it yourself."


def nested_too_deep(most: int) -> str:
    return f"A batch may hold a batch {most} deep at most. Put the calls into one list."


def no_arguments_there(name: str) -> str:
    return f"Not called: a call of a batch has its arguments in 'arguments', not in {foreign(name, 60)!r}."


def not_saved(tool: str, chars: int) -> str:
    """What a saved conversation has in place of an output that must not be stored."""
    return (
        f"[{plural(chars, 'character')} of {foreign(tool)} were here. They were not saved, because outputs of this "
        "tool are not to be stored. Call it again if you need them.]"
    )


def compacted_in(text: str) -> int:
    """How many messages stood where `compacted` stands; 0 for any other text."""
    found = _COMPACTED.match(text)
    return int(found[1].replace(",", "")) if found else 0


_COMPACTED = lazy_pattern(r"\[([0-9,]{1,20}) earlier messages of this conversation are no longer shown: ")


def compacted(
    handle: str, messages: int, summary: str, go_on: str, tag: str, *, not_stored: int = 0, mark: str = "",
    again: bool = False,
) -> str:  # fmt: skip
    """In place of the older messages of a conversation that was too long for the model.

    A model wrote the summary, of messages with outputs in them: it is inside a fence, whose tag it does not hold.
    """
    but = f", but for {plural(not_stored, 'output')} that may not be stored" if not_stored else ""
    but += "; the oldest in the output that is named at its beginning" if again else ""
    told = (
        f"[{messages:,} earlier messages of this conversation are no longer shown: the model's window is full. All of "
        f"them are kept under the handle {handle}{but}.{f' {go_on}' if go_on else ''}]{f' {mark}' if mark else ''}"
    )
    return f"{told}\nWhat they were about:\n{fenced(summary, tag)}" if summary else told
