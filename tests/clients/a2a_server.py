"""An agent of the A2A SDK for Python, of which the arguments are the binding and `streaming` or `polled`. Prints its address. The text of a message selects what it does: `ask` requires input, `slow` works until it is cancelled, `fail` fails."""

import asyncio
import socket
import sys

import uvicorn
from a2a.helpers import new_data_part, new_task_from_user_message, new_text_message, new_text_part
from a2a.server.agent_execution import AgentExecutor
from a2a.server.request_handlers import DefaultRequestHandler
from a2a.server.routes import create_agent_card_routes, create_jsonrpc_routes, create_rest_routes
from a2a.server.tasks import InMemoryTaskStore, TaskUpdater
from a2a.types.a2a_pb2 import AgentCapabilities, AgentCard, AgentInterface, AgentSkill, Role
from starlette.applications import Starlette

BINDING, STREAMING = sys.argv[1], sys.argv[2] == "streaming"


class Agent(AgentExecutor):
    async def execute(self, context, event_queue):
        if context.current_task is None:
            await event_queue.enqueue_event(new_task_from_user_message(context.message))
        task = TaskUpdater(event_queue, context.task_id, context.context_id)
        text = context.get_user_input()
        message = lambda said: new_text_message(said, context_id=context.context_id, task_id=context.task_id, role=Role.ROLE_AGENT)
        await task.start_work()
        if text == "ask":
            await task.requires_input(message("Which account?"))
            return
        if text == "fail":
            await task.failed(message("no such invoice"))
            return
        while text == "slow":
            await asyncio.sleep(0.05)
        await asyncio.sleep(0.2)
        await task.add_artifact([new_text_part(f"Heard: {text}"), new_data_part({"invoice": 7})])
        await task.complete()

    async def cancel(self, context, event_queue):
        print("cancelled", flush=True)
        await TaskUpdater(event_queue, context.task_id, context.context_id).cancel()


listener = socket.socket()
listener.bind(("127.0.0.1", 0))
listener.listen()
url = f"http://127.0.0.1:{listener.getsockname()[1]}"
card = AgentCard(
    name="billing",
    description="Knows all invoices.",
    version="1",
    supported_interfaces=[AgentInterface(url=url, protocol_binding=BINDING, protocol_version="1.0")],
    capabilities=AgentCapabilities(streaming=STREAMING),
    default_input_modes=["text/plain"],
    default_output_modes=["text/plain"],
    skills=[AgentSkill(id="billing", name="billing", description="Knows all invoices.", tags=["agent"])],
)
handler = DefaultRequestHandler(agent_executor=Agent(), task_store=InMemoryTaskStore(), agent_card=card)
routes = create_agent_card_routes(card)
routes += create_jsonrpc_routes(handler, "/") if BINDING == "JSONRPC" else create_rest_routes(handler)
print(url, flush=True)
uvicorn.Server(uvicorn.Config(Starlette(routes=routes), log_level="warning")).run(sockets=[listener])
