"""The one error in which a request ends that was not answered with a result, in words that name the way out."""

import asyncio
from typing import Protocol, cast

from holdall.text.escape import one_line
from holdall.upstream import codec
from holdall.upstream.routes import Call, Trouble
from holdall.upstream.sdk import MCPError, types
from holdall.upstream.spec import HttpServer, ServerSpec, StdioServer, without_secrets
from holdall.values.errors import UpstreamFault, UpstreamOverdue, UpstreamRefused

_CLOSED = "Connection closed"  # what the SDK says to requests that are under way when the stream ends
_CUT = "SSE stream "  # how its words begin for an answer that ended too early
_MADE_BY_HTTP = frozenset({"Server returned an error response", "Not Found", "Session terminated"})
_SOON = 1.0
_UNKNOWN = "What this call has done is not known."
_AGAIN = " The next one starts it again."


class Broken(Protocol):
    """A session that may be over."""

    spec: ServerSpec
    over: asyncio.Event
    again: bool

    async def why(self) -> tuple[str, str]:
        """How it ended, in words that follow the server's name, and the end of its standard error."""
        ...

    def said(self) -> str:
        """The end of its standard error so far."""
        ...


async def fault_of(session: Broken, call: Call, refusal: MCPError) -> UpstreamFault:
    name, shown = session.spec.name, one_line(call.name, 60)
    is_http = isinstance(session.spec, HttpServer)
    if refusal.data is codec.GARBLED:
        return UpstreamFault(name, f'answered "{shown}" with {refusal.message}', said=session.said())
    if (trouble := call.trouble) is not None and refusal.message in _MADE_BY_HTTP:
        return UpstreamFault(name, trouble.what, way_out=_http_way_out(trouble, session.spec))
    if refusal.code == types.CONNECTION_CLOSED and refusal.message == _CLOSED and await _is_over(session):
        what, said = await session.why()
        way_out = _UNKNOWN + (_AGAIN if session.again else "")
        return UpstreamFault(name, f'{what} while "{shown}" ran', said=said, way_out=way_out)
    if refusal.code == types.CONNECTION_CLOSED and refusal.message.startswith(_CUT) and is_http:
        return UpstreamFault(name, f'broke off its answer to "{shown}" ({one_line(refusal.message, 80)})')
    reason = one_line(without_secrets(refusal.message[:2000], session.spec), 300)
    what = f'refused "{shown}": {reason} (code {refusal.code})'
    return UpstreamRefused(name, what, code=refusal.code, reason=refusal.message, data=refusal.data)


async def not_ready(session: Broken, call: Call, refusal: MCPError) -> UpstreamFault:
    """The same for a greeting."""
    if refusal.code == types.CONNECTION_CLOSED and refusal.message == _CLOSED and await _is_over(session):
        what, said = await session.why()
        return UpstreamFault(
            session.spec.name, f"{what} before it was ready", said=said, way_out=_start_way_out(session.spec)
        )
    return await fault_of(session, call, refusal)


def silent(session: Broken) -> UpstreamOverdue:
    """No greeting came."""
    seconds = session.spec.start_seconds
    way_out = f"Check that {session.spec.shown} speaks MCP, or raise its start_timeout_seconds."
    what = f"did not answer the greeting within {seconds:g} s"
    return UpstreamOverdue(session.spec.name, what, said=session.said(), way_out=way_out)


def overdue(session: Broken, call: Call) -> UpstreamOverdue:
    what = f'did not answer "{one_line(call.name, 60)}" within {call.seconds:g} s, and reported no progress'
    way_out = "It was told to stop; what it has done until then is not known. A longer deadline can be given."
    return UpstreamOverdue(session.spec.name, what, said=session.said(), way_out=way_out)


def not_started(spec: ServerSpec, problem: Exception) -> UpstreamFault:
    """The channel itself could not be opened."""
    where = f" in {spec.source}" if spec.source else ""
    if isinstance(problem, OSError) and isinstance(spec, StdioServer):
        if isinstance(problem, FileNotFoundError) and problem.filename == spec.cwd:
            return UpstreamFault(spec.name, "has a working folder that does not exist", way_out=f"Correct cwd{where}.")
        way_out = f"Install it, or correct its command{where}."
        if " " in spec.command.strip() and not spec.arguments:
            way_out = f"Its command{where} has spaces in it: what follows the program belongs into args."
        return UpstreamFault(
            spec.name, f"cannot be started: {spec.shown}: {problem.strerror or 'failed'}", way_out=way_out
        )
    first: BaseException = problem
    while isinstance(first, BaseExceptionGroup):  # the SDK's tasks fail together
        first = cast("BaseExceptionGroup[BaseException]", first).exceptions[0]
    words = one_line(without_secrets(str(first), spec), 120)
    return UpstreamFault(spec.name, f"failed ({type(first).__name__}: {words})")


def resting(spec: ServerSpec, last: UpstreamFault | None, seconds: float) -> UpstreamFault:
    """It failed too often to be started for this call."""
    what = last.what if last is not None else "failed"
    said = last.said if last is not None else ""
    way_out = f"It failed several times in a row and is started again in {seconds:.0f} s, with the next call."
    return UpstreamFault(spec.name, what, said=said, way_out=way_out)


async def _is_over(session: Broken) -> bool:
    """A server may send the same words as the SDK; then it is not over."""
    try:
        await asyncio.wait_for(session.over.wait(), _SOON)
    except TimeoutError:
        return False
    return True


def _start_way_out(spec: ServerSpec) -> str:
    return f"Run {spec.shown} in a terminal to see what it needs." if isinstance(spec, StdioServer) else ""


def _http_way_out(trouble: Trouble, spec: ServerSpec) -> str:
    if trouble.sent:
        return _UNKNOWN
    if trouble.status in (401, 403, 407):
        return f"Check its headers{' in ' + spec.source if spec.source else ''}."
    return "Check that it runs, and its url." if trouble.status in (0, 404) else ""
