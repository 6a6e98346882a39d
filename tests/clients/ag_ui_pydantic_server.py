"""An agent of pydantic-ai behind its AG-UI adapter. Prints its address."""

import socket

import uvicorn
from pydantic_ai import Agent
from pydantic_ai.models.function import DeltaToolCall, FunctionModel
from pydantic_ai.ui.ag_ui import AGUIAdapter
from starlette.applications import Starlette
from starlette.routing import Route


async def model(messages, info):
    last = messages[-1].parts[-1]
    if last.part_kind == "tool-return":
        yield f"There is {last.content}."
        return
    yield "Let me look."
    yield {1: DeltaToolCall(name="look", json_args="{}", tool_call_id="c1")}


agent = Agent(FunctionModel(stream_function=model))


@agent.tool_plain
async def look() -> str:
    """Looks."""
    return "one invoice"


async def run(request):
    return await AGUIAdapter.dispatch_request(request, agent=agent)


listener = socket.socket()
listener.bind(("127.0.0.1", 0))
listener.listen()
print(f"http://127.0.0.1:{listener.getsockname()[1]}/run", flush=True)
app = Starlette(routes=[Route("/run", run, methods=["POST"])])
uvicorn.Server(uvicorn.Config(app, log_level="warning")).run(sockets=[listener])
