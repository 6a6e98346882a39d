// The AG-UI client, which checks every event against its schemas and their order.
import assert from "node:assert/strict";
import { HttpAgent } from "@ag-ui/client";
import { run, TEXT, TOKEN, URL } from "./cases.mjs";

const agent = (threadId) =>
  new HttpAgent({
    url: `${URL}/v1/agents/loopwright/ag-ui`,
    headers: { Authorization: `Bearer ${TOKEN}` },
    threadId,
    initialMessages: [{ id: crypto.randomUUID(), role: "user", content: "What is there?" }],
  });

const texts = (messages) =>
  messages.filter((it) => it.role === "assistant" && it.content).map((it) => it.content).join("\n\n");

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
  async "a run that fails is an error"() {
    const client = agent("three");
    client.setMessages([{ id: "m", role: "user", content: "Please fail." }]);
    let message;
    await client.runAgent({}, { onRunErrorEvent: ({ event }) => (message = event.message) }).catch(() => {});
    assert.ok(message);
  },
});
