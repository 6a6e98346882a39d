"""The prebuilt agent of langgraph behind FastAPI; its checkpoints are in memory."""

import os
import warnings

warnings.filterwarnings("ignore")
os.environ["LANGSMITH_TRACING"] = "false"

import httpx2
from langchain_openai import ChatOpenAI
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.prebuilt import create_react_agent

import served

# As many connections to the model as there are runs.
LIMITS = httpx2.Limits(max_connections=None, max_keepalive_connections=None)
HTTP = httpx2.AsyncClient(limits=LIMITS, timeout=served.PATIENCE)
MODEL = ChatOpenAI(
    model="test", base_url=served.BASE_URL, api_key=served.KEY, streaming=True, http_async_client=HTTP, max_retries=0,
    timeout=served.PATIENCE,
)
GRAPH = create_react_agent(MODEL, [], prompt="You are a helpful agent.", checkpointer=InMemorySaver())


async def answer(session, text):
    config = {"configurable": {"thread_id": session.id}}
    async for chunk, _ in GRAPH.astream({"messages": [("user", text)]}, config, stream_mode="messages"):
        if chunk.content:
            yield chunk.content


served.serve(answer)
