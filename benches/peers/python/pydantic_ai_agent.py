"""An agent of pydantic-ai."""

from pydantic_ai import Agent
from pydantic_ai.usage import RequestUsage, UsageLimits

import work

agent = Agent(system_prompt=work.SYSTEM)
# Told, because else the model in process counts the tokens of the whole history in each step.
USAGE = RequestUsage(input_tokens=10, output_tokens=5)


@agent.tool_plain
async def add(a: int, b: int) -> str:
    """Add two numbers"""
    return work.add(a, b)


def scripted():
    from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart
    from pydantic_ai.models.function import FunctionModel

    script = work.Script()

    async def answer(_messages, _info):
        call = script.next()
        part = ToolCallPart("add", call[1], tool_call_id=call[0]) if call else TextPart(work.FAREWELL)
        return ModelResponse(parts=[part], usage=USAGE)

    return FunctionModel(answer)


_model = None


def model():
    global _model
    if work.IS_FAKE:
        return scripted()
    if _model is None:
        from pydantic_ai.models.openai import OpenAIChatModel
        from pydantic_ai.providers.openai import OpenAIProvider

        _model = OpenAIChatModel("mock", provider=OpenAIProvider(base_url=work.BASE_URL, api_key=work.KEY))
    return _model


async def read(_context, events):
    async for _ in events:
        pass


async def run():
    # Streams through a handler of events, since `run_stream` ends with the first text.
    handler = {"event_stream_handler": read} if work.STREAMS else {}
    limits = UsageLimits(request_limit=None)
    return (await agent.run(work.PROMPT, model=model(), usage_limits=limits, **handler)).output


work.drive(run)
