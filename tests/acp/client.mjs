// Scenarios for the official client library of JavaScript.
//
// `client.mjs FOLDER COMMAND [ARGUMENT …]`: COMMAND is the agent; it works in FOLDER, and its log is `FOLDER.log`.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { existsSync, readFileSync, realpathSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { Readable, Writable } from "node:stream";
import { setTimeout as sleep } from "node:timers/promises";
import * as acp from "@agentclientprotocol/sdk";

const folder = realpathSync(process.argv[2]);
const command = process.argv.slice(3);
const log = `${folder}.log`;
const pixel =
  "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg==";
const path = (name) => join(folder, name);
// A server of the Model Context Protocol that greets.
const server = `import json, sys
for line in sys.stdin:
    message = json.loads(line)
    if "id" not in message:
        continue
    tool = {"name": "greet", "description": "Greets.", "inputSchema": {"type": "object"}}
    info = {"name": "probe", "version": "1"}
    results = {
        "initialize": {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": info},
        "tools/list": {"tools": [tool]},
        "tools/call": {"content": [{"type": "text", "text": "good morning"}]},
    }
    answer = {"jsonrpc": "2.0", "id": message["id"]}
    if message["method"] in results:
        answer["result"] = results[message["method"]]
    else:
        answer["error"] = {"code": -32601, "message": "unknown"}
    print(json.dumps(answer), flush=True)
`;
const until = async (condition) => {
  while (!condition()) await sleep(10);
};

class Agent {
  constructor(options) {
    this.updates = [];
    this.asked = [];
    this.choice = "allow_once";
    this.buffers = {};
    this.written = [];
    this.process = spawn("python3", [join(import.meta.dirname, "tee.py"), log, ...command, ...options], {
      stdio: ["pipe", "pipe", "inherit"],
    });
    const stream = acp.ndJsonStream(Writable.toWeb(this.process.stdin), Readable.toWeb(this.process.stdout));
    this.connection = acp
      .client({ name: "scenarios" })
      .onNotification("session/update", ({ params }) => void this.updates.push(params.update))
      .onRequest("session/request_permission", async ({ params }) => {
        this.asked.push(params);
        if (this.choice === null) await sleep(300_000, undefined, { ref: false });
        if (this.choice === "cancelled") return { outcome: { outcome: "cancelled" } };
        const option = params.options.find((it) => it.kind === this.choice);
        return { outcome: { outcome: "selected", optionId: option.optionId } };
      })
      .onRequest("fs/read_text_file", async ({ params }) => {
        if (!(params.path in this.buffers)) throw acp.RequestError.resourceNotFound(params.path);
        return { content: this.buffers[params.path] };
      })
      .onRequest("fs/write_text_file", async ({ params }) => {
        this.written.push(params.path);
        writeFileSync(params.path, params.content);
        return {};
      })
      .connect(stream);
    this.peer = this.connection.agent;
  }

  request(method, params) {
    return this.peer.request(method, params);
  }

  async new() {
    const created = await this.request("session/new", { cwd: folder, mcpServers: [] });
    this.session = created.sessionId;
    return created;
  }

  async say(...blocks) {
    const prompt = blocks.map((it) => (typeof it === "string" ? { type: "text", text: it } : it));
    const answer = await this.request("session/prompt", { sessionId: this.session, prompt });
    return answer.stopReason;
  }

  all(kind) {
    return this.updates.filter((it) => it.sessionUpdate === kind);
  }

  text(kind) {
    return this.all(kind).map((it) => it.content.text ?? "").join("");
  }

  crash() {
    process.kill(Number(readFileSync(`${log}.pid`, "utf8")), "SIGKILL");
  }
}

let clientCapabilities = {};

async function withAgent(work, ...options) {
  const agent = new Agent(options);
  try {
    agent.hello = await agent.request("initialize", { protocolVersion: 1, clientCapabilities });
    return await work(agent);
  } finally {
    agent.process.stdin.end();
    await new Promise((resolve) => (agent.process.exitCode === null ? agent.process.once("exit", resolve) : resolve()));
  }
}

const withNew = (work, ...options) =>
  withAgent(async (agent) => {
    agent.created = await agent.new();
    return work(agent);
  }, ...options);

