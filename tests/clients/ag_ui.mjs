// The AG-UI client, which checks every event against its schemas and their order. With `PHASE=resume`, it continues after a restart
// of the server.
import assert from "node:assert/strict";
import { readFileSync, writeFileSync } from "node:fs";
import { HttpAgent } from "@ag-ui/client";
import { run, TEXT, TOKEN, URL } from "./cases.mjs";

const agent = (threadId, content = "What is there?") =>
  new HttpAgent({
    url: `${URL}/v1/agents/loopwright/ag-ui`,
    headers: { Authorization: `Bearer ${TOKEN}` },
    threadId,
    initialMessages: [{ id: crypto.randomUUID(), role: "user", content }],
  });

const texts = (messages) =>
  messages.filter((it) => it.role === "assistant" && it.content).map((it) => it.content).join("\n\n");

/** Runs the agent, and returns how the run ended. */
const outcome = async (client, params) => {
  let finished;
  const { newMessages } = await client.runAgent(params, { onRunFinishedEvent: ({ event }) => (finished = event) });
  return { newMessages, ...finished.outcome };
};

if (process.env.PHASE === "resume") {
  await run("@ag-ui/client, after a restart of the server", {
    async "an interrupt is still open, and its answer continues the run"() {
      const [{ id }] = JSON.parse(readFileSync("interrupts.json", "utf8"));
      const resume = [{ interruptId: id, status: "resolved", payload: { approved: true } }];
      const { type, newMessages } = await outcome(agent("five", "Please write."), { resume });
      assert.equal(type, "success");
      assert.equal(texts(newMessages), "Nothing but hidden files: ädö.");
      assert.equal(readFileSync("project/notes.md", "utf8"), "one\n");
    },
  });
  process.exit();
}

await run("@ag-ui/client", {
  async "a run becomes messages"() {
    const client = agent("one");
    const { newMessages } = await client.runAgent();
    assert.equal(texts(newMessages), TEXT);
    assert.ok(newMessages.some((it) => it.role === "tool"), JSON.stringify(newMessages));
  },
  async "a thread continues"() {
    const client = agent("two");
    await client.runAgent();
    client.addMessage({ id: crypto.randomUUID(), role: "user", content: "And now?" });
    const { newMessages } = await client.runAgent();
    assert.equal(texts(newMessages), TEXT);
  },
  async "a tool of the client has no result until the client sends it"() {
    const client = agent("four");
    const parameters = { type: "object", properties: { precise: { type: "boolean" } } };
    const tools = [{ name: "locate", description: "Returns the position.", parameters }];
    const { newMessages } = await client.runAgent({ tools });
    const calls = newMessages.flatMap((it) => it.toolCalls ?? []);
    assert.equal(calls.length, 1, JSON.stringify(newMessages));
    assert.deepEqual(JSON.parse(calls[0].function.arguments), { precise: true });
    assert.ok(!newMessages.some((it) => it.role === "tool"));
    client.addMessage({ id: "r", role: "tool", toolCallId: calls[0].id, content: "46.9, 7.4" });
    const next = await client.runAgent({ tools });
    assert.equal(texts(next.newMessages), "You are at 46.9, 7.4.");
  },
  async "a call that needs approval is an interrupt"() {
    const { type, interrupts } = await outcome(agent("five", "Please write."));
    assert.equal(type, "interrupt");
    assert.equal(interrupts[0].reason, "tool_call");
    writeFileSync("interrupts.json", JSON.stringify(interrupts));
  },
  async "a run that fails is an error"() {
    const client = agent("three");
    client.setMessages([{ id: "m", role: "user", content: "Please fail." }]);
    let message;
    await client.runAgent({}, { onRunErrorEvent: ({ event }) => (message = event.message) }).catch(() => {});
    assert.ok(message);
  },
});
