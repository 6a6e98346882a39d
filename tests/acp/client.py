"""Scenarios for the official client library of Python.

`client.py FOLDER COMMAND [ARGUMENT …]`: COMMAND is the agent; it works in FOLDER, and its log is `FOLDER.log`.
"""
import asyncio
import os
import signal
import sys

import acp
from acp import schema

FOLDER, COMMAND = os.path.realpath(sys.argv[1]), sys.argv[2:]
LOG = FOLDER + ".log"
SERVER = """import json, os, sys
for line in sys.stdin:
    message = json.loads(line)
    if "id" not in message:
        continue
    tool = {"name": "greet", "description": "Greets.", "inputSchema": {"type": "object"}}
    results = {
        "initialize": {
            "protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": {"name": "probe", "version": "1"},
        },
        "tools/list": {"tools": [tool]},
        "tools/call": {"content": [{"type": "text", "text": os.environ["GREETING"]}]},
    }
    answer = {"jsonrpc": "2.0", "id": message["id"]}
    if message["method"] in results:
        answer["result"] = results[message["method"]]
    else:
        answer["error"] = {"code": -32601, "message": "unknown"}
    print(json.dumps(answer), flush=True)
"""
PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg=="


class Client:
    def __init__(self):
        self.updates, self.asked, self.choice, self.asking = [], [], "allow_once", asyncio.Event()
        self.buffers, self.written = {}, []

    async def request_permission(self, session_id, tool_call, options, **_):
        self.asked.append((tool_call, options))
        self.asking.set()
        if self.choice is None:
            await asyncio.sleep(300)
        if self.choice == "cancelled":
            return schema.RequestPermissionResponse(outcome=schema.DeniedOutcome(outcome="cancelled"))
        option = next(it for it in options if it.kind == self.choice)
        outcome = schema.AllowedOutcome(outcome="selected", option_id=option.option_id)
        return schema.RequestPermissionResponse(outcome=outcome)

    async def session_update(self, session_id, update, **_):
        self.updates.append(update)

    async def read_text_file(self, path, session_id, **_):
        if path not in self.buffers:
            raise acp.RequestError.resource_not_found(path)
        return schema.ReadTextFileResponse(content=self.buffers[path])

    async def write_text_file(self, content, path, session_id, **_):
        self.written.append(path)
        with open(path, "w", encoding="utf-8") as file:
            file.write(content)

    def on_connect(self, connection):
        pass

    def text(self, kind):
        updates = [it for it in self.updates if it.session_update == kind]
        return "".join(it.content.text for it in updates if it.content.type == "text")

    def all(self, kind):
        return [it for it in self.updates if it.session_update == kind]


class Agent:
    """One agent process with its client."""

    def __init__(self, *options, files=False):
        self.client = Client()
        offer = schema.FileSystemCapabilities(read_text_file=files, write_text_file=files)
        self.offer = schema.ClientCapabilities(fs=offer)
        self.context = acp.spawn_agent_process(
            self.client, sys.executable, os.path.join(os.path.dirname(__file__), "tee.py"), LOG, *COMMAND, *options,
            env=dict(os.environ),
        )

    async def __aenter__(self):
        self.connection, self.process = await self.context.__aenter__()
        self.hello = await self.connection.initialize(
            protocol_version=acp.PROTOCOL_VERSION, client_capabilities=self.offer
        )
        return self

    async def __aexit__(self, *error):
        await self.context.__aexit__(*error)

    async def new(self, *servers):
        self.session = (await self.connection.new_session(cwd=FOLDER, mcp_servers=list(servers))).session_id
        return self.session

    async def say(self, *blocks, session=None):
        blocks = [acp.text_block(it) if isinstance(it, str) else it for it in blocks]
        answer = await self.connection.prompt(session_id=session or self.session, prompt=blocks)
        # What is told before the answer is handled before it, too.
        await asyncio.sleep(0.05)
        return answer.stop_reason

    def crash(self):
        with open(LOG + ".pid", encoding="utf-8") as pid:
            os.kill(int(pid.read()), signal.SIGKILL)


def path(name):
    return os.path.join(FOLDER, name)


def content(name):
    with open(path(name), encoding="utf-8") as file:
        return file.read()


async def initialize():
    async with Agent() as agent:
        assert agent.hello.protocol_version == 1
        assert agent.hello.agent_capabilities.load_session
        assert agent.hello.agent_info.name == "loopwright"


