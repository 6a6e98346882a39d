"""The prebuilt agent of langgraph; sessions are checkpoints in SQLite."""

import os
import time
import warnings

warnings.filterwarnings("ignore")
os.environ["LANGSMITH_TRACING"] = "false"

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.tools import tool
from langgraph.prebuilt import create_react_agent

import work

CONFIG = {"recursion_limit": 2 * work.STEPS + 100, "configurable": {"thread_id": "1"}}


@tool
async def add(a: int, b: int) -> str:
    """Add two numbers"""
    return work.add(a, b)


class Scripted(BaseChatModel):
    script: object

    @property
    def _llm_type(self):
        return "fake"

    def bind_tools(self, tools, **_):
        return self

    def _generate(self, *_, **__):
        raise NotImplementedError

    async def _agenerate(self, *_, **__):
        if call := self.script.next():
            message = AIMessage("", tool_calls=[{"name": "add", "args": call[1], "id": call[0]}])
        else:
            message = AIMessage(work.FAREWELL)
        return ChatResult(generations=[ChatGeneration(message=message)])


_model = None


def model():
    global _model
    if work.IS_FAKE:
        return Scripted(script=work.Script())
    if _model is None:
        from langchain_openai import ChatOpenAI

        _model = ChatOpenAI(
            model="mock", base_url=work.BASE_URL, api_key=work.KEY, streaming=work.STREAMS, timeout=work.PATIENCE
        )
    return _model


_graph = None


def graph(checkpoints=None):
    """Built once for all runs, unless the model counts the steps of one."""
    global _graph
    if _graph is None or work.IS_FAKE:
        _graph = create_react_agent(model(), [add], prompt=work.SYSTEM, checkpointer=checkpoints)
    return _graph


def saver():
    from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver

    return AsyncSqliteSaver.from_conn_string(work.DB)


async def run():
    conversation = {"messages": [("user", work.PROMPT)]}
    if work.DB:
        async with saver() as checkpoints:
            state = await graph(checkpoints).ainvoke(conversation, CONFIG)
    else:
        state = await graph().ainvoke(conversation, CONFIG)
    return state["messages"][-1].content


async def resume():
    began = time.perf_counter()
    async with saver() as checkpoints:
        checkpoint = (await checkpoints.aget_tuple(CONFIG)).checkpoint
        assert len(checkpoint["channel_values"]["messages"]) == 2 * work.STEPS + 2
        return (time.perf_counter() - began) * 1e3


work.drive(run, resume)
