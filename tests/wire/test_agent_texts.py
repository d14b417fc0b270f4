"""What an agent's model reads of the runtime, to the letter."""

from inline_snapshot import snapshot

from holdall.wire.agent_texts import (
    EMPTY_REPLY,
    FINAL_REPORT,
    TASK_STATUS,
    batch_tool,
    compacted,
    final_turn,
    nested_too_deep,
    not_a_report,
    not_saved,
    repeats_itself,
    report_form,
    spawn_tool,
    synthetic_report,
    too_deep,
    too_many_agents,
)


def test_the_tools_of_the_runtime() -> None:
    tools = [
        FINAL_REPORT,
        TASK_STATUS,
        batch_tool([FINAL_REPORT, TASK_STATUS]),
        spawn_tool({"reader": "reads", "b": ""}),
    ]
    assert {tool.name: (tool.description, tool.schema) for tool in tools} == snapshot(
        {
            "final_report": (
                "End your task with this report. It is all that whoever asked will read.",
                {
                    "type": "object",
                    "additionalProperties": False,
                    "required": ["report"],
                    "properties": {
                        "report": {
                            "type": "string",
                            "minLength": 1,
                            "description": "The whole answer, ready to be read.",
                        },
                        "status": {
                            "type": "string",
                            "enum": ["success", "failure", "partial"],
                            "description": "Whether the task could be done (default success).",
                        },
                    },
                },
            ),
            "task_status": (
                "Tell where you stand, for whoever watches. It changes nothing; call it beside other tools.",
                {
                    "type": "object",
                    "additionalProperties": False,
                    "required": ["status"],
                    "properties": {
                        "status": {"type": "string", "minLength": 1, "description": "One sentence."},
                        "done": {"type": "integer", "minimum": 0, "maximum": 100, "description": "Percent."},
                    },
                },
            ),
            "batch": (
                "Call several tools at once. Each result is judged by itself: what is too large is kept, with a handle in its place.",
                {
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
                                    "tool": {"type": "string", "enum": ["final_report", "task_status"]},
                                    "arguments": {"type": "object", "description": "The arguments of that tool."},
                                },
                            },
                        }
                    },
                },
            ),
            "spawn_agent": (
                """\
Give a task to another agent, and get its report. Agents:
- reader: reads
- b\
""",
                {
                    "type": "object",
                    "additionalProperties": False,
                    "required": ["task", "agent"],
                    "properties": {
                        "task": {
                            "type": "string",
                            "minLength": 1,
                            "description": "Everything that the agent has to know: it sees nothing else.",
                        },
                        "agent": {"type": "string", "enum": ["reader", "b"]},
                        "async": {
                            "type": "boolean",
                            "description": "Go on at once, and fetch its report later under the handle that you get.",
                        },
                    },
                },
            ),
        }
    )


def test_what_it_is_told() -> None:
    nonce = "5f0e2d4c"
    assert report_form(nonce) == snapshot(
        'When your task is done, call final_report with the whole answer. Where you cannot call it, write the answer as text between <ai-agent-5f0e2d4c-FINAL format="text"> and </ai-agent-5f0e2d4c-FINAL>.'
    )
    assert not_a_report(nonce) == snapshot(
        'That was no tool call and no final report, so nobody has read it. Go on with your task, or end it: call final_report, or write <ai-agent-5f0e2d4c-FINAL format="text"> your answer </ai-agent-5f0e2d4c-FINAL>.'
    )
    assert snapshot("Your last message was empty. Call a tool, or call final_report.") == EMPTY_REPLY
    assert repeats_itself(3) == snapshot(
        "You have made the same 3 calls in a row, with the same result. It will not change. Do something else, or call final_report with what you know."
    )
    assert final_turn("30 turns are over") == snapshot(
        "This is your final turn: 30 turns are over. Only final_report can be called now. Report what you know, and what not."
    )
    assert synthetic_report("it repeats itself", "Hm.") == snapshot("""\
[This report was not written by the model: it repeats itself.]
Its last words were:
Hm.\
""")
    assert synthetic_report("it repeats itself", "") == snapshot(
        "[This report was not written by the model: it repeats itself.]"
    )
    assert too_many_agents(16) == snapshot(
        "No more agents: this run may start 16 in all. Do it yourself, or report what you have."
    )
    assert too_deep(3) == snapshot(
        "No agent can be started from here: agents may start agents 3 levels deep. Do it yourself."
    )
    assert nested_too_deep(3) == snapshot("A batch may hold a batch 3 deep at most. Put the calls into one list.")
    assert compacted("k3f9", 12, "They fetched.", 'Next: context_read(handle="k3f9")', "7d1a") == snapshot("""\
[12 earlier messages of this conversation are no longer shown: the model's window is full. All of them are kept under the handle k3f9. Next: context_read(handle="k3f9")]
What they were about:
<7d1a>
They fetched.
</7d1a>\
""")
    assert compacted("k3f9", 12, "", "", "7d1a", not_stored=2) == snapshot(
        "[12 earlier messages of this conversation are no longer shown: the model's window is full. All of them are kept under the handle k3f9, but for 2 outputs that may not be stored.]"
    )
    assert not_saved("vault", 1234) == snapshot(
        "[1,234 characters of vault were here. They were not saved, because outputs of this tool are not to be stored. Call it again if you need them.]"
    )
    assert compacted("k3f9", 12, "", "", "7d1a") == snapshot(
        "[12 earlier messages of this conversation are no longer shown: the model's window is full. All of them are kept under the handle k3f9.]"
    )
    assert compacted("k3f9", 12, "", "", "7d1a", again=True) == snapshot(
        "[12 earlier messages of this conversation are no longer shown: the model's window is full. All of them are kept under the handle k3f9; the oldest in the output that is named at its beginning.]"
    )


def test_what_a_person_does_not_see_in_a_summary_is_told() -> None:
    told = compacted("k3f9", 5, "all\u200b is \u202ewell", "", "402913")
    assert told.endswith(
        "\n<402913>\nall\u200b is \u202ewell\n</402913>\n[2 hidden characters between these tags: people do not see them]"
    )
