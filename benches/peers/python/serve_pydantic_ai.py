"""An agent of pydantic-ai behind FastAPI."""

import httpx2
from openai import AsyncOpenAI
from pydantic_ai import Agent
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider

import served

# As many connections to the model as there are runs.
LIMITS = httpx2.Limits(max_connections=None, max_keepalive_connections=None)
HTTP = httpx2.AsyncClient(limits=LIMITS, timeout=served.PATIENCE)
CLIENT = AsyncOpenAI(base_url=served.BASE_URL, api_key=served.KEY, http_client=HTTP, max_retries=0)
AGENT = Agent(
    OpenAIChatModel("test", provider=OpenAIProvider(openai_client=CLIENT)),
    system_prompt="You are a helpful agent.",
)
HISTORIES = {}


async def answer(session, text):
    async with AGENT.run_stream(text, message_history=HISTORIES.get(session.id)) as result:
        async for fragment in result.stream_text(delta=True, debounce_by=None):
            yield fragment
        HISTORIES[session.id] = result.all_messages()


served.serve(answer)
