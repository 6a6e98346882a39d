"""The client of the package `mcp` against our server. The argument is JSON: `name`, `mode`, and `command` or `url` with `token`."""

import asyncio
import json
import os
import sys

import httpx2
from mcp import Client, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client
from mcp_types import ElicitResult

GIVEN = json.loads(sys.argv[1])
done, failed = 0, 0


def check(what, holds, shown=""):
    global done, failed
    done += 1
    failed += not holds
    if not holds:
        print(f"FAIL  {GIVEN['name']}: {what}: {shown}", flush=True)


def connect(**callbacks):
    if "command" in GIVEN:
        command, *arguments = GIVEN["command"]
        server = StdioServerParameters(command=command, args=arguments, env=dict(os.environ), cwd=GIVEN["project"])
    else:
        http = httpx2.AsyncClient(headers={"Authorization": f"Bearer {GIVEN['token']}"}, timeout=60)
        server = streamable_http_client(GIVEN["url"], http_client=http)
    return Client(server, mode=GIVEN["mode"], read_timeout_seconds=60, **callbacks)


async def agents():
    updates, questions, progress = [], [], []

    async def hear(message):
        updates.append(type(message).__name__)

    async def answer(context, params):
        questions.append(params.message)
        return ElicitResult(action="accept", content={"allow": True})

    async def report(done, total, message):
        progress.append(message)

    async with connect(message_handler=hear, elicitation_callback=answer) as client:
        tools = await client.list_tools()
        check("the agent is a tool", "ask_loopwright" in [it.name for it in tools.tools], tools)
        called = await client.call_tool("ask_loopwright", {"prompt": "What is here?"}, progress_callback=report)
        check("it answers", "hidden files" in called.content[0].text, called)
        check("it reports progress", any("list_dir" in it for it in progress), progress)
        check("its user is asked", any("list_dir" in it for it in questions), questions)
        session = called.structured_content["session_id"]
        resources = await client.list_resources()
        uri = f"session://{session}"
        check("its session is a resource", uri in [str(it.uri) for it in resources.resources], resources)
        read = await client.read_resource(uri)
        check("the session can be read", "What is here?" in read.contents[0].text, read)
        if GIVEN["mode"] == "legacy":
            await client.subscribe_resource(uri)
        again = await client.call_tool("ask_loopwright", {"prompt": "And now?", "session_id": session})
        check("the session continues", again.structured_content["session_id"] == session, again)
        if GIVEN["mode"] == "legacy":
            for _ in range(50):
                if any("ResourceUpdated" in it for it in updates):
                    break
                await asyncio.sleep(0.1)
            check("its changes are heard of", any("ResourceUpdated" in it for it in updates), updates)
        prompts = await client.list_prompts()
        check("the skill is a prompt", [it.name for it in prompts.prompts] == ["tidy"], prompts)
        prompt = await client.get_prompt("tidy", {"arguments": "the desk"})
        check("the prompt is filled in", "Tidy the desk." in prompt.messages[0].content.text, prompt)
        try:
            unknown = await client.call_tool("ask_stranger", {})
            check("an unknown tool is an error", False, unknown)
        except Exception as error:
            check("an unknown tool is an error", "unknown tool" in str(error), error)
        try:
            unknown = await client.read_resource("session://00000000-0000-0000-0000-000000000000")
            check("an unknown resource is an error", False, unknown)
        except Exception as error:
            check("an unknown resource is an error", "unknown resource" in str(error), error)


async def tools():
    async with connect() as client:
        names = [it.name for it in (await client.list_tools()).tools]
        check("the tools are listed", {"read_file", "bash"} <= set(names), names)
        written = await client.call_tool("write_file", {"path": "made.txt", "content": "by a client"})
        check("a file is written", not written.is_error, written)
        shown = await client.call_tool("bash", {"command": "cat made.txt"})
        check("a command reads it", "by a client" in shown.content[0].text, shown)
        outside = await client.call_tool("read_file", {"path": "/etc/hostname"})
        check("a file outside is refused", outside.is_error, outside)


asyncio.run(tools() if GIVEN.get("tools") else agents())
print(f"{GIVEN['name']}: {done - failed} of {done} cases", flush=True)
sys.exit(1 if failed else 0)
