"""An agent of openai-agents; sessions are its own, in SQLite."""

import json
import os
import time

os.environ["OPENAI_AGENTS_DISABLE_TRACING"] = "1"

from agents import Agent, Model, ModelResponse, OpenAIChatCompletionsModel, Runner, SQLiteSession, Usage, function_tool
from openai import AsyncOpenAI
from openai.types.responses import ResponseFunctionToolCall, ResponseOutputMessage, ResponseOutputText

import work


@function_tool
async def add(a: int, b: int) -> str:
    """Add two numbers"""
    return work.add(a, b)


class Scripted(Model):
    def __init__(self):
        self._script = work.Script()

    async def get_response(self, *_, **__):
        if call := self._script.next():
            arguments = json.dumps(call[1])
            output = ResponseFunctionToolCall(call_id=call[0], type="function_call", name="add", arguments=arguments)
        else:
            text = ResponseOutputText(type="output_text", text=work.FAREWELL, annotations=[])
            output = ResponseOutputMessage(
                id="last", type="message", role="assistant", status="completed", content=[text]
            )
        usage = Usage(requests=1, input_tokens=10, output_tokens=5, total_tokens=15)
        return ModelResponse(output=[output], usage=usage, response_id=None)

    def stream_response(self, *_, **__):
        raise NotImplementedError


_model = None


def model():
    global _model
    if work.IS_FAKE:
        return Scripted()
    if _model is None:
        client = AsyncOpenAI(base_url=work.BASE_URL, api_key=work.KEY, timeout=work.PATIENCE)
        _model = OpenAIChatCompletionsModel(model="mock", openai_client=client)
    return _model


async def run():
    agent = Agent(name="calculator", instructions=work.SYSTEM, tools=[add], model=model())
    options = {"max_turns": work.STEPS + 10}
    if work.DB:
        options["session"] = SQLiteSession("1", work.DB)
    if not work.STREAMS:
        return (await Runner.run(agent, work.PROMPT, **options)).final_output
    result = Runner.run_streamed(agent, work.PROMPT, **options)
    async for _ in result.stream_events():
        pass
    return result.final_output


async def resume():
    began = time.perf_counter()
    items = await SQLiteSession("1", work.DB).get_items()
    assert len(items) == 2 * work.STEPS + 2
    return (time.perf_counter() - began) * 1e3


work.drive(run, resume)
