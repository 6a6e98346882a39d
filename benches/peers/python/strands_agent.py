"""An agent of strands, which keeps the whole conversation here."""

import json
import sys

from strands import Agent, tool
from strands.agent.conversation_manager import NullConversationManager
from strands.models import Model

import work

# Each step calls the next one.
sys.setrecursionlimit(1_000_000)


@tool
async def add(a: int, b: int) -> str:
    """Add two numbers"""
    return work.add(a, b)


class Scripted(Model):
    def __init__(self):
        self._script = work.Script()

    def update_config(self, **_):
        pass

    def get_config(self):
        return {}

    async def structured_output(self, *_, **__):
        raise NotImplementedError
        yield

    async def stream(self, *_, **__):
        if call := self._script.next():
            begin = {"toolUse": {"name": "add", "toolUseId": call[0]}}
            delta = {"toolUse": {"input": json.dumps(call[1])}}
            reason = "tool_use"
        else:
            begin, delta, reason = {}, {"text": work.FAREWELL}, "end_turn"
        yield {"messageStart": {"role": "assistant"}}
        yield {"contentBlockStart": {"start": begin}}
        yield {"contentBlockDelta": {"delta": delta}}
        yield {"contentBlockStop": {}}
        yield {"messageStop": {"stopReason": reason}}
        usage = {"inputTokens": 10, "outputTokens": 5, "totalTokens": 15}
        yield {"metadata": {"usage": usage, "metrics": {"latencyMs": 0}}}


_model = None


def model():
    global _model
    if work.IS_FAKE:
        return Scripted()
    if _model is None:
        from strands.models.openai import OpenAIModel

        client = {"base_url": work.BASE_URL, "api_key": work.KEY, "timeout": work.PATIENCE}
        _model = OpenAIModel(client_args=client, model_id="mock", stream=work.STREAMS)
    return _model


async def run():
    agent = Agent(
        model=model(),
        tools=[add],
        system_prompt=work.SYSTEM,
        callback_handler=None,
        conversation_manager=NullConversationManager(),
    )
    result = await agent.invoke_async(work.PROMPT)
    return str(result).strip().rsplit("\n", 1)[-1]


work.drive(run)