const permission = (choice, name) =>
  withNew(
    async (agent) => {
      agent.choice = choice;
      const reason = await agent.say(`write ${name} one`);
      const [asked] = agent.asked;
      assert.equal(asked.toolCall.toolCallId, agent.all("tool_call")[0].toolCallId);
      assert.equal(asked.options[0].kind, "allow_once");
      assert.equal(asked.options.at(-1).kind, "reject_once");
      if (choice === "allow_always") {
        // The option names the rule: it is for this file.
        await agent.say(`write ${name} one`);
        assert.equal(agent.asked.length, 1);
        await agent.say(`write 2${name} two`);
        assert.equal(agent.asked.length, 2);
      }
      return reason;
    },
    "--permission-mode",
    "ask",
  );

const scenarios = {
  initialize: () =>
    withAgent(async (agent) => {
      assert.equal(agent.hello.protocolVersion, 1);
      assert.equal(agent.hello.agentCapabilities.loadSession, true);
      assert.ok(agent.hello.authMethods.length > 0);
    }),
  streamed_text: () =>
    withNew(async (agent) => {
      assert.equal(await agent.say("hello there"), "end_turn");
      assert.equal(agent.text("agent_message_chunk"), "hello there");
      assert.equal(agent.all("usage_update")[0].used, 60);
    }),
  session_helper: () =>
    withAgent(async (agent) => {
      const session = await agent.peer.buildSession(folder).start();
      const prompted = session.prompt("by the helper");
      assert.equal((await prompted).stopReason, "end_turn");
      session.dispose();
    }),
  thoughts: () =>
    withNew(async (agent) => {
      assert.equal(await agent.say("think It is so."), "end_turn");
      assert.equal(agent.text("agent_thought_chunk"), "Let me see.");
      assert.equal(agent.text("agent_message_chunk"), "It is so.");
    }),
  picture_and_files: () =>
    withNew(async (agent) => {
      await agent.say(
        "see ",
        { type: "image", mimeType: "image/png", data: pixel },
        { type: "resource", resource: { uri: "file:///w/note.md", text: "a note" } },
        { type: "resource_link", name: "b.rs", uri: "file:///w/b.rs" },
      );
      const said = agent.text("agent_message_chunk");
      for (const part of ["a note", "/w/b.rs", "[image_url]"]) assert.ok(said.includes(part), said);
    }),
  tool_call: () =>
    withNew(async (agent) => {
      writeFileSync(path("a.txt"), "alpha\n");
      assert.equal(await agent.say("read a.txt"), "end_turn");
      const [call] = agent.all("tool_call");
      assert.equal(call.kind, "read");
      assert.deepEqual(call.locations, [{ path: path("a.txt") }]);
      assert.equal(agent.all("tool_call_update").at(-1).status, "completed");
    }),
  diff: () =>
    withNew(async (agent) => {
      await agent.say("write diff.txt one");
      const [change] = agent.all("tool_call_update").at(-1).content;
      assert.deepEqual(change, { type: "diff", path: path("diff.txt"), oldText: "", newText: "one" });
    }),
  open_file: async () => {
    clientCapabilities = { fs: { readTextFile: true, writeTextFile: true } };
    try {
      await withNew(async (agent) => {
        writeFileSync(path("open.txt"), "saved\n");
        agent.buffers[path("open.txt")] = "unsaved\n";
        assert.equal(await agent.say("edit open.txt unsaved edited"), "end_turn");
        assert.deepEqual(agent.written, [path("open.txt")]);
        assert.equal(readFileSync(path("open.txt"), "utf8"), "edited\n");
      });
    } finally {
      clientCapabilities = {};
    }
  },
  mcp_server: () =>
    withAgent(async (agent) => {
      writeFileSync(path("server.py"), server);
      const probe = { name: "probe", command: "python3", args: ["server.py"], env: [] };
      const created = await agent.request("session/new", { cwd: folder, mcpServers: [probe] });
      agent.session = created.sessionId;
      assert.equal(await agent.say("call mcp__probe__greet"), "end_turn");
      const end = agent.all("tool_call_update").at(-1);
      assert.equal(end.status, "completed");
      assert.match(JSON.stringify(end.content), /good morning/);
    }),
  permission_once: async () => {
    assert.equal(await permission("allow_once", "once.txt"), "end_turn");
    assert.equal(readFileSync(path("once.txt"), "utf8"), "one");
  },
  permission_always: async () => {
    assert.equal(await permission("allow_always", "always.txt"), "end_turn");
    assert.equal(readFileSync(path("2always.txt"), "utf8"), "two");
  },
  permission_rejected: async () => {
    assert.equal(await permission("reject_once", "rejected.txt"), "end_turn");
    assert.ok(!existsSync(path("rejected.txt")));
  },
  permission_cancelled: async () => {
    assert.equal(await permission("cancelled", "cancelled.txt"), "cancelled");
    assert.ok(!existsSync(path("cancelled.txt")));
  },
  modes: () =>
    withNew(async (agent) => {
      assert.equal(agent.created.modes.currentModeId, "auto");
      await agent.request("session/set_mode", { sessionId: agent.session, modeId: "plan" });
      await agent.say("write plan.txt one");
      assert.ok(!existsSync(path("plan.txt")));
      const set = { sessionId: agent.session, configId: "mode", value: "auto" };
      const { configOptions } = await agent.request("session/set_config_option", set);
      assert.equal(configOptions[0].currentValue, "auto");
    }),
  cancel: () =>
    withNew(async (agent) => {
      const turn = agent.say("run sleep 300");
      await until(() => agent.all("tool_call_update").length > 0);
      await agent.peer.notify("session/cancel", { sessionId: agent.session });
      assert.equal(await turn, "cancelled");
      assert.equal(await agent.say("on"), "end_turn");
    }),
  error: () =>
    withNew(async (agent) => {
      await assert.rejects(agent.say("fail"), /no such key/);
      assert.equal(await agent.say("on"), "end_turn");
    }),
  crash_list_load: async () => {
    const [session, call] = await withNew(
      async (agent) => {
        await agent.say("remember me");
        agent.choice = null;
        agent.say("write crash.txt one").catch(() => {});
        await until(() => agent.asked.length > 0);
        agent.crash();
        return [agent.session, agent.asked[0].toolCall.toolCallId];
      },
      "--permission-mode",
      "ask",
    );
    await withAgent(
      async (agent) => {
        const { sessions } = await agent.request("session/list", { cwd: folder });
        assert.ok(sessions.some((it) => it.sessionId === session));
        await agent.request("session/load", { cwd: folder, sessionId: session, mcpServers: [] });
        assert.equal(agent.text("user_message_chunk"), "remember mewrite crash.txt one");
        agent.session = session;
        assert.equal(await agent.say("/continue"), "end_turn");
        assert.equal(agent.asked[0].toolCall.toolCallId, call);
        assert.equal(readFileSync(path("crash.txt"), "utf8"), "one");
      },
      "--permission-mode",
      "ask",
    );
  },
  resume: async () => {
    const session = await withNew(async (agent) => {
      await agent.say("before");
      return agent.session;
    });
    await withAgent(async (agent) => {
      agent.session = session;
      await agent.request("session/resume", { cwd: folder, sessionId: session });
      assert.equal(agent.all("user_message_chunk").length, 0);
      assert.equal(await agent.say("after"), "end_turn");
      await agent.request("session/close", { sessionId: session });
      await agent.request("session/load", { cwd: folder, sessionId: session, mcpServers: [] });
      assert.equal(agent.text("user_message_chunk"), "beforeafter");
    });
  },
};

let failed = 0;
for (const [name, scenario] of Object.entries(scenarios)) {
  const limit = AbortSignal.timeout(60_000);
  const late = new Promise((_, reject) => limit.addEventListener("abort", () => reject(new Error("too late"))));
  try {
    await Promise.race([scenario(), late]);
    console.log(`  ok      ${name}`);
  } catch (error) {
    failed += 1;
    console.log(`  failed  ${name}: ${error}`);
  }
}
const count = Object.keys(scenarios).length;
console.log(`${count - failed} of ${count} scenarios`);
process.exit(failed ? 1 : 0);
