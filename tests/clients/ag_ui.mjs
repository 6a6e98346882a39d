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
  async "a run that fails is an error"() {
    const client = agent("three");
    client.setMessages([{ id: "m", role: "user", content: "Please fail." }]);
    let message;
    await client.runAgent({}, { onRunErrorEvent: ({ event }) => (message = event.message) }).catch(() => {});
    assert.ok(message);
  },
});
