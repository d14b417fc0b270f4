"""The loop: ask the model, run its tools through the bag, repeat until it reports.

It knows no limits, formats or strategies. The session and the bag decide what a request holds, which tools there are
and what becomes of a result; the guard shortens conversations.
"""

from holdall.agent.agent_session import AgentSession
from holdall.agent.toolbox import Agent, AgentQuota, Report
from holdall.bag import Holdall
from holdall.guard.recovery import is_overflow
from holdall.llm.converse import Conversation, converse
from holdall.values.chat import User
from holdall.values.errors import ModelFault, TooLongForModel
from holdall.wire.agent_texts import EMPTY_REPLY, not_a_report

_MAX_NUDGES = 2  # replies in a row that neither call anything nor report


async def run_agent(
    agent: Agent, bag: Holdall, prompt: str, *, family: AgentQuota | None = None, resume: bool = False
) -> Report:
    """Run it in the session of `bag` until it reports. Raises ModelFault if its model cannot be asked, and UsageError
    where an agent has run in the session, unless with `resume`, which goes on."""
    return await run_session(AgentSession(agent, bag, drive=run_session, family=family), prompt, resume=resume)


async def run_session(session: AgentSession, prompt: str, *, resume: bool = False) -> Report:
    with session.bag.records.lease(session.holder):
        await session.begin(prompt, resume=resume)
        try:
            await _until_reported(session)
            await session.guard()
            return await session.finished()
        finally:
            session.transcript.save()
            session.save_tree()


async def _until_reported(session: AgentSession) -> None:
    nudges = 0
    while session.report is None:
        try:
            talk = await converse(
                session.model, session.transcript, build=session.request, run=session.run,
                max_turns=session.turns_left, calls_per_turn=session.agent.max_calls_per_turn, done=session.is_done,
            )  # fmt: skip
        except ModelFault as fault:
            said = is_overflow(fault)
            if said is None:
                raise
            if not await session.recover(said):
                raise TooLongForModel(session.rounds, str(fault)) from fault
            continue
        session.rounds = 0
        nudges = _judge(session, talk, nudges)


def _judge(session: AgentSession, talk: Conversation, nudges: int) -> int:
    """What the end of a conversation means, and how often in a row the model was asked to report."""
    text = talk.reply.text
    if session.report is not None or session.answered(text):
        return 0
    if session.final:
        session.give_up(f"{session.final}, and it did not report", text)
    elif talk.outcome == "answered" and nudges < _MAX_NUDGES:
        session.transcript.append(User(not_a_report(session.nonce) if text.strip() else EMPTY_REPLY))
        return nudges + 1
    elif talk.outcome == "answered":
        session.give_up(f"it answered {nudges + 1} times without a report", text)
    return 0
