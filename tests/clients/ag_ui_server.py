"""An agent with the AG-UI SDK for Python. Prints its address. The text of a message selects what it does: `ask` waits for an answer, `approve` for an approval, `slow` works until the client leaves, `fail` fails."""

import asyncio
import json
import socket

import uvicorn
from ag_ui.core import (
    Interrupt,
    RunAgentInput,
    RunErrorEvent,
    RunFinishedEvent,
    RunFinishedInterruptOutcome,
    RunFinishedSuccessOutcome,
    RunStartedEvent,
    TextMessageContentEvent,
    TextMessageEndEvent,
    TextMessageStartEvent,
    TokenUsage,
    ToolCallArgsEvent,
    ToolCallEndEvent,
    ToolCallStartEvent,
)
from ag_ui.encoder import EventEncoder
from starlette.applications import Starlette
from starlette.responses import StreamingResponse
from starlette.routing import Route

# The interrupts of each thread.
WAITING = {}


def text(message, said):
    yield TextMessageStartEvent(message_id=message)
    for word in said.split(" "):
        yield TextMessageContentEvent(message_id=message, delta=f"{word} " if word != said.split(" ")[-1] else word)
    yield TextMessageEndEvent(message_id=message)


async def events(given):
    ids = {"thread_id": given.thread_id, "run_id": given.run_id}
    yield RunStartedEvent(**ids)
    asked = next(it.content for it in reversed(given.messages) if it.role == "user")
    answers = {it.interrupt_id: it for it in given.resume or []}
    waiting = WAITING.pop(given.thread_id, [])
    if set(answers) != {it.id for it in waiting}:
        yield RunErrorEvent(message=f"{sorted(answers)} does not answer all interrupts")
        return
    if waiting:
        said = [f"{it.status}: {json.dumps(it.payload)}" for it in answers.values()]
        for event in text("answer", f"Heard: {'; '.join(said)}"):
            yield event
    elif asked == "ask":
        for event in text("question", "I need to know more."):
            yield event
        waiting = [Interrupt(id="i1", reason="input_required", message="Which account?")]
    elif asked == "approve":
        yield ToolCallStartEvent(tool_call_id="c1", tool_call_name="pay")
        yield ToolCallArgsEvent(tool_call_id="c1", delta='{"invoice": 7}')
        yield ToolCallEndEvent(tool_call_id="c1")
        waiting = [Interrupt(id="i2", reason="tool_call", message="Allow it?", tool_call_id="c1")]
    elif asked == "fail":
        yield RunErrorEvent(message="no such invoice", code="unknown")
        return
    else:
        while asked == "slow":
            await asyncio.sleep(0.05)
        for event in [*text("1", "Let me look."), *text("2", f"Heard: {asked}")]:
            yield event
    outcome = RunFinishedSuccessOutcome()
    if not answers and waiting:
        WAITING[given.thread_id] = waiting
        outcome = RunFinishedInterruptOutcome(interrupts=waiting)
    yield RunFinishedEvent(**ids, outcome=outcome, usage=[TokenUsage(model="none", input_tokens=5, output_tokens=1)])


async def run(request):
    given = RunAgentInput.model_validate(await request.json())
    encoder = EventEncoder()

    async def encoded():
        try:
            async for event in events(given):
                yield encoder.encode(event)
        except asyncio.CancelledError:
            print("left", flush=True)
            raise

    return StreamingResponse(encoded(), media_type=encoder.get_content_type())


listener = socket.socket()
listener.bind(("127.0.0.1", 0))
listener.listen()
print(f"http://127.0.0.1:{listener.getsockname()[1]}/run", flush=True)
app = Starlette(routes=[Route("/run", run, methods=["POST"])])
uvicorn.Server(uvicorn.Config(app, log_level="warning")).run(sockets=[listener])