async def streamed_text():
    async with Agent() as agent:
        await agent.new()
        assert await agent.say("hello there") == "end_turn"
        assert agent.client.text("agent_message_chunk") == "hello there"
        assert len(agent.client.all("agent_message_chunk")) >= 2
        assert agent.client.all("usage_update")[0].used == 60


async def thoughts():
    async with Agent() as agent:
        await agent.new()
        assert await agent.say("think It is so.") == "end_turn"
        assert agent.client.text("agent_thought_chunk") == "Let me see."
        assert agent.client.text("agent_message_chunk") == "It is so."


async def second_turn():
    async with Agent() as agent:
        await agent.new()
        await agent.say("one")
        await agent.say("two")
        assert agent.client.text("agent_message_chunk") == "onetwo"


async def picture_and_files():
    async with Agent() as agent:
        await agent.new()
        picture = acp.image_block(PIXEL, "image/png")
        note = schema.TextResourceContents(uri="file:///w/note.md", text="a note")
        embedded = schema.EmbeddedResourceContentBlock(type="resource", resource=note)
        link = acp.resource_link_block("b.rs", "file:///w/b.rs")
        assert await agent.say("see ", picture, embedded, link) == "end_turn"
        said = agent.client.text("agent_message_chunk")
        assert "a note" in said and "/w/b.rs" in said and "[image_url]" in said, said


async def tool_call():
    async with Agent() as agent:
        await agent.new()
        with open(path("a.txt"), "w", encoding="utf-8") as file:
            file.write("alpha\n")
        assert await agent.say("read a.txt") == "end_turn"
        call = agent.client.all("tool_call")[0]
        assert (call.kind, call.locations[0].path) == ("read", path("a.txt")), call
        assert agent.client.all("tool_call_update")[-1].status == "completed"


async def diff():
    async with Agent() as agent:
        await agent.new()
        assert await agent.say("write diff.txt one") == "end_turn"
        change = agent.client.all("tool_call_update")[-1].content[0]
        assert (change.type, change.path, change.new_text) == ("diff", path("diff.txt"), "one"), change


async def open_file():
    async with Agent(files=True) as agent:
        await agent.new()
        with open(path("open.txt"), "w", encoding="utf-8") as file:
            file.write("saved\n")
        agent.client.buffers[path("open.txt")] = "unsaved\n"
        assert await agent.say("edit open.txt unsaved edited") == "end_turn"
        assert (agent.client.written, content("open.txt")) == ([path("open.txt")], "edited\n")


async def mcp_server():
    async with Agent() as agent:
        with open(path("server.py"), "w", encoding="utf-8") as file:
            file.write(SERVER)
        variable = schema.EnvVariable(name="GREETING", value="good morning")
        await agent.new(schema.McpServerStdio(name="probe", command="python3", args=["server.py"], env=[variable]))
        assert await agent.say("call mcp__probe__greet") == "end_turn"
        end = agent.client.all("tool_call_update")[-1]
        assert (end.status, "good morning" in str(end.content)) == ("completed", True), end


async def model_and_effort():
    async with Agent() as agent:
        new = await agent.connection.new_session(cwd=FOLDER, mcp_servers=[])
        assert [it.category for it in new.config_options] == ["mode", "model", "thought_level"], new
        set_option = agent.connection.set_config_option
        changed = await set_option("effort", new.session_id, "high")
        assert changed.config_options[2].current_value == "high"


async def command():
    async with Agent() as agent:
        await agent.new()
        assert await agent.say("run echo seven; exit 3") == "end_turn"
        assert agent.client.all("tool_call")[0].kind == "execute"
        assert agent.client.all("tool_call_update")[-1].status == "failed"


async def permission(choice, name):
    async with Agent("--permission-mode", "ask") as agent:
        await agent.new()
        agent.client.choice = choice
        reason = await agent.say(f"write {name} one")
        tool_call, options = agent.client.asked[0]
        assert [options[0].kind, options[-1].kind] == ["allow_once", "reject_once"]
        assert tool_call.tool_call_id == agent.client.all("tool_call")[0].tool_call_id
        if choice == "allow_always":
            # The option names the rule: it is for this file.
            await agent.say(f"write {name} one")
            assert len(agent.client.asked) == 1
            await agent.say(f"write 2{name} two")
            assert len(agent.client.asked) == 2
        return reason


async def permission_once():
    assert await permission("allow_once", "once.txt") == "end_turn"
    assert content("once.txt") == "one"


async def permission_always():
    assert await permission("allow_always", "always.txt") == "end_turn"
    assert content("2always.txt") == "two"


async def permission_rejected():
    assert await permission("reject_once", "rejected.txt") == "end_turn"
    assert not os.path.exists(path("rejected.txt"))


async def permission_cancelled():
    assert await permission("cancelled", "cancelled.txt") == "cancelled"
    assert not os.path.exists(path("cancelled.txt"))


async def modes():
    async with Agent() as agent:
        new = await agent.connection.new_session(cwd=FOLDER, mcp_servers=[])
        agent.session = new.session_id
        assert new.modes.current_mode_id == "auto"
        await agent.connection.set_session_mode(session_id=agent.session, mode_id="plan")
        await agent.say("write plan.txt one")
        assert not os.path.exists(path("plan.txt"))
        assert agent.client.all("current_mode_update")[-1].current_mode_id == "plan"
        option = await agent.connection.set_config_option("mode", agent.session, "auto")
        assert option.config_options[0].current_value == "auto"


async def cancel():
    async with Agent() as agent:
        await agent.new()
        turn = asyncio.create_task(agent.say("hang"))
        while not agent.client.all("available_commands_update"):
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.3)
        await agent.connection.cancel(session_id=agent.session)
        assert await turn == "cancelled"
        assert await agent.say("on") == "end_turn"


async def cancel_command():
    async with Agent() as agent:
        await agent.new()
        turn = asyncio.create_task(agent.say("run sleep 300"))
        while not agent.client.all("tool_call_update"):
            await asyncio.sleep(0.01)
        await agent.connection.cancel(session_id=agent.session)
        assert await turn == "cancelled"


async def error():
    async with Agent() as agent:
        await agent.new()
        try:
            await agent.say("fail")
        except acp.RequestError as refused:
            assert "no such key" in str(refused), refused
        else:
            raise AssertionError("no error")
        assert await agent.say("on") == "end_turn"


async def crash_list_load():
    async with Agent("--permission-mode", "ask") as agent:
        session = await agent.new()
        await agent.say("remember me")
        agent.client.choice = None
        turn = asyncio.create_task(agent.say("write crash.txt one"))
        await agent.client.asking.wait()
        call = agent.client.asked[0][0].tool_call_id
        agent.crash()
        turn.cancel()
    async with Agent("--permission-mode", "ask") as agent:
        listed = await agent.connection.list_sessions(cwd=FOLDER)
        assert session in [it.session_id for it in listed.sessions]
        await agent.connection.load_session(cwd=FOLDER, session_id=session, mcp_servers=[])
        await asyncio.sleep(0.05)
        assert agent.client.text("user_message_chunk") == "remember mewrite crash.txt one"
        assert agent.client.all("tool_call")[0].tool_call_id == call
        assert await agent.say("/continue", session=session) == "end_turn"
        assert agent.client.asked[0][0].tool_call_id == call
        assert content("crash.txt") == "one"


async def resume():
    async with Agent() as agent:
        session = await agent.new()
        await agent.say("before")
    async with Agent() as agent:
        await agent.connection.resume_session(cwd=FOLDER, session_id=session)
        assert not agent.client.all("user_message_chunk")
        assert await agent.say("after", session=session) == "end_turn"
        await agent.connection.close_session(session_id=session)
        await agent.connection.load_session(cwd=FOLDER, session_id=session, mcp_servers=[])
        await asyncio.sleep(0.05)
        assert agent.client.text("user_message_chunk") == "beforeafter"


SCENARIOS = [
    initialize, streamed_text, thoughts, second_turn, picture_and_files, tool_call, diff, open_file, mcp_server,
    model_and_effort, command, permission_once, permission_always, permission_rejected, permission_cancelled, modes, cancel, cancel_command, error,
    crash_list_load, resume,
]


async def main():
    failed = 0
    for scenario in SCENARIOS:
        try:
            await asyncio.wait_for(scenario(), 60)
            print(f"  ok      {scenario.__name__}", flush=True)
        except Exception as error:  # Every scenario is told of.
            failed += 1
            print(f"  failed  {scenario.__name__}: {type(error).__name__}: {error}", flush=True)
    print(f"{len(SCENARIOS) - failed} of {len(SCENARIOS)} scenarios")
    sys.exit(1 if failed else 0)


asyncio.run(main())
